"""What the pool and its pump know of a kind of worker."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from loaderkit._runtime.memory.arena import Arena
from loaderkit._runtime.worker.program import Program
from loaderkit._runtime.worker.task_runner import Output

from .worker import Event, Worker

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

    name: "process" or "thread". waits_on_descriptors: whether its workers are DescriptorWorkers, which are heard and
    killed through descriptors; others call `Shared.tell`. killable: whether a worker can be ended in mid-task.
    end_seconds: for all workers of a pool together to end by themselves.
    start: starts the worker of a number, and calls the last argument with both as soon as it may report; an OSError,
    RuntimeError or MemoryError where the system refuses.
    runs: whether its workers, as they were told to start, run a program.
    """

    name: str
    waits_on_descriptors: bool
    killable: bool
    end_seconds: float
    start: Callable[[Shared, int, Started], Worker]
    runs: Callable[[Program], bool]
