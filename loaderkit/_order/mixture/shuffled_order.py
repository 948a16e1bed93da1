"""An order whose components are permuted inside blocks of places, with ordinals that ascend again."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from loaderkit._order.mixing import fold_each, mix64

from .fair_table import Int32Array, Int64Array

UInt32Array = npt.NDArray[np.uint32]

IntpArray = npt.NDArray[np.intp]
IntArray = Int32Array | IntpArray

if TYPE_CHECKING:
    from .order import MixtureOrder

_WIDTH = 11  # bits of a place in its block
_BLOCK = 1 << _WIDTH
_MOST_PLACE = 1 << 62

_MOST_KINDS = 1 << (32 - _WIDTH)  # components whose number fits above a slot's in 32 bits

_SLOTS = np.arange(_BLOCK)
_SLOTS32 = _SLOTS.astype(np.uint32)
_SLOT = np.uint32(_BLOCK - 1)
_NAMES: UInt32Array = mix64(_SLOTS.view(np.uint64)).astype(np.uint32)
# The multipliers of the 32-bit finalizer of MurmurHash3.
_FACTOR_1 = np.uint32(0x85EBCA6B)
_FACTOR_2 = np.uint32(0xC2B2AE35)


@dataclass(frozen=True, slots=True)
class ShuffledOrder:
    """The components of `inner` in another order inside each block of 2,048 places, as `MixtureOrder` says.

    The slot of a place in its block moves to the rank of a 21-bit hash of slot, block and key, ties to the lower slot.
    """

    inner: "MixtureOrder"
    key: int

    @property
    def names(self) -> tuple[str, ...]:
        return self.inner.names

    @property
    def weights(self) -> Mapping[str, Fraction]:
        return self.inner.weights

    def of(self, places: Int64Array) -> tuple[Int32Array, Int64Array]:
        components: Int32Array = np.empty(places.shape, np.int32)
        ordinals: Int64Array = np.empty(places.shape, np.int64)
        blocks = places >> _WIDTH
        if (blocks[1:] < blocks[:-1]).any():
            ascending = np.argsort(blocks, kind="stable")
            components[ascending], ordinals[ascending] = self.of(places[ascending])
            return components, ordinals
        slots = places & (_BLOCK - 1)
        for here, _, inner_components, inner_ordinals, sources in self._runs(blocks):
            moved = sources.take(slots[here])
            components[here] = inner_components.take(moved)
            ordinals[here] = inner_ordinals.take(moved)
        return components, ordinals

    def counts(self, place: int) -> Int64Array:
        begin = place >> _WIDTH << _WIDTH
        components, _ = self.of(np.arange(begin, place))
        counts: Int64Array = self.inner.counts(begin) + np.bincount(components, minlength=len(self.names))
        return counts

    def places_of(self, component: int, ordinals: Int64Array) -> Int64Array:
        # The records of a component in a block are the same as without the permutation.
        inner = self.inner.places_of(component, ordinals)
        places = np.full(ordinals.shape, _MOST_PLACE, np.int64)
        inside = np.flatnonzero(inner < _MOST_PLACE)
        inside = inside[np.argsort(inner[inside], kind="stable")]
        for here, block, components, found, sources in self._runs(inner[inside] >> _WIDTH):
            slots = np.flatnonzero(components[sources] == component)
            ranks = np.searchsorted(found[sources[slots]], ordinals[inside[here]])
            places[inside[here]] = slots[ranks] + (block << _WIDTH)
        return places

    def _runs(self, blocks: Int64Array) -> Iterator[tuple[slice, int, IntArray, Int64Array, IntpArray]]:
        """Runs of one block among ascending blocks.

        For each: where it lies in `blocks`, the block, the components and ordinals of its places before they are moved,
        and which of these each place reads. A block at a time: its arrays stay in the cache.
        """
        if not blocks.size:
            return
        begins = np.flatnonzero(np.concatenate(([True], blocks[1:] != blocks[:-1])))
        distinct = blocks[begins]
        keys = fold_each(self.key, distinct.view(np.uint64)).tolist()
        ends = [*begins[1:].tolist(), blocks.size]
        for begin, end, block, key in zip(begins.tolist(), ends, distinct.tolist(), keys, strict=True):
            components, ordinals = self.inner.of(_SLOTS + (block << _WIDTH))
            yield slice(begin, end), block, components, ordinals, _sources(key, components, len(self.names))


def _sources(key: int, components: IntArray, count: int) -> IntpArray:
    """Which place of a block each place reads, so that the ordinals of each component ascend.

    components: (2048,), as they are before, in [0, count).
    """
    # Values are sorted, not arguments: these are distinct, so every algorithm gives the same, and it is faster.
    moved = _hashes(key)
    moved &= ~_SLOT
    moved |= _SLOTS32
    moved.sort()
    moved &= _SLOT
    # By component, and of one component by slot: as they were, and as they are moved.
    kinds = components.astype(np.uint32 if count <= _MOST_KINDS else np.uint64)
    kinds = np.left_shift(kinds, _WIDTH)
    before, after = np.bitwise_or(kinds, _SLOTS32), np.bitwise_or(kinds, moved)
    before.sort()
    after.sort()
    sources = np.empty(_BLOCK, np.intp)
    sources[np.bitwise_and(after, _SLOT)] = np.bitwise_and(before, _SLOT)
    return sources


def _hashes(key: int) -> UInt32Array:
    """A 32-bit hash of each slot of a block, (2048,)."""
    hashes = _NAMES ^ np.uint32(key & 0xFFFFFFFF)
    scratch = hashes >> 16
    hashes ^= scratch
    hashes *= _FACTOR_1
    np.right_shift(hashes, 13, out=scratch)
    hashes ^= scratch
    hashes ^= np.uint32(key >> 32)
    hashes *= _FACTOR_2
    np.right_shift(hashes, 16, out=scratch)
    hashes ^= scratch
    return hashes
