"""Which records a shard reads in which step: a frozen value, and `StepsAhead`, which plans blocks of steps.

index      global place of a record in the endless stream of all epochs; a step is named by its first index
record_key row in the data source that an index reads
start,stop the indices of this stream, [start, stop); stop is None where it never ends
part       what one shard reads in one step, or in several consecutive whole steps: `rows` rows a step of `group`
           consecutive indices each; only the last row of the stream may be shorter
fill       the rows that the last step lacks: "pad" adds rows of zeros, for which nothing is read, and "wrap" repeats
           the stream's first rows; the step is filled before it is divided among shards, so the global batch is the
           same for any number of them
shape      the bucket of a step's rows, to whose boundaries they are padded; -1 where the plan doesn't say one; that of
           the longest row of all shards where lengths are known ahead
"""

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.system.dataclasses import dataclass
from loaderkit._engine.in_flight_step import StepRecords
from loaderkit._order.facts import Fill
from loaderkit._order.metadata import MOST_INT64
from loaderkit._order.sharding import Shard, ShardOptions
from loaderkit._order.stage_keys import rows_of_keys
from loaderkit.samplers import Sampler
from loaderkit.samplers.protocol import ShapedSampler, record_keys_of

from .batching import Batching, check_span, shard_rows, shard_spans

# Keys planned by one call of the sampler. Measured with a shuffled IndexSampler of 10**6 records: a call costs about
# 0.5 ms plus 85 ns a key, that is 480 to 600 ns a key in calls of 1,024, 165 to 210 of 4,096, 90 to 120 of 16,384 and
# 80 to 100 of 65,536. A larger block would make the first batch later and gain little.
BLOCK_INDICES = 16_384


@dataclass(frozen=True, slots=True, eq=False)
class KnownLengths:
    """The shape of each step where the buckets of all records are known: that of its longest row.

    sampler: the order, without a ledger. buckets: (n,) ints, of each record.

    >>> from loaderkit.samplers import SequentialSampler
    >>> KnownLengths(SequentialSampler(4), np.array([3, 1, 2, 2])).shapes(np.array([0, 2]), 2).tolist()
    [3, 2]
    """

    sampler: Sampler
    buckets: NDArray[np.integer]

    def shapes(self, first_indices: NDArray[np.int64], records: int) -> NDArray[np.integer]:
        """Of the steps of so many records that begin at indices, (k,) int64: (k,)."""
        indices = first_indices[:, None] + np.arange(records)
        keys = rows_of_keys(record_keys_of(self.sampler, indices.reshape(-1)))
        # mode="clip", as the feed names a key that the source doesn't have.
        found: NDArray[np.integer] = self.buckets.take(keys, mode="clip").reshape(indices.shape).max(axis=1)
        return found


