"""States of mixtures: what a restore compares, what it allows, and what becomes of the weights."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hosts import joined, shards, together
from mixture_twin import LENGTHS, OFFSETS, MixtureTwin, components, loader_of, mixture

import loaderkit as lk
from loaderkit._base.canonical_json import digest

HALVES = {"web": 1, "code": 1}
OTHERS = {"web": 0.5, "books": 3}
FILTERED = [lk.Filter(lambda key: key % 3), lk.Batch(12)]


def keys_of(it: Any, steps: int) -> list[int]:
    return [int(key) for _ in range(steps) for key in np.ravel(next(it))]


def saved_at(weights: Any, steps: int, **how: Any) -> bytes:
    with iter(loader_of(weights, **how)) as it:
        keys_of(it, steps)
        return it.get_state()


def test_other_written_weights_are_refused_with_both_shown_and_allowed_from_there_on() -> None:
    """Scaled ones are the same; without "mixture" nothing moves; with it the past stays."""
    saved = saved_at(HALVES, 3)
    iter(loader_of({"web": 0.5, "code": 0.5})).set_state(saved)
    it = iter(loader_of(OTHERS))
    with pytest.raises(lk.CheckpointMismatchError) as error:
        it.set_state(saved)
    assert "mixture.code: saved 1/2, this loader 0\n" in str(error.value)
    assert "mixture.web: saved 1/2, this loader 1/7\n" in str(error.value)
    assert 'allow={"mixture"}.\nWith "mixture" this loader\'s weights hold from index 24 on.' in str(
        error.value
    )
    assert it.step == 0
    it.set_state(saved, allow={"mixture"})
    twin = MixtureTwin(HALVES)
    twin.reweigh(24, OTHERS)
    first = iter(loader_of(OTHERS))
    first.set_state(saved_at(HALVES, 0), allow={"mixture"})
    assert keys_of(first, 2) == MixtureTwin(OTHERS).keys(16)
    assert keys_of(it, 3) == twin.keys(48)[24:]
    assert [record.record_key for record in it.records(2)] == twin.keys(24)[16:]
    again = iter(loader_of(OTHERS))
    again.set_state(it.get_state())  # what was allowed once is written now
    assert again.get_state() == it.get_state()
    with pytest.raises(lk.CheckpointMismatchError, match="mixture"):
        iter(loader_of(HALVES)).set_state(it.get_state())


def test_only_the_weights_at_the_saved_place_are_compared() -> None:
    """What was written for later may change, what was written for earlier is the past."""
    saved = saved_at([(0, OTHERS), (8, HALVES), (80, {"code": 1})], 2)
    it = iter(loader_of([(0, HALVES), (24, {"books": 1})]))
    it.set_state(saved)
    assert [stage.first_index for stage in it.sampler.stages.entries] == [0, 8, 24]
    twin = MixtureTwin(OTHERS)
    twin.reweigh(8, HALVES)
    twin.reweigh(24, {"books": 1})
    it.seek(0)
    assert keys_of(it, 6) == twin.keys(48)


def test_live_weights_give_way_to_written_ones_that_are_allowed() -> None:
    """allow={"mixture"} means the loader's weights, whatever held there."""
    with iter(loader_of(HALVES)) as it:
        keys_of(it, 1)
        it.reweigh({"code": 1})
        keys_of(it, 1)
        saved = it.get_state()
    it = iter(loader_of(OTHERS))
    it.set_state(saved, allow={"mixture"})
    twin = MixtureTwin(HALVES)
    twin.reweigh(8, {"code": 1})
    twin.reweigh(16, OTHERS)
    it.seek(0)
    assert keys_of(it, 5) == twin.keys(40)


def named_loader(names: Any, weights: Any, *, changed: str = "", **how: Any) -> "lk.DataLoader":
    """Sources by name, of the given components only; `changed` has other data."""
    sources = {
        name: lk.RangeDataSource(
            *((5, 5 + LENGTHS[name]) if name == changed else (OFFSETS[name], OFFSETS[name] + LENGTHS[name])),
            1,
        )
        for name in names
    }
    sampler = lk.samplers.MixedSampler(components(names), weights=weights, seed=7)
    how = {"operations": [lk.Batch(8)], **how}
    return lk.DataLoader(data_source=lk.ConcatDataSource(sources), sampler=sampler, **how)


