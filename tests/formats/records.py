"""Writers of small data files, and reads of bytes in memory as a scan does them."""

import struct
from collections.abc import Iterable

import google_crc32c

from loaderkit._formats.scan import ReadAt


def read_of(data: bytes) -> ReadAt:
    """A `ReadAt` of bytes, which fails for a read that begins behind them."""

    def read(at: int, length: int) -> bytes:
        assert 0 <= at <= len(data) and length > 0
        return data[at : at + length]

    return read


def tfrecord(records: Iterable[bytes]) -> bytes:
    """A TFRecord file, written by its definition."""

    def checksum(data: bytes) -> bytes:
        crc = google_crc32c.value(data)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    heads = ((struct.pack("<Q", len(data)), data) for data in records)
    return b"".join(head + checksum(head) + data + checksum(data) for head, data in heads)
