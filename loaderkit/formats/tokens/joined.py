"""Numbers of several files, one file's behind the other's: a corpus is the same however it is cut into files."""

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.block_checksums import CheckedBlocks, JoinedBlocks
from loaderkit.sources.shared_arrays import SharedColumns

from .integers import ADVICE, Numbers

if TYPE_CHECKING:
    from .file import TokenFiles

IntArray = NDArray[np.int64]
_CHECKED_AT_ONCE = 1 << 20  # offsets: 8 MB, for a file of any length


class JoinedValues:
    """Runs of numbers by their places in all files together. Pickled it is names of files, or shared memory.

    Args:
        numbers: of each file, in arrays or to be read by ranges.
        names: of the files, for errors.
        checksums: by file, of the blocks of its numbers (blocks,); None for a file without. () for none at all.
        begins: by file, the byte of its first number.

    dtype: of all numbers.

    >>> values = JoinedValues([np.array([5, 6]), np.array([7, 8])])
    >>> [run.tolist() for run in values.slices(np.array([3, 1]), np.array([4, 3]))]
    [[8], [6, 7]]
    """

    def __init__(
        self,
        numbers: Numbers,
        names: Sequence[str] = (),
        checksums: Sequence[NDArray[np.uint32] | None] = (),
        begins: Sequence[int] = (),
    ) -> None:
        self._remote: TokenFiles | None = None if isinstance(numbers, list) else numbers
        counts = list(map(len, numbers)) if isinstance(numbers, list) else numbers.counts
        self.dtype: np.dtype[Any] = numbers[0].dtype if isinstance(numbers, list) else numbers.dtype
        self._ends = np.cumsum(counts, dtype=np.int64)
        self._starts = self._ends - counts
        self._names, self._begins = names, begins
        self._has_blocks = [table is not None for table in checksums]
        arrays = numbers if isinstance(numbers, list) else []
        self._held = SharedColumns([*arrays, *(table for table in checksums if table is not None)])
        self._open()

    def _open(self) -> None:
        files = len(self._ends)
        self._arrays = self._held.arrays[: 0 if self._remote is not None else files]
        tables = iter(self._held.arrays[len(self._arrays) :])
        blocks = [
            CheckedBlocks(self._names[file], self._bytes(file), next(tables), offset=begin, advice=ADVICE)
            if has_blocks
            else None
            for file, (has_blocks, begin) in enumerate(zip(self._has_blocks, self._begins))
        ]
        self._blocks = JoinedBlocks(blocks) if any(self._has_blocks) else None

    def _bytes(self, file: int) -> Any:
        return self._arrays[file].view(np.uint8) if self._remote is None else self._remote.as_bytes(file)

    def __len__(self) -> int:
        return int(self._ends[-1])

    @property
    def counts(self) -> IntArray:
        """The numbers of each file (files,)."""
        return self._ends - self._starts

    @property
    def read_ahead(self) -> int:
        """Calls in flight that pay: 0 for arrays and local files."""
        return 0 if self._remote is None else self._remote.read_ahead

    def slices(self, begins: IntArray, ends: IntArray) -> list[NDArray[Any]]:
        """Runs of numbers, read-only; those of arrays are views, those of a server are read by one call.

        Args:
            begins, ends: the place of the first number of each run, and the place behind its last (n,).
        """
        last = len(self._ends) - 1
        files = np.minimum(self._ends.searchsorted(begins, "right"), last)
        if last and ((ends > self._ends[files]) & (files < last)).any():
            return [self._across(begin, end) for begin, end in zip(begins.tolist(), ends.tolist())]
        starts = self._starts[files]
        begins, ends = begins - starts, ends - starts
        if self._remote is not None:
            return self._remote.slices(files, begins, ends, self._blocks)
        self._held.check()
        if self._blocks is not None and not self._blocks.is_checked:
            self._blocks.check_each(files, begins * self.dtype.itemsize, ends * self.dtype.itemsize)
        arrays = self._arrays
        if not last:
            (array,) = arrays
            return [array[begin:end] for begin, end in zip(begins.tolist(), ends.tolist())]
        places = zip(files.tolist(), begins.tolist(), ends.tolist())
        return [arrays[file][begin:end] for file, begin, end in places]

    def _across(self, begin: int, end: int) -> NDArray[Any]:
        cuts = [begin, *(cut for cut in self._ends.tolist() if begin < cut < end), end]
        return np.concatenate(self.slices(np.array(cuts[:-1]), np.array(cuts[1:])))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_arrays", "_blocks")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()


