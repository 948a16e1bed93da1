"""What the pool tells the supervisor of a worker, and what the supervisor decides. Frozen values, without behaviour."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .stall_watch import Stall
from .task import Task


@dataclass(frozen=True, slots=True)
class Progress:
    """The present work of a worker.

    task: None for none. index: of the record, None where the worker doesn't report single records. beats: a counter
    that changes whenever the worker makes progress. instead: index and record key that it reads in place of a bad
    record.
    """

    task: int | None = None
    index: int | None = None
    beats: int = 0
    instead: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class WorkerSnapshot:
    """A worker at one moment: its assigned tasks, oldest first, and its progress."""

    tasks: Sequence[Task]
    progress: Progress

    @property
    def begun(self) -> Task | None:
        """The task that it works on; None if on none, or on one that was taken from it."""
        return next((task for task in self.tasks if task.id == self.progress.task), None)


@dataclass(frozen=True, slots=True)
class StartWorker:
    """Start a worker, and give it this number."""

    number: int


@dataclass(frozen=True, slots=True)
class StallWarning:
    """Log that a worker made no progress.

    ready     whether it is ready for tasks
    snapshot  what it has, and where it is
    """

    stall: Stall
    ready: bool
    snapshot: WorkerSnapshot


@dataclass(frozen=True, slots=True)
class KillWorker:
    """Kill a process; don't wait for its end."""

    number: int


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """Tell the dispatcher that a worker is lost, by `take_back`, if `fenced` after `fence`; log it.

    fenced    it may still write; tell it to begin nothing more
    reason    what is known of why
    snapshot  what it had, and where it was
    begun     the task that its loss is put down to, None if none
    retry     whether that task may be done again
    late      whether it was ended because it took too long
    """

    number: int
    fenced: bool
    reason: str
    snapshot: WorkerSnapshot
    begun: Task | None
    retry: bool
    late: bool


@dataclass(frozen=True, slots=True)
class DropTasks:
    """Tell the dispatcher that a worker ended because the pool is being closed; don't log it."""

    number: int


@dataclass(frozen=True, slots=True)
class ReleaseSlots:
    """Tell the dispatcher that a fenced worker can't write any more."""

    number: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Start no more workers, and raise an error in every iterator.

    cause   "failed starts": `count` workers in a row died before any got ready, the last for this reason
            "fruitless": `count` ready workers in a row died and no task was finished, the last for this reason
            "late start": a worker didn't get ready in time
    """

    cause: Literal["failed starts", "fruitless", "late start"]
    count: int
    reason: str


Decision = StallWarning | KillWorker | WorkerLost | DropTasks | ReleaseSlots | GiveUp
