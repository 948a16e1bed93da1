"""What a format needs to be written: an encoder of records, which workers run, and a writer of one file."""

from typing import Any, Protocol


class RecordEncoder(Protocol):
    """Makes of a record what a `ShardWriter` of the same format takes. Picklable: workers run it.

    It is made of the first record of all, so that every shard, whichever process writes it, has the same fields.
    """

    def encode(self, record: Any, number: int) -> Any:
        """The record as bytes, or as what else the writer takes.

        Args:
            record: bytes, or a dict.
            number: of the record in the whole data set, from 0 on; formats with keys take it where a record has none.

        ValueError that says what differs where the record doesn't fit to the first one; TypeError for a value that the
        format can't hold. Neither text names the record: the caller does.
        """


class ShardWriter(Protocol):
    """Writes one file. Its bytes depend on the records alone: no time, user, process or path is in them."""

    @property
    def nbytes(self) -> int:
        """Bytes of the file so far, about; a shard is ended where they reach `shard_bytes`."""

    def add(self, encoded: Any) -> None:
        """Appends a record that the encoder of the same format made."""

    def close(self) -> None:
        """Ends the file. The caller makes it safe on the disk and gives it its name."""

    def abandon(self) -> None:
        """Closes what is open; the file is deleted."""


class WriteFormat(Protocol):
    """A format that can be written; `loaderkit.formats` has all by name."""

    name: str
    extension: str
    libraries: tuple[str, ...]  # of which another version may give other bytes

    def encoder(self, first: Any) -> RecordEncoder:
        """The encoder for records like this one; TypeError where the format can't hold it.

        Args:
            first: the first record of all.
        """

    def open(self, path: str, encoder: RecordEncoder) -> ShardWriter:
        """A writer of a new file.

        Args:
            path: of the unfinished file, in the folder of the finished one.
            encoder: which made the records that will be added; it knows their fields.
        """
