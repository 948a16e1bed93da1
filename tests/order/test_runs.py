"""Runs are the same as a mixture that is simulated index by index, wherever they are asked and whatever is known."""

import gc
import pickle
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive_mixture import counts_of, simulated

from loaderkit._order.mixture import runs as runs_module
from loaderkit._order.mixture.runs import ABSENT, MixtureRun, RunSettings, runs_of
from loaderkit._order.mixture.stages import MixtureStage, MixtureStages

NAMES = ["b", "a", "d", "c"]  # not sorted, as a user may give them
MOST = 90

rules = st.sampled_from([None, "stop", "drop"])
weights = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 5).map(Fraction), min_size=1)


@st.composite
def all_stages(draw):
    """Stages as they come about: written ones, then live ones at any index."""
    firsts = draw(st.lists(st.integers(1, 60), max_size=2, unique=True).map(sorted))
    stages = MixtureStages(tuple(MixtureStage(first, draw(weights)) for first in [0, *firsts]))
    for index in draw(st.lists(st.integers(0, 60), max_size=2)):
        stages = stages.reweighed(index, draw(weights), live=draw(st.booleans()))
    return stages


@st.composite
def mixtures(draw):
    """Settings of any rule."""
    rule = draw(rules)
    some = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 40))
    return RunSettings(
        NAMES,
        draw(some) if rule else {},
        draw(all_stages()),
        when_exhausted=rule,
        shuffle_key=draw(st.sampled_from([None, None, 7])),
    )


def expected_of(settings):
    return simulated(
        settings.lengths,
        settings.stages.entries,
        settings.when_exhausted,
        300,
        key=settings.shuffle_key,
        pattern=settings.pattern,
    )


def asked(runs, turns):
    components, ordinals = runs(np.array(turns, np.int64))
    names = [NAMES[number] for number in components.tolist()]
    return list(zip(names, ordinals.tolist(), strict=True))


def made(settings, expected):
    """The runs; None where the mixture ends before a stage begins, which is an error."""
    last = settings.stages.entries[-1].first_index
    if len(expected) <= last:
        with pytest.raises(
            ValueError, match=r"^weights: expected a mixture that lasts until its stage at index"
        ):
            runs_of(settings)
        return None
    return runs_of(settings)


def assert_length(runs, expected):
    """The simulation stops after 300 turns: then it doesn't know whether the mixture ends later."""
    assert runs.length == len(expected) or (len(expected) == 300 and (runs.length or 301) > 300)


@given(mixtures(), st.data())
def test_runs_are_those_of_the_simulation(settings, data):
    """In order, in any other order, and after any prefix each component was read as 0 to c - 1."""
    expected = expected_of(settings)
    runs = made(settings, expected)
    if runs is None:
        return
    assert_length(runs, expected)
    some = data.draw(st.lists(st.integers(0, len(expected) - 1), min_size=1, max_size=20))
    assert asked(runs_of(settings), some) == [expected[turn] for turn in some]  # nothing was asked before
    assert asked(runs, range(len(expected))) == expected
    for turn in [*some, 0, len(expected)]:
        assert runs.at(turn).taken_at(turn) == counts_of(expected[:turn])
    assert asked(pickle.loads(pickle.dumps(runs)), some) == [expected[turn] for turn in some]


@given(mixtures(), st.data())
def test_what_is_known_of_one_stage_is_enough_for_all(settings, data):
    """Later ones follow by addition, earlier ones by subtraction."""
    expected = expected_of(settings)
    runs = made(settings, expected)
    if runs is None:
        return
    entries = settings.stages.entries
    place = data.draw(st.integers(0, len(entries) - 1))
    taken = dict(runs.before(place))
    assert taken == counts_of(expected[: entries[place].first_index])
    saved = MixtureStages.from_json(MixtureStages(entries, place, taken).to_json())
    again = RunSettings(NAMES, settings.lengths, saved, settings.when_exhausted, settings.shuffle_key)
    some = data.draw(st.lists(st.integers(0, len(expected) - 1), min_size=1, max_size=20))
    restored = runs_of(again)
    assert restored.length == runs.length
    assert asked(restored, some) == [expected[turn] for turn in some]


@given(mixtures(), all_stages(), st.data())
def test_other_stages_keep_the_runs_before_them_only(settings, stages, data):
    """The same runs as if nothing had been asked before, wherever the stages begin to differ."""
    runs = made(settings, expected_of(settings))
    if runs is None:
        return
    runs.at(data.draw(st.integers(0, 300)))
    shared = data.draw(st.integers(0, len(settings.stages.entries)))
    first = settings.stages.entries[:shared]
    later = [stage for stage in stages.entries if not first or stage.first_index > first[-1].first_index]
    other = replace(settings, stages=MixtureStages((*first, *later)))
    expected = expected_of(other)
    if made(other, expected) is not None:
        assert asked(runs.restaged(other.stages), range(len(expected))) == expected


@given(
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=9),
    st.dictionaries(st.sampled_from(NAMES), st.integers(1, 20)),
    rules,
)
def test_a_pattern_goes_on_where_it_was_when_a_component_drops_out(pattern, lengths, rule):
    weights = {name: Fraction(pattern.count(name)) for name in sorted(set(pattern))}
    stages = MixtureStages((MixtureStage(0, weights),))
    settings = RunSettings(NAMES, lengths if rule else {}, stages, rule, pattern=pattern)
    expected = expected_of(settings)
    runs = made(settings, expected)
    if runs is not None:
        assert asked(runs, range(len(expected))) == expected
        assert_length(runs, expected)


