"""Chooses rows per task, and how much is begun ahead, from a running mean of seconds per row; never affects output."""

import math
from copy import copy

from loaderkit._base.system.dataclasses import dataclass

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
# Waiting for bytes isn't work: a task has as many rows as make TASK_SECONDS of work, however long these are waited for.
# But it lasts at most this many times as long, or a worker that reads slowly delays the next batches. Two workers with
# 4 calls of 100 ms each in flight gave 1,040 records/s with 2, 3,470 with 4, 6,420 with 8, 7,400 with 32; calls of 20
# ms and 0.2 ms a record 2,316, 3,821, 7,233, 7,557. The longest wait for a batch was 0.17 s with 8, 0.38 s with 32.
_LONGEST_TASK = 8
# Rows of a task although it lasts for longer, where one call reads many records: such a call takes about as long for
# one record as for several, and fewer rows a call would come more slowly, down to one: 10 records/s with calls of
# 400 ms, and 79 with this. Where each record is waited for by itself, a task lasts longer by that many.
_FEWEST_ROWS = 16
_WEIGHT = 0.2  # of the newest task in the mean; more follows changes sooner, less ignores single slow tasks
_MOST_TASKS = 64  # that wait at a worker, however short: a bound on the messages that a lost worker had


@dataclass(slots=True)
class _Crew:
    """What all that share a pace see change: who works, and the running mean."""

    workers: int  # of this machine
    elsewhere: int = 0  # on other machines
    tasks_elsewhere: int = 0  # that those may have at once, all together
    latency_elsewhere: float = 0.0  # seconds that their tasks are on their ways, added up
    row_seconds: float | None = None  # of work and waiting
    row_work: float = 0.0
    # What follows from these; asked for several times a task.
    task_rows: int | None = None  # of a next task, None where nothing is known
    tasks_ahead: int = 2


