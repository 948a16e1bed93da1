"""Whether a shard is the one that was indexed."""

import hashlib
from contextlib import closing

import numpy as np

from loaderkit._storage.names import redacted
from loaderkit._storage.range_reader import ObjectVersion, RangeReader
from loaderkit.errors import FileChangedError

from .record_index import RecordIndex
from .shard_set import ShardSet

SAMPLE_PIECES = 16
SAMPLE_PIECE_BYTES = 4096


def sample_ranges(size: int) -> list[tuple[int, int]]:
    """Begin and end of the pieces of a shard that are hashed: both ends, and pieces at equal distances between them.

    >>> sample_ranges(5000), len(sample_ranges(10**9)), sample_ranges(10**9)[-1]
    ([(0, 5000)], 16, (999995904, 1000000000))
    """
    if size <= SAMPLE_PIECES * SAMPLE_PIECE_BYTES:
        return [(0, size)] if size else []
    begins = [(size - SAMPLE_PIECE_BYTES) * i // (SAMPLE_PIECES - 1) for i in range(SAMPLE_PIECES)]
    return [(begin, begin + SAMPLE_PIECE_BYTES) for begin in begins]


def sample_of(ranges: RangeReader, shard: int, size: int) -> bytes:
    """A hash, 16 bytes, of 16 pieces of 4 KiB of a shard.

    Args:
        ranges: reads the shards.
        shard: its number.
        size: its bytes.
    """
    pieces = sample_ranges(size)
    told = hashlib.blake2b(size.to_bytes(8, "little"), digest_size=16)
    begins, ends = np.array(pieces, np.int64).reshape(-1, 2).T
    for piece in ranges.read(np.full(len(pieces), shard, np.int64), begins, ends):
        told.update(piece)
    return told.digest()


def has_sample(index: RecordIndex, shard: int, ranges: RangeReader) -> bool:
    """Whether the sample of a shard of the indexed size is the indexed one."""
    size = int(index.shard_sizes[shard])
    return sample_of(ranges, shard, size) == bytes(index.shard_samples[shard])


class ShardCheck:
    """Called where the storage says another version of a shard than the index; FileChangedError for another shard.

    Another size is an error. Where only the tag differs (a copy has another time, a server may give another ETag for
    the same bytes) the sample decides, once for each tag.

    Args:
        index: with the shards' versions and samples.
        shards: to be read for the sample.
    """

    def __init__(self, index: RecordIndex, shards: ShardSet) -> None:
        self._index, self._shards = index, shards
        self._same: dict[int, str] = {}

    def __call__(self, shard: int, now: ObjectVersion) -> None:
        """Raises FileChangedError where the shard isn't the indexed one.

        Args:
            shard: its number.
            now: what the storage says of it.
        """
        was = self._index.shard_versions[shard]
        name = redacted(self._shards.paths[shard])
        if now.size != was.size:
            how = f"it had {was.size} bytes, and has {now.size} now"
            raise shard_changed(name, min(now.size, was.size), how)
        if now.tag == was.tag or self._same.get(shard) == now.tag:
            return
        with closing(self._shards.open()) as ranges:
            same = has_sample(self._index, shard, ranges)
        if not same:
            raise shard_changed(name, 0, "it has the same size and other bytes")
        self._same[shard] = now.tag


def shard_changed(name: str, offset: int, how: str) -> FileChangedError:
    """The error for a shard that was replaced, written to or truncated after it was indexed.

    Args:
        name: the shard's.
        offset: of the first byte that may differ.
        how: what differs.

    >>> str(shard_changed("a.tar", 512, "it had 1024 bytes, and has 512 now")).partition(";")[0]
    'a.tar: at byte 512: expected the file that was indexed, got another: it had 1024 bytes, and has 512 now'
    """
    return FileChangedError(
        f"{name}: at byte {offset}: expected the file that was indexed, got another: {how}; put the old file back, "
        "or make the index again (`loaderkit index`) and begin a new run"
    )
