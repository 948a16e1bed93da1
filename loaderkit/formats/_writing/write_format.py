"""What a format needs to be written: an encoder of records, which workers run, and a writer of one file."""

import contextlib
import os
from collections.abc import Iterator
from typing import Any, Protocol, cast

from loaderkit._base.system.dataclasses import dataclass
from loaderkit.formats import registry


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


@dataclass(frozen=True, slots=True)
class RecordFiles:
    """Files of a format, for records like a first one. Workers write some of them.

    Args:
        format: of the files.
        encoder: the format's, for these records.
    """

    format: WriteFormat
    encoder: RecordEncoder

    @contextlib.contextmanager
    def writer(self, path: str) -> Iterator[ShardWriter]:
        """A writer of a new file, which is ended with the block, and given up where the block or its end raises."""
        writer = self.format.open(path, self.encoder)
        try:
            yield writer
            writer.close()
        except BaseException:
            writer.abandon()
            raise


def write_format(name: object) -> WriteFormat:
    """The format of a name; ValueError that says the names there are.

    >>> write_format("tar").extension
    'tar'
    """
    found = registry.find(name)
    if found is None or found.writer is None:
        raise ValueError(f"format: expected one of {', '.join(registry.writable())}, got {name!r:.80}")
    return cast(WriteFormat, found.make_writer())


def format_of_path(path: str) -> str | None:
    """The format that a file's extension says; None for a folder's path.

    >>> format_of_path("train.jsonl.zst"), format_of_path("train.feather"), format_of_path("train")
    ('jsonl.zst', 'arrow', None)
    """
    found = registry.by_name(os.path.basename(path))
    return None if found is None or found.writer is None else found.name
