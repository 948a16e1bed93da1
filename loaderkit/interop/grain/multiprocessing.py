"""Arrays and lists in named shared memory, under Grain's names, for scripts that use them themselves.

loaderkit's own workers need neither: their memory has no name, and nobody has to unlink it.
"""

import math
import mmap
import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.pool import ThreadPool
from multiprocessing.shared_memory import ShareableList, SharedMemory
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ._tree import map_structure
from .options import MultiprocessingOptions
from .transforms import Map

__all__ = [
    "MultiprocessingOptions",
    "SharedMemoryArray",
    "SharedMemoryArrayMetadata",
    "SharedMemoryDataSource",
    "copy_to_shm",
    "in_shared_memory",
    "open_from_shm",
    "unlink_shm",
]


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
        super().__init__(elements, name=name)

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


@dataclass(slots=True, frozen=True)
class SharedMemoryArrayMetadata:
    """Where a SharedMemoryArray is, and what it looks like: what travels instead of it."""

    name: str
    shape: Iterable[int]
    dtype: npt.DTypeLike

    def close_and_unlink_shm(self) -> None:
        """Frees the memory."""
        memory = SharedMemory(self.name)
        memory.close()
        memory.unlink()


class SharedMemoryArray(np.ndarray):
    """An array in named shared memory; the last process that uses it calls unlink_on_del().

    Args:
        shape, dtype: of the array.

    >>> array = SharedMemoryArray((2, 3), np.int32)
    >>> array.unlink_on_del()
    >>> array.metadata.shape
    (2, 3)
    """

    shm: SharedMemory | None
    _unlink_on_del: bool
    _lock = threading.Lock()
    _threads: ThreadPool | None = None
    _room: threading.Semaphore | None = None  # for arrays that wait to be freed

    def __new__(cls, shape: Iterable[int], dtype: npt.DTypeLike = float) -> Self:
        shape = tuple(shape)
        nbytes = math.prod(shape) * np.dtype(dtype).itemsize
        return cls.from_shared_memory(SharedMemory(create=True, size=nbytes), shape, dtype)

    @classmethod
    def from_shared_memory(cls, shm: SharedMemory, shape: Any, dtype: npt.DTypeLike) -> Self:
        """The array that lies in a piece of shared memory."""
        array = super().__new__(cls, shape, dtype, buffer=shm.buf)
        array.shm = shm
        array._unlink_on_del = False
        return array

    @classmethod
    def from_metadata(cls, metadata: SharedMemoryArrayMetadata) -> Self:
        """The array that another process described."""
        return cls.from_shared_memory(SharedMemory(metadata.name), metadata.shape, metadata.dtype)

    @property
    def metadata(self) -> SharedMemoryArrayMetadata:
        """Where it is, for another process."""
        assert self.shm is not None, "a copy lies in no shared memory"
        return SharedMemoryArrayMetadata(self.shm.name, self.shape, self.dtype)

    def __array_finalize__(self, obj: Any) -> None:
        mine = getattr(obj, "shm", None)
        self.shm = mine if mine is not None and np.may_share_memory(self, obj) else None
        self._unlink_on_del = getattr(obj, "_unlink_on_del", False)

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        if array is self:
            return array
        return array[()] if return_scalar else array.view(np.ndarray)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self).from_shared_memory, (self.shm, self.shape, self.dtype)

    @classmethod
    def enable_async_del(cls, num_threads: int = 1, max_outstanding_requests: int = 50) -> None:
        """From here on threads free the memory of arrays that go; those above the number are freed at once."""
        with SharedMemoryArray._lock:
            if SharedMemoryArray._threads is None:
                SharedMemoryArray._threads = ThreadPool(num_threads)
                SharedMemoryArray._room = threading.Semaphore(max(max_outstanding_requests, num_threads))

    @classmethod
    def _disable_async_del(cls) -> None:
        SharedMemoryArray._threads = SharedMemoryArray._room = None

    @classmethod
    def close_shm_async(cls, shm: SharedMemory, unlink: bool) -> None:
        """Frees an array's memory, in a thread."""
        _freed(shm, unlink=unlink)
        assert SharedMemoryArray._room is not None
        SharedMemoryArray._room.release()

    def unlink_on_del(self) -> None:
        """This object frees the memory when it goes."""
        self._unlink_on_del = True

    def __del__(self) -> None:
        base: Any = self.base
        if not isinstance(base, mmap.mmap) or self.shm is None:  # a view of another one
            return
        threads, room = SharedMemoryArray._threads, SharedMemoryArray._room
        if threads is not None and room is not None and room.acquire(blocking=False):
            threads.apply_async(SharedMemoryArray.close_shm_async, (self.shm, self._unlink_on_del))
        else:
            _freed(self.shm, unlink=self._unlink_on_del)


class CopyNumPyArrayToSharedMemory(Map):
    """Puts the arrays of an element away in shared memory; of no use in a loader of ours.

    >>> CopyNumPyArrayToSharedMemory().map("no array")
    'no array'
    """

    def map(self, element: Any) -> Any:
        """The element with metadata in place of its arrays."""
        return copy_to_shm(element)


def _freed(shm: SharedMemory, *, unlink: bool) -> None:
    shm.close()
    if unlink:
        shm.unlink()


def in_shared_memory(batch: Any) -> Any:
    """The arrays of a tree copied to shared memory, where they hold no objects: their metadata in their place."""
    return copy_to_shm(batch)


def copy_to_shm(struct: Any, min_size: int = 0) -> Any:
    """The arrays of a tree of min_size bytes or more copied to shared memory: their metadata in their place."""
    return map_structure(partial(_copied, min_size=min_size), struct)


def open_from_shm(struct: Any) -> Any:
    """A tree with the arrays that copy_to_shm put away; they free their memory when they go."""
    return map_structure(_opened, struct)


def unlink_shm(struct: Any) -> None:
    """Frees what copy_to_shm put away and nobody opened."""
    map_structure(
        lambda leaf: leaf.close_and_unlink_shm() if isinstance(leaf, SharedMemoryArrayMetadata) else None,
        struct,
    )


def _copied(leaf: Any, *, min_size: int) -> Any:
    if isinstance(leaf, SharedMemoryArray):
        return leaf.metadata
    if not isinstance(leaf, np.ndarray) or leaf.dtype.hasobject or not leaf.flags.c_contiguous:
        return leaf
    if leaf.size == 0 or leaf.nbytes < min_size:
        return leaf
    array = SharedMemoryArray(leaf.shape, leaf.dtype)
    np.copyto(array, leaf, casting="no")
    return array.metadata


def _opened(leaf: Any) -> Any:
    if not isinstance(leaf, SharedMemoryArrayMetadata):
        return leaf
    array = SharedMemoryArray.from_metadata(leaf)
    array.unlink_on_del()
    return array