class Pace:
    """Running mean of the seconds that one row takes, and what follows from it.

    Args:
        workers: how many work at once, until `resize`; 0 means the trainer itself.
        task_rows: a fixed number of rows for each task instead, None to adapt.
        reads: rows that each worker needs ahead, once a pace is known, to keep as many reads in flight as it was told
            to, or may have ahead where it reads many in one call.
        calls: of many rows, that each worker has in flight; 0 where it reads rows one at a time, or nothing ahead.
        in_bulk: whether a worker reads many rows in one call.

    >>> pace = Pace(workers=2, task_rows=None)
    >>> pace.rows(256), pace.tasks_ahead()
    (64, 2)
    >>> pace.saw(rows=100, seconds=0.1)
    >>> pace.rows(256)
    16
    """

    def __init__(
        self, *, workers: int, task_rows: int | None, reads: int = 0, calls: int = 0, in_bulk: bool = False
    ) -> None:
        self._reads = reads
        self._calls = calls
        self._in_bulk = in_bulk
        self._task_rows = task_rows
        self._crew = _Crew(workers)
        self._streams = 1  # that share what is made ahead
        self._derive()

    def shared_by(self, streams: int) -> "Pace":
        """The pace for one of several streams that make elements ahead together: one mean, and a share of the rows.

        >>> whole = Pace(workers=2, task_rows=4)
        >>> whole.rows_ahead(8), whole.shared_by(3).rows_ahead(8)
        (16, 6)
        """
        share = copy(self)
        share._streams = self._streams * streams
        return share

    def resize(self, workers: int) -> None:
        """Another number of workers from now on, for all that share this pace."""
        self._crew.workers = workers
        self._derive()

    def set_elsewhere(self, workers: int, tasks: int, latency: float) -> None:
        """Workers on other machines from now on, for all that share this pace.

        Args:
            workers: how many.
            tasks: that they may have at once, all together.
            latency: seconds that a task of each is on its way, there and back, added up.
        """
        crew = self._crew
        crew.elsewhere, crew.tasks_elsewhere, crew.latency_elsewhere = workers, tasks, latency

    def saw(self, *, rows: int, seconds: float, waited: float = 0.0) -> None:
        """Counts a task of so many rows, at least one, that took so long; 0 s is a task that wasn't done.

        waited: seconds of these in which it waited for bytes.
        """
        if not seconds:
            return
        crew = self._crew
        each, work = max(seconds / rows, 1e-9), max((seconds - waited) / rows, 1e-9)
        if crew.row_seconds is None:
            crew.row_seconds, crew.row_work = each, work
        else:
            crew.row_seconds += _WEIGHT * (each - crew.row_seconds)
            crew.row_work += _WEIGHT * (work - crew.row_work)
        self._derive()

    def _derive(self) -> None:
        crew = self._crew
        if crew.row_seconds is not None:
            seconds = TASK_SECONDS if crew.workers else ALONE_SECONDS
            longest = int(_LONGEST_TASK * seconds / crew.row_seconds)
            if self._in_bulk:
                longest = max(longest, _FEWEST_ROWS)
            crew.task_rows = max(1, min(int(seconds / crew.row_work), longest))
        crew.tasks_ahead = 2
        each = self._task_rows or crew.task_rows
        # Until then two: with several workers they are the first batch (`rows`). What else could be read at once waits
        # for the first answer.
        if each is not None:
            crew.tasks_ahead = max(2, self._tasks_to_read(each))
            if crew.row_seconds is not None:
                wanted = min(_MOST_TASKS, math.ceil(AHEAD_SECONDS / (each * crew.row_seconds)))
                crew.tasks_ahead = max(crew.tasks_ahead, wanted)

    def rows(self, batch: int) -> int:
        """Rows of a next task: at least 1, and possibly several batches of `batch` rows."""
        if self._task_rows is not None:
            return self._task_rows
        crew = self._crew
        if crew.task_rows is None:
            # Two tasks of each worker, which it has at once, are the first batch: what joins them waits for no other.
            return -(-batch // (2 * crew.workers if crew.workers > 1 else 1))
        return crew.task_rows if crew.workers else max(batch, crew.task_rows)

    def tasks_ahead(self) -> int:
        """Tasks that a worker has at once."""
        return self._crew.tasks_ahead

    def _tasks_to_read(self, rows: int) -> int:
        """Tasks of so many rows that a worker needs at once so that enough reads are in flight."""
        tasks = -(-self._reads // rows)
        return 1 + min(self._calls, tasks) if self._calls else tasks

    def rows_ahead(self, batch: int) -> int:
        """Rows that are begun at once; without workers and reads ahead those of one task."""
        each, crew = self.rows(batch), self._crew
        tasks = self.tasks_ahead() if crew.workers else 1
        if self._reads:
            # A window of steps that was full is filled again when half of it is left (step_window.py).
            reads = self._tasks_to_read(each)
            tasks = max(tasks, 2 * reads - 1 if self._calls else reads)
        # Without workers the trainer does one task after the other, and reads for later ones.
        readers = max(crew.workers, 1 if self._reads else 0)
        rows = max(1, readers * tasks + crew.tasks_elsewhere) * each
        if crew.row_seconds is not None:
            begun = (crew.workers + crew.elsewhere) * WINDOW_SECONDS + crew.latency_elsewhere
            rows = max(rows, int(begun / crew.row_seconds))
        return -(-rows // self._streams)

    def each_its_batch(self, batch: int) -> bool:
        """Whether so much is begun that each worker of this machine, and there is no other, can make whole batches."""
        crew = self._crew
        known = self._task_rows is None and crew.row_seconds is not None and not crew.elsewhere
        return known and batch * crew.workers <= self.rows_ahead(batch)

    def least_ahead(self, rows: int) -> int:
        """Rows that all workers have at once, in tasks of `rows`, so that none waits for its next message."""
        reads = self._tasks_to_read(rows) * rows if self._calls else self._reads
        crew = self._crew
        least = crew.workers * max(2 * rows, reads) if crew.workers else reads
        least += crew.tasks_elsewhere * rows
        return -(-least // self._streams)
