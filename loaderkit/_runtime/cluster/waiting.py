"""Waiting in the store, in slices, so that Ctrl-C takes effect and another thread can end the wait."""

import time
from collections.abc import Sequence

from loaderkit._order.store import Store

# close() and Ctrl-C take effect at most so late; a shorter slice would read the store more often. Not measured.
_SLICE_SECONDS = 0.1
_SHOWN = 8  # processes that a text names


class Wait:
    """A wait that begins now and lasts at most the store's `timeout`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._deadline = time.monotonic() + store.timeout

    def on(self, prefix: str) -> bool:
        """Waits until a key may have been posted below `prefix`; returns False at once when the time is up."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            return False
        self._store.wait(prefix, min(left, _SLICE_SECONDS))
        return True


def named(processes: Sequence[int]) -> str:
    """The numbers of processes as text, at most eight of them.

    >>> named([0, 3]), named(range(10))
    ('0, 3', '0, 1, 2, 3, 4, 5, 6, 7 and 2 more')
    """
    more = len(processes) - _SHOWN
    return ", ".join(map(str, processes[:_SHOWN])) + (f" and {more} more" if more > 0 else "")
