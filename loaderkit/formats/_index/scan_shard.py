"""The scan of one shard: its part file is made, or taken where it is there from an earlier build."""

import contextlib
import os
from collections.abc import Iterator

from loaderkit._base.system.dataclasses import dataclass
from loaderkit._base.system.limits import open_descriptor
from loaderkit._codecs.scan import Malformed, ReadAt, Scanner
from loaderkit._storage.addresses import is_remote
from loaderkit._storage.range_reader import RangeReader, read_range
from loaderkit.errors import DataFormatError

from .check import sample_of, shard_changed
from .part_file import PartIdentity, ScanOptions, open_part, write_part

# What one read of a server fetches at least, as a round trip costs more than these bytes.
REMOTE_WINDOW = 256 << 10
_MOST_BYTES = 1 << 30  # of one pread, which gives at most 2 GiB less a page


class WindowedReads:
    """A `ReadAt` of one shard that fetches small reads by windows; reads far ahead jump over what lies between.

    Args:
        ranges: reads the shards.
        shard: its number.
        size: its bytes.
    """

    def __init__(self, ranges: RangeReader, shard: int, size: int) -> None:
        self._ranges, self._shard, self._size = ranges, shard, size
        self._begin, self._window = 0, b""

    def __call__(self, offset: int, length: int) -> bytes:
        end = min(offset + length, self._size)
        if offset >= end:
            return b""
        if length >= REMOTE_WINDOW:
            return read_range(self._ranges, self._shard, offset, end)
        at = offset - self._begin
        if at < 0 or end > self._begin + len(self._window):
            behind = min(offset + REMOTE_WINDOW, self._size)
            self._window = read_range(self._ranges, self._shard, offset, behind)
            self._begin, at = offset, 0
        return self._window[at : at + end - offset]


@contextlib.contextmanager
def reading(ranges: RangeReader, shard: int, size: int) -> Iterator[ReadAt]:
    """Reads a shard within the block: a local file by plain calls, as a scan asks for windows of a few KiB.

    Args:
        ranges: of the shards.
        shard: its number.
        size: its bytes.
    """
    if ranges.waits or is_remote(ranges.names[shard]):
        yield WindowedReads(ranges, shard, size)
        return
    descriptor = open_descriptor(ranges.names[shard], os.O_RDONLY)

    def read(offset: int, length: int) -> bytes:
        found = os.pread(descriptor, min(length, _MOST_BYTES), offset)
        while len(found) < length and (
            more := os.pread(descriptor, length - len(found), offset + len(found))
        ):
            found += more
        return found

    try:
        yield read
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class ScannedShard:
    """What came of one shard: its number, its bytes, its part file, and whether that was there already."""

    shard: int
    nbytes: int
    part: str
    reused: bool


def scan_shard(
    scanner: Scanner, ranges: RangeReader, shard: int, options: ScanOptions, folder: str
) -> ScannedShard:
    """Scans a shard and writes its part file.

    Args:
        scanner: reads it.
        ranges: of the shards. FileChangedError where the shard is written to meanwhile; DataFormatError where it isn't
            of the format; both with its name and the offset.
        shard: its number.
        options: what the part holds.
        folder: for the part.
    """
    name, version = ranges.names[shard], ranges.version(shard)
    identity = PartIdentity(scanner.kind, scanner.unit, name, version, options)
    path = os.path.join(folder, identity.file_name())
    if open_part(path, identity) is not None:
        return ScannedShard(shard, version.size, path, reused=True)
    asked = {"members": options.members, "keys": options.keys, "checksums": options.checksums}
    try:
        with reading(ranges, shard, version.size) as read:
            scan = scanner.scan(read, version.size, **asked)
    except Malformed as error:
        _check_same(ranges, shard, identity)
        raise DataFormatError(f"{name}: {error}") from error
    sample = sample_of(ranges, shard, version.size)
    _check_same(ranges, shard, identity)
    write_part(path, identity, sample, scan)
    return ScannedShard(shard, version.size, path, reused=False)


def _check_same(ranges: RangeReader, shard: int, identity: PartIdentity) -> None:
    now = ranges.version(shard)
    if now != identity.version:
        was = identity.version
        raise shard_changed(
            identity.name,
            min(was.size, now.size),
            f"it was written to while it was indexed ({was.size} bytes before, {now.size} after)",
        )
