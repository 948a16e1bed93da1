"""A list of plain values in named shared memory."""

import os
from collections.abc import Sequence
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import ShareableList
from typing import Any

from loaderkit._system.descriptors import above_standard

from ._shared_array import Memory


class SharedMemoryDataSource(ShareableList):  # type: ignore[type-arg]  # of values of any of its types
    """A list of numbers, strings, bytes and None in shared memory, which other processes find by its name.

    Args:
        elements: what it holds; or
        name: of one that exists. ValueError where neither is given.

    Who made it calls close() and unlink() in the end.

    >>> source = SharedMemoryDataSource([1, 2, 3])
    >>> source[1], len(source)
    (2, 3)
    >>> source.close()
    >>> source.unlink()
    """

    def __init__(self, elements: Sequence[Any] | None = None, *, name: str | None = None) -> None:
        if elements is None and name is None:
            raise ValueError("elements: give some, or the name of a list that exists")
        with above_standard():
            super().__init__(elements, name=name)
        self.shm.__class__ = Memory

    def close(self) -> None:
        """This process needs it no more."""
        self.shm.close()

    def unlink(self) -> None:
        """Nobody needs it any more."""
        self.shm.unlink()

    def __reduce__(self) -> Any:
        return _attached, (type(self), self.shm.name)

    def __str__(self) -> str:
        return f"InMemoryDataSource(name={self.shm.name}, len={len(self)})"


# Python writes down what shared memory a process opens, and frees it when that process ends, although others use it.
# A worker of ours has a list of its own, where it is crossed out; a child of multiprocessing has its parent's.
_own_lists: set[int] = set()  # the pid of a process that has one, once it opened something


def _attached(cls: type[SharedMemoryDataSource], name: str) -> SharedMemoryDataSource:
    if resource_tracker._resource_tracker._fd is None:  # type: ignore[attr-defined]  # nothing was opened yet
        _own_lists.add(os.getpid())
    source = cls(name=name)
    if os.getpid() in _own_lists:
        resource_tracker.unregister(source.shm._name, "shared_memory")  # type: ignore[attr-defined]
    return source
