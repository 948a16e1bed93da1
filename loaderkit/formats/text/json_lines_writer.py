"""JSON Lines are written, with tags for what JSON lacks."""

from dataclasses import dataclass
from typing import Any

from loaderkit.formats._writing.byte_file import ByteFile
from loaderkit.formats._writing.write_format import RecordEncoder, ShardWriter

from .json_record import encode_json


@dataclass(frozen=True, slots=True)
class JsonLinesEncoder:
    """A `RecordEncoder`: a record as a line."""

    def encode(self, record: Any, number: int) -> bytes:
        """The line, with its end; TypeError that names a leaf that can't be written."""
        return encode_json(record).encode() + b"\n"


class JsonLinesWriting:
    """JSON Lines in UTF-8.

    >>> JsonLinesWriting().encoder({}).encode({"text": "a"}, 0)
    b'{"text": "a"}\\n'
    """

    name = extension = "jsonl"
    libraries = ()

    def encoder(self, first: Any) -> RecordEncoder:
        """The encoder of any records."""
        return JsonLinesEncoder()

    def open(self, path: str, encoder: RecordEncoder) -> ShardWriter:
        """A writer of a new file."""
        return ByteFile(path)
