"""What the pool needs of a worker and of a kind of workers, and the events that a worker reports."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from loaderkit._base.system.dataclasses import dataclass
from loaderkit._engine.dispatcher import Assignment
from loaderkit._engine.progress import Progress
from loaderkit._engine.stats.counters import TaskTrace, WorkerCounters
from loaderkit._engine.task import Discarded, Slot, TaskResult
from loaderkit._runtime.memory.arena import Arena
from loaderkit._runtime.worker.program import Program
from loaderkit._runtime.worker.task_runner import Output


class WorkerReady(NamedTuple):
    """A worker can be given tasks."""


class TaskFinished(NamedTuple):
    """A worker finished a task; `output` is what it made, None where that lies in the arena."""

    task: int
    attempt: int
    result: TaskResult | Discarded
    output: Output | None


class SpaceRequested(NamedTuple):
    """A worker needs memory for the output of a task."""

    task: int
    attempt: int
    nbytes: int


class ReplacementRequested(NamedTuple):
    """A worker asks what to read instead of the bad record of the index `lost`; it tried `tried` others already."""

    task: int
    attempt: int
    lost: int
    tried: int


class SetupFailed(NamedTuple):
    """This worker, and any that would replace it, can't go on: the program can't be set up, or a limit is exhausted."""

    error: Exception


class NumericsKnown(NamedTuple):
    """Which last bits the libraries compute that a worker process loaded for its first task."""

    digests: dict[str, str]


class TasksTraced(NamedTuple):
    """Tasks that a worker has finished, for a timeline. sent: when it told of them, by its own clock."""

    sent: int
    tasks: Sequence[TaskTrace]


Event = (
    NumericsKnown
    | WorkerReady
    | TasksTraced
    | TaskFinished
    | SpaceRequested
    | ReplacementRequested
    | SetupFailed
)


class Worker(Protocol):
    """One worker, of either kind."""

    name: str
    number: int

    def give(self, assignment: Assignment, outputs: dict[int, Slot]) -> None:
        """Gives it a task; `outputs` says where those of the task's inputs lie that are in the arena."""
        ...

    def recall(self, tasks: Sequence[tuple[int, int]]) -> None:
        """Cancels tasks, (task, attempt) each: those that it hasn't begun it reports as finished at once."""
        ...

    def grant_space(self, task: int, attempt: int, slot: Slot | None) -> None:
        """Answers a SpaceRequested: the memory, or None to forget the output."""
        ...

    def send_candidates(self, indices: np.ndarray, keys: np.ndarray) -> None:
        """Answers a ReplacementRequested: the indices to try and their record keys, none where all were tried."""
        ...

    def trace(self, on: bool) -> None:
        """From its next task on it tells of each as TasksTraced, or of none any more."""
        ...

    def progress(self) -> Progress:
        """The worker's progress."""
        ...

    def counters(self, names: Sequence[str]) -> WorkerCounters:
        """What it did so far, and does now; also after its end. names: of the operations."""
        ...

    def doing(self) -> tuple[str, str]:
        """What it does now, in a few words, and its Python stack, "" if it doesn't answer."""
        ...

    def dismiss(self) -> None:
        """Asks it to end after its present task; doesn't wait."""
        ...

    def end(self, timeout: float) -> str:
        """Waits so many seconds for its end, kills a process that hasn't ended then, and says how it ended.

        Returns also if it can't be ended: a thread that is stuck, a process that is inside the kernel.
        """
        ...

    def has_ended(self, timeout: float) -> bool:
        """Whether it has ended; waits so many seconds for it."""
        ...


Tell = Callable[[Worker, Event], None]
Started = Callable[[int, Worker], None]


class Shared(NamedTuple):
    """What the workers of a pool are given.

    arena: the loader's memory. objects: the outputs in this process, by task. tell: called with (worker, event) by
    workers that aren't heard through descriptors, in a thread of theirs.
    """

    arena: Arena
    objects: dict[int, Output]
    tell: Tell


@dataclass(frozen=True, slots=True)
class WorkerKind:
    """A kind of worker.

    name: "process" or "thread". waits_on_descriptors: whether its workers are ProcessWorkers, which are heard
    through descriptors, and can be killed; others call `Shared.tell`.
    end_seconds: for all workers of a pool together to end by themselves.
    start: starts the worker of a number, and calls the last argument with both as soon as it may report; an OSError,
    RuntimeError or MemoryError where the system refuses.
    runs: whether its workers, as they were told to start, run a program.
    """

    name: str
    waits_on_descriptors: bool
    end_seconds: float
    start: Callable[[Shared, int, Started], Worker]
    runs: Callable[[Program], bool]
