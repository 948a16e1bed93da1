"""The values that pass between the engine and those who work for it. Frozen, comparable, without behaviour.

A *task* is what one worker does in one go. Level 0 reads records and runs the operations before the first Batch (in a
pipeline that never changes the number of rows: all before the last Batch); level j makes one batch from rows that
earlier tasks made and runs what follows Batch j. What a task makes stays where the worker put it, its *output*, known
by the task's id until the engine releases it; the engine moves ids, sizes and cursors, never rows.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from loaderkit._order.cursor import Cursor
from loaderkit._order.facts import PLANNED, Facts
from loaderkit._order.failure import Failure
from loaderkit._order.fill import Fill
from loaderkit._order.loss import Loss


class Layout(Protocol):
    """What the rows of a batch look like in a slot, as far as the engine has to know."""

    def nbytes(self, rows: int) -> int:
        """Bytes that a slot for so many rows has."""
        ...


@dataclass(frozen=True, slots=True)
class Slot:
    """A range of the arena, in bytes. `segment` is where its mapping starts: a worker maps a segment once."""

    offset: int
    nbytes: int
    segment: int
    segment_nbytes: int


@dataclass(frozen=True, slots=True)
class Target:
    """Where rows of one batch go.

    rows     how many of the task's rows, in order
    batch    how many rows that batch has in all
    first    the place of the first of them in the batch
    slot     where to write them in place; None: they become part of the task's output
    whole    the task has all rows, of this batch or of several that follow one another, and does at once what needs
             them all: its output holds the finished elements
    layout   what lies in the slot
    fill     if whole: where zeros stand. If no row is real, the one that comes shows what a row looks like
    """

    rows: int
    batch: int
    first: int
    slot: Slot | None
    whole: bool
    layout: Layout | None = None
    fill: Fill = ()


@dataclass(frozen=True, slots=True)
class Span:
    """Rows lo..hi of part `part` of the output of task `task`; or of a batch of `batch` rows written in `slot`."""

    task: int
    part: int
    lo: int
    hi: int
    slot: Slot | None = None
    batch: int = 0
    layout: Layout | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """One unit of work.

    id        unique in a loader, never used twice
    level     0: read `keys`; above: batch `inputs`
    indices   (n,) int64: level 0, the index of each record; above, of each row's first record
    keys      (n,) int64 record keys; empty above level 0
    targets   level 0 with rows of known places; empty: all rows are one output
    inputs    above level 0: the rows, in order
    begin, end   above level 0: the cursors of the batch; end is None where the plan knows it
    start     where the stream was entered: FlatMaps skip what was handed out before
    reserve   room for the output; None: the worker asks when it knows how much
    fill      above level 0: as in Target
    """

    id: int
    level: int
    indices: np.ndarray
    keys: np.ndarray
    targets: tuple[Target, ...] = ()
    inputs: tuple[Span, ...] = ()
    begin: Cursor = ()
    end: Cursor | None = None
    start: Cursor = ()
    reserve: Slot | None = None
    fill: Fill = ()


@dataclass(frozen=True, slots=True)
class TaskPart:
    """What came of one target (or of the whole task where it has none).

    size      rows, or elements, in the output; 0 where all were written in place
    in_place  the rows lie in the target's slot
    begins, ends   (size, depth + 1) int64 cursors, zeros behind the last ordinal; None where the plan knows them
    """

    size: int
    in_place: bool = False
    begins: np.ndarray | None = None
    ends: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """What a worker says of a finished task.

    parts     one for each target begun
    failure   what ended it early, or None; the parts before `failed_part` are good
    failed_part  the place of the target that the failure ended. A target of several batches may end with the batches
              before the failure: then the last of `parts` is its part
    layout    what the rows of a batch look like, when the worker found the guess missing or wrong; else None
    nbytes    how much of `reserve` (or of the room it asked for) the output takes
    seconds   time spent on it
    losses    bad records that didn't end it, ascending by place
    """

    parts: tuple[TaskPart, ...]
    failure: Failure | None = None
    failed_part: int = 0
    layout: Layout | None = None
    nbytes: int = 0
    seconds: float = 0.0
    losses: tuple[Loss, ...] = ()


@dataclass(frozen=True, slots=True)
class Ready:
    """What to hand out next: one batch in a slot, or elements of an output.

    slot      a batch of `rows` rows written in place; the taker owns the slot now
    task, part, place, count   else: so many elements from `place` on of part `part` of that task's output; the taker
              says when it took them
    facts     what is known of them
    following the batches after it that are ready too, in slots and without losses, if the taker wants several at once
    """

    rows: int = 0
    slot: Slot | None = None
    layout: Layout | None = None
    task: int = -1
    part: int = 0
    place: int = 0
    count: int = 1
    facts: Facts = PLANNED
    following: tuple["Ready", ...] = ()


@dataclass(frozen=True, slots=True)
class End:
    """The stream is over; `losses` are the bad records after its last element."""

    losses: tuple[Loss, ...] = ()


Outcome = Ready | Failure | End
