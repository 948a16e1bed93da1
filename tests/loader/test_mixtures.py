"""A mixture in a loader: other weights in mid-run, whatever it is run by, and what a state says of them."""

import contextlib
import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interrupts import interrupted
from mixture_twin import MixtureTwin, components, loader_of

import loaderkit as lk

HALVES = {"web": 1, "code": 1}
OTHERS = {"web": 0.5, "books": 3}
RUNS = [{}, {"worker_count": 3}, {"worker_count": 2, "worker_kind": "thread"}]


def keys_of(it: Any, steps: int) -> list[int]:
    return [int(key) for _ in range(steps) for key in np.ravel(next(it))]


@pytest.mark.parametrize("run", RUNS, ids=str)
def test_other_weights_hold_from_the_next_element_on(run: dict[str, Any]) -> None:
    """However it is run, elements that were made ahead with the old weights are made again."""
    twin = MixtureTwin(HALVES)
    with loader_of(HALVES, **run) as loader, iter(loader) as it:
        got = keys_of(it, 3)
        it.peek()
        assert it.reweigh(OTHERS) == 3
        twin.reweigh(24, OTHERS)
        got += keys_of(it, 2)
        saved = it.get_state()
        got += keys_of(it, 2)
        assert got == twin.keys(56)
        assert {name: taken.records for name, taken in it.sampler.taken(it.index).items()} == {
            name: [read for read, _ in twin.reads(56)].count(name) for name in ("web", "code", "books")
        }
        assert [record.record_key for record in it.records(1)] == got[8:16]
        it.set_state(saved)
        assert keys_of(it, 2) == got[40:]


def test_weights_changed_live_go_on_after_a_restart() -> None:
    """A new process with the loader's first weights needs no word from the user; the loader's later stages follow."""
    later = [(0, HALVES), (64, {"code": 1})]
    it = iter(loader_of(later))
    keys_of(it, 2)
    it.reweigh(OTHERS)
    keys_of(it, 2)
    saved = it.get_state()
    assert json.loads(saved)["mixture"]["stages"] == [
        [0, "written", {"code": "1", "web": "1"}],
        [16, "live", {"books": "3", "code": "0", "web": "1/2"}],
        [64, "written", {"books": "0", "code": "1", "web": "0"}],
    ]
    again = iter(loader_of([(0, HALVES), (72, {"books": 1})]))
    again.set_state(saved)
    twin = MixtureTwin(HALVES)
    twin.reweigh(16, OTHERS)
    twin.reweigh(72, {"books": 1})
    again.seek(0)
    assert keys_of(again, 10) == twin.keys(80)


def test_seeking_back_over_a_change_gives_the_same_and_a_change_there_forgets_what_came_later() -> None:
    """The weights of past steps are kept; new ones from an earlier step on are another history."""
    it, twin = iter(loader_of(HALVES)), MixtureTwin(HALVES)
    it.seek(5)
    assert it.reweigh(OTHERS) == 5
    twin.reweigh(40, OTHERS)
    it.seek(3)
    assert keys_of(it, 4) == twin.keys(56)[24:]
    it.seek(2)
    assert it.reweigh(HALVES) == 2  # what holds there already, but not for ever
    twin.reweigh(16, HALVES)
    assert keys_of(it, 5) == twin.keys(56)[16:]
    it.seek(0)
    assert it.reweigh({"books": 2}) == it.reweigh({"books": 1}) == 0
    assert len(it.sampler.stages.entries) == 2
    assert it.reweigh({"code": 1}) == 0
    assert keys_of(it, 1) == [70 - 40 + key for key in components()["code"].record_keys(range(8))]


def test_the_same_weights_change_nothing() -> None:
    """However they are scaled; what was made ahead stays."""
    it = iter(loader_of(HALVES))
    element, plan = it.peek(), it._plan
    assert it.reweigh({"web": 0.25, "code": 0.25, "books": 0}) == 0
    assert it._plan is plan and it.peek() is element


