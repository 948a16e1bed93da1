"""What a feeder sees of a source with a cache: the chunks of record keys, and how to fetch them."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .cached_spans import CachedSpans
from .eviction import NextUse

Int64Array = NDArray[np.int64]

NO_CHUNK = -1  # the number of a record that isn't in a chunk: its source has no cache


class ChunkFeed:
    """The chunks of a source's records; a source with a cache has one as `chunk_feed`.

    Args:
        spans: reads the records through the cache.
        index_keys: the keys of the index, (n,) int64, that record keys stand for; None where they are the same.

    starts: the first number of each part that has a room of its own: here there is one part.
    """

    starts: tuple[int, ...] = (0,)

    def __init__(self, spans: CachedSpans, index_keys: Callable[[Int64Array], Int64Array] | None) -> None:
        self._spans, self._index_keys = spans, index_keys

    def of_keys(self, keys: Callable[[Int64Array], Int64Array]) -> "ChunkFeed":
        """The feed of a source whose record keys stand for those of this one's source.

        Args:
            keys: gives them, (n,) int64.
        """
        return ChunkFeed(self._spans, ComposedKeys(keys, self._index_keys))

    @property
    def identity(self) -> int:
        """Equal for feeds of the same chunks."""
        return id(self._spans)

    @property
    def end(self) -> int:
        """One past the last number of a chunk."""
        return self._spans.numbers.end

    @property
    def chunk_bytes(self) -> int:
        """Bytes of a chunk, on average."""
        return self._spans.numbers.mean_bytes

    @property
    def nbytes(self) -> int:
        """Bytes of all shards."""
        return self._spans.numbers.nbytes

    def bytes_of(self, records: int) -> int:
        """Bytes of so many records, on average."""
        return self._spans.numbers.bytes_of(records)

    @property
    def limit(self) -> int:
        """The user's limit of the cache, in bytes."""
        return self._spans.cache.limit

    @property
    def limits(self) -> dict[str, int]:
        """The same by the cache's folder."""
        return {self._spans.cache.folder: self._spans.cache.limit}

    def rooms(self) -> list[int]:
        """Chunks of each part that this loader may have in the cache now."""
        return [self._spans.share() // self.chunk_bytes]

    def numbers(self, record_keys: Int64Array) -> Int64Array:
        """The number of each record's chunk, (n,) int64."""
        return self._spans.numbers.of(self._mapped(record_keys))

    def fetch(self, record_keys: Int64Array) -> Int64Array:
        """Puts the chunks of records into the cache; one record of each is enough.

        Gives those of the keys whose chunks others fetch at the moment. Raises what a read of the shards raises.
        """
        keys = self._mapped(record_keys)
        left = self._spans.fetch(keys)
        return record_keys[np.isin(keys, left)]

    def first_keys(self, numbers: Int64Array) -> Int64Array | None:
        """The first record key of each chunk, (n,) int64; None where record keys aren't those of the index."""
        return self._spans.numbers.first_keys(numbers) if self._index_keys is None else None

    def evict_by(self, next_use: NextUse) -> None:
        """Lets this process's evictions ask which chunks are needed last."""
        self._spans.next_use = next_use

    def allow_direct_reads(self, nbytes: int) -> None:
        """Lets the loader's processes read so many bytes of records whose chunks aren't there, without their chunks."""
        self._spans.allow_direct_reads(nbytes)

    def _mapped(self, record_keys: Int64Array) -> Int64Array:
        return record_keys if self._index_keys is None else self._index_keys(record_keys)


class ComposedKeys:
    """Keys by two functions, one after the other; by the first alone where the second is None."""

    def __init__(
        self, first: Callable[[Int64Array], Int64Array], second: Callable[[Int64Array], Int64Array] | None
    ) -> None:
        self._first, self._second = first, second

    def __call__(self, keys: Int64Array) -> Int64Array:
        keys = self._first(keys)
        return keys if self._second is None else self._second(keys)
