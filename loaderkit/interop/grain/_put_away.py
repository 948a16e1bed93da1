"""Arrays of a tree put away in named shared memory, and taken out again, perhaps by another process.

Whoever holds what was put away owns the memory: it is freed with the metadata, where nobody opened them, at the latest
when that process ends. A pickle of them holds the bytes, and who reads it puts them away again: on the way between two
processes, each of which may end first, there is no memory that neither owns.
"""

import os
import weakref
from collections.abc import Callable
from multiprocessing.shared_memory import SharedMemory
from operator import methodcaller
from typing import Any

import numpy as np
import numpy.typing as npt

from loaderkit._system.descriptors import above_standard

from ._shared_array import SharedMemoryArray, SharedMemoryArrayMetadata
from ._tree import map_structure
from .transforms import Map


class PutAway(SharedMemoryArrayMetadata):
    """Metadata that own the memory which they describe."""

    __slots__ = ("_end",)

    def __init__(self, name: str, shape: Any, dtype: npt.DTypeLike) -> None:
        super().__init__(name, shape, dtype)
        object.__setattr__(self, "_end", weakref.finalize(self, _free, name, os.getpid()))

    def leave(self) -> None:
        """Somebody else frees the memory."""
        self._end.detach()  # type: ignore[attr-defined]  # a slot, set past the frozen class

    def close_and_unlink_shm(self) -> None:
        """Frees the memory."""
        self.leave()
        SharedMemoryArrayMetadata.close_and_unlink_shm(self)

    def __reduce__(self) -> Any:
        return _stored, (np.array(SharedMemoryArray.from_metadata(self), subok=False),)


def _stored(array: npt.NDArray[Any]) -> PutAway:
    memory = SharedMemoryArray(array.shape, array.dtype)
    memory[...] = array
    return PutAway(memory.metadata.name, array.shape, array.dtype)


def _free(name: str, pid: int) -> None:
    if os.getpid() != pid:  # a forked child's copy
        return
    try:
        with above_standard():
            memory = SharedMemory(name)
    except FileNotFoundError:
        return
    memory.close()
    memory.unlink()


class CopyNumPyArrayToSharedMemory(Map):
    """Puts the arrays of an element away in shared memory, which a loader of ours has no use for.

    >>> CopyNumPyArrayToSharedMemory().map("no array")
    'no array'
    """

    def map(self, element: Any) -> Any:
        """The element with metadata in place of its arrays."""
        return copy_to_shm(element)


def copy_to_shm(struct: Any, min_size: int = 0) -> Any:
    """The arrays of a tree of min_size bytes or more copied to shared memory: their metadata in their place."""

    def put_away(leaf: Any) -> Any:
        if isinstance(leaf, SharedMemoryArray) and leaf.shm is not None:
            return leaf.metadata  # lies there already
        if not _is_bytes_in_order(leaf) or leaf.nbytes < max(min_size, 1):
            return leaf
        return _stored(leaf)

    return map_structure(put_away, struct)


def in_shared_memory(batch: Any) -> Any:
    """As copy_to_shm, arrays of any size."""
    return copy_to_shm(batch)


def open_from_shm(struct: Any) -> Any:
    """A tree with the arrays that copy_to_shm put away; they free their memory when they go."""

    def adopted(metadata: SharedMemoryArrayMetadata) -> SharedMemoryArray:
        array = SharedMemoryArray.from_metadata(metadata)
        array.unlink_on_del()
        if isinstance(metadata, PutAway):
            metadata.leave()
        return array

    return _for_what_was_put_away(adopted, struct)


def unlink_shm(struct: Any) -> None:
    """Frees what copy_to_shm put away and nobody opened."""
    _for_what_was_put_away(methodcaller("close_and_unlink_shm"), struct)


def _for_what_was_put_away(function: Callable[[SharedMemoryArrayMetadata], Any], struct: Any) -> Any:
    def each(leaf: Any) -> Any:
        return function(leaf) if isinstance(leaf, SharedMemoryArrayMetadata) else leaf

    return map_structure(each, struct)


def _is_bytes_in_order(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray) and leaf.flags.c_contiguous and not leaf.dtype.hasobject
