"""What a scan of one shard finds: where each record lies. All formats give the same kind of value."""

import re
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.system.dataclasses import dataclass

# What files begin with that these programs compressed.
_COMPRESSED = re.compile(
    rb"(?P<gzip>\x1f\x8b)|(?P<bzip2>BZh[1-9]1AY&SY)|(?P<xz>\xfd7zXZ\0)|"
    rb"(?P<zstd>\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18)"  # a frame, or one that zstd skips
)

# Takes offset and length; gives as many bytes, and fewer only where the shard ends before them.
ReadAt = Callable[[int, int], bytes]


def compressed_by(begin: bytes) -> str | None:
    """The program that compressed a file which begins so, and whose option -d unpacks it; None for other files.

    >>> compressed_by(bytes([0x1F, 0x8B, 8])), compressed_by(b"BZh: a text")
    ('gzip', None)
    """
    found = _COMPRESSED.match(begin)
    return None if found is None else found.lastgroup


class Malformed(ValueError):  # noqa: N818 - a reason, which the caller puts in an error with the shard's name
    """Bytes that the format doesn't allow.

    Args:
        offset: of the first byte that is wrong, from the shard's start.
        problem: what is wrong, such as "expected a tar header, got b'...'".
        remedy: what the user can do about it, "" for nothing beyond a new copy of the file.

    >>> raise Malformed(512, "the checksum of the header is wrong")
    Traceback (most recent call last):
    loaderkit._codecs.scan.Malformed: at byte 512: the checksum of the header is wrong
    """

    def __init__(self, offset: int, problem: str, remedy: str = "") -> None:
        super().__init__(f"at byte {offset}: {problem}" + (f"; {remedy}" if remedy else ""))
        self.offset, self.problem, self.remedy = offset, problem, remedy

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.offset, self.problem, self.remedy)


@dataclass(frozen=True, slots=True)
class Members:
    """The values of each record of a shard, in formats where a record has several.

    first: (records + 1,) int64; record k has the members first[k] to first[k + 1]. block: (members,) uint64, where a
    member's value begins, in units from the shard's start. size: (members,) uint64, its bytes. field: (members,)
    uint16, a place in `ShardScan.fields`.
    """

    first: NDArray[np.int64]
    block: NDArray[np.uint64]
    size: NDArray[np.uint64]
    field: NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class TextBlocks:
    """The blocks of a compressed file, which are unpacked one by one and have all of its text.

    bits: (blocks + 1,) int64, where each begins in the file, and where the last one ends, in bits: within a member of
    gzip a block may begin at any. texts: (blocks + 1,) int64, likewise in bytes of the text. window: (blocks,) int64,
    the row of `windows` with the text before a block that begins within a member, -1 for others. windows: (rows, 32768)
    uint8.
    """

    bits: NDArray[np.int64]
    texts: NDArray[np.int64]
    window: NDArray[np.int64]
    windows: NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class ShardScan:
    """Where the records of one shard lie.

    starts: (records + 1,) uint64; record k is the units starts[k] to starts[k + 1]. fields: names of the members'
    fields, in the order of their first appearance. members, keys and checksums (CRC32C of each record's bytes,
    (records,) uint32) are None where the format has none or they weren't asked for. blocks: of a compressed file, whose
    starts are places in its text; None for others.
    """

    starts: NDArray[np.uint64]
    fields: tuple[str, ...] = ()
    members: Members | None = None
    keys: tuple[str, ...] | None = None
    checksums: NDArray[np.uint32] | None = None
    blocks: TextBlocks | None = None


class Scanner(Protocol):
    """Scans the files of a format, a shard at a time.

    kind: its name in an index, such as "tar". unit: bytes of a unit of `ShardScan.starts`, 512 for tar, else 1.
    """

    @property
    def kind(self) -> str: ...

    @property
    def unit(self) -> int: ...

    def scan(
        self, read: ReadAt, size: int, *, members: bool = True, keys: bool = False, checksums: bool = False
    ) -> ShardScan:
        """Where the records of a shard of `size` bytes lie; Malformed where it isn't one of this format."""
        ...
