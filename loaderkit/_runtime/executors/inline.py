"""The calling thread as the worker: no process, no thread, no shared memory."""

from functools import partial
from typing import Any

from loaderkit._engine.dispatcher import Assignment
from loaderkit._engine.scheduler import Records, Replacement
from loaderkit._engine.task import MakeBatch
from loaderkit._runtime.worker.program import Program
from loaderkit._runtime.worker.task_runner import Output, TaskRunner

from .executor import Executor, NextResult


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
    """Runs tasks in the thread that calls next(): nothing is shared or started, and nothing is made ahead.

    Small batches, and elements without a Batch, are made several at a time, as many as take a few milliseconds.

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
        self._task_context = _InlineContext(self._objects)
        self._runner = TaskRunner(program, self._task_context)
        self._dispatcher.ready(0)

    def next(self, stream: int) -> NextResult:
        with self.lock:
            self.check()
            self._check_open(stream)
            while True:
                self.poisoned = True
                self._close_abandoned()
                result = self._pop(stream)
                assignment = None if result is not None else self._dispatcher.assign()
                if assignment is not None:  # otherwise the plan has ended, and the next _pop says so
                    self._work(assignment)
                self.poisoned = False
                if result is not None:
                    return result

    def _work(self, assignment: Assignment) -> None:
        task = assignment.task
        self._task_context.replacement = partial(self._dispatcher.replacement, 0, task.id, assignment.attempt)
        try:
            self.poisoned = False
            result, output = self._runner.do(task)
        except BaseException:
            # Ctrl-C in the user's code: the task runs again at the next next().
            self.poisoned = True
            # A batch_fn may have written to its rows, so they are made anew, in another executor.
            if not isinstance(task, MakeBatch):
                self._dispatcher.take_back(0, "interrupted")
                self._dispatcher.ready(0)
                self.poisoned = False
            raise
        self.poisoned = True
        self._objects[task.id] = output
        self._dispatcher.done(0, task.id, assignment.attempt, result)
        self._free_released()

    def shut_down(self) -> None:
        """Ends the reading threads, if there are any."""
        self.closed = True
        self._runner.reader.close()
