"""Samplers of epochs side by side: the record keys of all of them in one call."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loaderkit._order.mixing import UInt64Array, fold_arrays
from loaderkit._order.permutation import Int64Array, permute_each

from .epochs import IndexSampler, SequentialSampler
from .protocol import ENDLESS, Sampler

IntpArray = npt.NDArray[np.intp]

_MOST_EPOCHS = 2  # orders for each index, of which most may have none


def has_rows(sampler: Sampler) -> bool:
    """Whether a sampler's keys can be had from an EpochTable: a subclass may have others."""
    return type(sampler) in (IndexSampler, SequentialSampler)


@dataclass(frozen=True, slots=True, eq=False)
class EpochTable:
    """A row for each of some components; arrays of shape (components,).

    sizes: the number of records, 1 where a component has no row. shuffled: whether each epoch has an order of its own.
    seeds: 0 where not. offsets: what is added to its keys.
    """

    sizes: Int64Array
    shuffled: npt.NDArray[np.bool_]
    seeds: UInt64Array
    offsets: Int64Array

    @classmethod
    def of(cls, samplers: Sequence[Sampler], offsets: Sequence[int]) -> "EpochTable":
        """The rows of samplers; of those without one, offset and 1.

        >>> table = EpochTable.of([SequentialSampler(4), IndexSampler(3)], [0, 4])
        >>> table.record_keys(np.array([0, 1, 1]), np.array([3, 2, 3])).tolist()
        [3, 6, 4]
        """
        rows = [
            (each.num_records, each.shuffle, each.seed or 0)
            if isinstance(each, IndexSampler | SequentialSampler) and has_rows(each)
            else (1, False, 0)
            for each in samplers
        ]
        sizes, shuffled, seeds = zip(*rows, strict=True)
        return cls(
            np.array(sizes, np.int64),
            np.array(shuffled, np.bool_),
            np.array(seeds, np.uint64),
            np.array(offsets, np.int64),
        )

    def record_keys(self, components: IntpArray, ordinals: Int64Array) -> Int64Array:
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
