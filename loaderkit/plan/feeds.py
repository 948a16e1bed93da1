"""The plan as a worker's supply: what comes next, record keys and all, planned in blocks and handed out in pieces.

A feed moves on with every call; to start elsewhere, make another.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from loaderkit.plan.samplers import Sampler, record_keys_of
from loaderkit.plan.schedule import BLOCK_INDICES, Part, Planner, Schedule
from loaderkit.plan.segments import Segments

Int64Array = NDArray[np.int64]


def check_keys(keys: Int64Array, indices: Int64Array, num_records: int) -> None:
    """Raises IndexError for the first record key that the source doesn't have.

    keys, indices: (n,) int64 each. num_records: the source's length.

    >>> check_keys(np.array([0, 7]), np.array([3, 4]), 7)
    Traceback (most recent call last):
        ...
    IndexError: index 4 reads record_key 7, the data source has 7 records: 0 to 6
    """
    if keys.size and keys.max() >= num_records:
        place = int(np.argmax(keys >= num_records))
        raise IndexError(
            f"index {indices[place]} reads record_key {keys[place]}, "
            f"the data source has {num_records} records: 0 to {num_records - 1}"
        )


class StepFeed:
    """A shard's part of one step after the other.

    schedule: the plan. segments: where each step begins. step: the first. num_records: the source's length.

    >>> from loaderkit.plan.batching import Batching
    >>> from loaderkit.plan.samplers import SequentialSampler
    >>> from loaderkit.plan.sharding import ShardOptions
    >>> batching = Batching(inner=(), rows=4, remainder="keep", batched=True)
    >>> schedule = Schedule(SequentialSampler(6), batching, ShardOptions(0, 1), start=0, stop=6)
    >>> feed = StepFeed(schedule, Segments(((0, 0, 4),)), 0, 6)
    >>> feed.next().keys, feed.next().keys, feed.next()
    (array([0, 1, 2, 3]), array([4, 5]), None)
    """

    def __init__(self, schedule: Schedule, segments: Segments, step: int, num_records: int) -> None:
        self._planner = Planner(schedule)
        self._stride = schedule.batching.stride
        self._segments = segments
        self._step = step
        self._num_records = num_records

    def next(self) -> Part | None:
        """The next step's part, None behind the last.

        Raises what the sampler raises, IndexError for a key that the source doesn't have, and ValueError at a step
        that was made with another global batch size.
        """
        part = self._planner.part(self._segments.seek(self._step, self._stride))
        if part is not None:
            check_keys(part.keys, part.indices, self._num_records)
            self._step += 1
        return part


class SingleFeed:
    """A shard's records one after the other where no Batch groups them: a step has one for each shard.

    steps: gives the steps.

    >>> from loaderkit.plan.batching import Batching
    >>> from loaderkit.plan.samplers import SequentialSampler
    >>> from loaderkit.plan.sharding import ShardOptions
    >>> batching = Batching(inner=(), rows=2, remainder="keep", batched=False)
    >>> schedule = Schedule(SequentialSampler(6), batching, ShardOptions(1, 2), start=0, stop=6)
    >>> feed = SingleFeed(StepFeed(schedule, Segments(((0, 0, 2),)), 0, 6))
    >>> feed.next(2), feed.next(2), feed.next(2)
    ((array([1, 3]), array([1, 3])), (array([5]), array([5])), None)
    """

    def __init__(self, steps: StepFeed) -> None:
        self._steps = steps
        self._refused: Exception | None = None

    def next(self, count: int) -> tuple[Int64Array, Int64Array] | None:
        """Indices and keys of up to `count` next records, None behind the last. Raises as StepFeed does."""
        parts: list[Part] = []
        while self._refused is None and len(parts) < count:
            try:
                part = self._steps.next()
            except Exception as error:  # noqa: BLE001 - said when what stands before it was handed on
                self._refused = error
                break
            if part is None:
                break
            parts.append(part)
        if parts:
            return np.concatenate([p.indices for p in parts]), np.concatenate([p.keys for p in parts])
        if self._refused is not None:
            raise self._refused
        return None


class RecordFeed:
    """Records one after the other, as many as are asked for.

    sampler: gives the record keys. indices: (first_index, n) -> the next n indices of the stream in question, int64
    (<=n,). index: where to begin. num_records: the source's length.

    >>> from loaderkit.plan.samplers import SequentialSampler
    >>> feed = RecordFeed(SequentialSampler(5), lambda first, n: np.arange(first, min(5, first + n)), 0, 5)
    >>> feed.next(3), feed.next(3), feed.next(3)
    ((array([0, 1, 2]), array([0, 1, 2])), (array([3, 4]), array([3, 4])), None)
    """

    def __init__(
        self, sampler: Sampler, indices: Callable[[int, int], Int64Array], index: int, num_records: int
    ) -> None:
        self._sampler = sampler
        self._plan = indices
        self._index = index
        self._num_records = num_records
        self._block = BLOCK_INDICES if hasattr(sampler, "record_keys") else 1
        self._indices: Int64Array = np.empty(0, np.int64)
        self._keys: Int64Array = np.empty(0, np.int64)

    def next(self, count: int) -> tuple[Int64Array, Int64Array] | None:
        """Indices and keys of up to `count` next records, None behind the last. Raises as StepFeed does."""
        if not len(self._indices):
            indices = self._plan(self._index, max(count, self._block))
            if not len(indices):
                return None
            try:
                keys = record_keys_of(self._sampler, indices)
                check_keys(keys, indices, self._num_records)
            except Exception:
                if self._block == 1 and count == 1:
                    raise
                self._block = (
                    1  # asked one by one from here on, the error comes with the record it belongs to
                )
                return self.next(1)
            self._indices, self._keys = indices, keys
            self._index = int(indices[-1]) + 1
        taken = self._indices[:count], self._keys[:count]
        self._indices, self._keys = self._indices[count:], self._keys[count:]
        return taken
