"""What a scheduler is: one open stream, which the dispatcher asks for tasks and gives their results.

`RowScheduler` serves pipelines whose every row has a place before it is read: batches whose rows several workers write
at once. `StreamScheduler` serves the others, elements without a Batch among them: runs of elements in order, regrouped
by what is there. `RoundRobinScheduler` (interop/grain/_round_robin_scheduler.py) lets several of them take turns.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from loaderkit._base.system.dataclasses import dataclass

from .outputs import Outputs
from .pace import Pace
from .slots import Slots
from .task import Outcome, Ready, Slot, Task, TaskResult

Records = tuple[np.ndarray, np.ndarray]  # indices and record keys, (n,) int64 each
Replacement = Callable[[int, int], Records]  # as `Scheduler.replacement`
NO_RECORDS: Records = (np.empty(0, np.int64), np.empty(0, np.int64))


def no_replacement(index: int, tried: int) -> Records:
    """The replacement of a stream whose bad records are errors: it is never asked."""
    raise AssertionError("a bad record of this stream is raised")


class Scheduler(Protocol):
    """One open stream."""

    def next_task(self) -> Task | None:
        """The next task; None while nothing may or need be begun.

        MemoryError where there is no room for it: nothing has changed, a later call makes the same task.
        """
        ...

    def done(self, task: Task, result: TaskResult) -> int:
        """Takes in the result of a task of this stream, once; returns how many uses its output has."""
        ...

    def replacement(self, index: int, tried: int) -> Records:
        """What may be read instead of the bad record of an index, after so many were tried; empty after the last.

        A call back up: the plan answers it, and may ask the user's sampler.
        """
        ...

    def pop(self) -> Outcome | None:
        """What to hand to the iterating user next, in order; None while it isn't there yet.

        Called when all that it returned before was used: only then does that count as handed out.
        """
        ...

    def due(self) -> bool:
        """Whether `pop` might return something; it returns None where this is False. Changes nothing."""
        ...

    def delivered(self, ready: Ready) -> None:
        """The elements of an output that `pop` named were handed out: that use is over."""
        ...

    def owned(self) -> tuple[list[Slot], list[int]]:
        """Slots that this stream took and outputs that it still needs: what a close has to give back."""
        ...


@dataclass(frozen=True, slots=True)
class SchedulerContext:
    """What the schedulers of one executor share.

    slots      where batches are written in place; None where the one worker is the trainer itself
    reserves   whether outputs lie in the arena too, so that room for them is reserved with a task
    bulk       whether `pop` may return several ready batches at once
    new_id     returns the next task id
    follow     takes the feeds of a new stream and the sampler's next uses, and gives feeds that tell a loader's feeder
               how far they are; None where there is no feeder
    """

    slots: Slots | None
    reserves: bool
    bulk: bool
    outputs: Outputs
    pace: Pace
    new_id: Callable[[], int]
    follow: Callable[[Sequence[Any], Any], Sequence[Any]] | None = None


# Of the output of a task of several rows, so that rows are made while earlier ones are sent. Arrays of 32 MiB from one
# worker came at 0.5 GiB/s without this limit (and with slots that couldn't be reused), at 9.4 with it.
TASK_NBYTES = 16 << 20
# Of what is made ahead, unless prefetch or two tasks for each worker need more: a bound on memory. Without it 29
# batches of 9.6 MB were on their way, with it 7.
AHEAD_NBYTES = 64 << 20
_FIRST_RESERVE = 1 << 16  # bytes: enough for small rows; the first larger one requests space


class Reserve:
    """How much room to reserve for the output of a task, learned from what earlier ones took."""

    def __init__(self, context: SchedulerContext) -> None:
        self._context = context
        self._row_nbytes: float | None = None

    def slot(self, rows: int) -> Slot | None:
        """Room for the output of a task of so many rows, None where outputs need none."""
        if not self._context.reserves or self._context.slots is None:
            return None
        wanted = _FIRST_RESERVE if self._row_nbytes is None else int(1.125 * self._row_nbytes * rows) + 4096
        return self._context.slots.alloc(wanted)

    def rows_in(self, nbytes: int) -> int | None:
        """How many rows' outputs fit in so much room, None while that isn't known."""
        return None if not self._row_nbytes else int(nbytes / self._row_nbytes)

    def task_rows(self, batch: int) -> int:
        """Rows of a next task: what the pace says, or as many as make an output of TASK_NBYTES; one at least."""
        rows, fits = self._context.pace.rows(batch), self.rows_in(TASK_NBYTES)
        return rows if fits is None else max(1, min(rows, fits))

    def saw(self, rows: int, nbytes: int) -> None:
        """Takes in that an output of so many rows took so much room; large ones are forgotten slowly."""
        each = nbytes / max(rows, 1)
        self._row_nbytes = each if self._row_nbytes is None else max(each, 0.95 * self._row_nbytes)