def test_only_a_mixture_that_follows_the_order_of_its_sources_may_change_it() -> None:
    """Its keys go along; those of another sampler, and of a mixture with an order of its own, mean other records."""
    parts = {name: lk.RangeDataSource(start, start + 40, 1) for name, start in (("web", 0), ("code", 100))}

    def loader(names: Any, sampler: lk.samplers.Sampler) -> lk.DataLoader:
        # Directly over the parts a mixture in another order is refused.
        source = lk.SubsetDataSource(lk.ConcatDataSource({name: parts[name] for name in names}), range(80))
        return lk.DataLoader(data_source=source, sampler=sampler, operations=[lk.Batch(8)])

    def mixture(names: Any) -> lk.samplers.MixedSampler:
        return lk.samplers.MixedSampler({name: lk.IndexSampler(40) for name in names})

    one, other = ("web", "code"), ("code", "web")
    saved = iter(loader(one, mixture(one))).get_state()
    iter(loader(other, mixture(other))).set_state(saved)
    with pytest.raises(lk.CheckpointMismatchError, match=r"source\.names.*'?web.*code"):
        iter(loader(other, mixture(one))).set_state(saved)
    with pytest.raises(lk.CheckpointMismatchError, match=r"sampler.components: saved \["):
        iter(loader(one, mixture(other))).set_state(saved)
    with pytest.raises(lk.CheckpointMismatchError, match=r"source\.names"):
        iter(loader(other, lk.IndexSampler(80))).set_state(iter(loader(one, lk.IndexSampler(80))).get_state())


def test_a_component_is_added_and_another_dropped() -> None:
    """The others go on where they are; only the source has to be allowed, and the weights if they change."""
    with iter(named_loader(["web", "code"], HALVES)) as it:
        got = keys_of(it, 3)
        saved = it.get_state()
    with pytest.raises(lk.CheckpointMismatchError) as error:
        iter(named_loader(["books", "web", "code"], HALVES)).set_state(saved)
    assert "sampler.components.books: saved nothing, this loader" in str(error.value)
    assert 'allow={"source"}.\nComponents that both have go on where they are.' in str(error.value)
    it = iter(named_loader(["books", "web", "code"], HALVES))
    it.set_state(saved, allow={"source"})
    assert it.reweigh({"web": 1, "books": 1}) == 3
    twin = MixtureTwin(HALVES)
    twin.reweigh(24, {"web": 1, "books": 1})
    got += keys_of(it, 3)
    assert got == twin.keys(48)
    saved = it.get_state()

    dropped = iter(named_loader(["books", "web"], {"web": 1, "books": 2}))
    with pytest.raises(lk.CheckpointMismatchError, match=r'allow=\{"source", "mixture"\}'):
        dropped.set_state(saved)
    dropped.set_state(saved, allow={"source", "mixture"})
    twin.reweigh(48, {"web": 1, "books": 2})
    assert keys_of(dropped, 3) == twin.keys(72)[48:]
    with pytest.raises(LookupError, match="code"):
        dropped.records(0)


def test_another_source_or_sampler_of_a_component_is_a_difference() -> None:
    """It is named, and isn't taken for an added one."""
    saved = saved_at(HALVES, 1)
    with iter(named_loader(["web", "code"], HALVES)) as it:
        named = it.get_state()
    with pytest.raises(lk.CheckpointMismatchError, match=r"source.sources.web.start: saved 0, this loader 5"):
        iter(named_loader(["web", "code"], HALVES, changed="web")).set_state(named)
    other = {**components(), "web": lk.IndexSampler(30, seed=1)}
    with pytest.raises(lk.CheckpointMismatchError, match=r"sampler.components.web.shuffle: saved true"):
        iter(loader_of(None, sampler=lk.samplers.MixedSampler(other, weights=HALVES, seed=7))).set_state(
            saved
        )
    turned = lk.samplers.MixedSampler(components(["code", "web", "books"]), weights=HALVES, seed=7)
    with pytest.raises(
        lk.CheckpointMismatchError, match=r'sampler.components: saved \["web","code","books"\]'
    ):
        iter(loader_of(None, sampler=turned)).set_state(saved)


