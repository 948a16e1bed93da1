"""ArrayRecord files are written, a record a group, for random access."""

import contextlib
from typing import Any

from array_record.python.array_record_module import ArrayRecordWriter

from loaderkit.formats._writing.byte_file import RecordBytes
from loaderkit.formats._writing.write_format import RecordEncoder, ShardWriter


class ArrayRecordShardWriter:
    """A `ShardWriter` of one file.

    Args:
        path: a new file.
    """

    def __init__(self, path: str) -> None:
        self._writer = ArrayRecordWriter(path, "group_size:1")
        self.nbytes = 0  # of the records so far, before they are compressed

    def add(self, encoded: bytes) -> None:
        """Appends a record; OSError where the disk is full."""
        try:
            self._writer.write(encoded)
        except RuntimeError as error:
            raise OSError(str(error)) from error
        self.nbytes += len(encoded)

    def close(self) -> None:
        """Ends the file; OSError where the disk is full."""
        try:
            self._writer.close()
        except RuntimeError as error:
            raise OSError(str(error)) from error

    def abandon(self) -> None:
        """Closes the file."""
        with contextlib.suppress(RuntimeError):
            self._writer.close()


class ArrayRecordWriting:
    """ArrayRecord files with group_size:1; a dict as `record_codec` encodes it.

    >>> ArrayRecordWriting().encoder(b"").encode(b"a record", 0)
    b'a record'
    """

    name = extension = "array_record"
    libraries = ("array_record",)

    def encoder(self, first: Any) -> RecordEncoder:
        """The encoder for bytes, or for dicts, as the first record is."""
        return RecordBytes.of(first)

    def open(self, path: str, encoder: RecordEncoder) -> ShardWriter:
        """A writer of a new file."""
        return ArrayRecordShardWriter(path)
