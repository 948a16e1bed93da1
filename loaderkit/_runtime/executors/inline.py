"""The trainer's own process as the worker: no process, no thread, no shared memory."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from loaderkit._engine.dispatcher import Assignment
from loaderkit._runtime.worker.program import Program
from loaderkit._runtime.worker.task_runner import Output, TaskRunner

from .executor import Executor, NextResult


class _InlineMemory:
    """How the trainer's own work reaches what lies outside of it.

    It isn't the executor itself: that would be in a cycle of references with the task runner.
    """

    def __init__(self, objects: dict[int, Output]) -> None:
        self._objects = objects
        self.replacement: Callable[[int, int], tuple[np.ndarray, np.ndarray]] | None = (
            None  # of the present task
        )

    def token(self, slot: Any) -> Any:
        """There are no slots here."""
        raise TypeError("the trainer's own work has no slots")

    def output(self, task: int, *, private: bool) -> Output:
        """What an earlier task made; it is made again if need be, and taken once."""
        return self._objects[task]

    def candidates(self, index: int, tried: int) -> tuple[np.ndarray, np.ndarray]:
        """What to read instead of a bad record of the task that is worked on."""
        assert self.replacement is not None
        return self.replacement(index, tried)


class InlineExecutor(Executor):
    """The trainer works itself: nothing is shared, nothing is started, a batch is made when it is asked for.

    Small batches, and elements without a Batch, are made some at a time, as many as take a few milliseconds.

    Args:
        program: what is run.
        task_rows: rows of a task, None to adapt.
    """

    def __init__(self, program: Program, *, task_rows: int | None) -> None:
        super().__init__(
            program,
            workers=0,
            arena=None,
            reserves=False,
            max_memory=None,
            max_restarts=0,
            task_rows=task_rows,
        )
        self._memory = _InlineMemory(self._objects)
        self._runner = TaskRunner(program, self._memory)
        self._dispatcher.ready(0)

    def next(self, stream: int) -> NextResult:
        with self.lock:
            self.check()
            self._check_open(stream)
            while True:
                self.poisoned = True
                self._sweep()
                step = self._pop(stream)
                assignment = None if step is not None else self._dispatcher.assign()
                if assignment is not None:  # else the plan has just said that there is no more
                    self._work(assignment)
                self.poisoned = False
                if step is not None:
                    return step

    def _work(self, assignment: Assignment) -> None:
        task = assignment.task
        self._memory.replacement = partial(self._dispatcher.replacement, 0, task.id, assignment.attempt)
        try:
            self.poisoned = False
            report, output = self._runner.do(task)
        except BaseException:
            # Ctrl-C in the middle of the user's code: the task is done again when the next element is asked for.
            self.poisoned = True
            # At a higher level its rows may have been written to: they have to be made anew, in another executor.
            if not task.level:
                self._dispatcher.died(0, "interrupted")
                self._dispatcher.ready(0)
                self.poisoned = False
            raise
        self.poisoned = True
        self._objects[task.id] = output
        self._dispatcher.done(0, task.id, assignment.attempt, report)
        self._let_go()

    def shut_down(self) -> None:
        """Ends the reading threads, if there are any; nothing is made any more."""
        self.shut = True
        self._runner.reader.close()
