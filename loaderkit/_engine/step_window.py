"""How many steps a row scheduler has in flight, and how many batches it hands out in one go.

Enough rows to keep all workers busy (pace.py), but no more than AHEAD_NBYTES of batches where these are large; at least
as many batches as the user's `prefetch` says.
"""

from .pace import Pace
from .scheduler import AHEAD_NBYTES, Reserve
from .task import Layout

_ANY = 1 << 62
# Batches delivered at once: where caches are cold a delivery costs 250 us, and the median next() 90 us with one in
# eight. More would make that one slower and gain less each.
_BULK = 8


class StepWindow:
    """Counts the steps that were opened and not handed out.

    Args:
        pace: how long things take.
        reserve: of the scheduler's outputs.
        prefetch: batches to make ahead of the one handed out last.
        bulk: whether several batches may be handed out in one go.

    layout: what the batches look like, None while that isn't known.
    batch: rows of the step that was opened last.
    ahead: steps of the plan that were opened and not handed out.
    most_at_once: batches to hand out in one go.
    """

    def __init__(self, pace: Pace, reserve: Reserve, *, prefetch: int, bulk: bool) -> None:
        self.layout: Layout | None = None
        self.batch = 0
        self.ahead = 0
        self.most_at_once = 1
        self._pace = pace
        self._reserve = reserve
        self._prefetch = prefetch
        self._bulk = bulk
        self._enough = _ANY  # with so many steps ahead, none is opened

    def room(self, batch: int) -> int:
        """How many steps may be opened now.

        Once the window is full, there is room again when half of it was used: many tasks go in one message.

        Args:
            batch: rows of a step.
        """
        if self.ahead >= self._enough:
            return 0
        pace, layout = self._pace, self.layout
        ahead = pace.rows_ahead(batch)
        nbytes = 0 if layout is None else max(layout.nbytes(batch), 1)
        if nbytes:
            affordable = AHEAD_NBYTES * batch // nbytes
            ahead = min(ahead, max(affordable, pace.least_ahead(self._reserve.task_rows(batch))))
        window = max(self._prefetch, 1, -(-ahead // batch))
        self.most_at_once = 1
        if self._bulk and nbytes:
            self.most_at_once = max(1, min(window // 2, _BULK, AHEAD_NBYTES // nbytes))
        full = self.ahead >= window
        self._enough = window - window // 2 + 1 if full else _ANY
        return 0 if full else window - self.ahead

    def opened(self, rows: int, steps: int) -> None:
        """So many steps of so many rows were opened."""
        self.batch = rows
        self.ahead += steps
