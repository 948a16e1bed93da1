"""An order whose components are permuted inside blocks of places, with ordinals that ascend again."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from loaderkit._order.distinct import distinct_of
from loaderkit._order.mixing import UInt64Array, fold_each, mix64

from .fair_table import Int32Array, Int64Array

if TYPE_CHECKING:
    from .order import MixtureOrder

_WIDTH = 11  # bits of a place in its block
_BLOCK = 1 << _WIDTH
_MOST_PLACE = 1 << 62
_BLOCKS = 16  # worked on at once; more would leave the cache

_SLOTS = np.arange(_BLOCK, dtype=np.uint64)
_SLOT_MASK = np.uint64(_BLOCK - 1)
_NAMES: UInt64Array = mix64(_SLOTS)


@dataclass(frozen=True, slots=True)
class ShuffledOrder:
    """The components of `inner` in another order inside each block of 2,048 places, as `MixtureOrder` says.

    The slot of a place in its block moves to the rank of a 53-bit hash of slot, block and key.
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
        components, ordinals = np.empty(places.shape, np.int32), np.empty(places.shape, np.int64)
        blocks, owners = distinct_of(places >> _WIDTH)
        slots = places & (_BLOCK - 1)
        if owners is not None:
            slots += owners << _WIDTH
        for low in range(0, blocks.size, _BLOCKS):
            some = blocks[low : low + _BLOCKS]
            in_blocks = self._in_blocks(some)
            if blocks.size <= _BLOCKS:
                return in_blocks[0].take(slots), in_blocks[1].take(slots)
            first = low << _WIDTH
            here = np.flatnonzero((slots >= first) & (slots < first + (some.size << _WIDTH)))
            components[here], ordinals[here] = (values.take(slots[here] - first) for values in in_blocks)
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
        blocks, owners = np.unique(inner[inside] >> _WIDTH, return_inverse=True)
        for low in range(0, blocks.size, _BLOCKS):
            some = blocks[low : low + _BLOCKS]
            components, found = self._in_blocks(some)
            slots = np.flatnonzero(components == component)
            here = inside[(owners >= low) & (owners < low + _BLOCKS)]
            slots = slots[np.searchsorted(found[slots], ordinals[here])]
            places[here] = (some[slots >> _WIDTH] << _WIDTH) + (slots & (_BLOCK - 1))
        return places

    def _in_blocks(self, blocks: Int64Array) -> tuple[Int32Array, Int64Array]:
        """The components and ordinals of all places of some blocks, ascending and distinct ones."""
        places = ((blocks << _WIDTH)[:, np.newaxis] + _SLOTS.view(np.int64)).ravel()
        components, ordinals = self.inner.of(places)
        # Sorted values instead of argsort: the same on every processor, and faster.
        moved = mix64(_NAMES ^ fold_each(self.key, blocks.view(np.uint64))[:, np.newaxis])
        moved &= ~_SLOT_MASK
        moved |= _SLOTS
        moved.sort(axis=1)
        moved &= _SLOT_MASK
        offsets = np.arange(blocks.size, dtype=np.int64) << _WIDTH
        targets = (moved.view(np.int64) + offsets[:, np.newaxis]).ravel()
        # By component, and in it by place: once before the permutation, once after it.
        kind = components.astype(np.int64) << 32
        before, after = kind + np.arange(kind.size), kind + targets
        before.sort()
        after.sort()
        after &= 0xFFFFFFFF
        before &= 0xFFFFFFFF
        new_components = np.empty(components.shape, np.int32)
        new_components[targets] = components
        new_ordinals = np.empty(ordinals.shape, np.int64)
        new_ordinals[after] = ordinals[before]
        return new_components, new_ordinals
