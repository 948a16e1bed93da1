"""CRC32C: of lengths by numpy, of data by the library google_crc32c, which the extra `tfrecord` installs."""

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from types import ModuleType
from typing import cast

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.extras import missing_library

from .scan import Malformed, ReadAt

_POLYNOMIAL = 0x82F63B78  # of CRC32C, its bits reversed
# Bytes read at once: more takes memory, less takes more calls; a checksum itself costs 0.1 ns a byte.
_WINDOW = 4 << 20


def _library() -> ModuleType:
    try:
        import google_crc32c
    except ImportError as error:
        raise missing_library("checksums of records need", "google_crc32c", "tfrecord") from error
    return google_crc32c


def data_crc32c() -> Callable[[bytes], int]:
    """The function that gives the CRC32C of bytes; an ImportError that names the extra where it isn't installed."""
    return cast("Callable[[bytes], int]", _library().value)


def has_fast_crc32c() -> bool:
    """Whether the library is there, and isn't its Python version, which takes 1,000 times as long."""
    try:
        return str(_library().implementation) != "python"
    except ImportError:
        return False


def extended_crc32c() -> Callable[[int, bytes], int]:
    """The function that continues a CRC32C with the bytes that follow; an ImportError as `data_crc32c`."""
    return cast("Callable[[int, bytes], int]", _library().extend)


@cache
def _tables() -> NDArray[np.uint32]:
    """(8, 256): what each byte of a message of 8 bytes, at each place, changes in its CRC32C."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = (table >> np.uint32(1)) ^ np.where(table & 1, np.uint32(_POLYNOMIAL), np.uint32(0))
    tables = [table]
    for _ in range(7):
        tables.append(table[tables[-1] & 0xFF] ^ (tables[-1] >> np.uint32(8)))
    return np.stack(tables[::-1])


_OF_ZEROS = 0x8C28B28A  # CRC32C of 8 zero bytes


def crc32c_of_integers(values: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """The CRC32C of each integer's 8 bytes, little-endian.

    Args:
        values: (n,).

    >>> [hex(crc) for crc in crc32c_of_integers(np.array([0, 200], np.uint64))]
    ['0x8c28b28a', '0xe012eb06']
    """
    places = np.ascontiguousarray(values, "<u8").view(np.uint8).reshape(-1, 8)
    used = (int(values.max(initial=0)).bit_length() + 7) // 8
    crcs = np.full(len(values), _OF_ZEROS, np.uint32)
    for place, table in enumerate(_tables()[:used]):
        crcs ^= table[places[:, place]]
    return crcs


@cache
def _table_lists() -> list[list[int]]:
    return cast("list[list[int]]", _tables().tolist())


def crc32c_of_integer(value: int) -> int:
    """`crc32c_of_integers` of one, without numpy's cost of a call.

    Args:
        value: in [0, 2**64).

    >>> hex(crc32c_of_integer(200))
    '0xe012eb06'
    """
    crc = _OF_ZEROS
    for table in _table_lists():
        if not value:
            break
        crc ^= table[value & 0xFF]
        value >>= 8
    return crc


def masked(crc: int) -> int:
    """A CRC32C as TFRecord stores it: rotated, and a constant added.

    >>> hex(masked(0x8C28B28A))
    '0x7980329'
    """
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def all_masked(crcs: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """`masked` of many, (n,).

    >>> hex(all_masked(np.array([0x8C28B28A], np.uint32))[0])
    '0x7980329'
    """
    rotated = (crcs >> np.uint32(15)) | (crcs << np.uint32(17))
    return rotated + np.uint32(0xA282EAD8)


def span_checksums(read: ReadAt, starts: NDArray[np.uint64], unit: int = 1) -> NDArray[np.uint32]:
    """The CRC32C of the bytes of each record, (records,).

    Args:
        read: gives the shard's bytes; Malformed where the shard ends before the last record.
        starts: (records + 1,), as in `ShardScan`.
        unit: bytes of a unit of `starts`.

    >>> data = b"-abcde"
    >>> crcs = span_checksums(lambda at, length: data[at : at + length], np.array([1, 3, 6], np.uint64))
    >>> [int(crc) == data_crc32c()(part) for crc, part in zip(crcs, [b"ab", b"cde"])]
    [True, True]
    """
    value, extend = data_crc32c(), extended_crc32c()
    checksums = np.zeros(len(starts) - 1, np.uint32)
    window, base, stop = b"", 0, int(starts[-1]) * unit
    for record, (begin, end) in enumerate(pairwise((starts * np.uint64(unit)).tolist())):
        if begin < end > base + len(window):
            window, base = read(begin, min(_WINDOW, stop - begin)), begin
        crc, at = value(window[begin - base : end - base]), max(begin, base + len(window))
        while at < end:
            piece = read(at, min(_WINDOW, end - at))
            if not piece:
                raise Malformed(at, f"expected bytes up to {end}, got the end of the file")
            crc, at = extend(crc, piece), at + len(piece)
        checksums[record] = crc
    return checksums
