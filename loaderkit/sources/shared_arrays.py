"""Arrays that the trainer and all its workers share, in memory once for any number of workers.

`SharedArrays` holds copies in shared memory and sends its descriptor to workers. `MappedArray` is a part of a file and
sends the file's name. `SharedColumns` takes each array as it is best sent.
"""

import dataclasses
import itertools
import mmap
import os
import time
from collections.abc import Sequence
from typing import Any, BinaryIO
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.system import file_identity
from loaderkit._base.system.file_identity import FileIdentity, WatchedFile, file_changed
from loaderkit._base.system.limits import above_standard
from loaderkit._base.system.shared_memory import SharedBuffer, goes_to_a_worker
from loaderkit._source.content import content_hash, sampled_keys

ALIGNMENT = 64  # bytes, of each array's start: a cache line, and the alignment of numpy's own allocations


class SharedArrays:
    """Arrays in one block of shared memory; pickling them for a worker copies nothing.

    Args:
        specs: shape and dtype of each array; dtypes without Python objects.

    >>> shared = SharedArrays([((2,), np.dtype(np.int64))])
    >>> shared.writable()[0][:] = 7
    >>> shared.views()[0].tolist(), shared.views()[0].flags.writeable
    ([7, 7], False)
    """

    def __init__(self, specs: Sequence[tuple[tuple[int, ...], np.dtype[Any]]]) -> None:
        self._specs = tuple(specs)
        self._buffer = SharedBuffer(max(1, self._offsets()[-1]))

    @classmethod
    def of(cls, arrays: Sequence[NDArray[Any]]) -> "SharedArrays":
        """Copies of arrays.

        >>> SharedArrays.of([np.array([7, 7])]).views()[0].tolist()
        [7, 7]
        """
        shared = cls([(array.shape, array.dtype) for array in arrays])
        for place, array in zip(shared.writable(), arrays):
            place[...] = array
        return shared

    @property
    def nbytes(self) -> int:
        """Bytes of the block, the gaps between arrays included."""
        return self._buffer.nbytes

    def _offsets(self) -> list[int]:
        sizes = [dtype.itemsize * int(np.prod(shape, dtype=np.int64)) for shape, dtype in self._specs]
        return [0, *itertools.accumulate(-(-size // ALIGNMENT) * ALIGNMENT for size in sizes)]

    def _over(self, buffer: Any) -> list[NDArray[Any]]:
        return [
            np.ndarray(shape, dtype, buffer=buffer, offset=offset)
            for (shape, dtype), offset in zip(self._specs, self._offsets())
        ]

    def writable(self) -> list[NDArray[Any]]:
        """The arrays for writing; fill them before the first `views`."""
        return self._over(self._buffer.writable())

    def views(self) -> list[NDArray[Any]]:
        """The arrays, read-only; each keeps the memory alive."""
        return self._over(self._buffer.view())


class MappedArray:
    """An array in a file, as `np.memmap` gives it; pickled as the file's name and the array's place there.

    Args:
        path: the file.
        offset: byte of the first element in the file.
        shape: of the array.
        strides: bytes from one element to the next along each axis.
        dtype: of the array.
        identity: of the file that must be found; None takes the file as it is.

    Errors name the file: FileNotFoundError where it is missing, FileChangedError where it is another file, ValueError
    where it is too short.
    """

    def __init__(
        self,
        path: str,
        offset: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: np.dtype[Any],
        identity: FileIdentity | None = None,
    ) -> None:
        self._place = (path, offset, shape, strides, dtype)
        with above_standard(), open(path, "rb") as file:
            timed = identity is None or identity.modified_ns is not None
            self._identity = FileIdentity.of(file.fileno(), timed=timed)
            if identity is not None:
                identity.check(path, self._identity)
            self._watched = WatchedFile(path, self._identity)
            size = self._identity.nbytes
            whole = _mapped_whole(file) if size else np.empty(0, np.uint8)
        try:
            self._array: NDArray[Any] = np.ndarray(
                shape, dtype, buffer=whole.data, offset=offset, strides=strides
            )
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{path}: expected an array of shape {shape} and dtype {dtype} at byte {offset}, got a file of {size} "
                "bytes, which is too short; it was truncated or replaced"
            ) from error

    @classmethod
    def of(cls, array: NDArray[Any]) -> "MappedArray | None":
        """The same array as a part of its file; None where the array isn't mapped, or can't be mapped again.

        Args:
            array: any array; a view of a `np.memmap` counts as mapped.

        >>> MappedArray.of(np.zeros(3)) is None
        True
        """
        base: Any = array
        while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
            base = base.base
        # With mode "c", changes of the array aren't in the file.
        if not isinstance(base, np.memmap) or base.filename is None or base.mode == "c" or not array.size:
            return None
        # A slice of a memmap has the attribute `offset` of the whole, so its place is computed from addresses. The
        # mapping begins at the start of a page.
        mapping = np.frombuffer(base._mmap, np.uint8)  # type: ignore[attr-defined]
        begin = base.offset - base.offset % mmap.ALLOCATIONGRANULARITY
        offset = begin + array.ctypes.data - mapping.ctypes.data
        path = os.fspath(base.filename)
        mapped = cls(path, offset, array.shape, array.strides, array.dtype)
        given = np.asarray(array)
        keys = sampled_keys(len(given)) if given.ndim else []
        if content_hash(given[key] for key in keys) != content_hash(mapped._array[key] for key in keys):
            raise file_changed(path, "it has other values than the array that was mapped from it")
        if base.mode != "r":
            # The mapping is writable, so writing to it changes the file's time; all that map it see the same bytes.
            mapped._identity = dataclasses.replace(mapped._identity, modified_ns=None)
            mapped._watched = WatchedFile(path, mapped._identity)
        return mapped

    @property
    def path(self) -> str:
        """The file."""
        return self._place[0]

    def view(self) -> NDArray[Any]:
        """The array, read-only."""
        return self._array

    def file_versions(self) -> Any:
        """What tells exactly this file from others, as JSON values: size and time."""
        return self._identity.told()

    def check(self) -> None:
        """FileChangedError where the file was written to since; compared once in 0.1 s, as `WatchedFile` does."""
        self._watched.check()

    def __reduce__(self) -> tuple[Any, ...]:
        # The identity holds on this machine and for this run only.
        return MappedArray, (*self._place, self._identity) if goes_to_a_worker() else self._place


# A mapping keeps a descriptor, and several arrays may lie in one file.
_MAPPINGS: WeakValueDictionary[FileIdentity, np.memmap[Any, Any]] = WeakValueDictionary()


def _mapped_whole(file: BinaryIO) -> NDArray[np.uint8]:
    identity = FileIdentity.of(file.fileno())
    mapping = _MAPPINGS.get(identity)
    if mapping is None:
        mapping = _MAPPINGS[identity] = np.memmap(file, np.uint8, mode="r")
    return mapping


def mapped_numbers(path: str, dtype: np.dtype[Any], begin: int, count: int) -> NDArray[Any]:
    """Numbers (count,) in a file, as `np.memmap` gives them; all arrays of a file are of one mapping.

    Args:
        path: of the file.
        dtype: of the numbers.
        begin: the byte of the first.
        count: how many; the file has them.
    """
    if not count:
        return np.empty(0, dtype)
    with above_standard(), open(path, "rb") as file:
        return _mapped_whole(file)[begin : begin + count * dtype.itemsize].view(dtype)


class SharedColumns:
    """Arrays that go to workers without a copy of their bytes: in memory that all share, or in their files.

    Args:
        given: arrays without Python objects. A `np.memmap` stays in its file, others are copied once.

    Attributes:
        arrays: the same arrays, read-only.

    >>> SharedColumns([np.array([3, 2])]).arrays[0].tolist()
    [3, 2]
    """

    def __init__(self, given: Sequence[NDArray[Any]]) -> None:
        mapped = [MappedArray.of(array) for array in given]
        copied = SharedArrays.of([array for array, file in zip(given, mapped) if file is None])
        self.__setstate__((mapped, copied))

    def __setstate__(self, state: tuple[list[MappedArray | None], SharedArrays]) -> None:
        self._mapped, self._copied = state
        self._files = [file for file in self._mapped if file is not None]
        self._check_at = 0.0  # when the next comparison is due: of hundreds of files, to ask each took 0.1 us
        copied = iter(self._copied.views())
        self.arrays = [next(copied) if file is None else file.view() for file in self._mapped]

    def __getstate__(self) -> tuple[list[MappedArray | None], SharedArrays]:
        return self._mapped, self._copied

    def check(self) -> None:
        """FileChangedError where a file was written to or cut short since, as `MappedArray.check` says."""
        if time.monotonic() >= self._check_at:
            for file in self._files:
                file.check()
            self._check_at = time.monotonic() + file_identity.CHECK_S
