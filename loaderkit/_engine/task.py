"""The values that pass between the engine and its workers. Frozen, comparable, without behaviour.

Tuples with names, for some are made for each batch, and a frozen dataclass takes five times as long.

A *task* is what one worker does in one go. `ReadRows` and `ReadStream` read records and run the operations before the
first Batch (in a pipeline that never changes the number of rows: all before the last Batch); `MakeBatch` makes one
batch from rows that earlier tasks made and runs what follows that Batch. Each has a result of its own. What a task
makes stays where the worker put it, its *output*, known by the task's id until the engine releases it; the engine moves
ids, sizes and cursors, never rows.
"""

from typing import NamedTuple, Protocol

import numpy as np

from loaderkit._order.facts import PLANNED, Cursor, Facts, Failure, Fill, Loss


class Layout(Protocol):
    """What the rows of a batch look like in a slot, as far as the engine has to know."""

    def nbytes(self, rows: int) -> int:
        """Bytes of a slot for so many rows."""
        ...


class Slot(NamedTuple):
    """A range of the arena, in bytes. `segment` is where its mapping starts: a worker maps a segment once."""

    offset: int
    nbytes: int
    segment: int
    segment_nbytes: int


class Target(NamedTuple):
    """Where rows of one batch go.

    rows     how many of the task's rows, in order
    batch    how many rows that batch has in all
    first    the number of the first of them in the batch
    slot     where to write them in place; None: they become part of the task's output
    whole    the task has all rows, of this batch or of several consecutive ones, and does at once what needs them all:
             its output holds the finished elements
    layout   what lies in the slot
    fill     if whole: where zeros stand. If no row is real, the one that is read shows what a row looks like
    shape    the bucket to whose boundaries the rows are padded; -1: the plan says none
    """

    rows: int
    batch: int
    first: int
    slot: Slot | None
    whole: bool
    layout: Layout | None = None
    fill: Fill = ()
    shape: int = -1


class Span(NamedTuple):
    """Rows lo..hi of part `part` of the output of task `task`; or of a batch of `batch` rows written in `slot`."""

    task: int
    part: int
    lo: int
    hi: int
    slot: Slot | None = None
    batch: int = 0
    layout: Layout | None = None


# --- tasks ------------------------------------------------------------------------------------------------------


class ReadRows(NamedTuple):
    """Reads rows whose places in their batches are known.

    id        unique in a loader, never used twice
    indices   (n,) int64, the index of each record
    keys      (n,) int64, the record key of each
    targets   where the rows go, in order
    reserve   room for the output; None: there is none, or the worker requests it when it knows how much
    """

    id: int
    indices: np.ndarray
    keys: np.ndarray
    targets: tuple[Target, ...]
    reserve: Slot | None = None


class ReadStream(NamedTuple):
    """Reads a run of consecutive records of a logical stream; however many elements they give are its output.

    id, indices, keys, reserve   as in `ReadRows`
    start     where the stream was entered, for its first task: FlatMaps skip the children before it
    """

    id: int
    indices: np.ndarray
    keys: np.ndarray
    start: Cursor = ()
    reserve: Slot | None = None


class MakeBatch(NamedTuple):
    """Makes one batch from rows of earlier outputs.

    id, reserve   as in `ReadRows`
    level     which Batch, counted from 1
    indices   (n,) int64, the index of each row's first record
    inputs    the rows, in order
    begin, end   the cursors of the batch; end is None where the plan knows it
    start     as in `ReadStream`, for the first batch of a level
    fill      as in `Target`
    """

    id: int
    level: int
    indices: np.ndarray
    inputs: tuple[Span, ...]
    begin: Cursor
    end: Cursor | None = None
    start: Cursor = ()
    fill: Fill = ()
    reserve: Slot | None = None


ReadTask = ReadRows | ReadStream
Task = ReadTask | MakeBatch


def inputs_of(task: Task) -> tuple[Span, ...]:
    """The earlier rows that a task takes in.

    >>> inputs_of(ReadStream(0, np.arange(2), np.arange(2)))
    ()
    """
    return task.inputs if isinstance(task, MakeBatch) else ()


