"""A worker in a thread of the trainer."""

import contextlib
import os
import queue
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from loaderkit._base.notes import repr_of
from loaderkit._base.system.resources import processor_times
from loaderkit._engine.dispatcher import Assignment
from loaderkit._engine.in_flight import before, record_number
from loaderkit._engine.progress import Progress
from loaderkit._engine.stats.counters import STARVING, TELLING, WAITING, WORKING, WorkerCounters
from loaderkit._engine.task import Discarded, MakeBatch, Slot, Task, TaskResult, failed, with_failure
from loaderkit._order.facts import Failure
from loaderkit._runtime.worker.bad_record_handler import NO_RECORD
from loaderkit._runtime.worker.meter import Meter, counters
from loaderkit._runtime.worker.program import Program
from loaderkit._runtime.worker.task_runner import Output, TaskRunner
from loaderkit.errors import WorkerError

from .worker import (
    ReplacementRequested,
    SetupFailed,
    Shared,
    Started,
    TaskFinished,
    TasksTraced,
    Worker,
    WorkerKind,
    WorkerReady,
)

_END_SECONDS = 1.0  # to end by themselves: longer than processes get, as threads can't be killed


class ThreadWorker:
    """A thread of the trainer.

    Args:
        program: what it runs; its operations are shared with other threads, their generators aren't.
        arena: the loader's memory.
        objects: the outputs in this process.
        tell: called with (worker, event), in the thread.
        number: of the worker.
    """

    def __init__(self, program: Program, shared: Shared, number: int) -> None:
        self.number = number
        self._program = program
        self._arena, self._objects, self._tell = shared
        self._progress = Progress()
        self._meter = Meter()
        self._wait_beats = 0  # how often it said that it waits, and isn't stuck: that is progress too
        self._tasks: queue.SimpleQueue[Assignment | None] = queue.SimpleQueue()
        self._dismissed = False
        self._recalled: set[tuple[int, int]] = set()  # (task, attempt), cancelled
        self._assignment: Assignment | None = None  # the present one
        self._candidates = (np.empty(0, np.int64), np.empty(0, np.int64))
        self.name = f"worker thread {number}"
        self._thread = threading.Thread(target=self._run, name=f"loaderkit-worker-{number}", daemon=True)

    def start(self) -> None:
        """Starts the thread. It reports at once, so the pool must know its number by then."""
        self._thread.start()

    def give(self, assignment: Assignment, outputs: dict[int, Slot]) -> None:
        self._tasks.put(assignment)

    def recall(self, tasks: Sequence[tuple[int, int]]) -> None:
        self._recalled.update(tasks)

    def grant_space(self, task: int, attempt: int, slot: Slot | None) -> None:
        raise AssertionError("the outputs of a thread need no space in the arena")

    def send_candidates(self, indices: np.ndarray, keys: np.ndarray) -> None:
        self._candidates = indices, keys

    def dismiss(self) -> None:
        self._dismissed = True
        self._tasks.put(None)

    def end(self, timeout: float) -> str:
        return "ended" if self.has_ended(timeout) else "still running"

    def has_ended(self, timeout: float) -> bool:
        self._thread.join(timeout=timeout)
        return not self._thread.is_alive()

    def trace(self, on: bool) -> None:
        self._meter.trace(on)

    def progress(self) -> Progress:
        progress = self._progress
        return replace(progress, beats=progress.beats + self._wait_beats)

    def counters(self, names: Sequence[str]) -> WorkerCounters:
        times = processor_times(os.getpid(), self._thread.native_id)
        delayed = None if times is None else times[1]
        counted = counters(self._meter.cells, self.number, "thread", names)
        return replace(counted, task=self._progress.task, delayed=delayed)

    def doing(self) -> tuple[str, str]:
        frame = sys._current_frames().get(self._thread.ident or 0)
        if frame is None:
            return "it has ended", ""
        return "it runs, or waits", "".join(traceback.format_stack(frame)).rstrip()

    def token(self, slot: Slot) -> Any:
        """An object over the slot's bytes."""
        return self._arena.token(slot)

    def output(self, task: int, *, private: bool) -> Output:
        """What an earlier task made."""
        return self._objects[task]

    def candidates(self, index: int, tried: int) -> tuple[np.ndarray, np.ndarray]:
        """What to read instead of a bad record of the present task."""
        assert self._assignment is not None
        # A fenced worker gets no answer, and has none to try.
        self._candidates = (np.empty(0, np.int64), np.empty(0, np.int64))
        self._beat()  # waiting for the trainer isn't held against it
        self._meter.enter(WAITING)
        self._tell(
            self, ReplacementRequested(self._assignment.task.id, self._assignment.attempt, index, tried)
        )
        self._meter.enter(WORKING)
        self._beat()
        return self._candidates  # set by `send_candidates`, which was called in this thread

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - any error must reach the trainer
            self._tell(
                self, SetupFailed(error if isinstance(error, Exception) else WorkerError(repr_of(error)))
            )

    def _work(self) -> None:
        self._program.arithmetic.apply()
        runner = TaskRunner(self._program, self, self._meter)
        runner.reader.tell_of_waits(self._beat)
        self._meter.enter(TELLING)
        self._tell(self, WorkerReady())
        waiting: deque[Assignment] = deque()
        while self._take_in(waiting, runner):
            self._assignment = assignment = waiting.popleft()
            attempt = (assignment.task.id, assignment.attempt)
            result: TaskResult | Discarded = Discarded()
            output: Output = []
            if attempt in self._recalled:
                runner.reader.forget(assignment.task.id)
            else:
                self._at(assignment.task.id, None)
                result, output = self._done(runner, assignment)
                self._at(None, None)
            if self._meter.traced:
                self._tell(self, TasksTraced(time.perf_counter_ns(), self._meter.take_traced()))
            self._tell(self, TaskFinished(*attempt, result, output))
            self._recalled.discard(attempt)  # it was reported
            del result, output, assignment
        runner.reader.close()

    def _take_in(self, waiting: deque[Assignment], runner: TaskRunner) -> bool:
        """Takes all assignments that came, waits for one at least, and starts to read for them. False: end."""
        if not waiting:
            self._meter.enter(STARVING)
            first = self._tasks.get()
            self._meter.enter(TELLING)
            if first is not None:
                waiting.append(first)
        with contextlib.suppress(queue.Empty):
            while (assignment := self._tasks.get_nowait()) is not None:
                batches = sum(isinstance(other.task, MakeBatch) for other in waiting)
                reads = not isinstance(assignment.task, MakeBatch)
                # first the tasks that make a batch
                waiting.insert(len(waiting) if reads else batches, assignment)
        if self._dismissed:
            return False
        for assignment in waiting:
            task = assignment.task
            wanted = (task.id, assignment.attempt) not in self._recalled
            if wanted and not isinstance(task, MakeBatch) and not assignment.suspect:
                runner.reader.begin(task.id, task.keys)
        return True

    def _at(self, task: int | None, index: int | None, instead: tuple[int, int] | None = None) -> None:
        self._progress = Progress(task, index, self._progress.beats + 1, instead)

    def _beat(self) -> None:
        self._wait_beats += 1

    def _done(self, runner: TaskRunner, assignment: Assignment) -> tuple[TaskResult, Output]:
        task = assignment.task

        def on_record_start(index: int, instead: tuple[int, int] | None = None) -> None:
            self._at(task.id, None if index == NO_RECORD else index, instead)

        try:
            return runner.do(task, on_record_start if assignment.suspect else None)
        except BaseException as error:  # noqa: BLE001 - sys.exit in a transform must not end the thread silently
            if isinstance(task, MakeBatch):  # its rows may have been written to: there is no second time
                return failed(task, _would_have_ended(error, task, Progress())), []
        try:
            # As after the death of a process: once more, and record by record, so that it can be named.
            return runner.do(task, on_record_start)
        except BaseException as error:  # noqa: BLE001 - as above
            rest, target = before(task, self._progress.index)
            failure = _would_have_ended(error, task, self._progress)
        try:
            if not len(rest.indices):
                return failed(task, failure, target), []
            result, output = runner.do(rest)
        except BaseException as error:  # noqa: BLE001 - another error: its record isn't known
            return failed(task, _would_have_ended(error, task, Progress())), []
        return result if result.failure is not None else with_failure(result, failure, target), output


def thread_kind(program: Program) -> WorkerKind:
    """Threads of the trainer, which run the program itself."""

    def start(shared: Shared, number: int, started: Started) -> Worker:
        worker = ThreadWorker(program, shared, number)
        started(number, worker)  # first: the thread may report at once
        worker.start()
        return worker

    return WorkerKind(
        name="thread",
        waits_on_descriptors=False,
        end_seconds=_END_SECONDS,
        start=start,
        runs=lambda other: True,
    )


def _would_have_ended(error: BaseException, task: Task, progress: Progress) -> Failure:
    index = progress.index
    at = slice(None) if index is None else slice(first := record_number(task, index), first + 1)
    keys = () if isinstance(task, MakeBatch) else tuple(task.keys[at].tolist())
    where = ""
    if progress.instead is not None:
        candidate, key = progress.instead
        keys, where = (key,), f" at index {candidate} (record_key {key}), read instead of a bad one"
    ended = WorkerError(f"a transform would have ended its worker{where}: {repr_of(error)}")
    ended.__cause__ = error
    ended.indices, ended.record_keys = tuple(task.indices[at].tolist()), keys
    return Failure(ended, "the worker", ended.indices)
