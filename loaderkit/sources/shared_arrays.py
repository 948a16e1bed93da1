"""Arrays that the trainer and all its workers hold once, whatever their number.

Two kinds, one for data that has to be put somewhere and one for data that lies in a file already:
`SharedArrays` copies into memory that travels by descriptor, `MappedArray` is a part of a file and travels by
its name.
"""

import dataclasses
import itertools
import mmap
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._system.descriptors import above_standard
from loaderkit._system.shared_memory import SharedBuffer, goes_to_a_worker

from .content import content_hash, sampled_keys
from .file_identity import FileIdentity, file_changed

# Where each array begins is a multiple of this, as numpy's own allocations and the CPU's cache lines are.
ALIGNMENT = 64


class SharedArrays:
    """Arrays laid out in one block of shared memory; pickled, they travel to workers without a copy.

    Args:
        specs: shape and dtype of each; no dtype may hold Python objects.

    >>> shared = SharedArrays([((2,), np.dtype(np.int64))])
    >>> shared.writable()[0][:] = 7
    >>> shared.views()[0].tolist(), shared.views()[0].flags.writeable
    ([7, 7], False)
    """

    def __init__(self, specs: Sequence[tuple[tuple[int, ...], np.dtype[Any]]]) -> None:
        self._specs = tuple(specs)
        self._buffer = SharedBuffer(max(1, self._offsets()[-1]))

    @property
    def nbytes(self) -> int:
        """How many bytes of memory the arrays take, the gaps between them too."""
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
        """The arrays, to be filled before anyone reads them."""
        return self._over(self._buffer.writable())

    def views(self) -> list[NDArray[Any]]:
        """The arrays, read-only; they keep the memory alive."""
        return self._over(self._buffer.view())


class MappedArray:
    """An array in a file, as `np.memmap` gives it; it is pickled as the file's name and its place there.

    Args:
        path: the file.
        offset: byte where the first element is.
        shape: of the array.
        strides: bytes from one element to the next along each axis.
        dtype: of the array.
        identity: of the file, None to take it from the file that is there.

    FileNotFoundError, FileChangedError or ValueError, naming the file, where it is missing, another one or too short
    when it is opened again.
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
            size = self._identity.nbytes
            whole = np.memmap(file, np.uint8, mode="r") if size else np.empty(0, np.uint8)
        try:
            self._array: NDArray[Any] = np.ndarray(
                shape, dtype, buffer=whole.data, offset=offset, strides=strides
            )
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{path}: an array of shape {shape} and dtype {dtype} at byte {offset} doesn't fit in its "
                f"{size} bytes; was the file cut short or replaced?"
            ) from error

    @classmethod
    def of(cls, array: NDArray[Any]) -> "MappedArray | None":
        """The same array as a part of its file; None where it isn't one that can be mapped again.

        Args:
            array: any array; a view of a `np.memmap` is recognised too.

        >>> MappedArray.of(np.zeros(3)) is None
        True
        """
        base: Any = array
        while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
            base = base.base
        # mode "c" holds changes that aren't in the file.
        if not isinstance(base, np.memmap) or base.filename is None or base.mode == "c" or not array.size:
            return None
        # A slice of a memmap keeps the attribute `offset` of the whole, so the place is told from the
        # addresses. The mapping itself begins at the start of a page.
        mapping = np.frombuffer(base._mmap, np.uint8)  # type: ignore[attr-defined]
        begin = base.offset - base.offset % mmap.ALLOCATIONGRANULARITY
        offset = begin + array.ctypes.data - mapping.ctypes.data
        path = os.fspath(base.filename)
        mapped = cls(path, offset, array.shape, array.strides, array.dtype)
        given = np.asarray(array)
        keys = sampled_keys(len(given)) if given.ndim else []
        if content_hash(given[key] for key in keys) != content_hash(mapped._array[key] for key in keys):
            raise file_changed(path, "it holds other values than the array that was mapped from it")
        if base.mode != "r":
            # Its writers, this process among them, change the time; all who map it see the same bytes.
            mapped._identity = dataclasses.replace(mapped._identity, modified_ns=None)
        return mapped

    def view(self) -> NDArray[Any]:
        """The array, read-only."""
        return self._array

    def __reduce__(self) -> tuple[Any, ...]:
        # What identifies the file on this machine means nothing on another, nor for a later run.
        return MappedArray, (*self._place, self._identity) if goes_to_a_worker() else self._place
