"""`verify=True`: what is read is what was written, or an error says that it isn't."""

import time
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from internals import executor_of
from runtime_loaders import all_same, numbers, row, until

import loaderkit as lk
from loaderkit._engine.task import MakeBatch, ReadRows, Slot, Span, Target
from loaderkit._runtime.memory.batch_layout import BatchLayout
from loaderkit._runtime.transport.out_of_band import OutOfBandPickle, unpack
from loaderkit._runtime.transport.pickling import Packer
from loaderkit._runtime.worker.meter import Meter
from loaderkit._runtime.worker.program import Program
from loaderkit._runtime.worker.reading import ReadOptions
from loaderkit._runtime.worker.task_runner import TaskRunner
from loaderkit.transforms.base import Batch, Map
from loaderkit.transforms.stack import collect


def text(x: int) -> dict[str, Any]:
    return {"x": x, "name": f"record {x}"}


def halved(batch: Any) -> Any:
    return {**batch, "x": batch["x"] / 2}


PIPELINES = {
    "in place": (row, lk.Batch(4)),
    "finished": (row, lk.Batch(4), halved),
    "elements": (text,),
    "batches that travel": (text, lk.Batch(4)),
    "rows in number unknown": (lk.Filter(lambda x: x % 3 > 0), row, lk.Batch(4)),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["process", "thread"])
@pytest.mark.parametrize("name", PIPELINES)
def test_checksums_change_nothing(name, kind):
    """The stream is the same, also where several tasks write a batch and where it is copied out of the arena."""
    operations = PIPELINES[name]
    expected = list(numbers(60, *operations))
    for options in ({}, {"task_rows": 3}, {"max_memory": 0}):
        with numbers(60, *operations, worker_count=1, worker_kind=kind, verify=True, **options) as loader:
            assert all_same(list(loader), expected)


def slot_of_next(executor: Any) -> Slot | None:
    """Where the element lies that next() will hand out; None while it isn't there."""
    (scheduler,) = executor._dispatcher._streams.values()
    if hasattr(scheduler, "_steps"):
        outcome = scheduler._steps[0].outcome
        return None if outcome is None else outcome.slot
    runs = scheduler._output_queue.runs
    return executor._outputs.slot(runs[0].task) if runs and runs[0].done else None


def flip_a_byte_of_next(loader: "lk.DataLoader") -> None:
    executor = executor_of(loader)
    with executor.state.changed:
        (stream,) = executor._streams
        deadline = time.monotonic() + 60
        while slot_of_next(executor) is None:
            executor._waited_for.add(stream)
            assert executor.state.changed.wait(timeout=deadline - time.monotonic())
        token = executor.state.arena.token(slot_of_next(executor))
        token[70] ^= 1  # in the second leaf, or in the pickle


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("in place", "process", "rows 0 to 3 of a batch of 4 changed"),
        ("in place", "thread", "rows 0 to 3 of a batch of 4 changed"),
        ("elements", "process", "an element changed"),
    ],
)
def test_a_byte_that_changes_on_the_way_is_an_error(name, kind, says):
    """It is not handed out; the same error comes again, and from the saved position all is well."""
    expected = list(numbers(80, *PIPELINES[name]))
    # Tasks of one batch, so that what comes next lies by itself.
    with numbers(80, *PIPELINES[name], worker_count=1, worker_kind=kind, verify=True, task_rows=4) as loader:
        it = iter(loader)
        # The first batches tell what rows look like, those behind them are written in place.
        taken = [next(it) for _ in range(8)]
        flip_a_byte_of_next(loader)
        for _ in range(2):
            with pytest.raises(lk.errors.ChecksumError, match=says):
                taken += iter(it.__next__, None)
        with pytest.raises(ValueError, match="names no single record"):
            it.state_past_error()
        it.set_state(it.get_state())
        assert all_same(taken + list(it), expected)


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_the_memory_of_a_batch_that_changed_is_used_again(kind):
    """Nothing holds its slot: when the iterator is closed and earlier batches are gone, all of the arena is free."""
    with numbers(80, *PIPELINES["in place"], worker_count=1, worker_kind=kind, verify=True) as loader:
        it = iter(loader)
        for _ in range(8):
            next(it)
        flip_a_byte_of_next(loader)
        with pytest.raises(lk.errors.ChecksumError):
            list(it)
        it.close()
        executor: Any = executor_of(loader)
        until(
            lambda: not any(map(executor._dispatcher.busy, list(executor._supervisor.workers))),
            "the end of what was begun",
        )
        with executor.lock:
            executor._free_released()
            assert executor._slots.used == 0