@given(st.dictionaries(st.sampled_from(NAMES), st.integers(1, 60), min_size=1), st.data())
def test_dropping_reads_each_record_once(lengths, data):
    shares = {name: Fraction(data.draw(st.integers(1, 9))) for name in lengths}
    runs = runs_of(RunSettings(NAMES, lengths, MixtureStages((MixtureStage(0, shares),)), "drop"))
    assert runs.length == sum(lengths.values())
    records = asked(runs, range(runs.length))
    assert sorted(records) == [(name, place) for name in sorted(lengths) for place in range(lengths[name])]


@given(all_stages(), st.sets(st.sampled_from(NAMES), min_size=1, max_size=3), st.data())
def test_names_that_are_no_components_still_take_part(stages, given_names, data):
    expected = simulated({}, stages.entries, None, MOST)
    names = sorted(given_names)
    components, ordinals = runs_of(RunSettings(names, {}, stages))(np.arange(MOST))
    for (name, ordinal), number, got in zip(expected, components.tolist(), ordinals.tolist(), strict=True):
        assert (number, got) == (names.index(name) if name in names else ABSENT, ordinal)
    absent = {name for stage in stages.entries for name in stage.weights} - given_names
    if absent:
        with pytest.raises(
            ValueError, match=rf"^components: expected all names .* no '{min(absent)}'; give it"
        ):
            runs_of(RunSettings(names, {names[0]: 500}, stages, "drop"))


@pytest.mark.parametrize("rule", ["stop", "drop"])
def test_a_stage_behind_the_end_is_refused_though_it_has_no_end_itself(rule):
    stages = MixtureStages((MixtureStage(0, {"a": Fraction(1)}), MixtureStage(2, {"b": Fraction(1)})))
    with pytest.raises(
        ValueError, match=r"^weights: expected a mixture that lasts .* index 2, .* ends at index 1;"
    ):
        runs_of(RunSettings(NAMES, {"a": 1}, stages, rule))
    assert runs_of(RunSettings(NAMES, {"a": 2}, stages, rule)).length is None


def test_a_restored_state_of_many_stages_makes_one_order(monkeypatch):
    """The stage that holds; its counts are in the state."""
    made_orders = []
    original = runs_module.order_of
    monkeypatch.setattr(
        runs_module, "order_of", lambda *said, **more: made_orders.append(1) or original(*said, **more)
    )
    entries = tuple(
        MixtureStage(100 * number, {"a": Fraction(1), "b": Fraction(1 + number % 7)}) for number in range(300)
    )
    stages = MixtureStages(entries, known=200, taken={"a": 9000, "b": 11000})
    runs = runs_of(RunSettings(NAMES, {}, stages))
    runs(np.arange(20_010, 20_050))
    assert len(made_orders) == 1
    runs(np.arange(20_090, 20_110))
    assert len(made_orders) <= 3


def calls_going_back(count, monkeypatch):
    """Comparisons made by a mixture of so many stages that is asked for a turn of each, from the last on."""
    one = {"a": Fraction(1), "b": Fraction(1)}
    entries = [
        MixtureStage(8 * place, one | {"a": Fraction(1 + place % 3)}, place > 0) for place in range(count)
    ]
    known = MixtureStages(
        tuple(entries),
        count - 1,
        runs_of(RunSettings(["a", "b"], {}, MixtureStages(tuple(entries)))).before(count - 1),
    )
    runs = runs_of(RunSettings(["a", "b"], {}, known))
    compared = 0

    def counting(distance):
        nonlocal compared
        compared += 1
        return abs(distance)

    monkeypatch.setattr(runs_module, "abs", counting, raising=False)
    for place in range(count - 1, 0, -1):
        runs.before(place)
    monkeypatch.undo()
    return compared


def test_to_go_back_over_many_stages_costs_each_of_them_once(monkeypatch):
    """Going back over 400 stages asks as much of each as over 100; the nearest known one was looked for among all."""
    fewer, more = (calls_going_back(count, monkeypatch) / count for count in (100, 400))
    assert more < 1.5 * fewer


def test_turns_of_records_are_those_that_read_them():
    """Also behind the run's end, as if it had none."""
    stages = MixtureStages(
        (MixtureStage(0, {"a": Fraction(3), "b": Fraction(2)}), MixtureStage(7, {"b": Fraction(1)}))
    )
    runs = runs_of(RunSettings(NAMES, {}, stages))
    run = runs.at(3)
    turns = run.turns_of("b", np.arange(30))
    components, ordinals = run(turns)
    assert {NAMES[number] for number in components.tolist()} == {"b"}
    assert ordinals.tolist() == list(range(30))
    assert runs.at(8).turns_of("b", np.array([5])).tolist() == [7 + 5 - runs.at(8).before["b"]]


def test_runs_of_a_mixture_that_drops_many_are_small():
    """A few orders are kept, not one for each component that has been read."""
    names = [f"{number}" for number in range(60)]
    lengths = {name: 10 + number for number, name in enumerate(names)}
    weights = {name: Fraction(1000 + 7 * number) for number, name in enumerate(names)}
    runs = runs_of(RunSettings(names, lengths, MixtureStages((MixtureStage(0, weights),)), "drop"))
    components, _ = runs(np.arange(runs.length))
    assert np.bincount(components).tolist() == list(lengths.values())
    orders = [
        each for each in gc.get_objects() if type(each) is MixtureRun and set(each.order.names) <= set(names)
    ]
    assert 1 <= len(orders) <= 20
    assert runs._found[-1].first > runs._found[20].first
