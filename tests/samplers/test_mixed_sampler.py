"""A mixture reads each component in its own order, by weight; any index costs the same, and a state's stages go on."""

import json
import pickle
from fractions import Fraction
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_mixture import counts_of, simulated

import loaderkit as lk
from loaderkit._order.mixture.lanes import Lanes
from loaderkit._order.mixture.stages import MixtureStage, MixtureStages
from loaderkit.samplers import Taken
from loaderkit.testing import check_sampler

MOST = 80


class Listed:
    """A sampler of a user's: no `record_keys`, keys in an order of its own."""

    def __init__(self, num_records, num_epochs=None):
        self.num_records, self.num_epochs = num_records, num_epochs

    def __getitem__(self, index):
        return lk.RecordMetadata(
            index=index, record_key=(index * 3 + index // self.num_records) % self.num_records
        )

    def __eq__(self, other):
        return vars(self) == vars(other)

    __hash__ = None

    def __repr__(self):
        return f"Listed({self.num_records}, {self.num_epochs})"


@st.composite
def components(draw, *, ends):
    """{name: sampler} of every kind; those of a few records have many epochs within the first indices."""
    found = {}
    for name in draw(st.lists(st.sampled_from("badc"), min_size=1, unique=True)):
        size = draw(st.one_of(st.integers(1, 30), st.integers(250, 300)))
        epochs = draw(st.sampled_from([None, 1, 2])) if ends else None
        kind = draw(st.sampled_from(["shuffled", "ordered", "chunks", "keys", "listed"]))
        seed = draw(st.integers(0, 5))
        if kind == "chunks":
            found[name] = lk.ChunkSampler(size, chunk=3, window=2, seed=seed, num_epochs=epochs)
        elif kind == "keys":
            found[name] = lk.samplers.KeysSampler(range(size), shuffle=True, seed=seed, num_epochs=epochs)
        elif kind == "listed":
            found[name] = Listed(size, epochs)
        else:
            found[name] = lk.IndexSampler(size, shuffle=kind == "shuffled", seed=seed, num_epochs=epochs)
    return found


@st.composite
def mixed_samplers(draw):
    """A mixture of one stage or two, re-weighted or not."""
    rule = draw(st.sampled_from([None, "stop", "drop"]))
    found = draw(components(ends=rule is not None))
    weights = st.dictionaries(st.sampled_from(sorted(found)), st.integers(1, 5), min_size=1)
    sampler = lk.samplers.MixedSampler(
        found,
        weights=draw(weights),
        order=draw(st.sampled_from(["even", "shuffled"])),
        when_exhausted=rule,
        seed=draw(st.sampled_from([None, 3])),
    )
    end = min(40, len(sampler) - 1 if sampler._runs.length is not None else 40)
    for index in draw(st.lists(st.integers(0, end), max_size=2)):
        try:
            sampler = sampler.reweighed(index, draw(weights), live=draw(st.booleans()))
        except ValueError:  # it ends before that
            break
    return sampler


def expected_of(sampler, most=MOST):
    """[(name, local)] by the simulation."""
    return simulated(
        sampler._lengths,
        sampler.stages.entries,
        sampler.when_exhausted,
        most,
        key=sampler._runs.settings.shuffle_key,
        pattern=sampler.pattern,
    )


def key_of(sampler, name, local):
    """The record key of a component's local index, from the component itself."""
    return sampler.offsets[name] + sampler.components[name][local].record_key


@given(mixed_samplers(), st.data())
def test_keys_are_those_of_the_components(sampler, data):
    """In order, in any other order, repeated; one by one with the same generators as an IndexSampler's."""
    expected = [key_of(sampler, name, local) for name, local in expected_of(sampler)]
    assert sampler.record_keys(range(len(expected))).tolist() == expected
    if len(expected) < MOST:
        assert len(sampler) == len(expected)
        with pytest.raises(IndexError, match=f"index: expected an int from 0 to {len(sampler) - 1}, got"):
            sampler.record_keys([0, len(sampler)])
    some = data.draw(st.lists(st.integers(0, len(expected) - 1), max_size=20))
    assert sampler.record_keys(some).tolist() == [expected[index] for index in some]
    other = lk.IndexSampler(MOST, seed=sampler.seed)
    for index in some[:2]:
        got = sampler[index]
        assert (got.index, got.record_key) == (index, expected[index])
        assert str(got.rng and got.rng.bit_generator.state) == str(
            other[index].rng and other[index].rng.bit_generator.state
        )


@given(mixed_samplers(), st.integers(0, MOST))
def test_taken_is_the_count_of_the_simulation(sampler, n):
    stream = expected_of(sampler, n)
    counts = counts_of(stream)
    assert sampler.taken(len(stream)) == {
        name: Taken(counts.get(name, 0), counts.get(name, 0) / sampler.components[name].num_records)
        for name in sampler.names
    }


@given(mixed_samplers(), st.integers(0, MOST))
def test_the_stages_of_any_index_give_the_same_stream(sampler, index):
    """They pass through JSON, as in a state; of equal stages the counts may be those of another one."""
    stream = expected_of(sampler)
    index = min(index, len(stream))
    stages = sampler.stages_at(index)
    assert stages.known == sampler.stages.place_at(index)
    assert stages.taken == counts_of(stream[: stages.entries[stages.known].first_index])
    other = lk.samplers.MixedSampler(
        sampler.components, order=sampler.order, when_exhausted=sampler.when_exhausted, seed=sampler.seed
    )
    other = other.with_stages(MixtureStages.from_json(json.loads(json.dumps(stages.to_json()))))
    assert np.array_equal(other.record_keys(range(len(stream))), sampler.record_keys(range(len(stream))))
    assert other.fingerprint() == sampler.fingerprint()


@given(mixed_samplers(), st.integers(0, MOST), st.integers(0, 5), st.integers(0, 40))
def test_what_is_read_instead_is_of_the_same_component(sampler, index, tried, count):
    """Its next records in order; after the last the first again, but never the lost one."""
    stream = expected_of(sampler)
    index = min(index, len(stream) - 1)
    name, local = stream[index]
    found = sampler.instead(index, tried, count)
    assert index not in found.tolist()
    assert (np.diff(found) > 0).all()
    length = sampler._lengths.get(name)
    locals_ = [local + 1 + tried + more for more in range(count)]
    if length is not None:
        locals_ = [each % length for each in locals_[: max(0, length - 1 - tried)]]
    keys = sampler.keys_instead(np.full(found.shape, index), found)
    assert keys.tolist() == [key_of(sampler, name, each) for each in locals_]


@given(mixed_samplers(), st.data())
def test_a_ledger_is_resolved_by_the_stage_of_the_lost_index(sampler, data):
    """All entries in one call, whatever was re-weighted since; an index read instead of itself is itself."""
    stream = expected_of(sampler)
    lost = data.draw(st.lists(st.integers(0, len(stream) - 1), min_size=1, max_size=8))
    entries, keys = [], []
    for index in lost:
        instead = sampler.instead(index, 0, 1).tolist() or [index]
        entries.append(instead[0])
        keys.append(int(sampler.keys_instead([index], instead)[0]))
    assert sampler.keys_instead(lost, entries).tolist() == keys
    assert np.array_equal(sampler.keys_instead(lost, lost), sampler.record_keys(lost))


def test_keys_instead_of_an_earlier_stage_are_refused():
    sampler = two().reweighed(20, {"web": 1})
    with pytest.raises(
        ValueError, match=r"^instead: expected indices of the lost one's stage or later, got 3"
    ):
        sampler.keys_instead([25], [3])


# --- lanes ------------------------------------------------------------------------------------------------------


@st.composite
def laned(draw):
    lanes, rows = draw(st.integers(2, 4)), draw(st.integers(1, 3))
    names = "ab"
    weights = st.dictionaries(st.sampled_from(names), st.integers(1, 4), min_size=1)
    first = draw(st.integers(1, 5)) * lanes * rows
    sampler = lk.samplers.MixedSampler(
        {
            "a": lk.ChunkSampler(50, chunk=3, window=2, lanes=lanes, batch=lanes, seed=1),
            "b": lk.IndexSampler(70),
        },
        weights=[(0, draw(weights)), (first, draw(weights))],
        lanes=lanes,
        batch=lanes * rows,
        order=draw(st.sampled_from(["even", "shuffled"])),
    )
    return sampler.reweighed(draw(st.integers(0, 60)), draw(weights)) if draw(st.booleans()) else sampler


@given(laned(), st.integers(0, MOST))
def test_each_lane_is_a_mixture_of_its_own(sampler, n):
    """Its u-th record of a component is local u * lanes + lane."""
    lanes, batch = sampler.lanes, sampler.batch
    rows = batch // lanes
    by_turn = [stage._replace(first_index=stage.first_index // lanes) for stage in sampler.stages.entries]
    stream = simulated({}, by_turn, None, MOST, key=sampler._runs.settings.shuffle_key)
    records = []
    for index in range(MOST):
        lane, turn = index // rows % lanes, index // batch * rows + index % rows
        name, ordinal = stream[turn]
        records.append((name, ordinal * lanes + lane))
    assert sampler.record_keys(range(MOST)).tolist() == [key_of(sampler, *record) for record in records]
    counts = counts_of(records[:n])
    assert {name: taken.records for name, taken in sampler.taken(n).items() if taken.records} == counts
    stages = sampler.stages_at(n)
    assert sum(stages.taken.values()) == stages.entries[stages.known].first_index
    again = sampler.with_stages(MixtureStages.from_json(stages.to_json()))
    assert np.array_equal(again.record_keys(range(MOST)), sampler.record_keys(range(MOST)))
    name, local = records[n - 1]
    found = sampler.instead(n - 1 if n else MOST - 1, 0, 3)
    lost = np.full(found.shape, n - 1 if n else MOST - 1)
    expected = [key_of(sampler, name, local + lanes * more) for more in (1, 2, 3)]
    assert sampler.keys_instead(lost, found).tolist() == expected


@given(st.integers(1, 5), st.integers(1, 4), st.integers(0, 200))
def test_turns_of_lanes_and_back(count, rows, index):
    lanes = Lanes(count, count * rows)
    indices = np.arange(index)
    turns, of = lanes.turns_of(indices)
    assert np.array_equal(lanes.indices_of(turns, of), indices)
    own = np.broadcast_to(of, turns.shape)
    expected = sorted(int((own == lane).sum()) for lane in range(count))
    assert sorted(turns for turns, lanes in lanes.turns_before(index) for _ in range(lanes)) == expected


def test_chunks_of_a_mixture_with_lanes_have_its_lanes():
    """With others each host would read chunks of the others."""
    for lanes, batch in [(4, 4), (2, 8), (1, None)]:
        chunks = lk.ChunkSampler(50, chunk=3, window=2, lanes=lanes, batch=batch, seed=1)
        with pytest.raises(
            ValueError,
            match=r"^components\['a'\]: expected a ChunkSampler with lanes=2 and batch=2, .* got lanes=",
        ):
            lk.samplers.MixedSampler({"a": chunks}, lanes=2, batch=8)


def test_stages_of_lanes_begin_at_batches():
    sampler = lk.samplers.MixedSampler({"a": lk.IndexSampler(9), "b": lk.IndexSampler(9)}, lanes=2, batch=8)
    assert [stage.first_index for stage in sampler.reweighed(9, {"b": 1}).stages.entries] == [0, 16]
    with pytest.raises(
        ValueError, match=r"^weights: expected stages that begin at multiples of batch=8.*got 9"
    ):
        lk.samplers.MixedSampler(sampler.components, weights=[(0, {"a": 1}), (9, {"b": 1})], lanes=2, batch=8)


# --- as a value -------------------------------------------------------------------------------------------------


def two(**said):
    """Two shuffled components, 7 to 3."""
    found = {
        "web": lk.IndexSampler(70, shuffle=True, seed=0),
        "code": lk.IndexSampler(30, shuffle=True, seed=1),
    }
    return lk.samplers.MixedSampler(found, **{"weights": {"web": 0.7, "code": 0.3}, **said})


@settings(max_examples=max(4, settings.default.max_examples // 10))  # each makes all checks
@given(mixed_samplers())
def test_check_sampler_passes(sampler):
    report = check_sampler(sampler, num_records=sampler.min_records, skip=["another process", "far index"])
    assert {reason for _, reason in report.skipped} <= {"left out by skip=", "the sampler has no end"}


@given(mixed_samplers())
def test_a_pickled_copy_is_equal(sampler):
    copy = pickle.loads(pickle.dumps(sampler))
    assert copy == sampler
    assert hash(copy) == hash(sampler)
    assert repr(copy) == repr(sampler)
    n = len(expected_of(sampler))
    assert np.array_equal(copy.record_keys(range(n)), sampler.record_keys(range(n)))


def test_a_pickle_has_no_tables():
    """A feeder's process gets one with each stream."""
    weights = {"web": 0.70001, "code": 0.3}
    sampler = two(weights=weights)
    sampler.record_keys(range(1000))
    assert len(pickle.dumps(sampler)) < 3000


@given(mixed_samplers())
def test_fingerprints_say_everything_but_weights(sampler):
    said = sampler.fingerprint()
    assert json.loads(json.dumps(said)) == said
    assert sampler.reweighed(0, {sampler.names[0]: 1}).fingerprint() == said if not sampler._lengths else True
    reordered = dict(reversed(sampler.components.items()))
    other = lk.samplers.MixedSampler(
        reordered, order=sampler.order, when_exhausted=sampler.when_exhausted, seed=sampler.seed
    )
    assert other.fingerprint() == said


def test_the_fingerprint():
    sampler = two(order="shuffled", seed=(1 << 64) - 1)
    assert sampler.fingerprint() == {
        "kind": "MixedSampler",
        "components": {
            "web": sampler.components["web"].fingerprint(),
            "code": sampler.components["code"].fingerprint(),
        },
        "order": "shuffled",
        "when_exhausted": None,
        "pattern": None,
        "lanes": 1,
        "batch": None,
        "seed": str((1 << 64) - 1),
    }
    patterns = [
        two(weights=None, pattern=pattern).fingerprint()["pattern"] for pattern in (["web"], [0], [0, 1])
    ]
    assert patterns[0] == patterns[1] != patterns[2]


def test_the_fingerprint_of_a_mixture_inside_has_its_weights():
    """A state keeps the stages of the outer one only."""

    def nested(weights):
        inner = lk.samplers.MixedSampler({"a": lk.IndexSampler(3), "b": lk.IndexSampler(4)}, weights=weights)
        return lk.samplers.MixedSampler(
            {"in": inner, "other": lk.IndexSampler(5)}, offsets={"in": 0, "other": 7}
        )

    said = nested({"a": 1, "b": 2}).fingerprint()
    assert nested({"b": 1, "a": 0.5}).fingerprint() == said
    assert nested({"a": 2, "b": 1}).fingerprint() != said
    assert nested([(0, {"a": 1, "b": 2}), (9, {"a": 1})]).fingerprint() != said


def test_the_fingerprint_has_offsets_that_are_not_those_of_a_concatenation():
    one = two()
    same = two(offsets=one.offsets)
    moved = two(offsets={"web": 30, "code": 0})
    assert same.fingerprint() == one.fingerprint()
    assert moved.fingerprint() != one.fingerprint()
    assert moved.fingerprint()["components"]["web"]["offset"] == 30


def test_equal_mixtures_have_one_hash():
    """Whatever the order of their names."""
    one = two()
    other = lk.samplers.MixedSampler(
        dict(reversed(one.components.items())), weights=one.weights, offsets=one.offsets
    )
    assert one == other
    assert hash(one) == hash(other)


def test_weights_are_copied():
    given = {"web": 1, "code": 1}
    for weights in (given, [(0, given)]):
        sampler = two(weights=weights)
        given["web"] += 1
        assert two(weights=sampler.weights) == sampler
    sampler = two(weights=MappingProxyType({"web": 1}))
    assert pickle.loads(pickle.dumps(sampler)) == sampler


def test_the_last_index_of_an_endless_mixture():
    sampler = two(weights={"web": 1})
    assert sampler.taken((1 << 63) - 1)["web"].records == (1 << 63) - 1
    assert sampler.reweighed((1 << 63) - 1, {"code": 1}).taken(5)["web"].records == 5
    for past in (1 << 63, 1 << 64):
        with pytest.raises(ValueError, match=r"^n: expected an int from 0 to 2\*\*63 - 1, got "):
            sampler.taken(past)


def test_neither_the_order_of_names_nor_a_component_of_weight_0_changes_a_stream():
    """Of the components' own records: their keys move with the offsets."""
    one = two()
    other = lk.samplers.MixedSampler(
        {"new": lk.IndexSampler(5), **dict(reversed(one.components.items()))},
        weights={"code": Fraction(3), "web": 7, "new": 0},
        offsets={"new": 100, **one.offsets},
    )
    assert np.array_equal(one.record_keys(range(200)), other.record_keys(range(200)))


def test_a_pattern_gives_turns_by_name_or_number():
    for pattern in (["web", "web", "code"], [0, 0, 1], np.array([0, 0, 1])):
        sampler = two(weights=None, pattern=pattern)
        keys = sampler.record_keys(range(9))
        assert (keys < 70).tolist() == [True, True, False] * 3
        assert sampler.stages.entries[0].weights == {"web": 2, "code": 1}
        assert sampler.with_stages(sampler.stages_at(7)) == sampler
        with pytest.raises(ValueError, match=r"^weights: expected none beside a pattern"):
            sampler.reweighed(5, {"web": 1})
        with pytest.raises(ValueError, match=r"^weights: expected those of the pattern only"):
            sampler.with_stages(sampler.stages.reweighed(5, {"web": Fraction(1)}))


def test_an_absent_name_is_an_error_only_where_its_key_is_asked_for():
    stages = MixtureStages((MixtureStage(0, {"old": Fraction(1), "web": Fraction(1)}),)).reweighed(
        6, {"web": Fraction(1)}
    )
    sampler = two().with_stages(stages)
    assert sampler.taken(6) == {"web": Taken(3, 3 / 70), "code": Taken(0, 0.0), "old": Taken(3, None)}
    assert (
        sampler.record_keys(range(6, 10)).tolist()
        == sampler.components["web"].record_keys(range(3, 7)).tolist()
    )
    with pytest.raises(
        LookupError, match=r"^components: expected one of the name 'old', which the index reads.*give it"
    ):
        sampler.record_keys(range(6))
    with pytest.raises(LookupError, match="'old'"):
        sampler.instead(0, 0, 1)


def test_an_error_of_a_component_names_it():
    class Broken:
        num_records = 5

        def __getitem__(self, index):
            raise KeyError(index)

    sampler = lk.samplers.MixedSampler({"a": lk.IndexSampler(5), "broken": Broken()})
    with pytest.raises(KeyError) as caught:
        sampler.record_keys(range(4))
    assert any("component 'broken'" in note for note in caught.value.__notes__)


def test_the_repr_has_the_integers_that_hold_exactly():
    assert repr(two()) == (
        "MixedSampler(components={'web': IndexSampler(num_records=70, shard_options=None, shuffle=True, "
        "num_epochs=None, seed=0), 'code': IndexSampler(num_records=30, shard_options=None, shuffle=True, "
        "num_epochs=None, seed=1)}, weights={'web': 7, 'code': 3})"
    )
    assert repr(two().reweighed(20, {"code": 1}).reweighed(30, {"web": 1})).endswith(", ... 1 more])")
    text = repr(two().reweighed(20, {"code": 1}))
    assert text.endswith(" weights=[(0, {'web': 7, 'code': 3}), (20, {'code': 1})])")
    assert repr(two(weights={"web": 1e9, "code": 1e-9})).endswith("'code': 1})")
    rounded = two(weights={"web": 100_000, "code": 70_001})
    weights = repr(rounded).split("weights=")[1]
    assert weights == "{'web': 19275, 'code': 13493})"
    counts = rounded.taken(32_768)
    assert (counts["web"].records, counts["code"].records) == (19_275, 13_493)
    many = lk.samplers.MixedSampler({f"c{number}": lk.IndexSampler(5) for number in range(30)})
    assert repr(many).count("... 20 more") == 2
    assert repr(two(weights=None, pattern=[0, 1] * 50)).endswith(
        "pattern=['web', 'code', 'web', 'code', 'web', 'code', ...])"
    )


def test_far_indices():
    """The last one, and components whose locals there are in far epochs; indices far apart in one call."""
    sampler = two(weights={"web": 1, "code": 0})
    web = sampler.components["web"]
    far = [0, 1 << 40, (1 << 62) - 1, 5]
    assert sampler.record_keys(far).tolist() == web.record_keys(far).tolist()
    both = two().record_keys([10**12, 3, 10**15])
    assert both.tolist() == [int(two().record_keys([index])[0]) for index in (10**12, 3, 10**15)]


def test_more_indices_than_are_planned_at_once():
    sampler = two()
    whole = sampler.record_keys(np.arange(40_000))
    assert np.array_equal(
        whole,
        np.concatenate([sampler.record_keys(range(low, low + 777)) for low in range(0, 40_000, 777)])[
            :40_000
        ],
    )


def test_an_epoch_is_a_components():
    loader = lk.DataLoader(data_source=range(100), sampler=two(), operations=[lk.Batch(10)])
    with pytest.raises(
        TypeError, match=r"^epoch\(e\): expected .* got a MixedSampler, of which each component"
    ):
        loader.epoch(1)


def test_a_shorter_source_is_refused():
    assert two().min_records == 100
    with pytest.raises(ValueError, match="sampler: expected"):
        lk.DataLoader(data_source=range(99), sampler=two(), operations=[])


# --- bad arguments ----------------------------------------------------------------------------------------------

ENDS = lk.SequentialSampler(8)


class Empty:
    def __len__(self):
        return 0

    def __getitem__(self, index):
        raise IndexError(index)


@pytest.mark.parametrize(
    ("said", "error", "text"),
    [
        ({"components": {}}, ValueError, r"components: expected one or more, got none; write"),
        (
            {"components": [lk.IndexSampler(3)]},
            TypeError,
            r"components: expected a mapping of name to sampler, got",
        ),
        (
            {"components": {3: lk.IndexSampler(3)}},
            TypeError,
            r"components: expected names that are strings, got 3",
        ),
        (
            {"components": {"a": 3}},
            TypeError,
            r"components\['a'\]: expected a sampler, such as IndexSampler.*got 3",
        ),
        (
            {"components": {"a": Empty()}},
            ValueError,
            r"components\['a'\]: expected a record or more, got none; leave",
        ),
        (
            {"components": {"a": ENDS}},
            ValueError,
            r"when_exhausted: expected 'stop' or 'drop', because component 'a' ends after 8 .*got None; give",
        ),
        (
            {"when_exhausted": "repeat"},
            ValueError,
            r"when_exhausted: expected 'stop', 'drop' or None, got 'repeat'",
        ),
        ({"weights": {"a": -1}}, ValueError, r"weights\['a'\]: expected 0 or more, got -1"),
        ({"weights": {"a": 0}}, ValueError, r"weights: expected a positive weight"),
        ({"weights": {"c": 1}}, ValueError, r"weights: expected names of components, got 'c'"),
        ({"weights": 3}, TypeError, r"weights: expected \{name: weight\} or \[\(first_index"),
        (
            {"weights": [{"a": 1}]},
            TypeError,
            r"weights\[0\]: expected \(first_index, \{name: weight\}\), got",
        ),
        ({"weights": []}, ValueError, r"weights: expected stages that begin with one at index 0"),
        (
            {"weights": [(1, {"a": 1})]},
            ValueError,
            r"weights: expected stages that begin with one at index 0",
        ),
        (
            {"weights": [(0, {"a": 1}), (0, {"b": 1})]},
            ValueError,
            r"weights\[1\]: expected a first index from 1 on, got 0",
        ),
        ({"weights": [("0", {"a": 1})]}, TypeError, r"weights\[0\]\[0\]: expected an int, got '0'"),
        ({"pattern": []}, ValueError, r"pattern: expected one or more, got none"),
        ({"pattern": "ab"}, TypeError, r"pattern: expected names or numbers of components, got 'ab'"),
        (
            {"pattern": ["a", "x"]},
            ValueError,
            r"pattern\[1\]: expected names of components, got 'x'; write one of \['a', 'b'\]",
        ),
        ({"pattern": ["aa"]}, ValueError, r"pattern\[0\]: .* got 'aa'; write 'a'"),
        ({"pattern": [0, 2]}, ValueError, r"pattern\[1\]: expected an int from 0 to 1, got 2"),
        ({"pattern": [0], "weights": {"a": 1}}, ValueError, r"pattern: expected no weights"),
        ({"pattern": [0], "order": "shuffled"}, ValueError, r"pattern: expected no weights and order='even'"),
        ({"order": "random"}, ValueError, r"order: expected 'even' or 'shuffled', got 'random'"),
        ({"seed": -1}, ValueError, r"seed: expected an int from 0"),
        ({"offsets": [0, 5]}, TypeError, r"offsets: expected a mapping of name to int, got"),
        ({"offsets": {"a": 0}}, ValueError, r"offsets: expected one of each component, got none of 'b'"),
        ({"offsets": {"a": 0, "b": -5}}, ValueError, r"offsets\['b'\]: expected an int from 0"),
        ({"offsets": {"a": 0, "B": 5}}, ValueError, r"offsets: expected names of components, got 'B'"),
        (
            {"components": {"a": lk.samplers.KeysSampler([7, 9])}},
            TypeError,
            r"offsets: expected what is added to the keys .* 'a', a KeysSampler",
        ),
        ({"lanes": 2}, ValueError, r"batch: expected a multiple of lanes=2, got None; give"),
        ({"lanes": 0}, ValueError, r"lanes: expected an int from 1"),
        (
            {"components": {"a": ENDS}, "when_exhausted": "stop", "lanes": 2, "batch": 4},
            ValueError,
            r"lanes: expected 1, because component 'a' has an end, got 2",
        ),
        ({"shard_options": 3}, TypeError, r"shard_options: expected ShardOptions"),
        (
            {"components": {"a": ENDS}, "when_exhausted": "stop", "weights": [(0, {"a": 1}), (8, {"a": 1})]},
            ValueError,
            r"weights: expected a mixture that lasts until its stage at index 8, got one that ends at index 8;",
        ),
    ],
)
def test_bad_arguments_are_refused_by_name(said, error, text):
    good = {"components": {"a": lk.IndexSampler(5), "b": lk.IndexSampler(5)}}
    with pytest.raises(error, match="^" + text):
        lk.samplers.MixedSampler(**{**good, **said})


def test_an_endless_mixture_has_no_length():
    with pytest.raises(
        TypeError, match=r"^MixedSampler is endless and has no length; give its components num_epochs"
    ):
        len(two())
    assert len(two(when_exhausted="drop").components) == 2  # the rule has no effect where none ends
    with pytest.raises(ValueError, match=r"^n: expected"):
        two().taken(-1)
    with pytest.raises(ValueError, match=r"^index: expected"):
        two().reweighed(-1, {"web": 1})
