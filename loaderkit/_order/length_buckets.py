"""Batches of records of like length: which records each batch of an epoch has.

bucket     the records of which a boundary is the smallest that is no shorter than they are
position   place in the order of an epoch: bucket by bucket, those of each in a keyed order of its own
batch      consecutive positions: of bucket b `sizes[b]` of them, as many batches as there are records for. Its last
           records, too few for a batch, stand right before the next bucket's first ones and are batched with those
step       place of a batch in the epoch: the whole batches in a keyed order, then the records left over
"""

import numpy as np

from .mixing import fold_arrays
from .permutation import Int64Array, Permutations, distinct_of, permute

_STEPS = 0  # which order of an epoch a key is for; that of bucket b is for b + 1


class LengthBuckets:
    """The batches of an epoch.

    counts: (b,) int64, the number of records of each bucket, one at least in all. sizes: (b,) int64, the rows of a
    batch of each, 1 or more. seed: of the orders; None for no shuffle. drop_remainder: whether the records left over
    have no step.

    >>> buckets = LengthBuckets(np.array([5, 4]), np.array([2, 2]), None)
    >>> buckets.steps, [part.tolist() for part in buckets.batches(np.arange(5), np.zeros(5, np.int64))]
    (5, [[0, 0, 1, 1, 1], [0, 2, 4, 6, 8], [2, 2, 2, 2, 1]])
    """

    def __init__(
        self, counts: Int64Array, sizes: Int64Array, seed: int | None, *, drop_remainder: bool = False
    ) -> None:
        self._counts, self._sizes, self._seed, self._drop = counts, sizes, seed, drop_remainder
        last = int(np.flatnonzero(counts)[-1])  # records left over have no bucket above it to go to
        batches, firsts, position, carried = [], [], 0, 0
        for bucket, (count, size) in enumerate(zip(counts.tolist(), sizes.tolist(), strict=True)):
            number, left = divmod(carried + count, size)
            number = number if bucket <= last else 0
            firsts.append(position)
            batches.append(number)
            position += number * size
            carried = left
        self.whole = sum(batches)
        self._records = int(counts.sum())
        self.left = self._records - position
        self._last = last
        self._first_batches = np.concatenate([[0], np.cumsum(batches)]).astype(np.int64)  # (b + 1,)
        self._first_positions = np.array(firsts, np.int64)  # (b,) of each bucket's batches
        self._used = np.flatnonzero(counts)  # the buckets with records
        self._begins = (np.cumsum(counts) - counts)[self._used]  # (u,) positions of their own records

    @property
    def steps(self) -> int:
        """Steps of an epoch."""
        return self.whole + (self.left > 0 and not self._drop)

    def batches(self, steps: Int64Array, epochs: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
        """The bucket of each step, its first position and its number of records, (k,) int64 each.

        steps: (k,) int64 in [0, self.steps). epochs: (k,) int64.
        """
        whole = steps < self.whole
        batches = np.minimum(steps, max(self.whole - 1, 0))
        if self._seed is not None and self.whole:
            distinct, owners = distinct_of(epochs)
            batches = permute(batches, owners, self.whole, self._keys(distinct, np.array([_STEPS]))[:, 0])
        bucket = np.searchsorted(self._first_batches, batches, side="right") - 1
        if not self.whole:
            bucket = np.full(steps.shape, self._last)
        first = self._first_positions[bucket] + (batches - self._first_batches[bucket]) * self._sizes[bucket]
        return (
            np.where(whole, bucket, self._last),
            np.where(whole, first, self._records - self.left),
            np.where(whole, self._sizes[bucket], self.left),
        )

    def records(self, positions: Int64Array, epochs: Int64Array) -> Int64Array:
        """The record at each position, (k,) int64: its place where all records are sorted by bucket, stably.

        positions: (k,) int64 in [0, number of records). epochs: (k,) int64.
        """
        if self._seed is None or not positions.size:
            return positions
        distinct, owners = distinct_of(epochs)
        buckets = np.searchsorted(self._begins, positions, side="right") - 1
        begins = self._begins.take(buckets)
        if owners is not None:
            buckets += owners * len(self._used)
        orders = self._orders(tuple(distinct.tolist()))
        return orders.of_checked(positions - begins, buckets, orders.sizes.take(buckets)) + begins

    def _orders(self, epochs: tuple[int, ...]) -> Permutations:
        keys = self._keys(np.array(epochs, np.int64), self._used + 1)
        return Permutations(np.tile(self._counts[self._used], len(epochs)), keys.ravel())

    def _keys(self, epochs: Int64Array, numbers: Int64Array) -> np.ndarray:
        """(epochs, numbers) uint64"""
        assert self._seed is not None
        of_epochs, of_numbers = epochs.astype(np.uint64)[:, None], numbers.astype(np.uint64)[None, :]
        return fold_arrays(np.array([self._seed], np.uint64), of_epochs, of_numbers)
