"""Mixture orders: which component each place of an endless order reads, and which of its records.

    place    counted from 0 in the order
    ordinal  counted from 0 among the records of one component

An order is a function of the place. After any prefix a component was read as 0..c-1.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

import numpy as np
import numpy.typing as npt

from loaderkit._base.numbers import at_least
from loaderkit._base.system.dataclasses import dataclass
from loaderkit._order.mixing import fold_each, mix64

from .fair_table import Int32Array, Int64Array
from .shares import integer_weights
from .table_order import LEAST_SHARE, TableOrder, TablePlan, plan_of

IntpArray = npt.NDArray[np.intp]

_ORDERS = 16  # that are kept: 768 KiB each, with 10,000 components up to 40 MiB


class MixtureOrder(Protocol):
    """An endless order of components by weight.

    names: components of positive weight, sorted, so that the order in which weights are given changes no stream.
    weights: the effective share of each name: exact, positive, with sum 1.
    """

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def weights(self) -> Mapping[str, Fraction]: ...

    def of(self, places: Int64Array) -> tuple[Int32Array | IntpArray, Int64Array]:
        """The component, as its place in `names`, and the ordinal of each place, 0 to 2**62."""
        ...

    def counts(self, place: int) -> Int64Array:
        """How many records of each name, (len(names),), the first `place` places read."""
        ...

    def places_of(self, component: int, ordinals: Int64Array) -> Int64Array:
        """The places that read these ordinals, 0 to 2**62, of a component; 2**62 for a place beyond it."""
        ...


def order_of(weights: Mapping[str, Fraction], *, most_slots: int = 65_536) -> MixtureOrder:
    """The even order of some weights; the same object for the same ratio while it is kept.

    weights: {name: positive weight}. most_slots: of one table, 256 or more. Weights whose smallest integers have a sum
    of at most this are exact; others are rounded to that many slots, by at most one slot each. Components with less
    than 1/256 are gathered: in groups that have slots together, and where less than 1/256 is left, in a tail that has
    every m-th place.

    Against the effective weights of the order, |count - n * weight| < 1 for each component and the first n places, for
    every n: where the weights are exact, where they are rounded to one table, and where there is also one tail. A
    member of a group has less than 1 + u * d, where u is its share of the group and d the bound of the group's own
    count: 1 for a group in the first table, below 1.01 for one in another group or in the tail. A member of a tail that
    has a tail itself has less than 1 + u * 1.01. So all stay below 2.01, and below 2 where groups have no groups.

    Raises ValueError where a component's share is below 2**-62.

    >>> order = order_of({"code": Fraction(3, 10), "web": Fraction(7, 10)})
    >>> components, ordinals = order.of(np.arange(10))
    >>> components.tolist(), ordinals.tolist()
    ([1, 0, 1, 1, 0, 1, 1, 0, 1, 1], [0, 0, 1, 2, 1, 3, 4, 2, 5, 6])
    """
    at_least("most_slots", most_slots, LEAST_SHARE)
    if not weights:
        raise ValueError("weights: expected a component or more, got none; give one a weight of 1")
    for name, weight in weights.items():
        if weight.numerator <= 0:
            raise ValueError(f"weights[{name!r}]: expected a positive weight, got {weight}; leave it out")
    integers = integer_weights(weights)
    return _order_of(tuple(sorted(integers.items())), most_slots)


@lru_cache(_ORDERS)
def _order_of(weights: tuple[tuple[str, int], ...], most_slots: int) -> TableOrder:
    return TableOrder.planned(tuple(name for name, _ in weights), plan_of(dict(weights), most_slots))


def pattern_order(pattern: Sequence[str]) -> MixtureOrder:
    """The order that repeats a pattern of names.

    >>> order = pattern_order(["web", "web", "code"])
    >>> [order.names[component] for component in order.of(np.arange(4))[0]]
    ['web', 'web', 'code', 'web']
    """
    if not pattern:
        raise ValueError("pattern: expected a name or more, got none; write one such as ['a', 'a', 'b']")
    names = tuple(sorted(set(pattern)))
    places = {name: place for place, name in enumerate(names)}
    slots = np.fromiter((places[name] for name in pattern), np.int32, len(pattern))
    return TableOrder.planned(names, TablePlan(names, slots))


def shuffled(order: MixtureOrder, key: int) -> MixtureOrder:
    """An order with the same components in each block of 2,048 places, in an order that the key and the block choose.

    Ordinals ascend inside a block too. Bounds of the counts hold at the ends of blocks. key: an int in [0, 2**64).

    >>> even = order_of({"code": Fraction(1), "web": Fraction(1)})
    >>> components, ordinals = shuffled(even, 5).of(np.arange(2048))
    >>> np.bincount(components).tolist(), ordinals[components == 1].tolist() == list(range(1024))
    ([1024, 1024], True)
    """
    return ShuffledOrder(order, at_least("key", key, 0, below=1 << 64))


UInt32Array = npt.NDArray[np.uint32]
IntArray = Int32Array | IntpArray

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

    inner: MixtureOrder
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
