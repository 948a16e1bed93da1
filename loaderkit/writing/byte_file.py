"""A new file to which bytes are appended."""

import contextlib
from typing import BinaryIO

from loaderkit._system.descriptors import above_standard

_BUFFER = 1 << 20  # bytes of one write; small records would be a system call each


class ByteFile:
    """A `ShardWriter` whose records are bytes that lie one behind the other.

    Args:
        path: a new file.
    """

    def __init__(self, path: str) -> None:
        with above_standard():
            self._file: BinaryIO = open(path, "wb", buffering=_BUFFER)  # noqa: SIM115 - for `close`
        self.nbytes = 0

    def add(self, encoded: bytes) -> None:
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
