"""Of which version of its shard a chunk is: as the server says it, or as the checksums of the records do."""

import hashlib
from collections.abc import Sequence

from loaderkit._storage.range_reader import ObjectVersion, RangeReader
from loaderkit._storage.versions import ask_each
from loaderkit.errors import FileChangedError

from .chunk_file import former_payload
from .chunk_numbers import ChunkedIndex, ChunkNumbers, Int64Array


class ShardVersions:
    """The versions of shards of which chunks are used. A server is asked once for each, in each process.

    Where the index has the checksums of its records, each chunk is compared with them before it is stored: then it
    doesn't matter what the server has, and it isn't asked.

    Args:
        index, numbers: of the chunks.
        ranges: reads the shards.
    """

    def __init__(self, index: ChunkedIndex, numbers: ChunkNumbers, ranges: RangeReader) -> None:
        self._index, self._numbers, self._ranges, self._exact = index, numbers, ranges, index.exact
        self._asked: dict[int, ObjectVersion] = {}

    def ask(self, shards: Sequence[int]) -> None:
        """Asks for those that aren't known, many at a time."""
        unknown = [shard for shard in dict.fromkeys(shards) if shard not in self._asked]
        if unknown and self._exact is None:
            found = ask_each(self._ranges.version_in_use, unknown, at_once=self._ranges.waits)
            self._asked.update(zip(unknown, found, strict=True))

    def knows(self, shard: int) -> bool:
        """Whether `key` asks no server."""
        return self._exact is not None or shard in self._asked

    def key(self, shard: int) -> bytes:
        """32 bytes that the chunks of the shard have: they tell the index and the version that is read now."""
        if self._exact is not None:
            told = self._exact.digest
        else:
            version = self._ranges.version_in_use(shard, self._asked.get(shard))
            told = f"{version.size} {version.tag}"
        return hashlib.sha256(self._numbers.key + told.encode()).digest()

    def hold(self, shard: int) -> bool:
        """Says that a chunk of this version is used; False where another version was read meanwhile."""
        version = self._asked.get(shard)
        return version is None or self._ranges.hold(shard, version)

    def compare(self, keys: Int64Array, begin: int, data: bytes | memoryview) -> None:
        """FileChangedError for a record that isn't the one that was indexed, where that can be told.

        Args:
            keys: (n,) int64, records of one shard.
            begin: where the data begins in the shard.
            data: holds all of them.
        """
        if self._exact is not None:
            _, begins, ends = self._index.locate(keys)
            places = zip((begins - begin).tolist(), (ends - begin).tolist(), strict=True)
            self._exact.compare(keys, [data[low:high] for low, high in places], self._ranges.names)

    def former(self, path: str, number: int, key: int, span: tuple[int, int, int]) -> bytes | None:
        """The chunk of a record, as a file of another version or an older form has it; None where others are in it.

        Args:
            path, number: of the file.
            key: of a record of the chunk.
            span: its shard, and where it begins and ends there.
        """
        payload = None if self._exact is None else former_payload(path, number, span[1], span[2])
        if payload is not None:
            try:
                self.compare(self._numbers.records(key), span[1], payload)
            except FileChangedError:
                return None
        return payload
