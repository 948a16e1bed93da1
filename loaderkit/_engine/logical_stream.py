"""A logical stream of a stream scheduler: its feed, its queues, and the figures that decide how much to read."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from loaderkit._base.system.dataclasses import dataclass, field, replace
from loaderkit._order.facts import Cursor, Loss

from .element_queue import ElementQueue, QueueSlice
from .task import Span


@dataclass(slots=True)
class Yield:
    """What came of the records of a stream, or of the batches of a level: less than one of each with a Filter.

    It affects only how much is read ahead, never what is delivered.

    >>> of_records = Yield()
    >>> of_records.estimate(unknown=1.0)
    1.0
    >>> of_records.saw(entered=8, came=2)
    >>> of_records.estimate(unknown=1.0)
    0.25
    """

    entered: int = 0
    came: int = 0

    def saw(self, *, entered: int, came: int) -> None:
        """Counts elements that came of records or batches that are done."""
        self.entered += entered
        self.came += came

    def estimate(self, unknown: float) -> float:
        """Elements that will come of one, more than 0; `unknown` before any is done."""
        # As long as nothing came, the next one may be the first.
        return max(self.came, 1) / self.entered if self.entered else unknown


class Outlook(NamedTuple):
    """What a stream has, and what it lacks, in records.

    lacking   records that are still to be assigned before the wanted elements can be made, estimated
    coming    records that are being read, and those that the elements that are ready were made of
    each      records of this stream that one element takes
    """

    lacking: float
    coming: float
    each: float


class RecordInput(Protocol):
    """The records of one logical stream, in order."""

    def next(self, count: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Indices and record keys of up to `count` next records, both (n,) int64; None after the last."""
        ...


@dataclass(slots=True)
class LogicalStream:
    """A logical stream.

    Queue 0 holds what the tasks that read records made, queue j what those that made Batch j did. A loss is kept until
    the element that passes it is handed out. All losses that an element passes are known by then: it was made of the
    tasks up to its last record.
    """

    feed: RecordInput
    start: Cursor
    queues: list[ElementQueue]
    takes: Sequence[int]  # rows that each Batch takes of it; of queue j, takes[j]
    yields: list[Yield]  # of its records, and of the batches of each later queue
    records: tuple[np.ndarray, np.ndarray] | None = None  # from the feed, not assigned for want of memory
    read: int = 0  # records assigned
    pass_number: int = 0  # how often it has begun again, where records were assigned last
    last: int = -1  # the index of the last of them
    losses: list[tuple[int, Loss]] = field(default_factory=list)  # with the pass number of each
    entered: set[int] = field(default_factory=set)  # levels that have begun

    def enter(self, level: int) -> Cursor:
        """The cursor at which the stream was entered; each level's first task contains that element."""
        first = level not in self.entered
        self.entered.add(level)
        return self.start if first else ()

    @property
    def ended(self) -> bool:
        """Whether nothing more of it is to be read: it ended, or one of its queues failed."""
        for queue in self.queues:  # noqa: SIM110 - asked of every stream before every task: any() costs more
            if queue.ended:
                return True
        return False

    def assign(self, indices: np.ndarray) -> None:
        """Counts records that a task reads; all of them are of one pass."""
        self.read += len(indices)
        self.pass_number += int(indices[0]) <= self.last
        self.last = int(indices[-1])

    @property
    def on_their_way(self) -> int:
        """Records that were assigned and are not done."""
        return self.read - self.yields[0].entered

    def outlook(self, wanted: float, last_yield: float) -> Outlook:
        """How much is to be read.

        Before the first batch of a level is done it counts as enough for one batch of the next: so reading begins with
        what a first element takes at least, whatever inner Batches multiply it to.

        Args:
            wanted: batches of the last level that are to be made, or elements where there is no Batch.
            last_yield: elements that one of those gives.
        """
        each = self.yields[0].estimate(1.0)
        here = self.queues[0].size()
        # From the records on: what an element of each queue takes, and all that is made.
        cost = 1 / each
        coming = here * cost + self.on_their_way
        levels: list[tuple[float, float, int]] = []
        for level in range(1, len(self.queues)):
            of_batch = self.yields[level].estimate(self.takes[level])
            there = self.queues[level].size(of_batch)
            cost *= self.takes[level - 1] / of_batch
            coming += there * cost
            levels.append((there, of_batch, self.takes[level - 1]))
        # Back from the elements that are wanted: a batch takes all its rows or isn't made.
        rows = wanted * self.takes[-1] if self.takes else wanted
        for there, of_batch, taken in reversed(levels):
            rows = math.ceil(max(rows - there, 0) / of_batch) * taken
        lacking = max(rows - here - self.on_their_way * each, 0) / each
        return Outlook(lacking, coming, cost * (self.takes[-1] if self.takes else 1) / last_yield)

    def begin_again(self, feed: RecordInput) -> list[Span]:
        """Continues at the stream's first index. Returns the spans of dropped rows, too few for an earlier Batch.

        Levels before the last Batch start again; some of their rows may have been delivered.
        """
        self.feed = feed
        self.entered.update(range(len(self.queues)))
        dropped: list[Span] = []
        for queue in self.queues[:-1]:
            queue.count()
            dropped += queue.take(queue.ready).spans
        for queue in self.queues:
            queue.ended = False
        return dropped


def stream_of(feed: RecordInput, start: Cursor, takes: Sequence[int]) -> LogicalStream:
    """A stream that nothing was read of; `takes`: rows that each Batch takes of it, in order."""
    queues = [ElementQueue() for _ in range(max(len(takes), 1))]
    return LogicalStream(feed, start, queues, takes, [Yield() for _ in queues])


class Masks:
    """What the rows of masked batches look like: the first element of the whole data, read for it.

    They follow where the streams of this process are exhausted and other processes may have more rows.

    Args:
        sample: makes its feed.
        takes: rows that each Batch takes of it.
    """

    def __init__(self, sample: Callable[[], RecordInput], takes: Sequence[int]) -> None:
        self._sample = sample
        self._takes = takes
        self.stream: LogicalStream | None = None  # once a row was needed
        self.shape: QueueSlice | None = None  # that row

    def find(self, last: ElementQueue) -> QueueSlice | None:
        """The row, as soon as it is made; where there is none, ends the queue of the batches that need it."""
        if self.shape is not None:
            return self.shape
        if self.stream is None:
            self.stream = stream_of(self._sample(), (), self._takes)
        queue = self.stream.queues[-1]
        queue.count()
        if queue.ready:
            self.shape = queue.take(1)
        elif (failure := queue.failure()) is not None:
            last.fail(replace(failure, cursors=None))  # of the sample, not of this place in the streams
        elif queue.at_end():
            last.ended = True  # no process has a row
        return self.shape

    def lacking(self, stream: LogicalStream) -> LogicalStream | None:
        """The stream, if more of it has to be read for the row."""
        enough = stream.on_their_way or stream.queues[-1].size() or self.shape is not None
        return None if enough or stream.ended else stream
