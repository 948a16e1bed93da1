"""Feeds: the next indices and record keys for a scheduler, planned in blocks and handed out in smaller parts.

Every call advances a feed; to start elsewhere, make another one.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from loaderkit._engine.in_flight_step import StepRecords
from loaderkit._engine.logical_stream import RecordInput
from loaderkit._order.metadata import MOST_INT64
from loaderkit._order.sharding import ShardOptions
from loaderkit._order.stage_keys import rows_of_keys
from loaderkit.samplers import Sampler
from loaderkit.samplers.protocol import record_keys_of

from .logical_streams import LogicalStreams
from .schedule import BLOCK_INDICES, Schedule
from .segments import Segments
from .shaped_steps import steps_ahead

Int64Array = NDArray[np.int64]


class KeysAhead:
    """Asks a sampler for the keys of a block of indices, and for one key at a time after a block has failed.

    sampler: gives the record keys. num_records: the source's length. block: the number of indices to pass to `keys`.

    >>> from loaderkit.samplers import SequentialSampler
    >>> ahead = KeysAhead(SequentialSampler(9), 2)
    >>> ahead.keys(np.array([1, 2]), alone=False), ahead.block
    (None, 1)
    >>> ahead.keys(np.array([1]), alone=True)
    array([1])
    """

    def __init__(self, sampler: Sampler, num_records: int) -> None:
        self._sampler = sampler
        self._num_records = num_records
        self.block = BLOCK_INDICES if hasattr(sampler, "record_keys") else 1

    def keys(self, indices: Int64Array, *, alone: bool) -> Int64Array | None:
        """The keys of a block, (n,) int64; None where the block failed: call again with the smallest part of it.

        alone: whether the block is already the smallest part (one index, or one group of them); then this raises
        what the sampler raises, and IndexError for a key that the source doesn't have.
        """
        try:
            keys = record_keys_of(self._sampler, indices)
            check_keys(keys, indices, self._num_records)
        except Exception:
            if alone:
                raise
            self.block = 1  # one at a time from now on, so that the error is raised at its own record
            return None
        return keys


def check_keys(keys: Int64Array, indices: Int64Array, num_records: int) -> None:
    """Raises IndexError for the first record key that the source doesn't have.

    keys, indices: (n,) int64 each. num_records: the source's length.

    >>> check_keys(np.array([0, 7]), np.array([3, 4]), 7)
    Traceback (most recent call last):
        ...
    IndexError: record_key: expected 0 to 6 for a data source of 7 records, got 7 at index 4
    """
    if keys.size and keys.max() >= num_records and (outside := rows_of_keys(keys) >= num_records).any():
        place = int(np.argmax(outside))
        raise IndexError(
            f"record_key: expected 0 to {num_records - 1} for a data source of {num_records} records, "
            f"got {keys[place]} at index {indices[place]}"
        )


class StepFeed:
    """Gives a shard's part of one step after the other.

    schedule: the plan. segments: where each step begins. step: the first step. num_records: the source's length.
    num_steps: number of steps of the whole run, None for as many as the stream has.

    >>> from loaderkit._plan.batching import Batching
    >>> from loaderkit.samplers import SequentialSampler
    >>> from loaderkit._order.sharding import ShardOptions
    >>> batching = Batching(inner=(), rows=4, remainder="keep", batched=True)
    >>> schedule = Schedule(SequentialSampler(6), batching, ShardOptions(0, 1), start=0, stop=6)
    >>> feed = StepFeed(schedule, Segments(((0, 0, 4),)), 0, 6)
    >>> feed.next().keys, feed.next().keys, feed.next()
    (array([0, 1, 2, 3]), array([4, 5]), None)
    """

    def __init__(
        self,
        schedule: Schedule,
        segments: Segments,
        step: int,
        num_records: int,
        num_steps: int | None = None,
    ) -> None:
        self._num_steps = num_steps
        self._ahead = steps_ahead(schedule)
        self._stride = schedule.batching.stride
        self._segments = segments
        self._step = step
        self._num_records = num_records

    def next(self, most: int = 1) -> StepRecords | None:
        """The part of the next step, or of up to `most` next ones; None after the last.

        Raises what the sampler raises, IndexError for a key that the source doesn't have, and ValueError at a step
        that was made with another global batch size; each only when the steps before it were returned.
        """
        if self._num_steps is not None:
            most = min(most, self._num_steps - self._step)
            if most < 1:
                return None
        index = self._segments.seek(self._step, self._stride)
        if most > 1:
            end = self._segments.end_of(self._step)
            most = most if end is None else min(most, end - self._step)
        part = self._ahead.records(index, most)
        if part is None:
            return None
        try:
            check_keys(part.keys, part.indices, self._num_records)
        except IndexError:
            if part.steps == 1:
                raise
            return self.next()  # one step at a time, so that the error is raised at its own step
        self._step += part.steps
        return part


class ShardIndices:
    """The indices of a shard where no Batch groups them: step t gives shard h of H the h-th index of the step.

    segments: where each step begins. step: the first step. stop: the stream's end, None without one. shard: h and H.

    >>> from loaderkit._order.sharding import ShardOptions
    >>> segments = Segments(((0, 0, 2), (3, 20, 2)))
    >>> indices = ShardIndices(segments, step=1, stop=30, shard=ShardOptions(1, 2))
    >>> indices.next(9), indices.next(2), indices.next(9)
    (array([3, 5]), array([21, 23]), array([25, 27, 29]))
    """

    def __init__(self, segments: Segments, *, step: int, stop: int | None, shard: ShardOptions) -> None:
        self._segments = segments
        self._step = step
        self._stop = stop
        self._shard = shard

    def next(self, n: int) -> Int64Array:
        """Up to n next indices, int64; empty after the last.

        Raises ValueError at a step that was made with another global batch size.
        """
        shard, count = self._shard.shard_index, self._shard.shard_count
        first = self._segments.seek(self._step, count)
        end = self._segments.end_of(self._step)
        steps = n if end is None else min(n, end - self._step)
        if self._stop is not None:
            # of a last step that has too few indices, only the first shards have one
            others = 0 if self._shard.drop_remainder else count - 1 - shard
            steps = max(0, min(steps, (self._stop - first + others) // count))
        if steps and first + steps * count > MOST_INT64:
            raise IndexError(
                f"first_index: expected indices that aren't past 2**63, got {n} of this shard from {first} on"
            )
        self._step += steps
        return np.arange(steps, dtype=np.int64) * count + (first + shard)


class StreamIndices:
    """The indices of one logical stream.

    streams: maps indices to streams. stream: its number. index: where to begin. again: whether the stream begins again
    where `index` is past its end.

    >>> indices = StreamIndices(LogicalStreams(count=2, q=3, start=0, stop=14), stream=1, index=4)
    >>> indices.next(3), indices.next(9)
    (array([4, 5, 9]), array([10, 11]))
    """

    def __init__(self, streams: LogicalStreams, stream: int, index: int, *, again: bool = False) -> None:
        self._again = again
        self._streams = streams
        self._stream = stream
        self._index = index

    def next(self, n: int) -> Int64Array:
        """Up to n next indices, int64; empty after the last."""
        indices = self._streams.indices(self._stream, self._index, n)
        if self._again and not len(indices):
            indices = self._streams.indices(self._stream, self._streams.start, n)
        if len(indices):
            self._index = int(indices[-1]) + 1
        return indices


class Indices(Protocol):
    """A source of indices in order."""

    def next(self, n: int) -> Int64Array:
        """Up to n next indices, int64; empty after the last."""
        ...


class RecordFeed:
    """Gives indices and record keys one after the other.

    sampler: gives the record keys. indices: gives the indices. num_records: the source's length.

    >>> from loaderkit.samplers import SequentialSampler
    >>> streams = LogicalStreams(count=1, q=1, start=0, stop=5)
    >>> feed = RecordFeed(SequentialSampler(5), StreamIndices(streams, 0, 0), 5)
    >>> feed.next(3), feed.next(3), feed.next(3)
    ((array([0, 1, 2]), array([0, 1, 2])), (array([3, 4]), array([3, 4])), None)
    """

    def __init__(self, sampler: Sampler, indices: Indices, num_records: int) -> None:
        self._source = indices
        self._ahead = KeysAhead(sampler, num_records)
        self._indices: Int64Array = np.empty(0, np.int64)
        self._keys: Int64Array = np.empty(0, np.int64)  # of the first of `_indices`

    def next(self, count: int) -> tuple[Int64Array, Int64Array] | None:
        """Indices and keys, (n,) int64 each, of up to `count` next records; None after the last.

        Raises what the sampler raises, IndexError for a key that the source doesn't have, and ValueError at a step
        that was made with another global batch size; each only when the records before it were returned.
        """
        if not len(self._indices):
            self._indices = self._source.next(max(count, self._ahead.block))
            if not len(self._indices):
                return None
        if not len(self._keys):
            self._keys = self._planned(self._indices)
        count = min(count, len(self._keys))
        records = self._indices[:count], self._keys[:count]
        self._indices, self._keys = self._indices[count:], self._keys[count:]
        return records

    def _planned(self, indices: Int64Array) -> Int64Array:
        block = indices[: self._ahead.block]
        keys = self._ahead.keys(block, alone=len(block) == 1)
        return self._planned(indices) if keys is None else keys


class WholeWindows:
    """The records of another feed, of whole windows at a time: only the last of a stream may have fewer records.

    feed: where the records come from, from the begin of a window on. size: records of a window.

    >>> from loaderkit.samplers import SequentialSampler
    >>> streams = LogicalStreams(count=1, q=1, start=0, stop=7)
    >>> feed = WholeWindows(RecordFeed(SequentialSampler(7), StreamIndices(streams, 0, 0), 7), 3)
    >>> feed.next(4), feed.next(1), feed.next(1)
    ((array([0, 1, 2, 3, 4, 5]), array([0, 1, 2, 3, 4, 5])), (array([6]), array([6])), None)
    """

    def __init__(self, feed: RecordInput, size: int) -> None:
        self._feed = feed
        self._size = size
        self._waiting: list[tuple[Int64Array, Int64Array]] = []

    def next(self, count: int) -> tuple[Int64Array, Int64Array] | None:
        """Indices and keys of up to `count` next records and those that fill the last window, as `RecordFeed.next`."""
        wanted = -(-count // self._size) * self._size
        here = sum(len(indices) for indices, _ in self._waiting)
        while here < wanted:
            try:
                records = self._feed.next(wanted - here)
            except Exception:
                wanted = here // self._size * self._size
                if not wanted:
                    raise
                break  # raised again when the windows before it were returned
            if records is None:
                wanted = here
                break
            self._waiting.append(records)
            here += len(records[0])
        if not wanted:
            return None
        indices, keys = (np.concatenate(parts) for parts in zip(*self._waiting))
        self._waiting = [(indices[wanted:], keys[wanted:])] if here > wanted else []
        return indices[:wanted], keys[:wanted]
