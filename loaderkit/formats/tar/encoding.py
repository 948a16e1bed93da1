"""The members of a tar archive as bytes: ustar, without times and owners, so that the same data is the same file.

A pax header comes before a member whose name or size ustar can't hold, and before no other.
"""

from .header import BLOCK, padded

END_MARK = bytes(2 * BLOCK)
_LONGEST_NAME, _LONGEST_FOLDER = 100, 155
_LARGEST = 8**11 - 1  # bytes, in 11 octal digits
_PAX_NAME = b"././@PaxHeader"  # as Python's tarfile has it
# Mode 0644, owner and group 0; the time 0; the magic, no names of owner and group, device 0.
_OWNER = b"0000644\x000000000\x000000000\x00"
_TIME = b"00000000000\x00"
_MAGIC = b"ustar\x0000".ljust(72, b"\0") + b"0000000\x000000000\x00"
_REGULAR, _PAX = b"0", b"x"


def member(name: bytes, data: bytes) -> list[bytes]:
    """The parts of a regular member, in order: its headers, its value, and zeros up to the next block.

    Args:
        name: in UTF-8, without NUL.
        data: its value.

    >>> [len(part) for part in member(b"000.cls", b"3")]
    [512, 1, 511]
    """
    parts = headers(name, len(data))
    parts.append(data)
    if rest := padded(len(data)) - len(data):
        parts.append(bytes(rest))
    return parts


def headers(name: bytes, size: int) -> list[bytes]:
    """What precedes a member's value: its header, behind a pax header where ustar can't say the name or the size.

    Args:
        name: in UTF-8, without NUL.
        size: of the value, bytes.

    >>> [len(part) for part in headers(b"n" * 101, 1 << 33)]
    [512, 512, 512]
    """
    short, folder = name, b""
    said: list[bytes] = []
    if len(name) > _LONGEST_NAME:
        split = _split(name)
        if split is None:
            said.append(_pax_record(b"path", name))
            short = name[:_LONGEST_NAME]
        else:
            folder, short = split
    if size > _LARGEST:
        said.append(_pax_record(b"size", b"%d" % size))
    plain = _header(short, folder, size if size <= _LARGEST else 0, _REGULAR)
    if not said:
        return [plain]
    text = b"".join(said)
    return [_header(_PAX_NAME, b"", len(text), _PAX), text.ljust(padded(len(text)), b"\0"), plain]


def _split(name: bytes) -> tuple[bytes, bytes] | None:
    """The name as ustar's prefix and name, None where no "/" is at a place that allows it."""
    at = name.find(b"/", len(name) - _LONGEST_NAME - 1, _LONGEST_FOLDER + 1)
    return (name[:at], name[at + 1 :]) if at > 0 and at + 1 < len(name) else None


def _pax_record(keyword: bytes, value: bytes) -> bytes:
    rest = b" " + keyword + b"=" + value + b"\n"
    length = len(rest) + 1
    while length != (longer := len(rest) + len(b"%d" % length)):  # its own digits count
        length = longer
    return b"%d" % length + rest


def _header(name: bytes, folder: bytes, size: int, kind: bytes) -> bytes:
    before = name.ljust(100, b"\0") + _OWNER + b"%011o\x00" % size + _TIME
    behind = (kind + bytes(100) + _MAGIC + folder).ljust(BLOCK - 156, b"\0")
    # The checksum counts its own eight bytes as spaces.
    return before + b"%06o\x00 " % (sum(before) + sum(behind) + 8 * 32) + behind
