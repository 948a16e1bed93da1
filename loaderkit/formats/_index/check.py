"""Whether a shard is the one that was indexed."""

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from loaderkit._base.system.dataclasses import dataclass, field
from loaderkit._storage.range_reader import RangeReader
from loaderkit._storage.versions import OtherVersion
from loaderkit.errors import FileChangedError

if TYPE_CHECKING:
    from .record_index import RecordIndex

SAMPLE_PIECES = 16
SAMPLE_PIECE_BYTES = 4096
_SAMPLED_TOGETHER = 64


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
    return samples_of(ranges, [shard], [size])[0]


def samples_of(ranges: RangeReader, shards: Sequence[int], sizes: Sequence[int]) -> list[bytes]:
    """`sample_of` of many shards; their pieces are read together, those of 64 shards at a time."""
    samples = []
    for low in range(0, len(shards), _SAMPLED_TOGETHER):
        some = slice(low, low + _SAMPLED_TOGETHER)
        pieces = [
            (shard, *piece) for shard, size in zip(shards[some], sizes[some]) for piece in sample_ranges(size)
        ]
        told = {
            shard: hashlib.blake2b(size.to_bytes(8, "little"), digest_size=16)
            for shard, size in zip(shards[some], sizes[some])
        }
        for (shard, *_), data in zip(pieces, ranges.read(*np.array(pieces, np.int64).reshape(-1, 3).T)):
            told[shard].update(data)
        samples += [told[shard].digest() for shard in shards[some]]
    return samples


def has_sample(index: "RecordIndex", shard: int, ranges: RangeReader) -> bool:
    """Whether the sample of a shard of the indexed size is the indexed one, or the index has none."""
    return not without_sample(index, [shard], ranges)


def without_sample(index: "RecordIndex", shards: Sequence[int], ranges: RangeReader) -> list[int]:
    """Those of the shards of the indexed sizes whose samples aren't the indexed ones, where the index has them."""
    wanted = {shard: bytes(index.shard_samples[shard]) for shard in shards}
    if index.counts:  # one that an older version made has none
        wanted = {shard: sample for shard, sample in wanted.items() if any(sample)}
    found = samples_of(ranges, [*wanted], [int(index.shard_sizes[shard]) for shard in wanted])
    return [shard for shard, sample in zip(wanted, found, strict=True) if wanted[shard] != sample]


@dataclass(frozen=True, slots=True)
class ShardCheck:
    """Called where shards have their sizes and other tags: a copy has another time, a server may give another ETag for
    the same bytes. The samples decide, once for each tag; where the index can, each record is compared as it is read.

    index: with the shards' samples. doubted: shards whose records are to be compared with their checksums.
    """

    index: "RecordIndex"
    doubted: set[int] = field(default_factory=set)

    def __call__(self, ranges: RangeReader, others: Sequence[OtherVersion]) -> None:
        """Raises FileChangedError where one of the shards isn't the indexed one.

        Args:
            ranges: reads the shards.
            others: what the storage says of them now. Where something was read of a shard before, samples aren't
                enough: it was replaced, and only an index with checksums can say that its records have the same bytes.
        """
        now, exact = {other.shard: other.seen for other in others}, self.index.exact is not None
        for other in others:
            if not other.first and not exact:
                how = f"it was replaced during the run (now {other.seen.tag!r})"
                raise shard_changed(ranges.names[other.shard], 0, how)
        for shard in without_sample(self.index, [*now], ranges):
            was = self.index.shard_versions[shard]
            how = f"its size is the same, its bytes aren't ({was.tag!r} before, {now[shard].tag!r} now)"
            raise shard_changed(ranges.names[shard], 0, how)
        if exact:
            self.doubted.update(now)


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
