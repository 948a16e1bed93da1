"""Writers of small data files, and reads of bytes in memory as a scan does them."""

import struct
from collections.abc import Iterable, Mapping, Sequence

import google_crc32c

from loaderkit._codecs.scan import ReadAt


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


def varint(value: int) -> bytes:
    """An integer of 64 bits, two's complement if negative, as protobuf writes it."""
    value &= 2**64 - 1
    low = value & 0x7F
    return bytes([low]) if value < 0x80 else bytes([low | 0x80]) + varint(value >> 7)


def field(number: int, data: bytes) -> bytes:
    """A field of bytes."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def example(
    features: Mapping[str, Sequence[bytes] | Sequence[float] | Sequence[int]], *, packed: bool = True
) -> bytes:
    """A serialized tf.train.Example, written by its definition; an empty list becomes one of integers."""
    entries = b""
    for name, values in features.items():
        if values and isinstance(values[0], bytes):
            kind, value = 1, b"".join(field(1, one) for one in values)
        elif values and isinstance(values[0], float):
            floats = [struct.pack("<f", one) for one in values]
            kind, value = (
                2,
                field(1, b"".join(floats)) if packed else b"".join(b"\x0d" + one for one in floats),
            )
        else:
            integers = [varint(int(one)) for one in values]
            kind, value = (
                3,
                field(1, b"".join(integers)) if packed else b"".join(b"\x08" + one for one in integers),
            )
        entries += field(1, field(1, name.encode()) + field(2, field(kind, value)))
    return field(1, entries)
