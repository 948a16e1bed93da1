"""The calling thread as the worker: no process, no shared memory, and no thread but those that read ahead."""

import os
import threading
from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from loaderkit._base.system.resources import processor_times
from loaderkit._engine.dispatcher import Assignment
from loaderkit._engine.scheduler import Records, Replacement
from loaderkit._engine.stats.counters import STARVING, PoolCounters, WorkerCounters
from loaderkit._engine.task import Discarded, MakeBatch
from loaderkit._runtime.worker.meter import Meter, counters
from loaderkit._runtime.worker.program import Program
from loaderkit._runtime.worker.task_runner import Output, TaskRunner

from .executor import Executor, NextResult

if TYPE_CHECKING:
    from loaderkit._runtime.feeder.feeder import Feeder


class _InlineContext:
    """How a task that the calling thread runs reaches earlier outputs, and asks for replacements.

    It isn't the executor itself, which would form a cycle of references with the task runner.
    """

    def __init__(self, objects: dict[int, Output]) -> None:
        self._objects = objects
        self.replacement: Replacement | None = None  # for the task that runs

    def token(self, slot: Any) -> Any:
        """Never called: there is no arena."""
        raise TypeError("an InlineExecutor has no slots")

    def output(self, task: int, *, private: bool) -> Output:
        """What an earlier task made."""
        return self._objects[task]

    def candidates(self, index: int, tried: int) -> Records:
        """What to read instead of a bad record of the task that runs."""
        assert self.replacement is not None
        return self.replacement(index, tried)


class InlineExecutor(Executor):
    """Runs tasks in the thread that calls next(): nothing is shared, and nothing is made ahead.

    Small batches, and elements without a Batch, are made several at a time, as many as take a few milliseconds. Where
    records are read ahead, the next tasks are assigned before they are done, so that threads read for them meanwhile.

    Args:
        program: what is run.
        task_rows: rows of a task, None to adapt.
        feeder: as Executor says.
    """

    def __init__(self, program: Program, *, task_rows: int | None, feeder: "Feeder | None" = None) -> None:
        super().__init__(program, task_rows=task_rows, feeder=feeder)
        self._task_context = _InlineContext(self._objects)
        self._meter = Meter()
        self._runner = TaskRunner(program, self._task_context, self._meter, next_phase=STARVING)
        self._meter.enter(STARVING)
        self._assigned: deque[Assignment] = deque()  # not begun; MakeBatch tasks come first
        self._thread: int | None = None  # that did the first task
        self._times_before: tuple[int, int] | None = None  # those of its processors until then
        self._told_delayed = 0
        self._dispatcher.ready(0)

    def next(self, stream: int) -> NextResult:
        with self.lock:
            self.check()
            self._check_open(stream)
            while True:
                self.poisoned = True
                self.close_abandoned()
                result = self._pop(stream)
                if result is None or self._runner.reader.reads_ahead:
                    self._assign_tasks()
                if result is None and self._assigned:  # else the plan has ended, and the next _pop says so
                    self._work(self._assigned.popleft(), stream)
                self.poisoned = False
                if result is not None:
                    return result

    def _assign_tasks(self) -> None:
        """Takes the next task, and all that there is room for where their records are read ahead."""
        reader = self._runner.reader
        while not self._assigned or reader.reads_ahead:
            assignment = self._dispatcher.assign()
            if assignment is None:
                return
            if isinstance(assignment.task, MakeBatch):
                batches = sum(isinstance(other.task, MakeBatch) for other in self._assigned)
                self._assigned.insert(batches, assignment)
            else:
                self._assigned.append(assignment)
                if reader.reads_ahead:
                    reader.begin(assignment.task.id, assignment.task.keys)

    def _recall(self, tasks: Mapping[Hashable, Sequence[tuple[int, int]]]) -> None:
        recalled = set(tasks.get(0, ()))
        mine, self._assigned = self._assigned, deque()
        for assignment in mine:
            task, attempt = assignment.task.id, assignment.attempt
            if (task, attempt) not in recalled:
                self._assigned.append(assignment)
                continue
            self._runner.reader.forget(task)
            self._dispatcher.done(0, task, attempt, Discarded())

    def _work(self, assignment: Assignment, stream: int) -> None:
        task, worked = assignment.task, self._meter.worked
        self._task_context.replacement = partial(self._dispatcher.replacement, 0, task.id, assignment.attempt)
        if self._thread is None:
            self._thread = threading.get_native_id()
            self._times_before = processor_times(os.getpid(), self._thread)
        try:
            self.poisoned = False
            result, output = self._runner.do(task)
            if self._meter.traced:
                self.add_tasks("tasks", self._meter.take_traced())
        except BaseException:
            # Ctrl-C in the user's code: the task runs again at the next next().
            self.poisoned = True
            # A batch_fn may have written to its rows, so they are made anew, in another executor.
            if not isinstance(task, MakeBatch):
                for other in self._assigned:
                    self._runner.reader.forget(other.task.id)
                self._assigned.clear()
                self._dispatcher.take_back(0, "interrupted")
                self._dispatcher.ready(0)
                self.poisoned = False
            raise
        finally:
            self._count_blocked(stream, self._meter.worked - worked)
        self.poisoned = True
        self._objects[task.id] = output
        self._dispatcher.done(0, task.id, assignment.attempt, result)
        self._free_released()

    def _trace_workers(self, on: bool) -> None:
        self._meter.trace(on)

    def statistics(self) -> PoolCounters:
        names = self.program.operation_names
        counted = counters(self._meter.cells, 0, "inline", names)
        counted = replace(counted, delayed=self._delayed(counted.cpu))
        return self._pool_counters([counted], WorkerCounters(), [counted])

    def _delayed(self, cpu: int | None) -> int | None:
        """The tasks' part of the thread's waits for a processor: as their part of its time on one."""
        times = None if self._thread is None else processor_times(os.getpid(), self._thread)
        if cpu is None or times is None or self._times_before is None:
            return None
        on_processor, delayed = (now - before for now, before in zip(times, self._times_before, strict=True))
        self._told_delayed = max(self._told_delayed, int(delayed * min(1.0, cpu / max(on_processor, 1))))
        return self._told_delayed

    def shut_down(self) -> None:
        """Ends the reading threads and the feeder, if there are any."""
        self.closed = True
        self._runner.reader.close()
        if self._feeder is not None:
            self._feeder.shut_down()