class _Room:
    """Memory of a worker alone in the world."""

    def __init__(self, nbytes: int) -> None:
        self.bytes = bytearray(nbytes)

    def token(self, slot: Slot) -> Any:
        return memoryview(self.bytes)[slot.offset : slot.offset + slot.nbytes]

    def output(self, task: int, *, private: bool) -> Any:
        raise AssertionError("all rows are in place")

    def candidates(self, index: int, tried: int) -> Any:
        raise AssertionError("no record is bad")


def test_rows_that_change_before_a_batch_is_finished_are_a_failure():
    """Who runs what follows the Batch looks at the rows first."""
    layout = BatchLayout(collect([row(0)]).spec(), verify=True)
    slot = Slot(0, layout.nbytes(4), 0, layout.nbytes(4))
    room = _Room(slot.nbytes)
    program = Program(range(9), (Map(row), Batch(4), Map(halved)), None, ReadOptions(), False, True)
    runner = TaskRunner(program, room, Meter())
    keys = np.arange(4)
    for lo in (0, 2):
        target = Target(2, 4, lo, slot, False, layout)
        result, _ = runner.do(ReadRows(lo, keys[lo : lo + 2], keys[lo : lo + 2], (target,)))
        assert result.parts[0].in_place
    inputs = tuple(Span(-1, 0, lo, lo + 2, slot, 4, layout) for lo in (0, 2))
    finish = MakeBatch(9, 1, keys, inputs, begin=(0,))
    result, output = runner.do(finish)
    assert result.failure is None and output[0][0]["x"].shape == (4, 16)
    room.bytes[70] ^= 4
    result, _ = runner.do(finish)
    assert isinstance(result.failure.error, lk.errors.ChecksumError)


@given(st.data())
def test_any_byte_of_a_sealed_batch_is_covered(data):
    """Rows, and the checksums themselves, by whichever task they were written."""
    layout = BatchLayout(collect([{"a": np.int16(0), "b": np.zeros((3, 2), np.float32)}]).spec(), verify=True)
    rows = data.draw(st.integers(1, 6))
    room = bytearray(data.draw(st.binary(min_size=layout.nbytes(rows), max_size=layout.nbytes(rows))))
    cuts = sorted(data.draw(st.sets(st.integers(1, rows), max_size=3)) | {0, rows})
    for lo, hi in pairwise(cuts):
        layout.seal(room, rows, lo, hi)
    layout.check(room, rows, 0, rows)
    covered = [*range(2 * rows), *range(64, 64 + 24 * rows)]
    seals = layout.nbytes(rows) - 64
    covered += [seals + 8 * lo + k for lo in cuts[:-1] for k in range(8)]
    room[data.draw(st.sampled_from(covered))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(lk.errors.ChecksumError):
        layout.check(room, rows, 0, rows)


@given(st.data())
def test_any_byte_of_a_sealed_parcel_is_covered(data):
    """The pickle, its table, and the arrays beside it, up to the last byte."""
    parcel = OutOfBandPickle([np.arange(1000), "text"], Packer(), verify=True)
    room = bytearray(parcel.nbytes)
    parcel.write(memoryview(room))
    unpack(memoryview(room))
    room[data.draw(st.integers(32, parcel.nbytes - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(lk.errors.ChecksumError):
        unpack(memoryview(room))


def test_verify_is_a_bool():
    """Anything else is refused when the loader is made."""
    with pytest.raises(TypeError, match="verify: expected True or False, got 1"):
        numbers(3, verify=1)
