"""Chooses rows per task, and how much is begun ahead, from a running mean of seconds per row; never affects output."""

import math
from copy import copy
from dataclasses import dataclass

# A message that wakes a sleeping processor costs 100 us and more on both sides: about 1% of a task of this length.
# Decoding photographs with two workers reached 0.79 of two bare processes with tasks of 1 ms and 0.95 with 8 ms; with
# 8 ms the pump's thread still took 7% of a processor, which 16 ms halves.
TASK_SECONDS = 16e-3
# Without workers: a batch of 32 cheap rows costs less than the engine's part of a task, so a task makes several. Longer
# tasks would make single calls of next() slower. Not measured beyond that.
ALONE_SECONDS = 3e-3
# Tasks that wait at each worker: a trainer that is busy for this long leaves no worker idle. Not measured.
AHEAD_SECONDS = 40e-3
# Work of each worker that is begun and not delivered: a slow record delays the other workers only after this long. With
# one record in 50 fifty times as slow, 0.85 of perfect balance was reached with less, and 1.0 with this.
WINDOW_SECONDS = 80e-3
_WEIGHT = 0.2  # of the newest task in the mean; more follows changes sooner, less ignores single slow tasks
_MOST_TASKS = 64  # that wait at a worker, however short: a bound on the messages that a lost worker had


@dataclass(slots=True)
class _RunningMean:
    row_seconds: float | None = None


class Pace:
    """Running mean of the seconds that one row takes, and what follows from it.

    Args:
        workers: how many work at once; 0 means the trainer itself.
        task_rows: a fixed number of rows for each task instead, None to adapt.
        reads: rows that each worker needs ahead to keep as many reads in flight as it was told to.

    >>> pace = Pace(workers=2, task_rows=None)
    >>> pace.rows(256), pace.tasks_ahead()
    (128, 2)
    >>> pace.saw(rows=100, seconds=0.1)
    >>> pace.rows(256)
    16
    """

    def __init__(self, *, workers: int, task_rows: int | None, reads: int = 0) -> None:
        self.workers = workers
        self._reads = reads
        self._task_rows = task_rows
        self._mean = _RunningMean()
        self._streams = 1  # that share what is made ahead

    def shared_by(self, streams: int) -> "Pace":
        """The pace for one of several streams that make elements ahead together: one mean, and a share of the rows.

        >>> whole = Pace(workers=2, task_rows=4)
        >>> whole.rows_ahead(8), whole.shared_by(3).rows_ahead(8)
        (16, 6)
        """
        share = copy(self)
        share._streams = self._streams * streams
        return share

    def saw(self, *, rows: int, seconds: float) -> None:
        """Counts a task of so many rows, at least one, that took so long; 0 s is a task that wasn't done."""
        if not seconds:
            return
        each = max(seconds / rows, 1e-9)
        old = self._mean.row_seconds
        self._mean.row_seconds = each if old is None else old + _WEIGHT * (each - old)

    def rows(self, batch: int) -> int:
        """Rows of a next task: at least 1, and possibly several batches of `batch` rows."""
        if self._task_rows is not None:
            return self._task_rows
        if self._mean.row_seconds is None:
            return -(-batch // max(self.workers, 1))
        if self.workers == 0:
            return max(batch, int(ALONE_SECONDS / self._mean.row_seconds))
        return max(1, int(TASK_SECONDS / self._mean.row_seconds))

    def tasks_ahead(self) -> int:
        """Tasks that a worker has at once."""
        each = self.rows(1)
        reads = -(-self._reads // each)
        if self._mean.row_seconds is None:
            return max(2, reads)
        return max(2, reads, min(_MOST_TASKS, math.ceil(AHEAD_SECONDS / (each * self._mean.row_seconds))))

    def rows_ahead(self, batch: int) -> int:
        """Rows that are begun at once; without workers those of one task."""
        rows = max(1, self.workers * self.tasks_ahead()) * self.rows(batch)
        if self._mean.row_seconds is not None:
            rows = max(rows, int(self.workers * WINDOW_SECONDS / self._mean.row_seconds))
        return -(-rows // self._streams)

    def least_ahead(self, rows: int) -> int:
        """Rows that all workers have at once, in tasks of `rows`, so that none waits for its next message."""
        return -(-self.workers * max(2 * rows, self._reads) // self._streams)
