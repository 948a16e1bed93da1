"""A sampler of Grain's as the engine asks one: record keys of global indices, taken modulo the source's length."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._order.metadata import RecordMetadata

from ._installed import is_of_grain
from ._rng import FromSampler, Generators, SeedPlusIndex
from .samplers import IndexSampler, SequentialSampler, seed_of
from .sharding import NoSharding, ShardOptions

_SHORT_EPOCH = 4096  # records


class Order:
    """Any sampler, asked index by index.

    Args:
        sampler: gives RecordMetadata.
        records: the source's length.

    >>> Order(SequentialSampler(3), records=2)[2]
    RecordMetadata(index=2, record_key=0, rng=None)
    """

    def __init__(self, sampler: Any, records: int) -> None:
        self._sampler = sampler
        self._records = records

    def __getitem__(self, index: int) -> RecordMetadata:
        key = self._sampler[index].record_key
        return RecordMetadata(index, key % self._records)


class VectorOrder(Order):
    """A sampler that answers for many indices at once."""

    def record_keys(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """The record keys of many indices, (n,) int64 each."""
        keys: NDArray[np.int64] = self._sampler.record_keys(indices) % self._records
        return keys


def order_of(sampler: Any, records: int) -> Order:
    """How the engine asks a sampler."""
    # Many indices of a short epoch are many epochs, and each has a table: these are asked for as they are needed.
    vector = type(sampler) in (IndexSampler, SequentialSampler) and sampler.epoch_records >= _SHORT_EPOCH
    return (VectorOrder if vector else Order)(sampler, records)


def generators_of(sampler: Any) -> Generators | None:
    """The generators of a sampler's records, None where they have none."""
    if type(sampler) not in (IndexSampler, SequentialSampler):
        return FromSampler(sampler)
    seed = seed_of(sampler)
    return None if seed is None else SeedPlusIndex(seed)


def as_ours(sampler: Any) -> Any:
    """A sampler of the installed Grain's as ours, which gives the same; any other as it is."""
    if type(sampler).__module__.partition(".")[0] != "grain" or not is_of_grain(
        sampler, "IndexSampler", "SequentialSampler"
    ):
        return sampler
    shard = sampler._shard_options
    ours: ShardOptions = NoSharding()
    if not is_of_grain(shard, "NoSharding"):
        ours = ShardOptions(shard.shard_index, shard.shard_count, shard.drop_remainder)
    if is_of_grain(sampler, "SequentialSampler"):
        return SequentialSampler(sampler._num_records, ours, sampler._seed)
    return IndexSampler(sampler._num_records, ours, sampler._shuffle, sampler._num_epochs, sampler._seed)
