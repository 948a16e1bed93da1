"""What one worker makes of one task, without a loader: errors in their place, each loss once, memory of its own."""

import weakref
from collections import deque
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import loaderkit as lk
from loaderkit._engine.task import BatchMade, Discarded, MakeBatch, ReadRows, Slot, Span, Target
from loaderkit._runtime.transport.out_of_band import OutOfBandPickle
from loaderkit._runtime.transport.pickling import Packer
from loaderkit._runtime.worker.main import _Worker
from loaderkit._runtime.worker.meter import Meter
from loaderkit._runtime.worker.program import Program
from loaderkit._runtime.worker.reading import ReadOptions
from loaderkit._runtime.worker.task_runner import TaskRunner


class Source:
    """Records are their keys; one fails."""

    def __init__(self, bad: int) -> None:
        self.bad = bad

    def __len__(self) -> int:
        return 40

    def __getitem__(self, key: int) -> int:
        if key == self.bad:
            raise OSError(f"{key} is down")
        return key


class Alone:
    """A worker without a trainer: what is read instead of a bad record are those behind it."""

    def candidates(self, index: int, tried: int) -> tuple[np.ndarray, np.ndarray]:
        found = np.arange(index + tried + 1, index + tried + 2)
        return found, found


def runner_of(source: Any, *operations: Any, policy: Any = "raise") -> TaskRunner:
    program = Program(source, operations, None, ReadOptions(), False, on_record_error=policy)
    return TaskRunner(program, Alone(), Meter())  # type: ignore[arg-type]


def batches_of(count: int, rows: int) -> ReadRows:
    """A task of so many whole batches, in one target for each."""
    keys = np.arange(count * rows)
    return ReadRows(1, keys, keys, tuple(Target(rows, rows, 0, None, True) for _ in range(count)))


@given(bad=st.integers(0, 11), rows=st.sampled_from([1, 2, 3, 4, 6]))
def test_an_error_comes_in_its_own_batch_and_not_in_one_before(bad: int, rows: int) -> None:
    """All records of a task are read at once, and the batches before the one that fails are whole."""
    runner = runner_of(Source(bad), lk.Map(abs), lk.Batch(rows))
    result, output = runner.do(batches_of(12 // rows, rows))
    assert result.failure is not None and str(result.failure.error) == f"{bad} is down"
    assert result.failed_target == len(result.parts) == bad // rows
    assert [batch.tolist() for part in output for batch in part] == [
        [*range(first, first + rows)] for first in range(0, bad // rows * rows, rows)
    ]


def test_a_loss_counts_once_where_its_task_was_interrupted_and_is_done_again() -> None:
    """Ctrl-C without workers, or sys.exit in a thread: what was lost by then is lost again, and told then."""
    interrupts = [KeyboardInterrupt()]

    def interrupted(key: int) -> int:
        if key == 5 and interrupts:
            raise interrupts.pop()
        return key

    runner = runner_of(Source(2), lk.Map(interrupted), lk.Batch(4), policy="replace")
    with pytest.raises(KeyboardInterrupt):
        runner.do(batches_of(2, 4))
    result, _ = runner.do(batches_of(2, 4))
    assert [(loss.index, loss.instead) for loss in result.losses] == [(2, 3)]


class Holding(Alone):
    """Also holds an output of four rows."""

    def output(self, task: int, *, private: bool) -> list[list[Any]]:
        return [[{"x": np.arange(3)} for _ in range(4)]]


def test_a_batch_of_the_last_level_says_what_its_rows_look_like() -> None:
    """Later ones are then written in place; an inner Batch's rows say nothing of them."""
    program = Program(Source(-1), (lk.Batch(4), lk.Map(dict), lk.Batch(4)), None, ReadOptions(), False)
    runner = TaskRunner(program, Holding(), Meter())  # type: ignore[arg-type]
    layouts = []
    for level in (1, 2):
        result, _ = runner.do(MakeBatch(7, level, np.arange(4), (Span(3, 0, 0, 4),), (0,)))
        assert isinstance(result, BatchMade) and result.failure is None
        layouts.append(result.layout)
    assert layouts[0] is None
    assert layouts[1] is not None and layouts[1].nbytes(4) >= 4 * 3 * 8


class Arena:
    """Memory that is written to again once its batch is gone."""

    def __init__(self, content: Any) -> None:
        packed = OutOfBandPickle(content, Packer())
        self.slot = Slot(0, packed.nbytes, 0, packed.nbytes)
        self.bytes = bytearray(packed.nbytes)
        packed.write(memoryview(self.bytes))

    def token(self, slot: Slot) -> memoryview:
        return memoryview(self.bytes)[slot.offset : slot.offset + slot.nbytes]


def test_a_private_output_stays_as_it_is_when_its_memory_is_used_again() -> None:
    """What a worker hands to a user's function must be no view of memory that other batches get."""
    content = [[{"x": np.arange(5000)}]]
    arena = Arena(content)
    worker = SimpleNamespace(_opened={}, _places={3: arena.slot}, _arena=arena)
    made: Any = _Worker.output(worker, 3, private=True)  # type: ignore[arg-type]
    arena.bytes[:] = b"\xff" * len(arena.bytes)
    assert made[0][0]["x"].tolist() == [*range(5000)]


def test_what_was_read_ahead_for_recalled_tasks_is_let_go_and_the_others_stay_in_order() -> None:
    """A closed iterator's tasks: their records would stay in the worker, and its reading threads be busy with them."""
    forgotten: list[int] = []
    said: list[tuple[int, int, Any]] = []
    worker = SimpleNamespace(
        _tasks=deque((SimpleNamespace(id=n), 0, False, {}) for n in range(4)),
        _runner=SimpleNamespace(reader=SimpleNamespace(forget=forgotten.append)),
        _done=lambda *what: said.append(what),
    )
    _Worker._drop(worker, {(1, 0), (2, 7), (3, 0)})  # type: ignore[arg-type]
    assert [task.id for task, *_ in worker._tasks] == [0, 2]
    assert forgotten == [1, 3]
    assert said == [(1, 0, Discarded()), (3, 0, Discarded())]


def test_records_that_a_batch_was_made_of_are_let_go_before_it_is_stacked() -> None:
    """Where an operation made rows of them: a batch_fn finds those of later batches only."""
    alive: weakref.WeakSet[Any] = weakref.WeakSet()

    class Image:
        pass

    class Images:
        def __len__(self) -> int:
            return 6

        def __getitem__(self, key: int) -> Image:
            image = Image()
            alive.add(image)
            return image

    counted = lk.Batch(3, batch_fn=lambda rows: len(alive))
    _, output = runner_of(Images(), lk.Map(lambda image: 1), counted).do(batches_of(2, 3))
    assert output == [[3], [0]]