def test_a_mixture_and_another_sampler_are_told_apart() -> None:
    """Each way, and with allow={"sampler"} it goes on at the index."""
    plain = lk.IndexSampler(120)
    mixed, other = saved_at(HALVES, 2), saved_at(None, 2, sampler=plain)
    with pytest.raises(
        lk.CheckpointMismatchError, match="sampler: saved a mixture, this loader one without weights"
    ):
        iter(loader_of(None, sampler=plain)).set_state(mixed)
    with pytest.raises(
        lk.CheckpointMismatchError, match="sampler: saved one without weights, this loader a mixture"
    ):
        iter(loader_of(HALVES)).set_state(other)
    it = iter(loader_of(None, sampler=plain))
    it.set_state(mixed, allow={"sampler"})
    assert keys_of(it, 1) == list(range(16, 24))
    it = iter(loader_of(HALVES))
    it.set_state(other, allow={"sampler"})
    assert keys_of(it, 1) == MixtureTwin(HALVES).keys(24)[16:]
    pattern = lk.samplers.MixedSampler(components(["web", "code"]), pattern=["web", "code", "code"])
    it = iter(loader_of(None, sampler=pattern))
    it.set_state(mixed, allow={"sampler", "source", "mixture"})
    assert keys_of(it, 1) == pattern.record_keys(range(16, 24)).tolist()
    with pytest.raises(ValueError, match="pattern"):
        it.reweigh(HALVES)
    saved = it.get_state()
    iter(loader_of(None, sampler=pattern)).set_state(saved)


