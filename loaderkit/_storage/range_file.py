"""Bytes that are read by ranges, as a file that other libraries read."""

import io
from collections.abc import Callable
from typing import Any


class RangeFile(io.RawIOBase):
    """A file of `size` bytes, of which `read(begin, length)` gives some.

    >>> RangeFile(lambda begin, length: b"loaderkit"[begin : begin + length], 9).read(6)
    b'loader'
    """

    def __init__(self, read: Callable[[int, int], bytes], size: int) -> None:
        self._read, self._size, self._at = read, size, 0

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
        self._at = (0, self._at, self._size)[whence] + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        """The next bytes, fewer at the end only."""
        left = max(0, self._size - self._at)
        length = left if size < 0 else min(left, size)
        data = self._read(self._at, length) if length else b""
        self._at += len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        """Fills a buffer; the number of bytes read."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
