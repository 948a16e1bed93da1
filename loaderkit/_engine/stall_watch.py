"""For how long each worker has made no progress.

Only time in which the trainer ran counts: one that was stopped for an hour, by a debugger or a laptop's lid, heard no
worker meanwhile. So between two looks at most twice the interval counts.
"""

from collections.abc import Collection, Hashable, Mapping

from loaderkit._base.system.dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stall:
    """A worker that made no progress.

    seconds   for how long
    too_long  whether that is longer than the limit
    sign      its sign of life at the last look
    """

    worker: int
    seconds: float
    too_long: bool
    sign: Hashable


@dataclass(slots=True)
class _Seen:
    sign: Hashable
    seconds: float = 0.0
    told: bool = False


class StallWatch:
    """Compares the workers' signs of life, one look after the other.

    Args:
        warn: seconds after which a stall is reported, once.
        limit: seconds after which it is too long, None for never: from then on each look reports it.

    >>> watch = StallWatch(warn=60, limit=None)
    >>> for now in (0, watch.interval, 2 * watch.interval):
    ...     watch.look(now, {3: "at task 7"})
    []
    []
    []
    >>> stalls = [watch.look(now, {3: "at task 7"}) for now in range(16, 90, 5)]
    >>> [stall.seconds >= 60 for stall in sum(stalls, [])]
    [True]
    """

    def __init__(self, *, warn: float, limit: float | None) -> None:
        self._warn, self._limit = warn, limit
        # Seconds from one look to the next: a stall is found at most an eighth of its limit late.
        self.interval = min(warn, limit or warn) / 8
        self._last: float | None = None
        self._seen: dict[int, _Seen] = {}

    def due(self, now: float) -> bool:
        """Whether it is time for the next look."""
        return self._last is None or now - self._last >= self.interval

    def look(self, now: float, signs: Mapping[int, Hashable], starting: Collection[int] = ()) -> list[Stall]:
        """The stalls to report now.

        Args:
            now: seconds on any clock.
            signs: for each worker that has something to do, a value that changes when it makes progress.
            starting: those that aren't ready yet: theirs are too long after `warn` seconds at the earliest.
        """
        passed = 0.0 if self._last is None else min(now - self._last, 2 * self.interval)
        self._last = now
        before, self._seen = self._seen, {}
        stalls = []
        for worker, sign in signs.items():
            seen = before.get(worker)
            if seen is None or seen.sign != sign:
                self._seen[worker] = _Seen(sign)
                continue
            self._seen[worker] = seen
            seen.seconds += passed
            limit = self._limit
            if limit is not None and worker in starting:
                limit = max(limit, self._warn)
            too_long = limit is not None and seen.seconds >= limit
            if too_long or (seen.seconds >= self._warn and not seen.told):
                seen.told = True
                stalls.append(Stall(worker, seen.seconds, too_long, sign))
        return stalls