BAD: dict[str, tuple[Any, type[Exception], str]] = {
    "an unknown name": ({"wbe": 1}, ValueError, "'wbe'; write 'web'"),
    "none": ({}, ValueError, "positive"),
    "zeros": ({"web": 0}, ValueError, "positive"),
    "a negative one": ({"web": -1}, ValueError, "expected 0 or more, got -1"),
    "not a number": ({"web": float("nan")}, ValueError, "finite"),
    "too small a share": ({"web": 1, "code": 1e-30}, ValueError, "2\\*\\*-62 or more, got 1e-30"),
    "a text": ({"web": "much"}, TypeError, "web"),
    "no mapping": ([1, 2], TypeError, "mapping"),
}


@pytest.mark.parametrize("name", BAD)
def test_weights_that_can_not_be_are_refused_and_change_nothing(name: str) -> None:
    """The error says what to write; the next element is the same."""
    weights, kind, text = BAD[name]
    it = iter(loader_of(HALVES))
    element = it.peek()
    with pytest.raises(kind, match=text):
        it.reweigh(weights)
    assert it.peek() is element


def test_reweigh_where_it_can_not_be() -> None:
    """After close(), and of a loader without a mixture."""
    it = iter(loader_of(HALVES))
    it.close()
    with pytest.raises(lk.errors.IteratorClosedError, match="closed"):
        it.reweigh(OTHERS)
    with pytest.raises(
        TypeError, match=r"reweigh\(weights\): expected a loader with a mixture, got IndexSampler"
    ):
        iter(lk.load([1, 2])).reweigh({"a": 1})
    with pytest.raises(TypeError, match="epoch"):
        loader_of(HALVES).epoch(1)


def test_a_stream_that_ended_goes_on() -> None:
    """With "stop" the last step may be partial: other weights begin at the first index that wasn't read."""
    ends = {"web": lk.SequentialSampler(30), "books": lk.SequentialSampler(50)}

    def make() -> lk.DataLoader:
        sampler = lk.samplers.MixedSampler(ends, weights={"web": 1, "books": 1}, when_exhausted="stop")
        return loader_of(None, sampler=sampler, batch=16)

    with iter(make()) as it:
        before = [key for batch in it for key in batch.tolist()]
        assert (len(before), it.step, it.index) == (61, 4, 61)
        saved = it.get_state()
        assert it.reweigh({"books": 1}) == 4
        rest = [batch.tolist() for batch in it]
        assert rest == [[*range(61, 77)], [*range(77, 80)]]
        assert sorted([*before, *rest[0], *rest[1]]) == list(range(80))
        after = it.get_state()
    again = iter(make())
    again.set_state(after)
    assert (list(again), again.index) == ([], 80)
    again.set_state(saved)
    assert list(again) == []
    only = lk.samplers.MixedSampler(ends, weights={"books": 1}, when_exhausted="stop")
    with iter(loader_of(None, sampler=only, batch=16)) as it:
        it.set_state(saved, allow={"mixture"})
        assert [batch.tolist() for batch in it] == rest


def test_skip_resize_and_other_weights_together() -> None:
    """Every kind of change of the position, each behind the other."""
    it, twin = iter(loader_of(HALVES)), MixtureTwin(HALVES)
    keys_of(it, 1)
    it.skip(2)
    assert it.reweigh(OTHERS) == 1
    twin.reweigh(24, OTHERS)
    keys_of(it, 1)
    wide = iter(loader_of(HALVES, batch=20))
    wide.set_state(it.get_state(), allow={"global_batch_size"})
    assert wide.reweigh({"code": 1}) == 2
    twin.reweigh(32, {"code": 1})
    assert keys_of(wide, 2) == twin.keys(72)[32:]
    assert [record.record_key for record in wide.records(1)] == twin.keys(32)[24:]


class Fork(lk.FlatMap):
    """Some children of each record, none of some."""

    def flat_map(self, element: int) -> list[int]:
        return [int(element)] * (int(element) % 4)


CHANGING = {
    "filter": [lk.Filter(lambda key: key % 3), lk.Batch(12)],
    "children": [Fork(), lk.Batch(12)],
    "no batch": [Fork()],
}


def kept(name: str, keys: list[int]) -> list[int]:
    if name == "filter":
        return [key for key in keys if key % 3]
    return [child for key in keys for child in [key] * (key % 4)]


