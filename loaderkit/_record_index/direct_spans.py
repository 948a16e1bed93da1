"""The spans of records, read straight from their shards."""

import numpy as np
from numpy.typing import NDArray

from loaderkit._storage.range_reader import RangeReader

from .record_index import RecordIndex


class DirectSpans:
    """Reads the bytes of records: the index says where they lie, the range reader gets them. A `SpanReader`.

    Args:
        index: of the shards of `ranges`, in the same order.
        ranges: reads them.
    """

    def __init__(self, index: RecordIndex, ranges: RangeReader) -> None:
        self._index, self._ranges = index, ranges

    @property
    def waits(self) -> bool:
        """Whether a read waits for a server."""
        return self._ranges.waits

    def read(self, keys: NDArray[np.int64]) -> list[bytes | memoryview]:
        """The spans of the records with these keys, (n,) each in [0, records), in the order given."""
        return self._ranges.read(*self._index.locate(keys))

    def close(self) -> None:
        """Closes files and connections; a later read opens them again."""
        self._ranges.close()
