"""When a process that ended is started again."""

import math

_FIRST_SECONDS, _LONGEST_SECONDS = 1.0, 60.0


class Pauses:
    """Of one process: 1, 2, 4 ... 60 s from its end to its next start; from 1 again once it has lasted a minute.

    due: when it is to be started, on a monotonic clock, in seconds.

    >>> pauses = Pauses()
    >>> pauses.due
    -inf
    >>> waits = []
    >>> for now in range(0, 800, 100):
    ...     pauses.began(now)
    ...     pauses.ended(now)
    ...     waits.append(int(pauses.due - now))
    >>> waits
    [1, 2, 4, 8, 16, 32, 60, 60]
    >>> pauses.began(1000)
    >>> pauses.ended(1060)
    >>> pauses.due
    1061.0
    """

    def __init__(self) -> None:
        self._next = _FIRST_SECONDS
        self._began = self.due = -math.inf

    def began(self, now: float) -> None:
        """It was started."""
        self._began = now

    def ended(self, now: float) -> None:
        """It has ended."""
        if now - self._began >= _LONGEST_SECONDS:
            self._next = _FIRST_SECONDS
        self.due = now + self._next
        self._next = min(2 * self._next, _LONGEST_SECONDS)
