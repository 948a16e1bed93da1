"""Arrays that go to workers without a copy of their bytes."""

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from loaderkit.sources.shared_arrays import MappedArray, SharedArrays


class SharedColumns:
    """Arrays in memory that all workers share, or in their files.

    Args:
        given: arrays of numbers. A `np.memmap` stays in its file, others are copied once.

    Attributes:
        arrays: the same arrays, read-only.

    >>> import numpy as np
    >>> SharedColumns([np.array([3, 2])]).arrays[0].tolist()
    [3, 2]
    """

    def __init__(self, given: Sequence[NDArray[Any]]) -> None:
        self._held = [MappedArray.of(array) or _copied(array) for array in given]
        self.arrays = self._views()

    def _views(self) -> list[NDArray[Any]]:
        return [held.view() if isinstance(held, MappedArray) else held.views()[0] for held in self._held]

    def check(self) -> None:
        """FileChangedError where a file was written to or cut short since, as `MappedArray.check` says."""
        for held in self._held:
            if isinstance(held, MappedArray):
                held.check()

    def __getstate__(self) -> dict[str, Any]:
        return {"_held": self._held}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.arrays = self._views()


def _copied(array: NDArray[Any]) -> SharedArrays:
    shared = SharedArrays([(array.shape, array.dtype)])
    shared.writable()[0][...] = array
    return shared
