"""Samplers of epochs: which record each index of the stream reads.

    index       global place in the endless stream of all epochs: 0, 1, 2, ...
    epoch       index // num_records
    position    index % num_records, the place in the epoch's order
    record_key  the row of the data source: the position itself, or its image under the epoch's shuffle

All shards share these indices: a sharding chooses which indices a process loads, never which records they read.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import index as to_index
from reprlib import repr as _short
from typing import cast

import numpy as np
import numpy.typing as npt

from loaderkit._base.integers import at_least, not_an_int
from loaderkit._order.distinct import distinct_of
from loaderkit._order.metadata import RecordMetadata
from loaderkit._order.mixing import fold_each
from loaderkit._order.permutation import MAX_RECORDS, Int64Array, permute
from loaderkit._order.rng import generator
from loaderkit._order.sharding import Sharding

from .protocol import ENDLESS, SEED_LIMIT

# Indices of one vectorised call when a sampler is iterated: with 64 an index took 1.4 times as long, 4096 was no
# faster.
_ITERATION_BLOCK = 1024


class EpochSampler:
    """Epochs of the same records, in order or each in its own shuffled order."""

    __slots__ = ()

    num_records: int
    shard_options: Sharding | None
    shuffle: bool
    num_epochs: int | None
    seed: int | None

    def record_keys(self, indices: npt.ArrayLike) -> Int64Array:
        """The record keys of many indices at once: (n,) ints in, (n,) int64 out.

        An index below 0 or beyond the last epoch is an IndexError that names it; indices that aren't ints are a
        TypeError, more than one dimension is a ValueError.

        >>> IndexSampler(3, num_epochs=2).record_keys([0, 1, 2, 3]).tolist()
        [0, 1, 2, 0]
        """
        wanted = self._checked(indices)
        epochs = wanted // self.num_records
        positions = wanted - epochs * self.num_records
        if not self.shuffle:
            return positions
        distinct, owners = distinct_of(epochs)
        return self._shuffled(positions, distinct, owners)

    def fingerprint(self) -> dict[str, object]:
        """What a saved state keeps of this sampler, as JSON values; the sharding isn't part of it.

        >>> IndexSampler(3, num_epochs=2).fingerprint()  # doctest: +NORMALIZE_WHITESPACE
        {'kind': 'IndexSampler', 'num_records': 3, 'shuffle': False, 'num_epochs': 2, 'seed': None}
        """
        # A state holds no integer above 63 bits, which many JSON readers would round.
        seed = self.seed if self.seed is None or self.seed < ENDLESS else str(self.seed)
        return {
            "kind": type(self).__name__,
            "num_records": self.num_records,
            "shuffle": self.shuffle,
            "num_epochs": self.num_epochs,
            "seed": seed,
        }

    def __getitem__(self, index: int) -> RecordMetadata:
        try:
            place = to_index(index)
        except TypeError:
            raise not_an_int("index", index) from None
        if not 0 <= place < self._limit:
            raise self._out_of_bounds(place)
        return self._metadata(place, int(self.record_keys([place])[0]))

    def __iter__(self) -> Iterator[RecordMetadata]:
        for start in range(0, self._limit, _ITERATION_BLOCK):
            indices = range(start, min(start + _ITERATION_BLOCK, self._limit))
            keys = self.record_keys(np.array(indices, np.int64)).tolist()
            for index, key in zip(indices, keys, strict=True):
                yield self._metadata(index, key)

    def __len__(self) -> int:
        if self.num_epochs is None:
            raise TypeError(
                f"{self!r} is endless and has no length; give num_epochs, or use num_records for one epoch"
            )
        return self._limit

    def __bool__(self) -> bool:
        # Without this method Python would call __len__, which raises for an endless sampler.
        return True

    @property
    def _limit(self) -> int:
        return ENDLESS if self.num_epochs is None else self.num_epochs * self.num_records

    def _shuffled(self, positions: Int64Array, epochs: Int64Array, owners: Int64Array | None) -> Int64Array:
        keys = fold_each(cast(int, self.seed), epochs.view(np.uint64))
        return permute(positions, owners, self.num_records, keys)

    def _metadata(self, index: int, record_key: int) -> RecordMetadata:
        rng = None if self.seed is None else generator(self.seed, 0, index, 0)
        return RecordMetadata(index, record_key, rng)

    def _checked(self, indices: npt.ArrayLike) -> Int64Array:
        wanted = np.asarray(indices)
        if wanted.size == 0:
            return np.empty(wanted.shape, np.int64)
        if wanted.dtype.kind not in "iu":
            raise TypeError(f"indices: expected ints, got an array of {wanted.dtype}; give int64 indices")
        if wanted.ndim != 1:
            raise ValueError(f"indices: expected one dimension, got shape {wanted.shape}; flatten them")
        if wanted.min() < 0 or wanted.max() >= self._limit:
            raise self._out_of_bounds(int(wanted[(wanted < 0) | (wanted >= self._limit)][0]))
        return wanted.astype(np.int64, copy=False)

    def _out_of_bounds(self, index: int) -> IndexError:
        last = "2**63 - 1" if self.num_epochs is None else str(self._limit - 1)
        return IndexError(f"index: expected an int from 0 to {last}, got {index}, of {self!r}")

    def _normalise(self) -> None:
        records = at_least(
            "num_records",
            self.num_records,
            1,
            below=MAX_RECORDS,
            advice="give len(source); an empty source can't be sampled",
        )
        object.__setattr__(self, "num_records", records)
        if self.num_epochs is not None:
            epochs = at_least(
                "num_epochs",
                self.num_epochs,
                1,
                advice="give None for an endless stream",
            )
            object.__setattr__(self, "num_epochs", epochs)
            at_least(
                "num_epochs * num_records",
                epochs * records,
                1,
                below=ENDLESS - 1,
                advice="give num_epochs=None for an endless stream",
            )
        if self.seed is not None:
            seed = at_least("seed", self.seed, 0, below=SEED_LIMIT)
            object.__setattr__(self, "seed", seed)
        if self.shard_options is not None and not isinstance(self.shard_options, Sharding):
            raise TypeError(
                "shard_options: expected ShardOptions(...), NoSharding(), ShardByJaxProcess() or ShardBySharding(...), "
                f"got {_short(self.shard_options)}"
            )

    def _check_shuffle(self) -> None:
        if not isinstance(self.shuffle, bool):
            raise TypeError(f"shuffle: expected True or False, got {_short(self.shuffle)}")
        if self.shuffle and self.seed is None:
            raise ValueError(
                "seed: expected an int, as shuffle=True needs a seed, got None; give for example seed=0"
            )


@dataclass(frozen=True, slots=True)
class IndexSampler(EpochSampler):
    """Every record once in each epoch, in order or shuffled anew for each epoch; some epochs, or without end.

    num_records: the number of records in the source, 1 to 2**62 - 1. shard_options: used by a loader that gets none of
    its own; it doesn't change which record an index reads. shuffle: whether each epoch has its own order, which needs a
    seed. num_epochs: how many epochs, None for an endless stream. seed: int in [0, 2**64), for the shuffle and for
    random operations. A value of the wrong type is a TypeError, a value out of range a ValueError.

    >>> sampler = IndexSampler(8, shuffle=True, num_epochs=1, seed=0)
    >>> sorted(sampler.record_keys(range(8)).tolist())
    [0, 1, 2, 3, 4, 5, 6, 7]
    >>> IndexSampler(8, seed=0)[8]
    RecordMetadata(index=8, record_key=0, rng=Generator(Philox))
    """

    num_records: int
    shard_options: Sharding | None = None
    shuffle: bool = False
    num_epochs: int | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        self._normalise()
        self._check_shuffle()


@dataclass(frozen=True, slots=True)
class SequentialSampler(EpochSampler):
    """Every record once, in order: one epoch.

    num_records: the number of records in the source, 1 to 2**62 - 1. shard_options: used by a loader that gets none of
    its own. seed: int in [0, 2**64), for random operations. A value of the wrong type is a TypeError, a value out of
    range a ValueError.

    >>> sampler = SequentialSampler(4)
    >>> len(sampler), sampler[3]
    (4, RecordMetadata(index=3, record_key=3, rng=None))
    """

    num_records: int
    shard_options: Sharding | None = None
    seed: int | None = None
    shuffle: bool = field(default=False, init=False, repr=False)
    num_epochs: int | None = field(default=1, init=False, repr=False)

    def __post_init__(self) -> None:
        self._normalise()
