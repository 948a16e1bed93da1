"""A sampler of Grain's as the engine asks one: record keys of global indices, taken modulo the source's length."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._order.metadata import RecordMetadata

from ._rng import FromSampler, Generators, SeedPlusIndex
from .samplers import IndexSampler, SequentialSampler
from .sharding import as_shard_options

# Records. The plan asks for some thousand indices at once: they would be of many shorter epochs, each with a table.
_SHORT_EPOCH = 4096
_OURS = (IndexSampler, SequentialSampler)
_NAMES = {kind.__name__ for kind in _OURS}


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
    vector = type(sampler) in _OURS and sampler.epoch_records >= _SHORT_EPOCH
    return (VectorOrder if vector else Order)(sampler, records)


def generators_of(sampler: Any) -> Generators | None:
    """The generators of a sampler's records, None where they have none."""
    if type(sampler) not in _OURS:
        return FromSampler(sampler)
    return None if sampler._seed is None else SeedPlusIndex(sampler._seed)


def as_ours(sampler: Any) -> Any:
    """A sampler of the installed Grain's as ours, which gives the same; any other as it is."""
    kind = type(sampler)
    if kind.__module__.partition(".")[0] != "grain" or kind.__name__ not in _NAMES:
        return sampler
    shard = as_shard_options(sampler._shard_options)
    assert shard is not None
    if kind.__name__ == "SequentialSampler":
        return SequentialSampler(sampler._num_records, shard, sampler._seed)
    return IndexSampler(sampler._num_records, shard, sampler._shuffle, sampler._num_epochs, sampler._seed)
