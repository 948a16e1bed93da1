"""TFRecord files are written, with the checksums that TensorFlow checks."""

import struct
from functools import lru_cache
from typing import Any

from loaderkit._base.system.dataclasses import dataclass
from loaderkit._codecs.checksums import crc32c_of_integer, data_crc32c, masked
from loaderkit.formats._writing.byte_file import ByteFile, RecordBytes
from loaderkit.formats._writing.write_format import RecordEncoder, ShardWriter

_HEAD, _TAIL = struct.Struct("<QI"), struct.Struct("<I")


@lru_cache(4096)
def _head(length: int) -> bytes:
    return _HEAD.pack(length, masked(crc32c_of_integer(length)))


@dataclass(frozen=True, slots=True)
class TFRecordEncoder:
    """A `RecordEncoder`: a record with its length and checksums."""

    record: RecordBytes

    def encode(self, record: Any, number: int) -> bytes:
        """The record as it lies in the file."""
        data = self.record.encode(record, number)
        return b"".join((_head(len(data)), data, _TAIL.pack(masked(data_crc32c()(data)))))


class TFRecordWriting:
    """TFRecord files; a dict is a tf.train.Example where its leaves allow it.

    >>> TFRecordWriting().encoder(b"").encode(b"abc", 0).hex()
    '0300000000000000b099490e6162636e57f121'
    """

    name = extension = "tfrecord"
    libraries = ()

    def encoder(self, first: Any) -> RecordEncoder:
        """The encoder for bytes, or for dicts; an ImportError names the extra for checksums where it is missing."""
        data_crc32c()
        return TFRecordEncoder(RecordBytes.of(first))

    def open(self, path: str, encoder: RecordEncoder) -> ShardWriter:
        """A writer of a new file."""
        return ByteFile(path)
