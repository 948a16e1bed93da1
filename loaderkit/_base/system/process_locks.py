"""Locks of threads that each process has anew."""

import os
from collections.abc import Callable
from typing import Generic, TypeVar

_Locks = TypeVar("_Locks")


class ProcessLocks(Generic[_Locks]):
    """Locks that are made when a process first asks: a thread of the parent that held one at a fork isn't in the child.

    Args:
        make: makes them.

    >>> import threading
    >>> locks = ProcessLocks(threading.Lock)
    >>> with locks.own():
    ...     print(locks.own().locked())
    True
    """

    def __init__(self, make: Callable[[], _Locks]) -> None:
        self._new_locks = make
        self._of: dict[int, _Locks] = {}

    def own(self) -> _Locks:
        """Those of this process, the same for all of its threads."""
        found = self._of.get(os.getpid())
        return self._of.setdefault(os.getpid(), self._new_locks()) if found is None else found