class JoinedOffsets:
    """Where the items of several files lie in the values of all.

    Those of one file stay there. Those of several are copied once, 8 bytes an item, to memory that all workers share:
    the items of a batch lie in nearly as many files, and to ask each of them took a tenth of a batch of packed rows.

    Args:
        offsets: by file, of its items in its values (items + 1,), ascending; ValueError where they aren't.
        counts: by file, how many values it has.
        names: of the files, for errors; () where there are none.

    >>> offsets = JoinedOffsets([np.array([0, 2]), np.array([0, 1, 3])], [2, 3])
    >>> len(offsets), offsets.bounds(np.array([2, 0])), offsets.lengths.tolist()
    (3, (array([3, 0]), array([5, 2])), [2, 1, 2])
    """

    def __init__(
        self, offsets: list[NDArray[Any]], counts: Sequence[int] | IntArray, names: Sequence[str] = ()
    ) -> None:
        for each, count, name in itertools.zip_longest(offsets, counts, names):
            _check(each, int(count), "" if name is None else f"{name}: ")
        self._ends = np.cumsum([len(each) - 1 for each in offsets], dtype=np.int64)
        self._starts = np.concatenate([np.zeros(1, np.int64), self._ends[:-1]])
        if len(offsets) > 1:
            bases = np.cumsum(counts, dtype=np.int64) - counts
            joined = np.concatenate(offsets, dtype=np.int64)
            for part, base in zip(np.split(joined, np.cumsum([*map(len, offsets)])[:-1]), bases):
                part += base
            offsets = [joined]
        self._held = SharedColumns(offsets)

    def __len__(self) -> int:
        return int(self._ends[-1])

    @property
    def _places(self) -> NDArray[Any]:
        self._held.check()
        return self._held.arrays[0]  # item k of file f is places[k + f]:places[k + f + 1]

    def bounds(self, keys: IntArray) -> tuple[IntArray, IntArray]:
        """The place of the first value of each item, and the place behind its last: (n,) each.

        Args:
            keys: numbers of items (n,), none out of range.
        """
        at, places = keys + self._ends.searchsorted(keys, "right"), self._places
        return places[at].astype(np.int64, copy=False), places[at + 1].astype(np.int64, copy=False)

    def places(self, keys: IntArray) -> tuple[NDArray[Any], IntArray]:
        """The file of each item (n,), and its number there."""
        files = self._ends.searchsorted(keys, "right")
        return files, keys - self._starts[files]

    @property
    def lengths(self) -> NDArray[Any]:
        """The values of each item (items,); uint32 where all are below 2**32."""
        places, (first, last) = self._places, self.ends
        lengths: NDArray[Any] = np.empty(len(self), np.uint32 if last - first < 1 << 32 else np.int64)
        for file, (start, end) in enumerate(zip(self._starts.tolist(), self._ends.tolist())):
            low, high = start + file, end + file
            np.subtract(
                places[low + 1 : high + 1], places[low:high], out=lengths[start:end], casting="unsafe"
            )
        return lengths

    @property
    def ends(self) -> tuple[int, int]:
        """The first offset of all, and the last."""
        return int(self._places[0]), int(self._places[-1])

    @property
    def first(self) -> list[int]:
        """The first 16 offsets, as of one file."""
        begins, ends = self.bounds(np.arange(min(16, len(self))))
        last = ends[-1:].tolist() or [self.ends[0]]
        return [*begins.tolist(), *last][:16]


def _check(offsets: NDArray[Any], values: int, name: str) -> None:
    advice = "for lengths of documents give np.concatenate([[0], np.cumsum(lengths)])"
    if not len(offsets):
        raise ValueError(f"{name}offsets: expected one more than there are documents, got none; {advice}")
    last = offsets[0]
    for lo in range(0, len(offsets), _CHECKED_AT_ONCE):
        part = np.concatenate([[last], offsets[lo : lo + _CHECKED_AT_ONCE]])
        less = part[1:] < part[:-1]
        if less.any():
            place = int(less.argmax())
            raise ValueError(
                f"{name}offsets: expected ascending numbers, got {part[place + 1]} behind {part[place]} at place "
                f"{lo + place}; {advice}"
            )
        last = part[-1]
    if int(offsets[0]) < 0 or int(last) > values:
        raise ValueError(
            f"{name}offsets: expected numbers from 0 to {values}, the number of tokens, got {offsets[0]} to {last}"
        )
