"""A logical stream of a stream scheduler: its feed, its queues, and the figures that decide how much to read."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from loaderkit._order.facts import Cursor, Loss

from .element_queue import ElementQueue
from .task import Span
from .yields import Outlook, Yield


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
