"""What a feeder sees of several sources one after the other: the chunks of all of them.

Each source's chunks have their own room, because each reads through a cache, or a share of one, of its own. Records of
a source without a cache have no chunk.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from loaderkit._order.groups import groups
from loaderkit._storage.fetch_threads import at_once

from .chunk_feed import NO_CHUNK, ChunkFeed, ComposedKeys
from .eviction import NextUse

Int64Array = NDArray[np.int64]


class JointChunkFeed:
    """The chunks of sources one after the other, numbered one source behind the other; in use a ChunkFeed.

    Args:
        feeds: of each source, None for one without a cache; one or more have one.
        ends: (sources,) int64, the first record key past each source.
        keys: gives the keys of the sources together, (n,) int64, that record keys stand for; None where they are the
            same.

    starts: the first number of each part that has a room of its own, ascending. end: one past the last number.
    """

    def __init__(
        self,
        feeds: "Sequence[ChunkFeed | JointChunkFeed | None]",
        ends: Int64Array,
        keys: Callable[[Int64Array], Int64Array] | None = None,
    ) -> None:
        self._feeds, self._ends, self._keys = tuple(feeds), ends, keys
        self._firsts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
        self._offsets: list[int] = []  # of each source's numbers; the same for several parts of one source
        starts: list[int] = []
        self._apart: list[int] = []  # places of the feeds that share no chunks with an earlier one
        known: dict[int, int] = {}
        self.end = 0
        for place, feed in enumerate(self._feeds):
            offset = 0 if feed is None else known.get(feed.identity, self.end)
            self._offsets.append(offset)
            if feed is not None and feed.identity not in known:
                known[feed.identity] = offset
                starts += [offset + start for start in feed.starts]
                self.end = offset + feed.end
                self._apart.append(place)
        self.starts: tuple[int, ...] = tuple(starts)

    def of_keys(self, keys: Callable[[Int64Array], Int64Array]) -> "JointChunkFeed":
        """The feed of a source whose record keys stand for those of this one's source.

        Args:
            keys: gives them, (n,) int64.
        """
        return JointChunkFeed(self._feeds, self._ends, ComposedKeys(keys, self._keys))

    @property
    def identity(self) -> int:
        """Equal for feeds of the same chunks."""
        return id(self)

    def _distinct(self) -> "list[ChunkFeed | JointChunkFeed]":
        return [feed for place in self._apart if (feed := self._feeds[place]) is not None]

    @property
    def chunk_bytes(self) -> int:
        """Bytes of a chunk: the most that one of the sources has on average."""
        return max(feed.chunk_bytes for feed in self._distinct())

    @property
    def nbytes(self) -> int:
        """Bytes of all shards."""
        return sum(feed.nbytes for feed in self._distinct())

    def bytes_of(self, records: int) -> int:
        """Bytes of so many records, on average over the sources that have a cache."""
        sizes: list[int] = np.diff(self._ends, prepend=0).tolist()
        total = sum(size for size, feed in zip(sizes, self._feeds) if feed is not None)
        nbytes: int = sum(feed.bytes_of(size) for size, feed in zip(sizes, self._feeds) if feed is not None)
        return nbytes * records // max(1, total)

    @property
    def limits(self) -> dict[str, int]:
        """The user's limit of each cache, by folder."""
        return {folder: limit for feed in self._distinct() for folder, limit in feed.limits.items()}

    @property
    def limit(self) -> int:
        """The user's limits of all caches together, in bytes."""
        return sum(self.limits.values())

    def rooms(self) -> list[int]:
        """Chunks of each part that this loader may have in its cache now."""
        return [room for feed in self._distinct() for room in feed.rooms()]

    def numbers(self, record_keys: Int64Array) -> Int64Array:
        """The number of each record's chunk, (n,) int64; NO_CHUNK for those of a source without a cache."""
        keys = self._mapped(record_keys)
        numbers = np.full(keys.shape, NO_CHUNK, np.int64)
        for feed, offset, rows, theirs in self._shares(keys):
            own = feed.numbers(theirs)
            numbers[rows] = np.where(own == NO_CHUNK, NO_CHUNK, own + offset)
        return numbers

    def fetch(self, record_keys: Int64Array) -> Int64Array:
        """Puts the chunks of records into the caches; one record of each is enough.

        Gives those of the keys whose chunks others fetch at the moment. Raises what a read of the shards raises.
        """

        def fetch(share: _Share) -> Int64Array:
            feed, _, rows, theirs = share
            return record_keys[rows[np.isin(theirs, feed.fetch(theirs))]]

        # At once, so that the requests of one source don't wait for those of another one.
        left = at_once(fetch, self._shares(self._mapped(record_keys)))
        return np.concatenate([np.empty(0, np.int64), *left])

    def first_keys(self, numbers: Int64Array) -> Int64Array | None:
        """The first record key of each chunk, (n,) int64; None where record keys aren't those of the sources."""
        if self._keys is not None:
            return None
        keys = np.zeros(numbers.shape, np.int64)
        for place in self._apart:
            feed = self._feeds[place]
            assert feed is not None
            here = np.flatnonzero(
                (numbers >= self._offsets[place]) & (numbers < self._offsets[place] + feed.end)
            )
            found = feed.first_keys(numbers[here] - self._offsets[place])
            if found is None:
                return None
            keys[here] = found + self._firsts[place]
        return keys

    def evict_by(self, next_use: NextUse) -> None:
        """Lets this process's evictions ask which chunks are needed last."""
        for place, feed in zip(self._apart, self._distinct(), strict=True):
            feed.evict_by(_Shifted(next_use, self._offsets[place]))

    def allow_direct_reads(self, nbytes: int) -> None:
        """Lets the loader's processes read so many bytes of records without their chunks, of each source its part."""
        total = max(1, self.nbytes)
        for feed in self._distinct():
            feed.allow_direct_reads(nbytes * feed.nbytes // total)

    def _mapped(self, record_keys: Int64Array) -> Int64Array:
        return record_keys if self._keys is None else self._keys(record_keys)

    def _shares(self, keys: Int64Array) -> "list[_Share]":
        """Of each source that has a cache and some of the keys: its feed, its offset, the rows, the keys there."""
        places = np.searchsorted(self._ends, keys, side="right")
        shares = []
        for place, rows in groups(places):
            if (feed := self._feeds[place]) is not None:
                shares.append((feed, self._offsets[place], rows, keys[rows] - self._firsts[place]))
        return shares


# A source's feed, the offset of its numbers, the rows of the keys that it has, and its own keys.
_Share = tuple[ChunkFeed | JointChunkFeed, int, NDArray[np.intp], Int64Array]


class _Shifted:
    def __init__(self, next_use: NextUse, offset: int) -> None:
        self._next_use, self._offset = next_use, offset

    def __call__(self, numbers: Int64Array) -> Int64Array:
        return self._next_use(numbers + self._offset)
