"""A new file to which bytes are appended."""

import contextlib
import io
from typing import Any, BinaryIO

from loaderkit._base.system.descriptors import above_standard

_BUFFER = 1 << 20  # bytes of one write; small records would be a system call each


class NamedFile(io.FileIO):
    """A file of which the error of a write, such as that of a full disk, says the name."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            error.filename = self.name
            raise


def new_file(path: str) -> BinaryIO:
    """A new file for bytes, written in large pieces; errors name it.

    Args:
        path: of the file.

    >>> import os
    >>> with new_file(os.devnull) as file:
    ...     file.write(b"abc")
    3
    """
    with above_standard():
        return io.BufferedWriter(NamedFile(path, "wb"), _BUFFER)


class ByteFile:
    """A `ShardWriter` whose records are bytes that lie one behind the other.

    Args:
        path: a new file.
    """

    def __init__(self, path: str) -> None:
        self._file = new_file(path)
        self.nbytes = 0

    def add(self, encoded: Any) -> None:
        """Appends the bytes."""
        self._file.write(encoded)
        self.nbytes += len(encoded)

    def close(self) -> None:
        """Ends the file."""
        self._file.close()

    def abandon(self) -> None:
        """Closes the file, and forgets what isn't on the disk."""
        with contextlib.suppress(OSError):
            self._file.close()
