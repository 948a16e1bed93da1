"""Of which version of its shard a chunk is."""

import hashlib

from loaderkit._storage.range_reader import ObjectVersion, RangeReader
from loaderkit._storage.shard_versions import ask_each

from .chunk_numbers import Int64Array


class ShardVersions:
    """The versions of shards of which chunks are used. A server is asked once for each, in each process.

    Args:
        ranges: reads the shards.
    """

    def __init__(self, ranges: RangeReader) -> None:
        self._ranges = ranges
        self._asked: dict[int, ObjectVersion] = {}

    def ask(self, shards: Int64Array) -> None:
        """Asks for those that aren't known, many at a time; (n,) int64."""
        unknown = [shard for shard in dict.fromkeys(shards.tolist()) if shard not in self._asked]
        if unknown:
            at_once = self._ranges.waits and len(unknown) > 1
            found = ask_each(self._ranges.version_in_use, unknown, at_once=at_once)
            self._asked.update(zip(unknown, found, strict=True))

    def key(self, index_key: bytes, shard: int) -> bytes:
        """32 bytes that the chunks of the shard have: they tell the index and the version that is read now."""
        version = self._ranges.version_in_use(shard, self._asked.get(shard))
        return hashlib.sha256(index_key + f"{version.size} {version.tag}".encode()).digest()

    def hold(self, shard: int) -> bool:
        """Says that a chunk of this version is used; False where another version was read meanwhile."""
        version = self._asked.get(shard)
        return version is None or self._ranges.hold(shard, version)
