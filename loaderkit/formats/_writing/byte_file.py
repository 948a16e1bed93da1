"""A new file to which bytes are appended."""

import contextlib
import io
from typing import Any, BinaryIO, Self

from loaderkit._base.structure import dict_advice
from loaderkit._base.system.dataclasses import dataclass
from loaderkit._base.system.limits import above_standard
from loaderkit._codecs.record_codec import encode_record

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


@dataclass(frozen=True, slots=True)
class RecordBytes:
    """A `RecordEncoder` whose records are all bytes, or all dicts.

    >>> RecordBytes.of(b"").encode({"label": 3}, 0)
    Traceback (most recent call last):
        ...
    ValueError: expected bytes as the first record is, got dict
    """

    kind: type

    @classmethod
    def of(cls, first: Any) -> Self:
        """The encoder for records like this one; TypeError where it is neither bytes nor a dict."""
        if type(first) not in (bytes, dict):
            got = type(first).__name__
            raise TypeError(f"record: expected bytes or a dict, got {got}; {dict_advice(first)}")
        return cls(type(first))

    def encode(self, record: Any, number: int) -> bytes:
        """The record as bytes that say how to bring it back."""
        if type(record) is not self.kind:
            raise ValueError(
                f"expected {self.kind.__name__} as the first record is, got {type(record).__name__}"
            )
        return encode_record(record)
