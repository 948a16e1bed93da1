"""Which chunks a stream needs next: a copy of its feeds, run ahead of the ones that give its tasks their records.

A place is the number of a record among those that a feed gives, from the stream's start on. All feeds of a stream move
on at about the same rate, so their places are compared.
"""

import heapq
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._storage.cache.chunk_feed import NO_CHUNK, ChunkFeed
from loaderkit._storage.cache.joint_feed import JointChunkFeed

Int64Array = NDArray[np.int64]
# Takes record keys and an index, and gives the index at which each record is next read, as ChunkSampler.next_uses.
NextUses = Callable[[Int64Array, int], Int64Array]

_BLOCK = 16_384  # records planned at once, as the feeds themselves ask their sampler
_MOST_QUEUED = 4_096  # chunks planned and not fetched: enough for seconds of fetching
_LATER = 1 << 62  # a use that isn't planned comes after every planned one


class ComingChunks:
    """The chunks of a stream in the order in which they are needed.

    Args:
        feeds: of the stream, as they were when it began; they are used up here.
        chunks: of the source.
        next_uses: of the sampler; None where it doesn't say.
        most_ahead: records that may be planned ahead of those that were given out.
    """

    def __init__(
        self,
        feeds: Sequence[Any],
        chunks: ChunkFeed | JointChunkFeed,
        next_uses: NextUses | None,
        most_ahead: int,
    ) -> None:
        self._feeds, self._chunks, self._next_uses = list(feeds), chunks, next_uses
        self._most_ahead = max(most_ahead, _BLOCK)
        self._planned = [0] * len(self._feeds)
        self._given = [0] * len(self._feeds)
        self._ended = [False] * len(self._feeds)
        # By part: place of the first need, number, one of its record keys: planned and not handed out to be fetched.
        self._queues: list[list[tuple[int, int, int]]] = [[] for _ in chunks.starts]
        self._last: dict[int, int] = {}  # place of the last planned need, of each chunk that is still needed
        self._fetched: set[int] = set()  # handed out to be fetched, and still needed
        self._fetched_counts = [0] * len(chunks.starts)  # of them, by part
        self._ends: deque[tuple[int, int]] = deque()  # last places and numbers, a block after the other
        self._indices: deque[tuple[int, int]] = deque()  # place and index at the start of each block
        self._index = 0  # about where the reader stands
        self._used: dict[int, int] = {}  # place of the last need, of chunks that aren't needed any more

    def give(self, given: Sequence[int]) -> None:
        """Takes in how many records each feed of the trainer has given out since the start."""
        self._given = list(given)
        reached = min(self._given, default=0)
        while self._ends and self._ends[0][0] < reached:
            place, number = self._ends.popleft()
            if self._last.get(number) == place:
                del self._last[number]
                if number in self._fetched:
                    self._fetched.remove(number)
                    self._fetched_counts[self._part_of(number)] -= 1
                self._used.pop(number, None)  # in the order of use
                self._used[number] = place
        while self._indices and self._indices[0][0] <= reached:
            self._index = self._indices.popleft()[1]

    def due(self, count: int, rooms: Sequence[int]) -> Int64Array:
        """A record key of each of the chunks to fetch now, up to `count` of them, in the order of need.

        Args:
            count: 1 or more.
            rooms: chunks that there is room for, by part; those that were handed out and are still needed count.
        """
        self._plan()
        keys: list[int] = []
        while len(keys) < count:
            having = [
                part
                for part, queue in enumerate(self._queues)
                if queue and self._fetched_counts[part] < rooms[part]
            ]
            if not having:
                break
            part = min(having, key=lambda part: self._queues[part][0])
            _, number, key = heapq.heappop(self._queues[part])
            if number in self._last and number not in self._fetched:  # else it is passed, or it is there
                self._fetched.add(number)
                self._fetched_counts[part] += 1
                keys.append(key)
        return np.array(keys, np.int64)

    @property
    def ended(self) -> bool:
        """Whether every chunk of the stream was handed out to be fetched."""
        return all(self._ended) and not any(self._queues)

    def next_use(self, numbers: Int64Array) -> Int64Array:
        """For each chunk a number, the greater the later it is needed; (n,) int64."""
        listed = numbers.tolist()
        planned = np.array([self._last.get(number, -1) for number in listed], np.int64)
        keys = None if self._next_uses is None else self._chunks.first_keys(numbers)
        if self._next_uses is not None and keys is not None:
            later = self._next_uses(keys, self._index) - self._index
        else:  # the least recently used first
            later = _LATER // 2 - np.array([self._used.get(number, -1) for number in listed], np.int64)
        return np.where(planned >= 0, planned, np.minimum(later, _LATER // 2) + _LATER)

    def _part_of(self, number: int) -> int:
        return bisect_right(self._chunks.starts, number) - 1

    def _plan(self) -> None:
        while sum(map(len, self._queues)) < _MOST_QUEUED:
            open_feeds = [k for k, ended in enumerate(self._ended) if not ended]
            if not open_feeds:
                return
            least = min(open_feeds, key=lambda k: self._planned[k])
            if self._planned[least] - self._given[least] >= self._most_ahead:
                return
            self._plan_block(least)

    def _plan_block(self, which: int) -> None:
        try:
            indices, keys = _records_of(self._feeds[which], _BLOCK)
        except Exception:  # noqa: BLE001 - the trainer's own feed raises it at its record
            indices = keys = np.empty(0, np.int64)
        if not len(keys):
            self._ended[which] = True
            return
        begin = self._planned[which]
        self._planned[which] = begin + len(keys)
        self._indices.append((begin, int(indices[0])))
        numbers = self._chunks.numbers(keys)
        distinct, firsts = np.unique(numbers, return_index=True)
        lasts = len(numbers) - 1 - np.unique(numbers[::-1], return_index=True)[1]
        some = distinct != NO_CHUNK
        distinct, firsts, lasts = distinct[some], firsts[some], lasts[some]
        for number, first in zip(distinct.tolist(), firsts.tolist(), strict=True):
            if number not in self._last:
                queue = self._queues[self._part_of(number)]
                heapq.heappush(queue, (begin + first, number, int(keys[first])))
        for place in np.argsort(lasts, kind="stable").tolist():
            number, last = int(distinct[place]), begin + int(lasts[place])
            self._last[number] = last
            self._ends.append((last, number))


def _records_of(feed: Any, count: int) -> tuple[Int64Array, Int64Array]:
    """The next indices and record keys of a feed of steps or of records, (n,) int64 each; empty after the last."""
    got = feed.next(count)
    if got is None:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return got if isinstance(got, tuple) else (got.indices, got.keys)