@pytest.mark.parametrize(
    ("name", "run"),
    [*((name, {}) for name in CHANGING), ("children", {"worker_count": 2, "worker_kind": "thread"})],
    ids=str,
)
def test_where_rows_change_number_they_begin_behind_all_that_was_read(name: str, run: dict[str, Any]) -> None:
    """The rows are those of the twin, none lost and none twice, also after a restore within a record's children."""
    for steps in (1, 2, 5):
        it, twin = iter(loader_of(HALVES, operations=CHANGING[name], **run)), MixtureTwin(HALVES)
        got = keys_of(it, steps)
        saved = it.get_state()
        it.reweigh(OTHERS)
        began = it.sampler.stages.entries[-1].first_index
        twin.reweigh(began, OTHERS)
        got += keys_of(it, 4)
        assert got == kept(name, twin.keys(200))[: len(got)]
        with iter(loader_of(OTHERS, operations=CHANGING[name])) as again:
            again.set_state(saved, allow={"mixture"})
            assert again.sampler.stages.entries[-1].first_index == began
            once = again.get_state()
            again.set_state(once)  # also before the weights that were allowed have begun
            assert again.get_state() == once
            behind = len(got) - len(keys_of(again, 0))
            rows = len(np.ravel(again.peek())) * 4
            assert keys_of(again, 4) == got[behind - rows :]
        it.close()


@pytest.mark.parametrize("name", ["filter", "children"])
def test_logical_streams_of_one_process_change_together(name: str) -> None:
    """The union of what all streams read is the twin's: each component as 0..c-1."""
    with iter(loader_of(HALVES, operations=CHANGING[name], logical_streams=3)) as it:
        rows = keys_of(it, 4)
        it.reweigh(OTHERS)
        twin = MixtureTwin(HALVES)
        twin.reweigh(it.sampler.stages.entries[-1].first_index, OTHERS)
        rows += keys_of(it, 20)
        saved = json.loads(it.get_state())
    first, last = (pick(cursor[0] for cursor in saved["cursors"].values()) for pick in (min, max))
    low, high = (sorted(kept(name, twin.keys(end))) for end in (first, last + 1))
    assert all(rows.count(key) >= low.count(key) for key in set(low))
    assert all(high.count(key) >= rows.count(key) for key in set(rows))


def test_in_the_middle_of_an_element_of_several_records_they_begin_behind_it() -> None:
    """Behind a Batch the elements say which indices one took: the second of them here is half handed out."""
    halves = lk.FlatMap(lambda batch: [batch[:2], batch[2:]])
    with iter(loader_of(HALVES, operations=[lk.Batch(4), halves, lk.Batch(3)])) as it:
        next(it)
        assert it.reweigh(OTHERS) == 1
        assert it.sampler.stages.entries[-1].first_index == 8
        next(it)
        assert it.reweigh(HALVES) == 2
        assert it.sampler.stages.entries[-1].first_index == 12


@pytest.mark.parametrize("streams", [1, 3])
def test_other_weights_hold_behind_the_windows_that_are_begun(streams: int) -> None:
    """Each record once, and the rest after a restart is the same, wherever in a window the weights change.

    A script with other weights goes on as the running loader does that gets them, without a word after that.
    """
    halves = lk.Window(10, lambda elements: [elements[:5], elements[5:]])

    def make(weights: Any = HALVES) -> lk.DataLoader:
        return loader_of(
            weights,
            operations=[
                halves,
                lk.Batch(3, batch_fn=lambda rows: [key for row in rows for key in row]),
                lk.Map(np.array),
            ],
            logical_streams=streams,
        )

    for step in range(1, 7):
        with iter(make()) as it:
            before = [key for _ in range(step) for key in next(it).tolist()]
            there = it.get_state()
            assert it.reweigh(OTHERS) == step
            begin = it.sampler.stages.entries[-1].first_index
            saved = it.get_state()
            after = [key for _ in range(40) for key in next(it).tolist()]
            twin = MixtureTwin(HALVES)
            twin.reweigh(begin, OTHERS)
            read = sorted(before + after)
            low, high = (sorted(twin.keys(end)) for end in (len(read) - 60, len(read) + 60))
            assert all(read.count(key) >= low.count(key) for key in set(low))
            assert all(high.count(key) >= read.count(key) for key in set(read))
        with iter(make()) as again:
            again.set_state(saved)
            assert [key for _ in range(40) for key in next(again).tolist()] == after
        with iter(make(OTHERS)) as again:
            with pytest.raises(lk.CheckpointMismatchError, match=f"weights hold from index {begin:,} on"):
                again.set_state(there)
            again.set_state(there, allow={"mixture"})
            kept = [again.get_state()]
            got = [key for _ in range(2) for key in next(again).tolist()]
            kept.append(again.get_state())
            for state, rest in zip(kept, (after, after[len(got) :]), strict=True):
                again.set_state(state)
                assert [key for _ in range(38) for key in next(again).tolist()] == rest[: 38 * 15]


