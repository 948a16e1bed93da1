"""The headers of a tar archive: blocks of 512 bytes, as ustar, pax, GNU tar and v7 write them."""

import numpy as np
from numpy.typing import NDArray

from loaderkit._codecs.scan import Malformed

BLOCK = 512
COPY_AGAIN = "copy the shard again from where it came, or write it again"


def padded(size: int) -> int:
    """The bytes that a value of `size` bytes takes in an archive: whole blocks.

    >>> padded(0), padded(1), padded(512)
    (0, 512, 512)
    """
    return (size + BLOCK - 1) & -BLOCK


def number(field: bytes) -> int:
    """The number in a header's field: octal digits, or base 256 where the first byte is 0x80.

    Args:
        field: 8 or 12 bytes. ValueError where they hold no number, or a negative one.

    >>> number(b"0000644\\0"), number(bytes([128, 0, 0, 0, 2, 0, 0, 0]))
    (420, 33554432)
    """
    value = int.from_bytes(field[1:], "big") if field[0] == 0x80 else int(cut(field).strip() or b"0", 8)
    if value < 0:
        raise ValueError(f"expected a number of 0 or more, got {value}")
    return value


def cut(field: bytes) -> bytes:
    """A field of text up to its first NUL.

    >>> cut(b"a.jpg\\0\\0\\0")
    b'a.jpg'
    """
    return field.partition(b"\0")[0]


def name_of(header: bytes) -> bytes:
    """A member's name as its own header has it; an extended header before it may say another.

    GNU tar's old format keeps times where ustar has the first part of a long name: they aren't taken for a folder.

    Args:
        header: 512 bytes.

    >>> name_of(
    ...     b"a.jpg".ljust(257, b"\\0") + b"ustar\\x0000".ljust(88, b"\\0") + b"folder".ljust(167, b"\\0")
    ... )
    b'folder/a.jpg'
    """
    name, prefix = cut(header[:100]), cut(header[345:500])
    return prefix + b"/" + name if prefix and header[257:265] != b"ustar  \0" else name


def checksums_hold(headers: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """For each header whether its checksum holds, as a sum of unsigned or of signed bytes.

    Args:
        headers: (n, 512).

    >>> checksums_hold(np.zeros((1, 512), np.uint8))
    array([False])
    """
    digits = headers[:, 148:154].astype(np.int32) - ord("0")
    last, after = headers[:, 154], headers[:, 155]
    plain = ((digits >= 0) & (digits < 8)).all(1)
    plain &= (last == 0) | ((last == 32) & ((after == 0) | (after == 32)))
    said = digits @ np.array([8**5, 8**4, 8**3, 8**2, 8, 1], np.int32)
    # The sum counts the checksum's own eight bytes as spaces.
    sums = headers.sum(1, dtype=np.int32) - headers[:, 148:156].sum(1, dtype=np.int32) + 8 * 32
    holds: NDArray[np.bool_] = plain & (said == sums)
    for row in np.flatnonzero(~holds).tolist():
        holds[row] = _holds(headers[row].tobytes(), int(sums[row]))
    return holds


def _holds(header: bytes, unsigned: int) -> bool:
    try:
        said = number(header[148:156])
    except ValueError:
        return False
    rest = header[:148] + header[156:]
    return said in (unsigned, unsigned - 256 * sum(byte > 127 for byte in rest))


def pax_records(payload: bytes, offset: int) -> dict[bytes, bytes]:
    """The records of a pax header: what it says of the member behind it.

    Args:
        payload: "LENGTH KEYWORD=VALUE\\n" for each record, where LENGTH counts the whole record.
        offset: of the payload in the shard, for Malformed.

    >>> pax_records(b"16 path=a b.jpg\\n", 512)
    {b'path': b'a b.jpg'}
    """
    records: dict[bytes, bytes] = {}
    at = 0
    while at < len(payload) and payload[at]:  # a NUL pads the rest
        space = payload.find(b" ", at, at + 20)
        digits = payload[at : max(space, at)]
        end = at + int(digits) if digits.isdigit() else -1
        keyword, equals, value = payload[space + 1 : max(end - 1, 0)].partition(b"=")
        if end > len(payload) or payload[end - 1 : end] != b"\n" or not equals:
            got = payload[at : at + 20]
            raise Malformed(offset + at, f"expected a record of a pax header, got {got!r}", COPY_AGAIN)
        records[keyword] = value
        at = end
    return records
