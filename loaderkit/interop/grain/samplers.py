"""Grain's samplers, bit for bit, and one record or many at once.

    index       global place of a record: shard h of c reads the indices h, h + c, h + 2c, ...
    place       index // c, the place among the records that one shard reads
    record_key  the row of the data source

A shard reads its own part of the records: an IndexSampler cuts them in consecutive ranges and shuffles within a range,
so no record ever moves to another shard. It is equal to Grain where that surprises, too:

* The generator of an index is Philox with the key `seed + index`: two seeds that differ by d give the same generators d
  indices apart. The shuffle of epoch e has the seed `seed + e`: seeds that are next to each other share orders.
* For a range of 4**k + 1 records, from 65,537 on, one record of each epoch comes twice and another never.
* Without drop_remainder shards with one record less go on into their next epoch while the others end this one.
"""

import sys
from bisect import bisect_left
from operator import index as to_index
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.numbers import at_least
from loaderkit._order.metadata import RecordMetadata

from ._shuffle import shuffled
from .sharding import NoSharding, ShardOptions, even_split

__all__ = ["IndexSampler", "Sampler", "SequentialSampler"]

_SEEDS = 1 << 32
_NO_SHARDING = NoSharding()


@runtime_checkable
class Sampler(Protocol):
    """What a sampler of your own must have: `sampler[i]`, the RecordMetadata of a global index.

    `__len__` is optional: without it the length is found by a binary search for the first index that is an IndexError.

    >>> isinstance(SequentialSampler(3), Sampler)
    True
    """

    def __getitem__(self, index: int) -> RecordMetadata:
        """The metadata of a global index; IndexError after the last."""


class SequentialSampler:
    """Every record once, in order.

    Args:
        num_records: int >= 1, the records of the source.
        shard_options: with drop_remainder, no more indices than all shards have alike.
        seed: of the generators of random operations.

    Raises ValueError for num_records below 1. epoch_records: those between two changes of the order, all.

    >>> SequentialSampler(4)[3]
    RecordMetadata(index=3, record_key=3, rng=None)
    """

    def __init__(
        self, num_records: int, shard_options: ShardOptions = _NO_SHARDING, seed: int | None = None
    ) -> None:
        at_least("num_records", num_records, 1)
        count = shard_options.shard_count
        self._num_records = self.epoch_records = num_records
        self._shard_options = shard_options
        self._max_index = num_records // count * count if shard_options.drop_remainder else num_records
        self._seed = seed

    def __len__(self) -> int:
        return self._max_index

    def record_keys(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """The record keys of many indices, (n,) int64.

        Args:
            indices: (n,) int64; IndexError for one out of range.

        >>> SequentialSampler(4).record_keys(np.array([2, 3])).tolist()
        [2, 3]
        """
        _check_indices(indices, self._max_index)
        return indices

    def __getitem__(self, index: int) -> RecordMetadata:
        _check_indices(np.array([index]), self._max_index)
        return RecordMetadata(index, index, generator_of(self._seed, index))

    def __repr__(self) -> str:
        return f"SequentialSampler(num_records={self._num_records}, shard_options={self._shard_options!r})"


class IndexSampler:
    """Every record once an epoch, in order or shuffled, for some epochs or without end.

    Args:
        num_records: int >= 1, the records of the source.
        shard_options: which consecutive range of the records this process reads.
        shuffle: whether each epoch has its own order, which needs a seed.
        num_epochs: how many, None for no end.
        seed: int in [0, 2**32).

    Raises ValueError or TypeError for a value out of range or of another type. epoch_records: those that this shard
    reads in an epoch.

    >>> [IndexSampler(5, shuffle=True, seed=32)[i].record_key for i in range(5)]
    [2, 4, 3, 0, 1]
    """

    def __init__(
        self,
        num_records: int,
        shard_options: ShardOptions = _NO_SHARDING,
        shuffle: bool = False,
        num_epochs: int | None = None,
        seed: int | None = None,
    ) -> None:
        at_least("num_records", num_records, 1)
        if num_epochs is not None:
            at_least("num_epochs", num_epochs, 1)
        if shuffle and seed is None:
            raise ValueError("seed: expected an int with shuffle=True, got None")
        self._num_records = num_records
        self._shard_options = shard_options
        self._shuffle = shuffle
        self._num_epochs = num_epochs
        self._seed = None if seed is None else at_least("seed", seed, 0)
        if self._seed is not None and self._seed >= _SEEDS:
            raise ValueError(f"seed: expected an int in [0, 2**32), got {seed}")
        self._first, stop = even_split(num_records, shard_options)
        self.epoch_records = stop - self._first
        alike = (
            self.epoch_records * shard_options.shard_count if shard_options.drop_remainder else num_records
        )
        self._max_index = None if num_epochs is None else num_epochs * min(alike, num_records)

    def __len__(self) -> int:
        return sys.maxsize if self._max_index is None else self._max_index

    def record_keys(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """The record keys of many indices, (n,) int64.

        Args:
            indices: (n,) int64; IndexError for one out of range.

        >>> IndexSampler(5, shuffle=True, seed=32).record_keys(np.arange(5)).tolist()
        [2, 4, 3, 0, 1]
        """
        _check_indices(indices, self._max_index)
        if self.epoch_records == 0:
            raise ZeroDivisionError(f"{self!r}: expected records of this shard, got none")
        places = indices // self._shard_options.shard_count
        epochs = places // self.epoch_records
        positions = places - epochs * self.epoch_records
        if not self._shuffle:
            return self._first + positions
        keys = np.empty_like(positions)
        for epoch in np.unique(epochs).tolist():
            here = epochs == epoch
            keys[here] = shuffled(
                positions[here], self.epoch_records - 1, ((self._seed or 0) + epoch) % _SEEDS
            )
        return self._first + keys

    def __getitem__(self, index: int) -> RecordMetadata:
        key = int(self.record_keys(np.array([index], np.int64))[0])
        return RecordMetadata(index, key, generator_of(self._seed, index))

    def __repr__(self) -> str:
        return (
            f"IndexSampler(num_records={self._num_records}, shard_options={self._shard_options!r}, "
            f"shuffle={self._shuffle}, num_epochs={self._num_epochs}, seed={self._seed})"
        )


def generator_of(seed: int | None, index: int) -> np.random.Generator | None:
    """The generator of a record, None without a seed.

    >>> generator_of(3, 4).random() == generator_of(2, 5).random()
    True
    """
    return None if seed is None else np.random.Generator(np.random.Philox(key=to_index(seed) + index))


def size_of(sampler: Any) -> int:
    """How many indices a sampler has; without `__len__` by a binary search.

    >>> class Three:
    ...     def __getitem__(self, index):
    ...         return RecordMetadata(index, [7, 8, 9][index])
    >>> size_of(Three()), size_of(SequentialSampler(4))
    (3, 4)
    """
    if hasattr(sampler, "__len__"):
        return len(sampler)

    def is_past_end(index: int) -> bool:
        try:
            sampler[index]
        except IndexError:
            return True
        return False

    return bisect_left(range(sys.maxsize), True, key=is_past_end)


def _check_indices(indices: NDArray[np.int64], stop: int | None) -> None:
    if indices.size == 0:
        return
    low, high = int(indices.min()), int(indices.max())
    if low < 0 or (stop is not None and high >= stop):
        raise IndexError(f"index: expected one in [0, {stop}), got {low if low < 0 else high}")
