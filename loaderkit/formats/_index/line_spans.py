"""Where the lines of text files lie, each with the byte before it: a newline, unless the file was edited since."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

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
