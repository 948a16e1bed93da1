"""The record keys of components side by side: those that are samplers of epochs in one call, others one by one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from loaderkit._base.notes import annotate
from loaderkit._order.mixing import UInt64Array, fold_arrays
from loaderkit._order.permutation import Int64Array, permute_each

from .epochs import IndexSampler, SequentialSampler
from .protocol import ENDLESS, Sampler, record_keys_of

IntpArray = npt.NDArray[np.intp]

_MOST_EPOCHS = 2  # orders for each index, of which most may have none


class ComponentKeys:
    """The keys of components, which are known by their numbers here.

    components: {name: sampler}. offsets: {name: what is added to its keys}.

    >>> keys = ComponentKeys({"a": SequentialSampler(4), "b": IndexSampler(3)}, {"a": 0, "b": 4})
    >>> keys.of(np.array([0, 1, 1]), np.array([3, 2, 3])).tolist()
    [3, 6, 4]
    """

    def __init__(self, components: Mapping[str, Sampler], offsets: Mapping[str, int]) -> None:
        self._components, self._offsets = components, offsets
        self._entries = list(components.items())
        self._in_table = np.array([_has_row(sampler) for sampler in components.values()])
        self._table = _EpochTable.of_samplers(components, offsets)

    def of(self, components: IntpArray, ordinals: Int64Array) -> Int64Array:
        """The record keys, (n,), of components and ordinals of their streams, (n,) each, n > 0."""
        if self._in_table.all():
            return self._table.of(components, ordinals)
        keys = np.empty(ordinals.shape, np.int64)
        in_table = self._in_table.take(components)
        here = np.flatnonzero(in_table)
        if here.size:
            keys[here] = self._table.of(components[here], ordinals[here])
        others = np.flatnonzero(~in_table)
        # Sorted as 16 bits, by radix, where they fit.
        numbers = components[others].astype(np.uint16 if len(self._entries) <= 1 << 16 else np.intp)
        others = others[np.argsort(numbers, kind="stable")]
        borders = np.flatnonzero(np.diff(components[others])) + 1
        for group in np.split(others, borders) if others.size else ():
            name, sampler = self._entries[int(components[group[0]])]
            try:
                keys[group] = record_keys_of(sampler, ordinals[group]) + self._offsets[name]
            except Exception as error:
                annotate(error, f"in component {name!r} of a mixture")
                raise
        return keys

    def __reduce__(self) -> tuple[Any, ...]:
        return ComponentKeys, (self._components, self._offsets)


def _has_row(sampler: Sampler) -> bool:
    return type(sampler) in (IndexSampler, SequentialSampler)  # a subclass may have other keys


@dataclass(frozen=True, slots=True, eq=False)
class _EpochTable:
    """A row for each of some components; arrays of shape (components,).

    sizes: the number of records, 1 where a component has no row. shuffled: whether each epoch has an order of its own.
    seeds: 0 where not. offsets: what is added to its keys.
    """

    sizes: Int64Array
    shuffled: npt.NDArray[np.bool_]
    seeds: UInt64Array
    offsets: Int64Array

    @classmethod
    def of_samplers(cls, components: Mapping[str, Sampler], offsets: Mapping[str, int]) -> "_EpochTable":
        rows = [
            (each.num_records, each.shuffle, each.seed or 0)
            if isinstance(each, IndexSampler | SequentialSampler) and _has_row(each)
            else (1, False, 0)
            for each in components.values()
        ]
        sizes, shuffled, seeds = zip(*rows, strict=True)
        return cls(
            np.array(sizes, np.int64),
            np.array(shuffled, np.bool_),
            np.array(seeds, np.uint64),
            np.array([offsets[name] for name in components], np.int64),
        )

    def of(self, components: IntpArray, ordinals: Int64Array) -> Int64Array:
        """The record keys, (n,), of components that have rows and ordinals of their streams, (n,) each, n > 0."""
        lows, highs = np.full(self.sizes.shape, ENDLESS - 1), np.zeros(self.sizes.shape, np.int64)
        np.minimum.at(lows, components, ordinals)
        np.maximum.at(highs, components, ordinals)
        # first and last epoch of each component; the same where it has no index
        firsts, lasts = np.minimum(lows, highs) // self.sizes, highs // self.sizes
        orders, epochs, owners = np.arange(self.sizes.size), firsts, components
        positions = ordinals
        if firsts.any():
            positions = ordinals - (firsts * self.sizes)[components]
        if not np.array_equal(firsts, lasts):
            later = positions // self.sizes[components]
            positions = positions - later * self.sizes[components]
            orders, epochs, owners = self._owners(components, firsts, lasts, later)
        keys = self._permuted(positions, components, orders, epochs, owners)
        return keys + self.offsets[components]

    def _owners(
        self, components: IntpArray, firsts: Int64Array, lasts: Int64Array, later: Int64Array
    ) -> tuple[IntpArray, Int64Array, IntpArray]:
        """Pairs of component and epoch, and which pair each index has."""
        counts = lasts - firsts + 1
        if float(counts.astype(float).sum()) > _MOST_EPOCHS * (components.size + counts.size):
            return components, firsts[components] + later, np.arange(components.size)
        begins = np.cumsum(counts) - counts
        orders = np.repeat(np.arange(counts.size), counts)
        epochs = np.arange(orders.size) - begins[orders] + firsts[orders]
        return orders, epochs, begins[components] + later

    def _permuted(
        self,
        positions: Int64Array,
        components: IntpArray,
        orders: IntpArray,
        epochs: Int64Array,
        owners: IntpArray,
    ) -> Int64Array:
        if self.shuffled.all():
            here: slice | IntpArray = slice(None)
        else:
            here = np.flatnonzero(self.shuffled[components])
            if not here.size:
                return positions
        keys = fold_arrays(self.seeds[orders], epochs.view(np.uint64))
        moved = permute_each(positions[here], owners[here], self.sizes[orders], keys)
        if isinstance(here, slice):
            return moved
        positions = positions.copy()
        positions[here] = moved
        return positions
