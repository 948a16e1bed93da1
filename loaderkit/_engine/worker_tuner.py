"""How many workers a pool should have: what `worker_count="auto"` follows. Figures and times in, numbers out.

A pool is looked at in periods in which enough was made. Workers that are all busy while next() is blocked are too few:
the work of the time in which next() was blocked says how many are needed. Whether more of them helped is measured, in
the first whole period after all are ready; where it didn't (they share what is scarce: a disk, memory, a lock), the
number goes back. Workers whose work fewer of them would do with room to spare, for some periods in a row, are too many.
A number that turned out wrong isn't tried again for a while, and for twice as long each time, so that the
number comes to rest.

It changes no byte of a stream: which rows a task has, and who does it, is told from what is in them.
"""

import math
from typing import NamedTuple

PERIOD_SECONDS = 1.0  # at least: shorter ones are noise, longer ones follow later
_TASKS = 8  # of each worker in a period, at least: of fewer nothing is known
# Of a period in which next() was blocked. `explain` calls 3% a loss; twice that starts a process.
_BLOCKED = 0.06
_BUSY = 0.85  # of the workers' time: as `explain` takes them for the limit
_DELAYED = 0.3  # of the workers' time in which they wait for a processor: more of them would wait, too
_HELPED = 0.3  # of the gain that as many workers more would bring at best: less is no help
_IDLE = 0.7  # busy share that fewer workers may come to at most
_IDLE_PERIODS = 5  # in a row
_WAIT_SECONDS = 60.0  # before a number that was wrong is tried again, at first
_LONGEST_WAIT_SECONDS = 3600.0


class Figures(NamedTuple):
    """What a pool counted since it began, at one moment; times in seconds.

    at: on any clock. blocked: in next(), of the stream that was blocked longest. busy: of all workers together.
    delayed: in which they waited for a processor; None where that isn't known. records, tasks: done.
    starting: workers that aren't ready. room: more workers that there is memory for; None where that isn't known.
    """

    at: float
    blocked: float
    busy: float
    delayed: float | None
    records: int
    tasks: int
    starting: int = 0
    room: int | None = None


class Choice(NamedTuple):
    """Another number of workers, and why."""

    workers: int
    why: str


class _Wrong:
    """A number of workers that turned out wrong, at a time: it isn't tried again before `until`.

    again: what was known by then, if it is the same error again.
    """

    def __init__(self, workers: int, at: float, again: "_Wrong | None") -> None:
        self.workers = workers
        self._wait: float = _WAIT_SECONDS if again is None else min(2 * again._wait, _LONGEST_WAIT_SECONDS)
        self.until = at + self._wait


class WorkerTuner:
    """Chooses how many workers there should be.

    Args:
        most: workers at most; one is the least.

    >>> tuner = WorkerTuner(most=8)
    >>> tuner.workers
    2
    >>> tuner.look(Figures(at=0.0, blocked=0.0, busy=0.0, delayed=0.0, records=0, tasks=0))
    >>> tuner.look(Figures(at=1.0, blocked=0.5, busy=2.0, delayed=0.0, records=100, tasks=20)).workers
    4
    """

    def __init__(self, most: int) -> None:
        self.workers = min(2, most)
        self._most = most
        self._last: Figures | None = None  # where the period began
        self._settling = False  # the first period after a change: workers import and open what they need
        self._trial: tuple[int, float] | None = None  # fewer workers, and their records a second
        self._idle = 0  # periods in a row in which there were too many
        self._no_help: _Wrong | None = None
        self._too_few: _Wrong | None = None

    def look(self, now: Figures) -> Choice | None:
        """Another number, if there should be one. Ask often: a period ends where enough was made."""
        last = self._last
        if last is None or now.starting:
            self._last = now
            return None
        seconds = now.at - last.at
        if seconds < PERIOD_SECONDS or now.tasks - last.tasks < _TASKS * self.workers:
            return None
        self._last = now
        if self._settling:
            self._settling = False
            return None
        of_workers = seconds * self.workers
        blocked = min(1.0, (now.blocked - last.blocked) / seconds)
        busy = min(1.0, (now.busy - last.busy) / of_workers)
        known = now.delayed is not None and last.delayed is not None
        delayed = (now.delayed - last.delayed) / of_workers if known else 0.0  # type: ignore[operator]
        rate = (now.records - last.records) / seconds
        most = self._most if now.room is None else min(self._most, self.workers + now.room)
        chosen, why = self._chosen(now.at, blocked, busy, delayed, rate, most)
        if chosen == self.workers:
            return None
        self.workers, self._idle, self._last, self._settling = chosen, 0, None, True
        figures = (
            f"next() was blocked for {blocked:.0%} of {seconds:.1f} s, each worker was busy for {busy:.0%}"
        )
        return Choice(chosen, f"{figures}: {why}")

    def _chosen(
        self, at: float, blocked: float, busy: float, delayed: float, rate: float, most: int
    ) -> tuple[int, str]:
        workers, trial, self._trial = self.workers, self._trial, None
        short = blocked > _BLOCKED
        if trial is not None:
            fewer, its_rate = trial
            if short and rate < its_rate * (1 + _HELPED * (workers / fewer - 1)):
                self._no_help = _Wrong(workers, at, self._no_help)
                return fewer, f"{fewer} made as much"
            if self._no_help is not None and workers >= self._no_help.workers:
                self._no_help = None
        if short and busy > _BUSY and delayed < _DELAYED:
            wanted = min(most, self._needed(blocked))
            if self._no_help is not None and at < self._no_help.until:
                wanted = min(wanted, (workers + self._no_help.workers) // 2)
            if wanted > workers:
                # In a climb from a few on each number is too few; twice as long counts where it fell back.
                fell = self._too_few is not None and workers <= self._too_few.workers
                self._too_few = _Wrong(workers, at, self._too_few if fell else None)
                self._trial = workers, rate
                return wanted, "they are too few"
        wanted = max(1, math.ceil(busy * workers / _IDLE), workers // 2)
        if self._too_few is not None and at < self._too_few.until:
            wanted = max(wanted, self._too_few.workers + 1)
        self._idle = self._idle + 1 if wanted < workers and not short else 0
        if self._idle == _IDLE_PERIODS:
            return wanted, "they are too many"
        return workers, ""

    def _needed(self, blocked: float) -> int:
        """So many that next() wouldn't be blocked, if each made as much; at most twice as many as there are."""
        workers = self.workers
        if blocked >= 0.5:
            return 2 * workers
        # Steps of an eighth, since the help of one among many is less than the noise.
        return max(math.ceil(workers / (1 - blocked)), workers + math.ceil(workers / 8))
