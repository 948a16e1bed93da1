"""A sampler of Grain's as the engine asks one: record keys of global indices, and the generator of each record.

Keys are taken modulo the source's length. A generator is asked for by index in the worker that has the record. Grain
gives a record one generator, from which its RandomMaps draw in turn, and a batch that of its last row. So where a
RandomMap comes after a Batch, the state of a row's generator travels with the row:

    state  (13,) uint64: counter (4), key (2), buffer (4), place in the buffer, whether half a word is left, that half
    states (rows, 13) uint64 of a batch

A sampler of the user's says itself which generator a record has: then the states are an array of generators.
"""

from operator import index as to_index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._order.metadata import RecordMetadata

from .samplers import IndexSampler, SequentialSampler
from .sharding import as_shard_options

# Records. The plan asks for some thousand indices at once: they would be of many shorter epochs, each with a table.
_SHORT_EPOCH = 4096
_OURS = (IndexSampler, SequentialSampler)
_NAMES = {kind.__name__ for kind in _OURS}
_WORD = (1 << 64) - 1

States = NDArray[Any]


class SeedPlusIndex:
    """Philox with the key seed + index, as the samplers give it; one generator is used again for all records.

    at: the generator of an index in its first state. frozen: the state that it has now, as a leaf of a row. thawed: the
    generator of a batch, that of its last row. Both are valid until the next call.

    >>> float(SeedPlusIndex(3).at(4).random()) == float(np.random.Generator(np.random.Philox(key=7)).random())
    True
    """

    def __init__(self, seed: int) -> None:
        self.seed = to_index(seed)
        self._bits = np.random.Philox(key=0)
        self._generator = np.random.Generator(self._bits)

    def at(self, index: int) -> np.random.Generator:
        key = self.seed + index
        return self._set([0, 0, 0, 0], [key & _WORD, key >> 64], [0, 0, 0, 0], 4, 0, 0)

    def _set(
        self, counter: Any, key: Any, buffer: Any, place: int, half: int, word: int
    ) -> np.random.Generator:
        self._bits.state = {
            "bit_generator": "Philox",
            "state": {"counter": counter, "key": key},
            "buffer": buffer,
            "buffer_pos": place,
            "has_uint32": half,
            "uinteger": word,
        }
        return self._generator

    def frozen(self, rng: np.random.Generator | None) -> Any:
        state: Any = self._bits.state
        words = state["state"]
        ends = [state["buffer_pos"], state["has_uint32"], state["uinteger"]]
        return np.concatenate([words["counter"], words["key"], state["buffer"], np.array(ends, np.uint64)])

    def thawed(self, states: States) -> np.random.Generator:
        words = states[-1].tolist()
        return self._set(words[:4], words[4:6], words[6:10], *words[10:])

    def __reduce__(self) -> tuple[type["SeedPlusIndex"], tuple[int]]:
        return SeedPlusIndex, (self.seed,)


class FromSampler:
    """What the metadata of a user's own sampler says; the methods are those of SeedPlusIndex.

    Args:
        sampler: asked again where the record is worked on.
    """

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler

    def at(self, index: int) -> np.random.Generator | None:
        rng: np.random.Generator | None = self._sampler[index].rng
        return rng

    def frozen(self, rng: np.random.Generator | None) -> Any:
        leaf = np.empty((), object)
        leaf[()] = rng
        return leaf

    def thawed(self, states: States) -> np.random.Generator | None:
        rng: np.random.Generator | None = states[-1]
        return rng


Generators = SeedPlusIndex | FromSampler  # of the records of a sampler


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
