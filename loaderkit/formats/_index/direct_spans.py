"""The spans of records, read straight from their shards."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._storage.range_reader import RangeReader

from .check import ShardCheck
from .record_index import RecordIndex


class LineSpans:
    """What reads of records ask an index for; a span begins a byte before its record, but for a file's first.

    Args:
        index: of files of lines.
    """

    def __init__(self, index: RecordIndex) -> None:
        self._index = index
        self.chunk_records, self.nbytes, self.shard_ends = index.chunk_records, index.nbytes, index.shard_ends
        self.digest, self.exact = f"{index.digest} lines", index.exact
        self._firsts = np.concatenate((np.zeros(1, np.int64), self.shard_ends[:-1]))

    def __len__(self) -> int:
        return len(self._index)

    def locate(
        self, keys: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Shard, first byte and end of each record, (n,) int64 each."""
        shards, begins, ends = self._index.locate(keys)
        begins -= keys > self._firsts[shards]
        return shards, begins, ends

    def __reduce__(self) -> tuple[Any, ...]:
        return LineSpans, (self._index,)


def readable_spans(index: RecordIndex) -> RecordIndex | LineSpans:
    """What reads of an index's records ask for their places: of text files more than the records."""
    text = index.kind in ("lines", "json_lines") or index.kind.partition(" ")[0] == "csv"
    return LineSpans(index) if text else index


class DirectSpans:
    """Reads the bytes of records: the index says where they lie, the range reader gets them. A `SpanReader`.

    Args:
        index: of the shards of `ranges`, in the same order.
        ranges: reads them.
        check: of these shards. Where it doubts one, records are compared with their checksums.
        always: whether they are where it doubts none.
    """

    def __init__(
        self, index: RecordIndex | LineSpans, ranges: RangeReader, check: ShardCheck, *, always: bool = False
    ) -> None:
        self._index, self._ranges, self._check = index, ranges, check
        self._always = always and index.exact is not None

    @property
    def waits(self) -> bool:
        """Whether a read waits for a server."""
        return self._ranges.waits

    @property
    def compares(self) -> bool:
        """Whether records are compared with their checksums; no shard is doubted where they have none."""
        return self._always or bool(self._check.doubted)

    def read(self, keys: NDArray[np.int64]) -> list[bytes | memoryview]:
        """The spans of the records with these keys, (n,) each in [0, records), in the order given."""
        if self.waits or lie_together(keys):
            return [*self._compared(keys, self._ranges.read(*self._index.locate(keys)))]
        # Few records lie together, as in a shuffle: without a plan of reads a call of 256 takes 15% to 25% less time.
        keys, rank = in_disk_order(keys)
        found = [*self.read_each(keys)]
        return found if rank is None else [found[place] for place in rank]

    def read_each(self, keys: NDArray[np.int64]) -> Iterator[bytes | memoryview]:
        """What `read` gives, one at a time; keys: (n,) in the order of the shards."""
        return self._compared(keys, self._ranges.read_each(*self._index.locate(keys)))

    def read_parts(
        self,
        keys: NDArray[np.int64],
        shards: NDArray[np.int64],
        begins: NDArray[np.int64],
        ends: NDArray[np.int64],
    ) -> Iterator[bytes | memoryview]:
        """The bytes begins[i] to ends[i] of shard shards[i], for each i, as `RangeReader.read_each` gives them."""
        return self._ranges.read_each(shards, begins, ends)

    def _compared(
        self, keys: NDArray[np.int64], spans: Iterable[bytes | memoryview]
    ) -> Iterator[bytes | memoryview]:
        if not self.compares or self._index.exact is None:
            return iter(spans)
        return self._index.exact.compared(keys, spans, self._ranges.names, self._check.doubted)

    def close(self) -> None:
        """Closes files and connections; a later read opens them again."""
        self._ranges.close()


def lie_together(keys: NDArray[np.int64]) -> bool:
    """Whether so many records follow the one before that they are best read together.

    Args:
        keys: (n,).

    >>> lie_together(np.array([7, 8, 9])), lie_together(np.array([7, 2, 9]))
    (True, False)
    """
    return bool(4 * np.count_nonzero(keys[1:] - keys[:-1] == 1) > len(keys))


def in_disk_order(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[int] | None]:
    """Keys of records sorted, which is their order in the shards, and the place of each given key, None if unchanged.

    Args:
        keys: (n,).

    >>> in_disk_order(np.array([7, 9, 3]))
    (array([3, 7, 9]), [1, 2, 0])
    """
    if bool((keys[1:] >= keys[:-1]).all()):
        return keys, None
    order = keys.argsort()
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return keys[order], rank.tolist()