DAMAGED: dict[str, tuple[Any, str]] = {
    "a list": ([], "mixture: expected an object"),
    "no stages": ({"stages": []}, "mixture.stages: expected one or more"),
    "a stage too short": ({"stages": [[0, "written"]]}, r"mixture.stages\[0\]: expected \[first_index"),
    "another kind": ({"stages": [[0, "given", {"web": "1"}]]}, r"mixture.stages\[0\]: expected"),
    "no weight": ({"stages": [[0, "written", {"web": "0"}]]}, r"mixture.stages\[0\]: expected a positive weight"),
    "a number": ({"stages": [[0, "written", {"web": 1}]]}, r"mixture.stages\[0\].web: expected a weight such as"),
    "a negative one": ({"stages": [[0, "written", {"web": "-1"}]]}, r"mixture.stages\[0\].web: expected a weight"),
    "over zero": ({"stages": [[0, "written", {"web": "1/0"}]]}, r"mixture.stages\[0\].web: expected a weight"),
    "a late begin": ({"stages": [[5, "written", {"web": "1"}]]}, "begin with one at index 0"),
    "too far": ({"stages": [[0, "written", {"web": "1", "code": "1"}], [2**63, "live", {"web": "2"}]]},
                r"mixture.stages\[1\]\[0\]: expected an integer"),
    "behind all": ({"stages": [[0, "written", {"web": "1", "code": "1"}], [2**62 + 1, "live", {"web": "2"}]]},
                   r"mixture.stages: expected first indices up to 2\*\*62"),
    "out of order": ({"stages": [[0, "written", {"web": "1", "code": "1"}], [0, "written", {"web": "2"}]]},
                     r"mixture\.stages\[1\]: expected a first index from 1 on"),
    "known": ({"known": 1}, "mixture.known: expected a stage below 1, got 1"),
    "known as text": ({"known": "0"}, "mixture.known: expected an integer"),
    "counts": ({"taken": {"web": 1}}, "mixture.taken: expected"),
    "counts as a list": ({"taken": []}, "mixture.taken: expected an object"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_mixture_is_named(name: str) -> None:
    """Each field, also where the digest is right; the iterator stays where it is."""
    change, text = DAMAGED[name]
    document = json.loads(saved_at(HALVES, 1))
    document["mixture"] = {**document["mixture"], **change} if isinstance(change, dict) else change
    it = iter(loader_of(HALVES))
    with pytest.raises(lk.errors.StateError, match=text):
        it.set_state(json.dumps({**document, "digest": digest(document)}).encode())
    assert it.step == 0


def test_a_written_stage_behind_the_end_is_a_damaged_state() -> None:
    """A state of a finite mixture says no stage that can't be."""
    ends = {"web": lk.SequentialSampler(30), "books": lk.SequentialSampler(50)}
    sampler = lk.samplers.MixedSampler(ends, weights={"web": 1, "books": 1}, when_exhausted="stop")
    document = json.loads(saved_at(None, 1, sampler=sampler))
    document["mixture"]["stages"].append([500, "live", {"web": "3"}])
    with pytest.raises(lk.errors.StateError, match="mixture: weights: expected a mixture that lasts"):
        iter(loader_of(None, sampler=sampler)).set_state(
            json.dumps({**document, "digest": digest(document)}).encode()
        )


def test_weights_that_can_not_go_on_from_the_end_are_a_state_error() -> None:
    """All that they read was read."""
    ends = {"web": lk.SequentialSampler(30), "books": lk.SequentialSampler(50)}
    before, after = (
        lk.samplers.MixedSampler(ends, weights=weights, when_exhausted="drop")
        for weights in (None, {"web": 1})
    )
    saved = saved_at(None, 10, sampler=before)
    it = iter(loader_of(None, sampler=after))
    with pytest.raises(
        lk.errors.StateError, match="until its stage at index 80, got one that ends at index 80"
    ):
        it.set_state(saved, allow={"mixture"})
    assert it.step == 0


@pytest.mark.parametrize("count", [2, 3])
def test_several_hosts_change_together(count: int) -> None:
    """They compare step and weights, go on alike, and any number of hosts goes on from a state of one of them."""
    hosts = shards(count)

    def work(host: int) -> Any:
        with iter(loader_of(HALVES, batch=12, shard_options=hosts[host])) as it:
            rows = [next(it) for _ in range(2)]
            assert it.reweigh(OTHERS) == 2
            return [*rows, *(next(it) for _ in range(3))], it.get_state()

    results = together(work, count)
    twin = MixtureTwin(HALVES)
    twin.reweigh(24, OTHERS)
    steps = [joined(list(parts)).tolist() for parts in zip(*(rows for rows, _ in results), strict=True)]
    assert [key for step in steps for key in step] == twin.keys(60)
    it = iter(loader_of(HALVES, batch=12))
    it.set_state(results[1][1])
    assert keys_of(it, 2) == twin.keys(84)[60:]


def test_a_component_that_earlier_weights_still_read_is_missed_at_once() -> None:
    """A stream that is behind the others reads by the old weights: next() raised hundreds of steps later."""
    how: dict[str, Any] = {
        "operations": [lk.Filter(lambda key: key % 8 < 2 or key >= 70), lk.Batch(12)],
        "logical_streams": 3,
    }
    for names, weights in (
        (["web", "books"], {"web": 1, "books": 2}),
        (["web", "code"], {"web": 3, "code": 1}),
    ):
        (lacking,) = {"web", "code", "books"} - {*names}
        with iter(named_loader(LENGTHS, {"web": 1, "code": 1, "books": 1}, **how)) as it:
            keys_of(it, 7)
            saved = it.get_state()
        allow = {"source", "mixture"}
        says = rf"got none of '{lacking}'; give it again, .* weights=\{{.*'web': .*, '{lacking}': 0\}}$"
        with iter(named_loader(names, weights, **how)) as it, pytest.raises(lk.errors.StateError, match=says):
            it.set_state(saved, allow=allow)
        with iter(named_loader(LENGTHS, weights | {lacking: 0}, **how)) as it:
            it.set_state(saved, allow=allow)
            keys_of(it, 60)


def test_hosts_that_differ_are_told() -> None:
    """Other weights, another step, and other weights of the loader: an error on all, and nothing has changed."""
    hosts = shards(2, timeout=20)

    def work(host: int) -> tuple[str, list[int]]:
        mine = {name: weight * (host + 1) for name, weight in HALVES.items()}
        with iter(loader_of(mine, batch=12, shard_options=hosts[host])) as it:
            texts = []
            for weights in (OTHERS if host else HALVES | {"books": 1}, OTHERS):
                with pytest.raises(ValueError, match="the processes differ") as error:
                    it.reweigh(weights)
                texts.append(str(error.value))
                if host:
                    next(it)
            if not host:
                next(it)
            it.seek(1)
            # The same shares are the same mixture.
            assert it.reweigh({name: weight * (host + 1) for name, weight in OTHERS.items()}) == 1
            return "\n".join(texts), next(it).tolist()

    twin = MixtureTwin(HALVES)
    twin.reweigh(12, OTHERS)
    (text, first), (_, second) = together(work, 2)
    assert "sampler.weights: " in text and "step: 0 on process 0; 1 on process 1" in text
    assert first + second == twin.keys(24)[12:]

    hosts = shards(2, timeout=20)
    with pytest.raises(ValueError, match=r"sampler\.weights"):
        together(
            lambda host: iter(loader_of(OTHERS if host else HALVES, batch=12, shard_options=hosts[host])), 2
        )


def test_hosts_whose_rows_change_number_change_by_a_state() -> None:
    """Each needs the states of all: the new weights begin behind what any of them read."""

    def make(host: int, weights: Any, hosts: Any) -> lk.DataLoader:
        return loader_of(weights, operations=FILTERED, logical_streams=4, shard_options=hosts[host])

    def first(host: int) -> tuple[list[int], bytes]:
        with iter(make(host, HALVES, hosts)) as it:
            return keys_of(it, 3), it.get_state()

    hosts = shards(2)
    results = together(first, 2)
    states = [state for _, state in results]
    hosts = shards(2)

    def second(host: int) -> tuple[list[int], int, bytes]:
        with iter(make(host, OTHERS, hosts)) as it:
            with pytest.raises(lk.errors.StateError, match="give the states of all processes"):
                it.set_state(states[host], allow={"mixture"})
            assert it.writers_needed([0, 0, 1, 1]) == {host}
            assert it.writers_needed([0, 0, 1, 1], {"mixture"}) == {0, 1}
            it.set_state(states, allow={"mixture"})
            return keys_of(it, 30), it.sampler.stages.entries[-1].first_index, it.get_state()

    (rows, begins, *ends), (others, also, *more) = together(second, 2)
    assert begins == also
    cursors = [cursor[0] for state in (*ends, *more) for cursor in json.loads(state)["cursors"].values()]
    twin = MixtureTwin(HALVES)
    twin.reweigh(begins, OTHERS)
    rows = sorted([*results[0][0], *results[1][0], *rows, *others])
    some, most = ([key for key in twin.keys(end) if key % 3] for end in (min(cursors), max(cursors)))
    assert all(some.count(key) <= rows.count(key) <= most.count(key) for key in range(120))


def test_a_state_of_one_process_is_enough_where_the_weights_stay() -> None:
    """As for other samplers."""
    hosts = shards(2)
    states = together(
        lambda host: saved_at(HALVES, 2, operations=FILTERED, logical_streams=2, shard_options=hosts[host]), 2
    )
    hosts = shards(2)
    for host in range(2):
        lone = lk.ShardOptions(host, 2)
        it = iter(loader_of(HALVES, operations=FILTERED, logical_streams=2, shard_options=lone))
        it.set_state(states[host])
        assert it.step == 2


class Bad(lk.Map):
    """Raises on some records."""

    def map(self, element: int) -> int:
        if element in (3, 4, 40, 41, 80, 81, 82):
            raise ValueError("bad")
        return int(element)


@pytest.mark.parametrize("run", [{}, {"worker_count": 2, "worker_kind": "thread"}], ids=str)
def test_a_bad_record_is_replaced_by_one_of_its_component(run: Any) -> None:
    """Shares stay as they are; a replacement from an earlier stage keeps its meaning when the weights changed."""

    def make() -> lk.DataLoader:
        return loader_of(HALVES, operations=[Bad(), lk.Batch(8)], on_record_error="replace", **run)

    def name_of(key: int) -> str:
        return next(name for name in reversed(OFFSETS) if key >= OFFSETS[name])

    twin = MixtureTwin(HALVES)
    with make() as loader, iter(loader) as it:
        rows = keys_of(it, 6)
        it.reweigh(OTHERS)
        twin.reweigh(48, OTHERS)
        rows += keys_of(it, 6)
        saved = it.get_state()
    planned = twin.keys(96)
    assert [name_of(key) for key in rows] == [name for name, _ in twin.reads(96)]
    assert all(
        row == key for row, key in zip(rows, planned, strict=True) if key not in (3, 4, 40, 41, 80, 81, 82)
    )
    assert not {3, 4, 40, 41, 80, 81, 82} & set(rows)
    with (
        loader_of(HALVES, on_record_error="replace", **run) as loader,
        iter(loader) as again,
    ):  # they can be read now
        again.set_state(saved, allow={"operations", "parameters"})
        assert again.bad_records == it.bad_records > 0
        again.seek(0)
        assert keys_of(again, 12) == rows


def replacing(names: Any, weights: Any) -> "lk.DataLoader":
    """As `named_loader`, with an operation that can't do some records of each component."""
    return named_loader(names, weights, operations=[Bad(), lk.Batch(8)], on_record_error="replace")


@pytest.mark.parametrize("ahead", [False, True])
def test_bad_records_of_another_history_are_forgotten(ahead: bool) -> None:
    """Weights that change at an earlier step read other records from there on: what was lost there counts no more."""

    def make(weights: Any) -> lk.DataLoader:
        return loader_of(weights, operations=[Bad(), lk.Batch(8)], on_record_error="replace")

    def new(begin: int) -> list[int]:
        it = iter(make(HALVES))
        it.seek(begin)
        it.reweigh(OTHERS)
        it.seek(0)
        return keys_of(it, 12)

    if ahead:
        pytest.importorskip("jax")
    with iter(make(HALVES)) as plain:
        it: Any = lk.device_iterator(plain, prefetch=2) if ahead else plain
        keys_of(it, 12)
        it.seek(2)
        if ahead:  # the two behind it were taken, and know what was lost behind the change
            next(it)
        lost, saved = plain.bad_records, it.get_state()
        begin = it.reweigh(OTHERS)
        assert plain.bad_records < lost
        got = [*keys_of(it, 9)][-64:]
        assert got == new(begin)[8 * (it.step - 8) : 8 * it.step]
        after = it.get_state()
        it.seek(0)
        assert keys_of(it, 12) == new(begin)
    again = iter(make(HALVES))
    again.set_state(after)
    again.seek(0)
    assert keys_of(again, 12) == new(begin)
    other = iter(make(OTHERS))
    other.set_state(saved, allow={"mixture"})
    begin = other.step
    other.seek(0)
    assert keys_of(other, 12) == new(begin)


def test_bad_records_stay_known_where_components_come_and_go() -> None:
    """Records that were lost before are replaced by the same ones, also where the lost component is gone."""
    with iter(replacing(["web", "code"], HALVES)) as it:
        rows = keys_of(it, 6)
        saved = it.get_state()
    ledger = json.loads(saved)["bad_records"]["ledger"]
    assert len(ledger) == 2
    more = iter(replacing(["web", "code", "books"], HALVES))
    more.set_state(saved, allow={"source"})
    assert more.reweigh(OTHERS) == 6
    rows += keys_of(more, 6)
    more.seek(0)
    assert keys_of(more, 12) == rows
    saved = more.get_state()
    known = json.loads(saved)["bad_records"]["ledger"]
    assert known[:2] == ledger and len(known) > 2
    fewer = iter(replacing(["web", "books"], OTHERS))
    fewer.set_state(saved, allow={"source", "mixture"})
    assert json.loads(fewer.get_state())["bad_records"]["ledger"] == known
    fewer.seek(6)
    assert keys_of(fewer, 6) == rows[48:]
    back = iter(replacing(["web", "code", "books"], OTHERS))
    back.set_state(fewer.get_state(), allow={"source", "mixture"})
    back.seek(0)
    assert keys_of(back, 12) == rows


@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_lookahead_keeps_what_it_took(prefetch: int) -> None:
    """Behind device_iterator the new weights begin behind the batches on their way; the state has them already."""
    pytest.importorskip("jax")
    with lk.device_iterator(iter(loader_of(HALVES)), prefetch=prefetch) as it:
        got = keys_of(it, 2)
        begins = 2 + prefetch
        assert it.reweigh(OTHERS) == begins
        twin = MixtureTwin(HALVES)
        twin.reweigh(8 * begins, OTHERS)
        saved = it.get_state()
        got += keys_of(it, 6)
        assert got == twin.keys(64)
        assert it.sampler.taken(it.index)["books"].records == [name for name, _ in twin.reads(64)].count(
            "books"
        )
        it.seek(1)
        assert keys_of(it, 6) == twin.keys(56)[8:]
    again = iter(loader_of(HALVES))
    again.set_state(saved)
    assert keys_of(again, 6) == got[16:]


def test_a_lookahead_that_met_the_end_or_an_error_goes_on() -> None:
    """What stands behind the batches on their way is another stream now."""
    pytest.importorskip("jax")
    ends = {"web": lk.SequentialSampler(32), "books": lk.SequentialSampler(48)}
    sampler = lk.samplers.MixedSampler(ends, weights={"web": 1, "books": 1}, when_exhausted="stop")
    with lk.device_iterator(iter(loader_of(None, sampler=sampler, batch=16)), prefetch=9) as it:
        next(it)
        with pytest.raises(ValueError, match="take the elements that are left"):
            it.reweigh({"books": 1})
        rest = [batch.tolist() for batch in it]
        assert it.reweigh({"books": 1}) == it.step
        rest += [batch.tolist() for batch in it]
        assert max(key for batch in rest for key in batch) == 79


def test_a_wrapper_whose_user_has_all_goes_on_behind_the_end_as_the_plain_iterator_does() -> None:
    """The stream had ended within a step: the next one begins behind its last record."""
    ends = {"web": lk.SequentialSampler(32), "books": lk.SequentialSampler(48)}
    sampler = lk.samplers.MixedSampler(ends, weights={"web": 3, "books": 1}, when_exhausted="stop")
    with (
        iter(loader_of(None, sampler=sampler, batch=16)) as plain,
        iter(loader_of(None, sampler=sampler, batch=16)) as it,
    ):
        ahead = it.wrap()
        for _ in plain:
            ahead.received(ahead.take())
        with pytest.raises(StopIteration):
            ahead.take()
        assert plain.reweigh({"books": 1}) == it.reweigh({"books": 1})
        assert (it.step, it.index, it.get_state()) == (plain.step, plain.index, plain.get_state())
        assert plain.index % 16
        assert ahead.take().element.value.tolist() == next(plain).tolist()


def test_orbax_saves_and_restores_a_mixture(tmp_path: Path) -> None:
    """Live weights go on; other written ones are allowed by CheckpointRestore."""
    ocp = pytest.importorskip("orbax.checkpoint")
    with ocp.CheckpointManager(tmp_path) as manager:
        with iter(loader_of(HALVES)) as it:
            keys_of(it, 2)
            it.reweigh(OTHERS)
            keys_of(it, 1)
            manager.save(3, args=ocp.args.Composite(data=lk.CheckpointSave(it)))
            manager.wait_until_finished()
            expected = keys_of(it, 2)
        with iter(loader_of(HALVES)) as it:
            manager.restore(3, args=ocp.args.Composite(data=lk.CheckpointRestore(it)))
            assert keys_of(it, 2) == expected
        with iter(loader_of({"code": 1})) as it:
            restore = lk.CheckpointRestore(it, allow={"mixture"})
            manager.restore(3, args=ocp.args.Composite(data=restore))
            assert {name for name, taken in it.sampler.taken(24).items() if taken.records} == set(LENGTHS)
            assert all(30 <= key < 70 for key in keys_of(it, 2))


def test_a_state_of_an_earlier_version_restores_as_before() -> None:
    """States without a mixture have no such field."""
    document = json.loads(saved_at(None, 1, sampler=lk.IndexSampler(120)))
    assert document["format_version"] == 5 and "mixture" not in document
    assert "mixture" in json.loads(saved_at(HALVES, 1))
    assert mixture(HALVES).stages.entries[0].weights == {"web": 1, "code": 1}


def test_a_refusal_says_what_a_reweighed_run_had_come_to() -> None:
    """The compared weights are those of the scripts; the weights of reweigh are named beside them."""
    with iter(loader_of(HALVES)) as it:
        keys_of(it, 1)
        it.reweigh({"web": 3, "code": 1})
        keys_of(it, 1)
        saved = it.get_state()
    with pytest.raises(lk.CheckpointMismatchError) as error:
        iter(loader_of(OTHERS)).set_state(saved)
    assert "mixture.code: saved 1/2, this loader 0\n" in str(error.value)
    assert "\nThere the saved run has the weights of a reweigh: code 1/4, web 3/4.\nWith " in str(error.value)


def test_other_numbers_under_id_key_are_no_lost_records() -> None:
    """Without a component in the middle those behind it get other numbers, and nothing else changes."""

    def loader(*names: str) -> lk.DataLoader:
        source, sampler = lk.mix({name: [{"x": name}] * 9 for name in names}, id_key="of")
        return lk.DataLoader(data_source=source, sampler=sampler, operations=[lk.Batch(4)])

    with pytest.raises(lk.CheckpointMismatchError) as error:
        iter(loader("a", "c")).set_state(iter(loader("a", "b", "c")).get_state())
    assert "source.sources.c.id: saved 2, this loader 1\n" in str(error.value)
    assert (
        "Components that both have go on where they are.\nThe numbers that records get under id_key"
        in str(error.value)
    )
    assert "records may occur twice" not in str(error.value)