def test_several_processes_are_refused_where_rows_change_number() -> None:
    """The error says how to do it: by a state."""
    loader = loader_of(
        HALVES, operations=CHANGING["filter"], logical_streams=2, shard_options=lk.ShardOptions(0, 2)
    )
    with pytest.raises(ValueError, match=r'got 2 shards, .* with allow=\{"mixture"\}'):
        iter(loader).reweigh(OTHERS)


class DieOnce(lk.Map):
    """Kills the process at one record, once."""

    def __init__(self, flag: Path) -> None:
        self.flag = flag

    def map(self, element: int) -> int:
        if element == 61:
            try:
                os.close(os.open(self.flag, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return element
            os.kill(os.getpid(), signal.SIGKILL)
        return element


def test_a_worker_that_dies_behind_a_change_loses_nothing(tmp_path: Path) -> None:
    """The stream goes on with the new weights."""
    twin = MixtureTwin({"web": 1})
    operations = [DieOnce(tmp_path / "died"), lk.Batch(8)]
    with loader_of({"web": 1}, operations=operations, worker_count=2) as loader, iter(loader) as it:
        keys_of(it, 1)
        it.reweigh(HALVES)
        twin.reweigh(8, HALVES)
        assert keys_of(it, 10) == twin.keys(88)[8:]
    assert (tmp_path / "died").exists()


def test_an_interrupt_leaves_the_old_weights_or_the_new_ones() -> None:
    """Ctrl-C at each line of reweigh: what follows is one of two streams, and the state says which."""
    old, new = MixtureTwin(HALVES), MixtureTwin(HALVES)
    new.reweigh(16, OTHERS)
    seen, line = set(), 0
    while True:
        line += 1
        it = iter(loader_of(HALVES))
        keys_of(it, 2)
        it.peek()
        going = interrupted(lambda it=it: it.reweigh(OTHERS), line, inside="continue_with")
        stages = len(json.loads(it.get_state())["mixture"]["stages"])
        seen.add(stages)
        assert keys_of(it, 3) == (old if stages == 1 else new).keys(40)[16:]
        it.close()
        if not going:
            break
    assert seen == {1, 2} and line > 8


CHANGES = st.sampled_from(["reweigh", "resize", "skip", "seek", "restart", "step", "step"])
WEIGHTS = st.dictionaries(
    st.sampled_from(["web", "code", "books"]), st.sampled_from([0.1, 0.5, 1, 2, 7]), min_size=1
)


@settings(max_examples=settings().max_examples // 2)
@given(st.data())
def test_any_history_reads_what_the_twin_reads(data: st.DataObject) -> None:
    """Other weights, sizes, places, processes, in any order: every step is the twin's, now and looked back at."""
    weights = data.draw(WEIGHTS)
    batch, twin = 6, MixtureTwin(weights)
    it = iter(loader_of(weights, batch=batch))
    for _ in range(data.draw(st.integers(1, 8))):
        match data.draw(CHANGES):
            case "reweigh":
                new = data.draw(WEIGHTS)
                assert it.reweigh(new) == it.step
                twin.reweigh(it.index, new)
            case "resize":
                batch, saved = data.draw(st.integers(1, 9)), it.get_state()
                it = iter(loader_of(weights, batch=batch))
                it.set_state(saved, allow={"global_batch_size"})
            case "skip":
                it.skip(data.draw(st.integers(0, 3)))
            case "seek":
                with contextlib.suppress(ValueError):  # a step of another size
                    it.seek(data.draw(st.integers(0, 12)))
            case "restart":
                saved = it.get_state()
                it = iter(loader_of(weights, batch=batch))
                it.set_state(saved)
                assert it.get_state() == saved
            case _:
                index = it.index
                assert keys_of(it, 1) == twin.keys(index + batch)[index:]
    for step in range(it.step):
        records = it.records(step)
        assert [record.record_key for record in records] == [twin.keys(r.index + 1)[-1] for r in records]
