"""How much a worker on another machine is given ahead, and when it takes too long for a task; never affects output."""

import math

from .pace import AHEAD_SECONDS

_WEIGHT = 0.2  # of the newest task in a mean
_MOST_TASKS = 64  # that it has at once
_SLOW = 16  # times as long as the way to it and back takes a task: it needn't have a second one meanwhile
# A task is late after this many times as long as its answers took in the mean, and after a second at least: sooner, a
# short trouble of the network has records read twice; later, next() waits for it.
_LATE_ANSWERS = 4
_LATE_SECONDS = 1.0


class ElsewherePace:
    """Running means of one worker: its work on a task, the receipt of what it made, and from the giving to the answer.

    rtt: seconds to it and back.

    >>> pace = ElsewherePace()
    >>> pace.tasks_ahead()
    2
    >>> pace.saw(working=0.016, receiving=0.0, answered=0.020)
    >>> pace.tasks_ahead()
    3
    >>> pace.rtt = 0.05
    >>> pace.tasks_ahead(), pace.is_late(0.9), pace.is_late(1.1)
    (6, False, True)
    """

    def __init__(self) -> None:
        self.rtt = 0.0
        self._working: float | None = None
        self._receiving = 0.0
        self._answered = 0.0

    def saw(self, *, working: float, receiving: float, answered: float) -> None:
        """Counts a task.

        Args:
            working: seconds that the worker says it took.
            receiving: seconds from the head of its result to the last byte.
            answered: seconds from when it was given to the head of its result.
        """
        working = max(working, 1e-6)
        if self._working is None:
            self._working, self._receiving, self._answered = working, receiving, answered
        else:
            self._working += _WEIGHT * (working - self._working)
            self._receiving += _WEIGHT * (receiving - self._receiving)
            self._answered += _WEIGHT * (answered - self._answered)

    @property
    def latency(self) -> float:
        """Seconds that a task takes beyond its work."""
        return self.rtt + self._receiving

    def tasks_ahead(self) -> int:
        """Tasks that it has at once: what it does in `AHEAD_SECONDS` and while one is on its way there and back."""
        if self._working is None:
            return 2
        each = max(self._working, self._receiving)
        least = 1 if each > _SLOW * max(self.latency, AHEAD_SECONDS / 8) else 2
        return max(least, min(_MOST_TASKS, math.ceil((AHEAD_SECONDS + self.latency) / each)))

    def is_late(self, seconds: float) -> bool:
        """Whether a task that was given so long ago takes too long."""
        return seconds > max(_LATE_SECONDS, _LATE_ANSWERS * self._answered)
