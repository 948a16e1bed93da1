"""Arrays and lists in named shared memory, for scripts that make or open them themselves.

loaderkit's own workers use neither: their memory has no name and needs no unlink.
"""

import math
import os
import sys
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import ShareableList, SharedMemory
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from loaderkit._base.former_arguments import warn_of_former
from loaderkit._base.system.limits import above_standard


@dataclass(slots=True, frozen=True)
class SharedMemoryArrayMetadata:
    """Name, shape and dtype of a SharedMemoryArray, sent in place of the array."""

    name: str
    shape: Iterable[int]
    dtype: npt.DTypeLike

    def close_and_unlink_shm(self) -> None:
        """Frees the memory."""
        with above_standard():
            memory = SharedMemory(self.name)
        memory.close()
        memory.unlink()


class Memory(SharedMemory):
    """Shared memory that is left to the system at the end of the process, when names that its end needs are gone."""

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_ending():
            super().__del__()


class _Segment:
    """The memory of one array; its name is removed with it if `unlinks`."""

    def __init__(self, memory: SharedMemory) -> None:
        self.memory = memory
        self.unlinks = False

    def free(self) -> None:
        self.memory.close()
        if self.unlinks:
            self.memory.unlink()


class SharedMemoryArray(np.ndarray):
    """An array in named shared memory; the last process that uses it calls unlink_on_del(). Deprecated.

    Its views and copies are plain arrays in this respect: they have no metadata, and a view keeps the memory.

    Args:
        shape, dtype: of the array.
    """

    _segment: _Segment | None

    def __new__(cls, shape: Iterable[int], dtype: npt.DTypeLike = float) -> Self:
        warn_of_former("SharedMemoryArray()", "np.empty(shape, dtype)", stacklevel=2)
        lengths = tuple(shape)
        with above_standard():
            memory = Memory(create=True, size=np.dtype(dtype).itemsize * math.prod(lengths))
        return cls.from_shared_memory(memory, lengths, dtype)

    @classmethod
    def from_shared_memory(cls, shm: SharedMemory, shape: Any, dtype: npt.DTypeLike) -> Self:
        """The array that lies in a piece of shared memory.

        Args:
            shm: the memory, of as many bytes as the array has or more.
            shape, dtype: of the array.
        """
        array = super().__new__(cls, shape, dtype, buffer=shm.buf)
        array._segment = _Segment(shm)
        # Not at the end of the process, when other objects may still use the array: the system frees the memory then.
        weakref.finalize(array, array._segment.free).atexit = False
        return array

    @classmethod
    def from_metadata(cls, metadata: SharedMemoryArrayMetadata) -> Self:
        """The array that another process described.

        Args:
            metadata: what the array's `metadata` was there.
        """
        with above_standard():
            memory = Memory(metadata.name)
        return cls.from_shared_memory(memory, metadata.shape, metadata.dtype)

    def __array_finalize__(self, obj: Any) -> None:
        self._segment = None

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        if array is self:  # written in place
            return self
        plain = np.asarray(array)
        return plain[()] if return_scalar else plain

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self._segment is None or self._segment.unlinks:  # its memory may be gone before the pickle is read
            return np.asarray(self).__reduce_ex__(protocol)
        return type(self).from_shared_memory, (self._segment.memory, self.shape, self.dtype)

    @property
    def shm(self) -> SharedMemory | None:
        """The memory; None for a view or a copy."""
        return None if self._segment is None else self._segment.memory

    @property
    def metadata(self) -> SharedMemoryArrayMetadata:
        """Where it is, for another process; ValueError for a view or a copy."""
        return SharedMemoryArrayMetadata(self._own_segment().memory.name, self.shape, self.dtype)

    def unlink_on_del(self) -> None:
        """The memory is freed with this object; ValueError for a view or a copy."""
        self._own_segment().unlinks = True

    def _own_segment(self) -> _Segment:
        if self._segment is None:
            raise ValueError("expected a SharedMemoryArray itself, got a view or a copy: ask the array")
        return self._segment

    @classmethod
    def enable_async_del(cls, num_threads: int = 1, max_outstanding_requests: int = 50) -> None:
        """Does nothing: memory is freed at once, where Grain leaves it to threads.

        Args:
            num_threads, max_outstanding_requests: change nothing.
        """


class SharedMemoryDataSource(ShareableList):  # type: ignore[type-arg]  # of values of any of its types
    """A list of numbers, strings, bytes and None in shared memory, which other processes find by its name.

    The process that made it calls close() and unlink() in the end.

    Args:
        elements: what it holds; or
        name: of one that exists. ValueError where neither is given.

    >>> source = SharedMemoryDataSource([1, 2, 3])
    >>> source[1], len(source)
    (2, 3)
    >>> source.close()
    >>> source.unlink()
    """

    def __init__(self, elements: Sequence[Any] | None = None, *, name: str | None = None) -> None:
        if elements is None and name is None:
            raise ValueError("elements: expected some, or the name of a list that exists, got neither")
        with above_standard():
            super().__init__(elements, name=name)
        self.shm.__class__ = Memory

    def close(self) -> None:
        """Ends this process's use of it."""
        self.shm.close()

    def unlink(self) -> None:
        """Frees the memory once no process uses it."""
        self.shm.unlink()

    def __reduce__(self) -> Any:
        return _attached, (type(self), self.shm.name)

    def __str__(self) -> str:
        return f"InMemoryDataSource(name={self.shm.name}, len={len(self)})"


# Python notes what shared memory a process opens, and frees it when that process ends, although others use it. A worker
# of ours has a list of its own, from which the memory is taken; a child of multiprocessing shares its parent's.
_own_lists: set[int] = set()  # the pid of a process that has one, once it opened something


def _attached(cls: type[SharedMemoryDataSource], name: str) -> SharedMemoryDataSource:
    if resource_tracker._resource_tracker._fd is None:  # type: ignore[attr-defined]  # nothing was opened yet
        _own_lists.add(os.getpid())
    source = cls(name=name)
    if os.getpid() in _own_lists:
        resource_tracker.unregister(source.shm._name, "shared_memory")  # type: ignore[attr-defined]
    return source
