"""Samplers of epochs: which record each index of the stream reads.

    index       global place in the endless stream of all epochs: 0, 1, 2, ...
    epoch       index // num_records
    position    index % num_records, the place in the epoch's order
    record_key  the row of the data source: the position itself, or its image under the epoch's shuffle

All shards share these indices: a sharding chooses which indices a process loads, never which records they read.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, fields, replace
from reprlib import repr as _short
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from loaderkit._base.former_arguments import former_arguments
from loaderkit._base.hints import refusing_foreign_arguments
from loaderkit._base.numbers import at_least
from loaderkit._order.mixing import fold_each
from loaderkit._order.permutation import MAX_RECORDS, Int64Array, distinct_of, permute, unpermute
from loaderkit._order.sharding import Sharding, check_sharding

from .bulk import BulkSampler
from .protocol import ENDLESS, Sampler, check_limit, checked_epochs, checked_seed, min_records_of

_HASHED = 64  # entries of an array that `hash` looks at; equality compares all


class EpochSampler(BulkSampler):
    """Epochs of the same records, in order or each in its own shuffled order."""

    __slots__ = ()
    _gives_length = "give num_epochs, or use num_records for one epoch"

    num_records: int
    shard_options: Sharding | None
    shuffle: bool
    num_epochs: int | None
    seed: int | None

    def record_keys(self, indices: npt.ArrayLike) -> Int64Array:
        """The record keys of many indices at once, (n,) int64.

        Args:
            indices: (n,) ints. IndexError naming one below 0 or beyond the last epoch, TypeError where they aren't
                ints, ValueError for more than one dimension.

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

    def positions_of(self, record_keys: npt.ArrayLike, epoch: int) -> Int64Array:
        """The place of each key in the order of an epoch, (n,) int64; -1 for a key that no epoch reads.

        Args:
            record_keys: (n,) ints.
            epoch: 0 or more; its place p is index `epoch * num_records + p`.

        >>> sampler = IndexSampler(8, shuffle=True, seed=0)
        >>> sampler.positions_of(sampler.record_keys(range(8, 12)), 1), sampler.positions_of([8], 1)
        (array([0, 1, 2, 3]), array([-1]))
        """
        keys = np.asarray(record_keys, np.int64)
        epoch = at_least("epoch", epoch, 0)
        here = keys.view(np.uint64) < self.num_records  # one below 0 is a huge number then
        if here.all():
            return self._unshuffled(keys, epoch) if self.shuffle else keys.copy()
        found = np.full(keys.shape, -1, np.int64)
        found[here] = self._unshuffled(keys[here], epoch) if self.shuffle else keys[here]
        return found

    @property
    def random_parts(self) -> list[range]:
        """The record keys that are read in a random order: all where epochs are shuffled.

        >>> IndexSampler(3, shuffle=True, seed=0).random_parts
        [range(0, 3)]
        """
        return [range(min_records_of(self))] if self.shuffle else []

    def endless(self) -> Sampler:
        """The same order without a last epoch.

        >>> len(IndexSampler(3, num_epochs=2)), IndexSampler(3, num_epochs=2).endless().num_epochs
        (6, None)
        """
        made: Sampler = replace(cast(Any, self), num_epochs=None)
        return made

    def fingerprint(self) -> dict[str, object]:
        """What a saved state keeps of this sampler, as JSON values; the sharding isn't part of it.

        >>> IndexSampler(3, num_epochs=2).fingerprint()  # doctest: +NORMALIZE_WHITESPACE
        {'kind': 'IndexSampler', 'num_records': 3, 'shuffle': False, 'num_epochs': 2, 'seed': None}
        """
        return {
            "kind": type(self).__name__,
            "num_records": self.num_records,
            "shuffle": self.shuffle,
            "num_epochs": self.num_epochs,
            "seed": self._seed_in_state(),
        }

    @property
    def _limit(self) -> int:
        return ENDLESS if self.num_epochs is None else self.num_epochs * self.num_records

    def _shuffled(self, positions: Int64Array, epochs: Int64Array, owners: Int64Array | None) -> Int64Array:
        keys = fold_each(cast(int, self.seed), epochs.view(np.uint64))
        return permute(positions, owners, self.num_records, keys)

    def _unshuffled(self, record_keys: Int64Array, epoch: int) -> Int64Array:
        key = fold_each(cast(int, self.seed), np.array([epoch], np.uint64))
        return unpermute(record_keys, None, self.num_records, key)

    def _normalise(self, *, shuffle: object = False) -> None:
        records = at_least(
            "num_records",
            self.num_records,
            1,
            below=MAX_RECORDS,
            advice="give len(source); an empty source can't be sampled",
        )
        epochs = checked_epochs(self.num_epochs)
        check_limit("num_records", records, epochs)
        self._set(num_records=records, num_epochs=epochs, seed=checked_seed(self.seed, shuffle=shuffle))
        check_sharding(self.shard_options)


