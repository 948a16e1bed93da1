"""A worker as the pump sees it: something to give assignments to, and what it says of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from loaderkit._engine.dispatcher import Assignment
from loaderkit._engine.task import Report, Slot
from loaderkit._runtime.worker.heartbeat import Progress
from loaderkit._runtime.worker.task_runner import Output


@dataclass(frozen=True, slots=True)
class WorkerReady:
    """A worker can be given tasks."""


@dataclass(frozen=True, slots=True)
class TaskFinished:
    """A worker is through with a task; `output` is what it made, None where that lies in the arena."""

    task: int
    attempt: int
    report: Report
    output: Output | None


@dataclass(frozen=True, slots=True)
class SpaceRequested:
    """A worker needs room for an output."""

    task: int
    attempt: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class ReplacementRequested:
    """A worker asks what to read instead of a bad record, and tried so many already."""

    task: int
    attempt: int
    index: int
    tried: int


@dataclass(frozen=True, slots=True)
class SetupFailed:
    """A worker can't run the program at all."""

    error: Exception


Event = WorkerReady | TaskFinished | SpaceRequested | ReplacementRequested | SetupFailed


class Worker(Protocol):
    """One worker, of either kind."""

    name: str

    def give(self, assignment: Assignment, outputs: dict[int, Slot]) -> None:
        """Hands it a task; `outputs` says where the inputs lie that are in the arena."""
        ...

    def recall(self, tasks: Sequence[tuple[int, int]]) -> None:
        """Of these, (task, attempt) each, it says at once that they are done, if it hasn't begun them."""
        ...

    def place(self, task: int, attempt: int, slot: Slot | None) -> None:
        """Answers what it asked: room, or None to forget the output."""
        ...

    def suggest(self, indices: np.ndarray, keys: np.ndarray) -> None:
        """Answers a ReplacementRequested: the indices to try and their record keys, none where all were tried."""
        ...

    def progress(self) -> Progress:
        """Where it is."""
        ...

    def doing(self) -> tuple[str, str]:
        """What is known of what it is doing, in a few words, and its Python stack if it can answer."""
        ...

    def dismiss(self) -> None:
        """Tells it to go; doesn't wait."""
        ...

    def end(self, timeout: float) -> str:
        """Returns when it has ended, and how: a process by force, if it doesn't go in so many seconds.

        Nor does it wait for what can't be ended: a thread that is stuck, a process that is inside the kernel.
        """
        ...
