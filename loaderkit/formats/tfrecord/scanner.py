"""TFRecord: each record is its length, the length's checksum, the data, and the data's checksum."""

import struct
from array import array
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from loaderkit._codecs.checksums import (
    all_masked,
    crc32c_of_integer,
    crc32c_of_integers,
    data_crc32c,
    masked,
    span_checksums,
)
from loaderkit._codecs.scan import Malformed, ReadAt, ShardScan, compressed_by

# In front of the data its length in 8 bytes and a checksum in 4; behind it a checksum in 4.
HEAD, TAIL = 12, 4
FRAME = HEAD + TAIL
_LENGTH, _HEADER = struct.Struct("<Q"), struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")
# While records are small, whole windows are read: 1 MiB holds 5,000 records of 200 bytes, so that what a window costs
# beside its records is little. Of records above _JUMP only the heads are read, each with the page it lies in.
_WINDOW, _PAGE, _JUMP = 1 << 20, 4096, 16384
_TRUNCATED = "the file is truncated: get a new copy"
_DAMAGED = "the file is damaged, or no TFRecord file: get a new copy"


class TFRecordFormat:
    """Files of TFRecord. The scan follows the lengths and checks their checksums, and reads no data of large records.

    >>> import struct
    >>> head = struct.pack("<Q", 3) + bytes.fromhex("b099490e")
    >>> data = head + b"abc" + bytes(4)
    >>> TFRecordFormat().scan(lambda at, length: data[at : at + length], len(data)).starts
    array([ 0, 19], dtype=uint64)
    """

    kind = "tfrecord"
    unit = 1

    def scan(
        self, read: ReadAt, size: int, *, members: bool = True, keys: bool = False, checksums: bool = False
    ) -> ShardScan:
        """Where the records lie; Malformed where a length's checksum is wrong, or the file ends within a record."""
        found = array("Q")  # where each record begins
        at, window_size = 0, _PAGE
        while at < size:
            window, first = read(at, max(window_size, HEAD)), len(found)
            after = _follow(window, at, found)
            if after == at:
                raise Malformed(
                    at, f"expected the {HEAD} bytes before a record, got {len(window)}", _TRUNCATED
                )
            if len(found) - first == 1:
                length, stored = _HEADER.unpack_from(window)
                if masked(crc32c_of_integer(length)) != stored:
                    raise _wrong_length(window, at)
            else:
                _check_lengths(window, at, np.array(found[first:], np.uint64))
            if after > size:
                begin = found[-1]
                raise Malformed(
                    begin, f"expected a record of {after - begin} bytes, got {size - begin}", _TRUNCATED
                )
            large = after - at > _JUMP * (len(found) - first)
            window_size = _PAGE if large else min(2 * window_size, _WINDOW)
            at = after
        found.append(size)
        starts = np.frombuffer(found, np.uint64)
        return ShardScan(starts, checksums=span_checksums(read, starts) if checksums else None)


def _follow(window: bytes, base: int, found: "array[int]") -> int:
    """Appends where each record begins of which the window has the head; gives where the next one does."""
    append, unpack = found.append, _LENGTH.unpack_from
    at, last = 0, len(window) - HEAD
    while at <= last:
        append(base + at)
        at += unpack(window, at)[0] + FRAME
    return base + at


def _check_lengths(window: bytes, base: int, begins: NDArray[np.uint64]) -> None:
    """Checks the checksum of each length; begins: (n,), where the records of the window begin in the file."""
    # Views of the window that have an integer at each byte, aligned or not.
    places = (begins - np.uint64(base)).astype(np.int64)
    lengths = np.ndarray((len(window) - 7,), "<u8", window, strides=(1,))[places]
    stored = np.ndarray((len(window) - 3,), "<u4", window, strides=(1,))[places + 8]
    wrong = all_masked(crc32c_of_integers(lengths)) != stored
    if wrong.any():
        raise _wrong_length(window, int(begins[wrong.argmax()]))


def _wrong_length(window: bytes, begin: int) -> Malformed:
    # A length may begin with the same bytes.
    name = None if begin else compressed_by(window)
    if begin == 0 and window[0] & 0x0F == 8 and int.from_bytes(window[:2]) % 31 == 0:
        name = "zlib"
    if name is not None:
        command = "pigz -dz" if name == "zlib" else f"{name} -d"
        problem = f"expected a TFRecord file, got one compressed by {name}"
        return Malformed(0, problem, f"unpack it first: {command}")
    return Malformed(begin, "expected the length of a record, got one with a wrong checksum", _DAMAGED)


def data_of(span: bytes | memoryview, *, verify: bool = False) -> bytes:
    """The data of a record.

    Args:
        span: the record's bytes, as the scan found them; Malformed, with the offset in the span, where its length says
            otherwise.
        verify: whether the data's checksum is checked, which needs the extra `tfrecord`.

    >>> span = struct.pack("<Q", 3) + bytes.fromhex("b099490e") + b"abc" + bytes.fromhex("6e57f121")
    >>> data_of(span)
    b'abc'
    """
    length, checksum = _HEADER.unpack_from(span) if len(span) >= FRAME else (None, 0)
    if length != len(span) - FRAME:
        raise Malformed(0, f"expected a record of {len(span) - FRAME} bytes of data, got the length {length}")
    if checksum != _length_checksum(length):
        raise Malformed(_LENGTH.size, "the checksum of the length is wrong", _DAMAGED)
    data = bytes(span[HEAD:-TAIL])
    if verify and masked(data_crc32c()(data)) != _CHECKSUM.unpack_from(span, len(span) - TAIL)[0]:
        raise Malformed(HEAD, "the checksum of the data is wrong", _DAMAGED)
    return data


def data_of_all(spans: Sequence[bytes | memoryview], *, verify: bool = False) -> list[bytes]:
    """`data_of` of many, at a third of its cost; Malformed or struct.error where one of them isn't a record.

    Args:
        spans: the records' bytes.
        verify: as in `data_of`.
    """
    if have_lengths(spans, [len(span) - FRAME for span in spans]):
        data = [bytes(span[HEAD:-TAIL]) for span in spans]
        if not verify or have_checksums(data, [span[-TAIL:] for span in spans]):
            return data
    return [data_of(span, verify=verify) for span in spans]


def have_lengths(heads: Sequence[bytes | memoryview], lengths: Sequence[int]) -> bool:
    """Whether these are the heads of records with data of these lengths, checksums of the lengths included.

    Args:
        heads: (n,), the first 12 bytes of records, or more.
        lengths: (n,).

    >>> have_lengths([struct.pack("<Q", 3) + bytes.fromhex("b099490e")], [3])
    True
    """
    unpack = _HEADER.unpack_from
    return [unpack(head) for head in heads] == [*zip(lengths, map(_length_checksum, lengths))]


@lru_cache(1 << 16)  # 0.06 us instead of 1.5; the lengths of a data set recur
def _length_checksum(length: int) -> int:
    return masked(crc32c_of_integer(length))


def have_checksums(data: Sequence[bytes], tails: Sequence[bytes | memoryview]) -> bool:
    """Whether the checksums behind the data of records are right.

    Args:
        data: (n,), of each record.
        tails: (n,), the last 4 bytes of each record.

    >>> (
    ...     have_checksums([b"abc"], [bytes.fromhex("6e57f121")]),
    ...     have_checksums([b"abd"], [bytes.fromhex("6e57f121")]),
    ... )
    (True, False)
    """
    found = np.fromiter(map(data_crc32c(), data), np.uint32, len(data))
    return all_masked(found).astype("<u4").tobytes() == b"".join(tails)
