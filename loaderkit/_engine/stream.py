"""A logical stream of a chain: its feed, its lines, and the figures from which follows how much to read."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from loaderkit.plan.cursor import Cursor

from .line import Line
from .task import Loss, Span


class Feed(Protocol):
    """The records of one logical stream, in order."""

    def next(self, count: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Indices and record keys of up to `count` next records, both (n,) int64; None behind the last."""
        ...


@dataclass(slots=True)
class Stream:
    """A logical stream.

    Line 0 holds what the tasks that read records gave, line j what those that made Batch j gave. Its losses wait for
    the element that passes them. All those are there when it is: it was made of the tasks up to its last record.
    """

    feed: Feed
    start: Cursor
    lines: list[Line]
    units: Sequence[int]  # records of one element of each line, if no operation changed their number
    records: tuple[np.ndarray, np.ndarray] | None = None  # from the feed, not given out for want of memory
    read: int = 0  # records given out
    arrived: int = 0  # of those, how many came back
    given: int = 0  # elements that came of them
    lap: int = 0  # how often it has begun again, where records were given out last
    last: int = -1  # the index of the last of them
    losses: list[tuple[int, Loss]] = field(default_factory=list)  # with the lap of each
    entered: set[int] = field(default_factory=set)  # levels that have begun

    def enter(self, level: int) -> Cursor:
        """Where the stream was entered, for the first task of a level: the element entered there is in that one."""
        first = level not in self.entered
        self.entered.add(level)
        return self.start if first else ()

    @property
    def over(self) -> bool:
        """Whether nothing more of it is to be read: it ended, or one of its lines failed."""
        for line in self.lines:  # noqa: SIM110 - asked of every stream before every task: any() costs more
            if line.over:
                return True
        return False

    def give_out(self, indices: np.ndarray) -> None:
        """Counts records that go out in a task; all of them are of one lap."""
        self.read += len(indices)
        self.lap += int(indices[0]) <= self.last
        self.last = int(indices[-1])

    def coming(self) -> float:
        """What it has and what is on its way, in nominal records."""
        share = self.given / self.arrived if self.arrived else 1.0
        there = sum(line.size() * unit for line, unit in zip(self.lines, self.units, strict=True))
        return there + (self.read - self.arrived) * share

    def begin_again(self, feed: Feed) -> list[Span]:
        """Goes on with its first index; what waits for an earlier Batch is too little for one, and dropped: the spans.

        The levels before the last Batch enter the stream anew; of what that makes, some may have been handed out.
        """
        self.feed = feed
        self.entered.update(range(len(self.lines)))
        dropped: list[Span] = []
        for line in self.lines[:-1]:
            line.count()
            dropped += line.take(line.ready).spans
        for line in self.lines:
            line.over = False
        return dropped