@dataclass(frozen=True, slots=True)
class Schedule:
    """The plan of a pipeline that keeps the number of rows: first index of a step -> this shard's records.

    sampler: an object of the Sampler protocol. batching: how records become batches. shard: this process's part of
    them. start, stop: the stream's indices [start, stop), stop=None without an end. shaped: the sampler, if it says the
    shape and the records of each step; it has no ledger applied. shape: else that of all steps. lengths: else they say
    it. Raises ValueError where the rows of a step can't be divided into equal shards, or start or stop is out of range.

    >>> from loaderkit.samplers import SequentialSampler
    >>> batching = Batching(inner=(), rows=4, remainder="keep", batched=True)
    >>> schedule = Schedule(SequentialSampler(10), batching, ShardOptions(1, 2), start=0, stop=10)
    >>> schedule.rows_at(4).keys
    array([6, 7])
    >>> schedule.rows_at(8).keys, schedule.rows_at(12)
    (array([9]), None)
    """

    sampler: Sampler
    batching: Batching
    shard: Shard
    start: int
    stop: int | None
    shaped: ShapedSampler | None = None
    shape: int = -1
    lengths: KnownLengths | None = None

    def __post_init__(self) -> None:
        shard_spans(0, self.batching.rows, shard=self.shard, remainder=self.batching.remainder)
        check_span(self.start, self.stop)

    def rows_at(self, index: int) -> StepRecords | None:
        """This shard's part of the step that begins at `index`; None where the shard doesn't make that step.

        index: from `start` on, else IndexError.

        >>> from loaderkit.samplers import SequentialSampler
        >>> batching = Batching(inner=(), rows=4, remainder="drop", batched=True)
        >>> Schedule(SequentialSampler(10), batching, ShardOptions(0, 1), start=0, stop=10).rows_at(8)
        """
        spans = self.spans_at(index)
        return self._part(index, spans) if spans else None

    def all_rows(self, index: int) -> StepRecords | None:
        """The records of all shards in the step that begins at `index`; None where no shard makes that step.

        index: from `start` on, else IndexError.

        >>> from loaderkit.samplers import SequentialSampler
        >>> batching = Batching(inner=(), rows=4, remainder="keep", batched=True)
        >>> Schedule(SequentialSampler(10), batching, ShardOptions(1, 2), start=0, stop=10).all_rows(4).keys
        array([4, 5, 6, 7])
        """
        last = ShardOptions(self.shard.shard_count - 1, self.shard.shard_count, self.shard.drop_remainder)
        _, high = shard_rows(
            self._rows_present(index),
            self._rows_of_whole(index),
            shard=last,
            remainder=self.batching.remainder,
        )
        return None if high == 0 else self._part(index, ((0, high),))

    def firsts_at(self, index: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The first index of each row of the step at `index`; for padded rows an index past the stream's end.

        rows: (n,) int64, numbers of rows in the global batch. Returns (n,) int64. index: from `start` on, else
        IndexError.

        >>> from loaderkit.samplers import SequentialSampler
        >>> batching = Batching(inner=(), rows=4, remainder="wrap", batched=True)
        >>> Schedule(SequentialSampler(9), batching, ShardOptions(0, 1), start=0, stop=9).firsts_at(
        ...     8, np.arange(4)
        ... )
        array([8, 0, 1, 2])
        """
        places = rows * self.batching.group
        used = self.batching.count_used(self._records_present(index))
        if self.batching.remainder != "wrap" or not used or np.all(places < used):
            return index + places
        return np.where(places < used, index + places, self._rows_again(index, places - used))

    def steps_from(self, index: int) -> int | None:
        """Number of steps that this shard makes from `index` on; None where the stream has no end.

        index: from `start` on, else IndexError.

        >>> from loaderkit.samplers import SequentialSampler
        >>> batching = Batching(inner=(), rows=4, remainder="keep", batched=True)
        >>> [
        ...     Schedule(SequentialSampler(9), batching, ShardOptions(h, 2), start=0, stop=9).steps_from(0)
        ...     for h in (0, 1)
        ... ]
        [3, 2]
        """
        self._check_index(index)
        if self.stop is None:
            return None
        whole, left = divmod(max(0, self.stop - index), self.batching.stride)
        if left == 0:
            return whole
        return whole + bool(self.spans_at(index + whole * self.batching.stride))

    def shards_without(self, index: int) -> int:
        """Number of shards that don't make the step at `index` while others do; greater than 0 at the end only.

        index: from `start` on, else IndexError.

        >>> from loaderkit.samplers import SequentialSampler
        >>> batching = Batching(inner=(), rows=4, remainder="keep", batched=True)
        >>> Schedule(SequentialSampler(9), batching, ShardOptions(0, 2), start=0, stop=9).shards_without(8)
        1
        """
        part_rows = self._rows_present(index)
        exists = part_rows == self.batching.rows or self.batching.remainder == "keep"
        if not exists or self.shard.drop_remainder or part_rows == 0:
            return 0
        return max(0, self.shard.shard_count - part_rows)

    def spans_at(self, index: int) -> tuple[tuple[int, int], ...]:
        """The rows of the step at `index` that this shard gets, as ranges [lo, hi); doesn't call the sampler.

        index: from `start` on, else IndexError.

        >>> from loaderkit.samplers import SequentialSampler
        >>> batching = Batching(inner=(), rows=4, remainder="keep", batched=True)
        >>> Schedule(SequentialSampler(9), batching, ShardOptions(1, 2), start=0, stop=9).spans_at(4)
        ((2, 4),)
        """
        return shard_spans(
            self._rows_present(index),
            self._rows_of_whole(index),
            shard=self.shard,
            remainder=self.batching.remainder,
        )

    def _check_index(self, index: int) -> None:
        if index < self.start:
            raise IndexError(f"index: expected {self.start} (the stream's first) or more, got {index}")
        if index > MOST_INT64 - self.batching.stride:
            raise IndexError(f"index: expected a step that ends before 2**63, got one that begins at {index}")

    def _records_present(self, index: int) -> int:
        self._check_index(index)
        stride = self.batching.stride
        there = stride if self.stop is None else max(0, min(stride, self.stop - index))
        if self.shaped is None or not there:
            return there
        return min(there, int(self.shaped.rows_of(np.array([index], np.int64))[0]))

    def _shape_of(self, index: int) -> int:
        first = np.array([index], np.int64)
        if self.shaped is not None:
            return int(self.shaped.shapes(first)[0])
        return (
            self.shape
            if self.lengths is None
            else int(self.lengths.shapes(first, self._records_present(index))[0])
        )

    def _rows_of_whole(self, index: int) -> int:
        """The rows of the step at `index` if none is lacking."""
        if self.shaped is None or not self._records_present(index):
            return self.batching.rows
        return self.shaped.sizes[self._shape_of(index)]

    def _rows_present(self, index: int) -> int:
        return self.batching.count_rows(self._records_present(index))

    def _part(self, index: int, spans: tuple[tuple[int, int], ...]) -> StepRecords:
        group, rows = self.batching.group, sum(high - low for low, high in spans)
        used = self.batching.count_used(self._records_present(index))
        places = _records_of(spans, group)
        present = int(np.searchsorted(places, used))  # the stream's last row may be shorter
        fill: Fill = ()
        indices = index + places[:present]
        if present < len(places) and self.batching.remainder == "wrap":
            indices = np.concatenate([indices, self._rows_again(index, places[present:] - used)])
        elif present <= len(places) - group and self.batching.remainder == "pad":
            real = -(-present // group)
            fill = ((real, rows - real),)
            indices, rows = (indices, real) if real else (self._rows_again(index, np.arange(group)), 1)
        keys = record_keys_of(self.sampler, indices)
        return StepRecords(indices, keys, rows, fill=fill, shape=self._shape_of(index))

    def _rows_again(self, index: int, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """What fills up the step at `index`: the stream's first rows, or where steps differ in shape its own."""
        if self.shaped is None and self.lengths is None:
            return self._first_rows(places)
        return index + places % self._records_present(index)

    def _first_rows(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The indices of records by their place in the stream's rows, counted on through repetitions of the stream."""
        assert self.stop is not None
        used = self.batching.count_used(self.stop - self.start)
        return self.start + (places % used if used >= self.batching.group else places[:used])


def _records_of(spans: tuple[tuple[int, int], ...], group: int) -> NDArray[np.int64]:
    return np.concatenate([np.arange(low * group, high * group, dtype=np.int64) for low, high in spans])


class StepsAhead:
    """A schedule with a cache: asks the sampler for the keys of many steps at once and returns them step by step.

    The result equals `Schedule.rows_at` for every index and every order of calls. Only a sampler that defines
    `record_keys` is asked ahead; another one is asked for the indices of the requested step only.

    >>> from loaderkit.samplers import SequentialSampler
    >>> batching = Batching(inner=(), rows=4, remainder="keep", batched=True)
    >>> steps_ahead = StepsAhead(
    ...     Schedule(SequentialSampler(10), batching, ShardOptions(1, 2), start=0, stop=10)
    ... )
    >>> steps_ahead.records(4).keys, steps_ahead.records(8).keys
    (array([6, 7]), array([9]))
    """

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        rows = schedule.batching.rows
        spans = shard_spans(rows, rows, shard=schedule.shard, remainder=schedule.batching.remainder)
        self._offsets = _records_of(spans, schedule.batching.group)  # (length,) int64, within a whole step
        self._length = len(self._offsets)
        self._rows = sum(high - low for low, high in spans)
        asked = self._length if schedule.lengths is None else schedule.batching.stride
        self._ahead = max(1, BLOCK_INDICES // asked) if hasattr(schedule.sampler, "record_keys") else 1
        self._first = 0
        self._indices: NDArray[np.int64] = np.empty((0, self._length), np.int64)
        self._keys: NDArray[np.int64] = np.empty((0, self._length), np.int64)
        self._shapes: NDArray[np.integer] | None = None  # (steps,), where lengths say them

    def records(self, index: int, most: int = 1) -> StepRecords | None:
        """This shard's part of the step that begins at `index`, as `Schedule.rows_at` returns it.

        most: may return up to so many consecutive whole steps at once.

        >>> from loaderkit.samplers import SequentialSampler
        >>> batching = Batching(inner=(), rows=4, remainder="keep", batched=True)
        >>> StepsAhead(
        ...     Schedule(SequentialSampler(10), batching, ShardOptions(0, 1), start=0, stop=10)
        ... ).records(12)
        """
        if (known := self._known(index, most)) is not None:
            return known
        steps = self._steps_to_plan(index)
        if steps > 1 and self._plan(index, steps):
            return self._known(index, most)
        return self.schedule.rows_at(index)

    def _known(self, index: int, most: int) -> StepRecords | None:
        step, inside = divmod(index - self._first, self.schedule.batching.stride)
        if inside or not 0 <= step < len(self._keys):
            return None
        shape = self.schedule.shape
        if self._shapes is not None:
            shape = int(self._shapes[step])
            most = int((self._shapes[step : step + most] != shape).argmax()) or most
        steps = slice(step, step + most)
        keys, indices = self._keys[steps], self._indices[steps].reshape(-1)
        return StepRecords(indices, keys.reshape(-1), self._rows, len(keys), shape=shape)

    def _steps_to_plan(self, index: int) -> int:
        schedule = self.schedule
        limit = MOST_INT64 if schedule.stop is None else schedule.stop
        return min(self._ahead, (limit - index) // schedule.batching.stride) if index >= schedule.start else 0

    def _plan(self, index: int, steps: int) -> bool:
        stride = self.schedule.batching.stride
        firsts = np.arange(steps, dtype=np.int64) * stride + index  # (steps,) int64
        indices = firsts[:, None] + self._offsets  # (steps, length) int64
        try:
            keys = record_keys_of(self.schedule.sampler, indices.reshape(-1))
            lengths = self.schedule.lengths
            self._shapes = None if lengths is None else lengths.shapes(firsts, stride)
        except Exception:  # noqa: BLE001 - a user's sampler may raise anything for a step far ahead
            # One step at a time from now on, so that the error is raised at its own step.
            self._ahead = 1
            return False
        self._first, self._indices, self._keys = index, indices, keys.reshape(indices.shape)
        return True
