"""One step in the making; or several whole ones that one task makes together, where no batch is written in place.

    open       some rows are not assigned yet
    filling    all rows are assigned, some are not done
    finishing  a task looks at all rows: gathers what was not written in place, runs what needs the whole batch
    settled    it has an outcome: its batches, or the error of its first failing row

`TRANSITIONS` holds every move; any other is an error of the scheduler's.
"""

from enum import IntEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.system.dataclasses import dataclass, field
from loaderkit._order.facts import Failure, Fill, Loss

from .task import Layout, Ready, Slot, Span, Target


@dataclass(slots=True, eq=False)
class StepRecords:
    """The records that one shard, or all shards together, read in `steps` steps.

    indices, keys: (k,) int64, read-only. rows: number of rows in each step; row r of all steps is
    [r*group:(r+1)*group] of both. fill: where the rows of zeros are. Where this shard has rows of zeros only, the
    records are those of the stream's first row, or the step's where it has a shape, which shows the shape of a row.

    >>> StepRecords(np.arange(4), np.arange(4)[::-1], rows=2).rows
    2
    """

    indices: NDArray[np.int64]
    keys: NDArray[np.int64]
    rows: int
    steps: int = 1
    fill: Fill = ()
    shape: int = -1

    def __post_init__(self) -> None:
        for name in ("indices", "keys"):
            # A view: the array may belong to a user's sampler, which must be able to write to it.
            view = getattr(self, name).view()
            view.flags.writeable = False
            setattr(self, name, view)


class StepInput(Protocol):
    """The plan, step by step."""

    def next(self, most: int) -> StepRecords | None:
        """The rows of the next step, or of up to `most` whole ones; None after the last."""
        ...


_NO_ROWS = StepRecords(np.empty(0, np.int64), np.empty(0, np.int64), rows=0, steps=0)


# Small integers: a lookup hashes two of them, and the hash of a plain Enum is a Python call.
class StepState(IntEnum):
    """Where a step is."""

    OPEN = 0
    FILLING = 1
    FINISHING = 2
    SETTLED = 3


class StepEvent(IntEnum):
    """What happens to a step."""

    ROWS_ASSIGNED = 0  # some of them, not the last
    LAST_ROWS_ASSIGNED = 1
    ROWS_DONE = 2  # all are done, and a task has to look at them
    BATCHES_MADE = 3
    FAILED = 4  # and no task is out for it


TRANSITIONS = {
    (StepState.OPEN, StepEvent.ROWS_ASSIGNED): StepState.OPEN,
    (StepState.OPEN, StepEvent.LAST_ROWS_ASSIGNED): StepState.FILLING,
    (StepState.OPEN, StepEvent.FAILED): StepState.SETTLED,
    (StepState.FILLING, StepEvent.ROWS_DONE): StepState.FINISHING,
    (StepState.FILLING, StepEvent.BATCHES_MADE): StepState.SETTLED,
    (StepState.FILLING, StepEvent.FAILED): StepState.SETTLED,
    (StepState.FINISHING, StepEvent.BATCHES_MADE): StepState.SETTLED,
    (StepState.FINISHING, StepEvent.FAILED): StepState.SETTLED,
}


@dataclass(slots=True, eq=False)
class InFlightStep:
    """A step in the making.

    rows       what the plan gives
    total      how many rows that is, of all its steps
    slot, layout   where its batch is written in place, and what it looks like there
    state      changed by `move` alone
    assigned   rows that tasks were made of
    tasks_out  tasks for it that are not done
    spans      first row -> where those rows are
    first_failure  (row, failure): of the lowest row that failed so far
    outcome    once it is settled
    losses     by number of the step within this one
    """

    rows: StepRecords
    total: int
    slot: Slot | None = None
    layout: Layout | None = None
    state: StepState = StepState.OPEN
    assigned: int = 0
    tasks_out: int = 0
    spans: dict[int, Span] = field(default_factory=dict)
    first_failure: tuple[int, Failure] | None = None
    outcome: Ready | Failure | None = None
    losses: dict[int, list[Loss]] = field(default_factory=dict)

    def move(self, event: StepEvent) -> None:
        """Goes to the state that the table has for an event. RuntimeError where it has none: nothing has changed."""
        try:
            self.state = TRANSITIONS[self.state, event]
        except KeyError:
            allowed = [known.name for state, known in TRANSITIONS if state is self.state]
            expected = f"expected {' or '.join(allowed)}" if allowed else "expected no further event"
            raise RuntimeError(f"a step that is {self.state.name}: {expected}, got {event.name}") from None

    def assign(self, hi: int) -> Target:
        """The rows from the first unassigned one up to `hi` go to a task."""
        lo, rows = self.assigned, self.rows.rows
        self.move(StepEvent.ROWS_ASSIGNED if hi < self.total else StepEvent.LAST_ROWS_ASSIGNED)
        self.assigned = hi
        self.tasks_out += 1
        whole = hi - lo == self.total
        return Target(
            rows=hi - lo,
            batch=rows,
            first=lo,
            slot=self.slot,
            whole=whole,
            layout=self.layout if self.slot else None,
            fill=self.rows.fill if whole else (),
            shape=self.rows.shape,
        )

    def settle(self, outcome: Ready) -> None:
        """Its batches are made; a slot in the outcome belongs to that from here on."""
        self.move(StepEvent.BATCHES_MADE)
        self.outcome = outcome

    def settle_in_slot(self) -> None:
        """All its rows lie in its slot, which is the outcome's from here on."""
        assert self.rows.steps == 1, f"a step with a slot: expected one step, got {self.rows.steps}"
        self.settle(Ready(rows=self.rows.rows, slot=self.slot, layout=self.layout))
        self.slot = None

    def settle_failed(self, failure: Failure) -> None:
        """It fails; no task is out for it."""
        self.move(StepEvent.FAILED)
        self.outcome = failure

    def note_failure(self, row: int, failure: Failure) -> None:
        """A row failed; the failure of the lowest one counts. The step is settled when no task is out for it."""
        if self.first_failure is None or row < self.first_failure[0]:
            self.first_failure = (row, failure)


def failed_step(failure: Failure) -> InFlightStep:
    """A failure in the place of a step, without rows."""
    step = InFlightStep(_NO_ROWS, 0)
    step.settle_failed(failure)
    return step
