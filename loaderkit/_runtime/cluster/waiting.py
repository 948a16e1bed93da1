"""Waiting at the store where processes meet: in slices, so that an interrupt is heard and another thread can end it."""

import time
from collections.abc import Sequence

from loaderkit._order.store import Store

_SLICE_SECONDS = 0.1
_SHOWN = 8


class Wait:
    """One wait of as long as the store allows, from now on."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._deadline = time.monotonic() + store.timeout

    def on(self, prefix: str) -> bool:
        """Returns when something may have been posted under a prefix; False, at once, where the time is up."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            return False
        self._store.wait(prefix, min(left, _SLICE_SECONDS))
        return True


def named(processes: Sequence[int]) -> str:
    """Processes in words.

    >>> named([0, 3]), named(range(10))
    ('0, 3', '0, 1, 2, 3, 4, 5, 6, 7 and 2 more')
    """
    more = len(processes) - _SHOWN
    return ", ".join(map(str, processes[:_SHOWN])) + (f" and {more} more" if more > 0 else "")