class ArraySampler(EpochSampler):
    """Equality, hash, repr and copies of a frozen dataclass: its first field is an array, the others are values.

    A subclass is a dataclass with init=False, eq=False and repr=False; its `__init__` takes what makes the array.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        (mine, said), (theirs, others) = _parts(self), _parts(other)
        return said == others and np.array_equal(mine, theirs)

    def __hash__(self) -> int:
        array, said = _parts(self)
        return hash((array[:_HASHED].tobytes(), *said.values()))

    def __repr__(self) -> str:
        array, said = _parts(self)
        settings = "".join(f", {name}={value!r}" for name, value in said.items())
        return f"{type(self).__name__}({_short(array.tolist())}{settings})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _made_of, (type(self), *_parts(self))  # an array is writable when it is unpickled


def checked_ints(name: str, given: Any, *, below: int, advice: str) -> Int64Array:
    """A read-only copy of ints from 0 on, (n,) int64; the error of one that is none, or out of range, names its place.

    >>> checked_ints("keys", [7, 3], below=8, advice="")
    array([7, 3])
    """
    ints = np.array(given)
    if ints.dtype.kind not in "iu" or ints.min(initial=0) < 0 or ints.max(initial=0) >= below:
        each = enumerate(given)
        ints = np.array(
            [at_least(f"{name}[{at}]", one, 0, below=below, advice=advice) for at, one in each], np.int64
        )
    ints = ints.astype(np.int64, copy=False)
    ints.setflags(write=False)
    return ints


def _parts(sampler: Any) -> tuple[Any, dict[str, Any]]:
    first, *others = fields(sampler)
    said = {each.name: getattr(sampler, each.name) for each in others if each.init}
    return getattr(sampler, first.name), said


def _made_of(kind: Any, array: Any, said: dict[str, Any]) -> Any:
    return kind(array, **said)


@former_arguments(removed_in="0.3.0", by_place=["shard_options", "shuffle", "num_epochs", "seed"])
@refusing_foreign_arguments
@dataclass(frozen=True, slots=True)
class IndexSampler(EpochSampler):
    """Every record once in each epoch, in order or shuffled anew for each epoch; some epochs, or without end.

    Args:
        num_records: the number of records in the source, 1 to 2**62 - 1.
        shard_options: used by a loader that gets none of its own; it doesn't change which record an index reads.
        shuffle: whether each epoch has its own order, which needs a seed.
        num_epochs: how many epochs, None for an endless stream.
        seed: int in [0, 2**64), for the shuffle and for random operations.

    A value of the wrong type is a TypeError, a value out of range a ValueError.

    >>> sampler = IndexSampler(8, shuffle=True, num_epochs=1, seed=0)
    >>> sorted(sampler.record_keys(range(8)).tolist())
    [0, 1, 2, 3, 4, 5, 6, 7]
    >>> IndexSampler(8, seed=0)[8]
    RecordMetadata(index=8, record_key=0, rng=Generator(Philox))
    """

    num_records: int
    _: KW_ONLY
    shard_options: Sharding | None = None
    shuffle: bool = False
    num_epochs: int | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        self._normalise(shuffle=self.shuffle)


@former_arguments(removed_in="0.3.0", by_place=["shard_options", "seed"])
@refusing_foreign_arguments
@dataclass(frozen=True, slots=True)
class SequentialSampler(EpochSampler):
    """Every record once, in order: one epoch.

    Args:
        num_records: the number of records in the source, 1 to 2**62 - 1.
        shard_options: used by a loader that gets none of its own.
        seed: int in [0, 2**64), for random operations.

    A value of the wrong type is a TypeError, a value out of range a ValueError.

    >>> sampler = SequentialSampler(4)
    >>> len(sampler), sampler[3]
    (4, RecordMetadata(index=3, record_key=3, rng=None))
    """

    num_records: int
    _: KW_ONLY
    shard_options: Sharding | None = None
    seed: int | None = None
    shuffle: bool = field(default=False, init=False, repr=False)
    num_epochs: int | None = field(default=1, init=False, repr=False)

    def __post_init__(self) -> None:
        self._normalise()

    def endless(self) -> Sampler:
        """The same order again and again; of a class that inherits this one, the sampler itself.

        >>> SequentialSampler(3).endless().record_keys([2, 3]).tolist()
        [2, 0]
        """
        return IndexSampler(self.num_records, seed=self.seed) if type(self) is SequentialSampler else self
