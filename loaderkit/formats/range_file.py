"""An object of a server as a file that can be sought, for libraries that read files."""

import io
from typing import Any

import numpy as np

from loaderkit._storage.range_reader import RangeReader


class RangeFile(io.RawIOBase):
    """A shard of a set, read range by range; each read is retried and checked as the reader does.

    Args:
        ranges: the set's reader.
        shard: number of the shard.
        size: its bytes.
    """

    def __init__(self, ranges: RangeReader, shard: int, size: int) -> None:
        self._ranges, self._shard, self._size, self._at = ranges, shard, size, 0

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """The place of the next read."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Sets the place of the next read."""
        base = (0, self._at, self._size)[whence]
        self._at = base + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        """The next bytes, fewer at the end only."""
        end = self._size if size < 0 else min(self._size, self._at + size)
        if end <= self._at:
            return b""
        places = (np.array([each], np.int64) for each in (self._shard, self._at, end))
        (data,) = self._ranges.read(*places)
        self._at = end
        return bytes(data)

    def readinto(self, buffer: Any) -> int:
        """Fills a buffer; the number of bytes read."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
