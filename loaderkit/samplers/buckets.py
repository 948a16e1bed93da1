"""Batches of records of like length, for few shapes and little padding.

    bucket   the records of which a boundary is the smallest that is no shorter than they are
    step     global_batch_size indices; a batch uses the first ones, all unless batch_sizes or the epoch's end say less

`loaderkit/_order/length_buckets.py` has the arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from itertools import pairwise
from reprlib import repr as _short
from typing import Any

import numpy as np
import numpy.typing as npt

from loaderkit._base.former_arguments import former_arguments
from loaderkit._base.numbers import as_array, at_least, true_or_false
from loaderkit._order.array_digest import digest_of
from loaderkit._order.length_buckets import LengthBuckets
from loaderkit._order.permutation import MAX_RECORDS, Int64Array, distinct_of
from loaderkit._order.sharding import Sharding, check_sharding

from .bulk import BulkSampler
from .protocol import ENDLESS, check_limit, checked_epochs, checked_seed

_ADVICE = "give the lengths of all records, such as lk.offline.read_array(path) of lk.offline.measure(source, fn, path)"


@former_arguments(removed_in="0.3.0", left_out={"shuffle": True})
@dataclass(frozen=True, slots=True, repr=False)
class LengthBucketSampler(BulkSampler):
    """Batches of records of like length: every record once in each epoch, with others of its bucket.

    Args:
        lengths: (n,) ints, 0 or more, one for each record of the source. ValueError naming a record that is longer
            than the last boundary.
        boundaries: ascending ints; a record is of the bucket of the smallest boundary that is no shorter.
        global_batch_size: N, the indices of a step, as lk.PadBatch(global_batch_size=N) has it.
        batch_sizes: rows of a batch for each boundary, the largest N; None for N rows of each.
        shuffle: whether records in their buckets, and batches, have an order of their own in each epoch, which needs a
            seed. If not given it is True, with a DeprecationWarning; 0.3 requires it.
        drop_remainder: whether an epoch leaves out the records that its last batch would have, if too few.
        seed, num_epochs, shard_options: as IndexSampler says.

    A value of the wrong type is a TypeError, one out of range a ValueError.

    The last records of a bucket, too few for a batch, are batched with those of the next one. Only the last step of an
    epoch may have fewer records than its batch. A step's other indices are unused: `sampler[i]` of one gives a record
    of the step again. An epoch takes `epoch_length` indices. The sampler keeps 4 bytes a record, 8 from 2**32 on.

    >>> sampler = LengthBucketSampler([3, 9, 2, 8, 4, 7], [4, 10], 2, shuffle=True, seed=0, num_epochs=1)
    >>> sampler.record_keys(range(6)).reshape(3, 2).tolist()
    [[0, 5], [2, 4], [3, 1]]
    >>> sampler.shapes([0, 2, 4]).tolist(), sampler.rows_of([0, 2, 4]).tolist()
    ([1, 0, 1], [2, 2, 2])
    """

    lengths: InitVar[npt.ArrayLike]
    boundaries: Sequence[int]
    global_batch_size: int
    batch_sizes: Sequence[int] | None = field(default=None, kw_only=True, compare=False)  # but `sizes`
    shuffle: bool = field(kw_only=True)
    drop_remainder: bool = field(default=False, kw_only=True)
    seed: int | None = field(default=None, kw_only=True)
    num_epochs: int | None = field(default=None, kw_only=True)
    shard_options: Sharding | None = field(default=None, kw_only=True)
    sizes: tuple[int, ...] = field(init=False)
    lengths_digest: str = field(init=False)
    _by_bucket: npt.NDArray[Any] = field(init=False, compare=False)  # (n,) the records, sorted by bucket
    _buckets: LengthBuckets = field(init=False, compare=False)

    def __post_init__(self, lengths: npt.ArrayLike) -> None:
        self._check_settings()
        known = checked_lengths(lengths)
        bounds = np.array(self.boundaries, np.int64)
        buckets = np.searchsorted(bounds, known).astype(np.int16)
        if buckets.max() == len(bounds):
            record = int(np.argmax(buckets == len(bounds)))
            raise ValueError(
                f"lengths: expected at most {bounds[-1]}, the last boundary, got {known[record]} of record {record}; "
                "give a longer boundary, cut records by lk.PadTo(length, key, truncate=True), or leave this one out by "
                "lk.SubsetDataSource"
            )
        sizes = np.array(self.sizes, np.int64)
        counts = np.bincount(buckets, minlength=len(bounds))
        made = LengthBuckets(
            counts, sizes, self.seed if self.shuffle else None, drop_remainder=self.drop_remainder
        )
        if not made.steps:
            raise ValueError(
                f"drop_remainder: expected False, as {len(known)} records make no whole batch, got True; give a "
                "smaller global_batch_size"
            )
        kind = np.uint32 if len(known) <= 1 << 32 else np.int64
        self._set(_by_bucket=np.argsort(buckets, kind="stable").astype(kind), _buckets=made)
        self._set(lengths_digest=digest_of(known.astype(np.int64, copy=False)))
        check_limit("epoch_length", self.epoch_length, self.num_epochs or 1)

    @property
    def num_records(self) -> int:
        """The number of records, n.

        >>> LengthBucketSampler([3, 9, 2], [9], 2, shuffle=True, seed=0).num_records
        3
        """
        return len(self._by_bucket)

    @property
    def epoch_length(self) -> int:
        """How many indices an epoch takes: a multiple of global_batch_size.

        >>> LengthBucketSampler([3, 9, 2], [9], 2, shuffle=True, seed=0).epoch_length
        4
        """
        return self._buckets.steps * self.global_batch_size

    @property
    def random_parts(self) -> list[range]:
        """The record keys that are read in a random order: all where batches are shuffled.

        >>> LengthBucketSampler([3, 9, 2], [9], 2, shuffle=True, seed=0).random_parts
        [range(0, 3)]
        """
        return [range(self.num_records)] if self.shuffle else []

    def shapes(self, first_indices: npt.ArrayLike) -> Int64Array:
        """The bucket of each step, (k,) int64: the place of the boundary that its rows are padded to.

        Args:
            first_indices: (k,) ints, of each step the first index, else a ValueError.

        >>> LengthBucketSampler([3, 9, 2], [4, 9], 2, shuffle=False).shapes([0, 2])
        array([0, 1])
        """
        return self._steps(self._firsts(first_indices))[0]

    def rows_of(self, first_indices: npt.ArrayLike) -> Int64Array:
        """How many records each step has, (k,) int64: it uses as many of its indices, from the first on.

        Args:
            first_indices: as in `shapes`.

        >>> LengthBucketSampler([3, 9, 2], [4, 9], 2, shuffle=False).rows_of([0, 2])
        array([2, 1])
        """
        return self._steps(self._firsts(first_indices))[2]

    def record_keys(self, indices: npt.ArrayLike) -> Int64Array:
        """The record keys of many indices at once, (n,) int64.

        Args:
            indices: (n,) ints; errors as IndexSampler's.

        >>> LengthBucketSampler([3, 9, 2], [4, 9], 2, shuffle=False).record_keys(range(4)).tolist()
        [0, 2, 1, 1]
        """
        wanted = self._checked(indices)
        steps = wanted // self.global_batch_size
        places = wanted - steps * self.global_batch_size
        distinct, owners = distinct_of(steps)
        _, firsts, rows = self._steps(distinct)
        epochs = distinct // self._buckets.steps
        if owners is not None:
            firsts, rows, epochs = firsts.take(owners), rows.take(owners), epochs.take(owners)
        if (places >= rows).any():
            places = places % rows  # of unused indices
        return self._by_bucket.take(self._buckets.records(firsts + places, epochs)).astype(np.int64)

    def instead(self, index: int, tried: int, count: int) -> Int64Array:
        """What may be read instead of a bad record: other indices of its step, (n,) int64, n at most `count`.

        Args:
            index: of the bad record.
            tried: how many of the others to leave out.
            count: how many to give at most.

        >>> LengthBucketSampler([3, 4, 2, 9], [4, 9], 3, shuffle=False).instead(1, 0, 9)
        array([2, 0])
        """
        first = index - index % self.global_batch_size
        rows = int(self.rows_of([first])[0])
        return first + (index - first + np.arange(1 + tried, min(rows, 1 + tried + count))) % rows

    def keys_instead(self, lost: Int64Array, instead: Int64Array) -> Int64Array:
        """The record keys of indices that `instead` gave, (n,) int64.

        Args:
            lost: (n,) int64, the indices of the bad records.
            instead: (n,) int64, for each what `instead` gave.

        >>> sampler = LengthBucketSampler([3, 4, 2, 9], [4, 9], 3, shuffle=False)
        >>> sampler.keys_instead(np.array([1]), np.array([2]))
        array([2])
        """
        return self.record_keys(instead)

    def endless(self) -> LengthBucketSampler:
        """The same order without the last epoch.

        >>> LengthBucketSampler(
        ...     [3, 9, 2], [9], 2, shuffle=True, seed=0, num_epochs=1
        ... ).endless().num_epochs is None
        True
        """
        return self._copied(num_epochs=None)

    def fingerprint(self) -> dict[str, object]:
        """What a saved state keeps of this sampler, as JSON values: of the lengths their number and a digest.

        >>> said = LengthBucketSampler([3, 9, 2], [9], 2, shuffle=True, seed=0).fingerprint()
        >>> said["records"], said["lengths"], said["boundaries"]
        (3, 'sha256:d57ced280c7a025e3f5fc36408ae9569', [9])
        """
        return {
            "kind": "LengthBucketSampler",
            "records": self.num_records,
            "lengths": self.lengths_digest,
            "boundaries": list(self.boundaries),
            "global_batch_size": self.global_batch_size,
            "batch_sizes": list(self.sizes),
            "shuffle": self.shuffle,
            "drop_remainder": self.drop_remainder,
            "num_epochs": self.num_epochs,
            "seed": self._seed_in_state(),
        }

    @property
    def _limit(self) -> int:
        return ENDLESS if self.num_epochs is None else self.num_epochs * self.epoch_length

    def __repr__(self) -> str:
        sizes = "" if self.batch_sizes is None else f"batch_sizes={list(self.sizes)}, "
        return (
            f"LengthBucketSampler({self.num_records} lengths, {_short(list(self.boundaries))}, "
            f"{self.global_batch_size}, {sizes}shuffle={self.shuffle}, seed={self.seed}, num_epochs={self.num_epochs})"
        )

    def _firsts(self, first_indices: npt.ArrayLike) -> Int64Array:
        """The steps that begin at indices."""
        firsts = self._checked(first_indices)
        steps, inside = np.divmod(firsts, self.global_batch_size)
        if inside.any():
            raise ValueError(
                f"first_indices: expected multiples of global_batch_size={self.global_batch_size}, got "
                f"{firsts[inside > 0][0]}; give the first index of each step"
            )
        return steps

    def _steps(self, steps: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
        epochs, inside = np.divmod(steps, self._buckets.steps)
        return self._buckets.batches(inside, epochs)

    def _check_settings(self) -> None:
        size = at_least("global_batch_size", self.global_batch_size, 1, below=MAX_RECORDS)
        bounds = _several("boundaries", self.boundaries, 0)
        if any(lower >= upper for lower, upper in pairwise(bounds)):
            raise ValueError(f"boundaries: expected ascending lengths, got {_short(bounds)}; sort them")
        sizes = (size,) * len(bounds)
        if self.batch_sizes is not None:
            sizes = _several("batch_sizes", self.batch_sizes, 1)
            if len(sizes) != len(bounds) or max(sizes) != size:
                raise ValueError(
                    f"batch_sizes: expected {len(bounds)} numbers of rows, one for each boundary, the largest "
                    f"global_batch_size={size}, got {_short(sizes)}; give global_batch_size=max(batch_sizes)"
                )
            self._set(batch_sizes=sizes)
        true_or_false("drop_remainder", self.drop_remainder)
        self._set(global_batch_size=size, boundaries=bounds, sizes=sizes)
        self._set(
            seed=checked_seed(self.seed, shuffle=self.shuffle), num_epochs=checked_epochs(self.num_epochs)
        )
        check_sharding(self.shard_options)


def _several(name: str, given: Any, least: int) -> tuple[int, ...]:
    try:
        values = [*given]
    except TypeError:
        raise TypeError(f"{name}: expected a list of ints, got {_short(given)}") from None
    if not values:
        raise ValueError(f"{name}: expected one or more, got none")
    return tuple(
        at_least(f"{name}[{place}]", value, least, below=MAX_RECORDS) for place, value in enumerate(values)
    )


def checked_lengths(given: Any) -> npt.NDArray[Any]:
    """Lengths of records, (n,) ints from 0 on; ValueError or TypeError for anything else.

    >>> checked_lengths([3, 0])
    array([3, 0])
    """
    lengths = as_array(given)
    if lengths.ndim != 1 or not lengths.size:
        raise ValueError(f"lengths: expected (n,) ints, one or more, got {_short(given)}; {_ADVICE}")
    if lengths.dtype.kind not in "iu":
        raise TypeError(f"lengths: expected ints, got an array of {lengths.dtype}; {_ADVICE}")
    if lengths.min() < 0:
        record = int(np.argmin(lengths))
        raise ValueError(f"lengths: expected 0 or more, got {lengths[record]} of record {record}; {_ADVICE}")
    return lengths