def targets_of(task: Task) -> tuple[Target, ...]:
    """The places of a task's rows, where they are known.

    >>> targets_of(ReadStream(0, np.arange(2), np.arange(2)))
    ()
    """
    return task.targets if isinstance(task, ReadRows) else ()


# --- results ----------------------------------------------------------------------------------------------------


class RowsPart(NamedTuple):
    """What was made for one target.

    size      rows, or elements, in the output; 0 where all were written in place
    in_place  the rows lie in the target's slot
    """

    size: int
    in_place: bool = False


class RowsRead(NamedTuple):
    """The result of `ReadRows`.

    parts     one for each target begun
    failure   what ended the task early, or None; the parts before `failed_target` are good
    failed_target  the number of the target that the failure ended. A target of several batches may end with the
              batches before the failure: then the last of `parts` is its part
    layout    what the rows of a batch of the first target's shape look like, when the worker found the guess missing or
              wrong; else None
    nbytes    how much of `reserve` (or of the room that was requested) the output takes
    seconds   time spent on it
    waited    seconds of these that passed in waiting for records
    losses    bad records that didn't end it, ascending by place
    """

    parts: tuple[RowsPart, ...]
    failure: Failure | None = None
    failed_target: int = 0
    layout: Layout | None = None
    nbytes: int = 0
    seconds: float = 0.0
    losses: tuple[Loss, ...] = ()
    waited: float = 0.0


class StreamRead(NamedTuple):
    """The result of `ReadStream`.

    size      elements in the output
    begins, ends   (size, depth + 1) int64 cursors, zeros after the last ordinal; None where the plan knows them
    failure   what ended the task behind these elements, or None
    nbytes, seconds, waited, losses   as in `RowsRead`
    """

    size: int = 0
    begins: np.ndarray | None = None
    ends: np.ndarray | None = None
    failure: Failure | None = None
    nbytes: int = 0
    seconds: float = 0.0
    losses: tuple[Loss, ...] = ()
    waited: float = 0.0


class BatchMade(NamedTuple):
    """The result of `MakeBatch`.

    size, begins, ends, failure   as in `StreamRead`
    layout, nbytes, seconds       as in `RowsRead`
    """

    size: int = 0
    begins: np.ndarray | None = None
    ends: np.ndarray | None = None
    failure: Failure | None = None
    layout: Layout | None = None
    nbytes: int = 0
    seconds: float = 0.0


class Discarded(NamedTuple):
    """The result of a cancelled task that was never begun: nothing was made."""


TaskResult = RowsRead | StreamRead | BatchMade


def failed(task: Task, failure: Failure, failed_target: int = 0) -> TaskResult:
    """The result of a task that made nothing but a failure.

    >>> failed(ReadStream(0, np.arange(2), np.arange(2)), Failure(OSError())).size
    0
    """
    match task:
        case ReadRows():
            return RowsRead((), failure, failed_target)
        case ReadStream():
            return StreamRead(failure=failure)
        case MakeBatch():
            return BatchMade(failure=failure)


def with_failure(result: TaskResult, failure: Failure, failed_target: int) -> TaskResult:
    """A result, and the failure behind what was made; the target is that of a `RowsRead`."""
    if isinstance(result, RowsRead):
        return result._replace(failure=failure, failed_target=failed_target)
    return result._replace(failure=failure)


# --- what is handed out -----------------------------------------------------------------------------------------


class Ready(NamedTuple):
    """What to hand out next: one batch in a slot, or elements of an output.

    slot      a batch of `rows` rows written in place; it belongs to the receiver now
    task, part, first, size   else: so many elements from number `first` on of part `part` of that task's output; the
              receiver calls `delivered` when it has taken them
    facts     what is known of them
    following the batches after it that are ready too, in slots and without losses, if several may go at once
    """

    rows: int = 0
    slot: Slot | None = None
    layout: Layout | None = None
    task: int = -1
    part: int = 0
    first: int = 0
    size: int = 1
    facts: Facts = PLANNED
    following: tuple["Ready", ...] = ()


class End(NamedTuple):
    """The stream has ended; `losses` are the bad records after its last element."""

    losses: tuple[Loss, ...] = ()


Outcome = Ready | Failure | End
