"""The record keys of components side by side: those that are samplers of epochs in one call, others one by one."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from loaderkit._base.notes import annotate
from loaderkit._order.mixing import UInt64Array, fold_arrays
from loaderkit._order.permutation import Int64Array, Permutations

from .epochs import IndexSampler, SequentialSampler
from .keys import KeysSampler
from .protocol import ENDLESS, Sampler, record_keys_of

IntpArray = npt.NDArray[np.intp]

_MOST_ORDERS = 2  # for each index; of indices far apart most would have none


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
        self._all_in_table = bool(self._in_table.all())
        self._table = _EpochTable(components, offsets)

    def of(self, components: IntpArray, ordinals: Int64Array) -> Int64Array:
        """The record keys, (n,), of components and ordinals of their streams, (n,) each, n > 0."""
        if self._all_in_table:
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
    return type(sampler) in (IndexSampler, KeysSampler, SequentialSampler)  # a subclass may have other keys


class _EpochTable:
    """A row for each component; of one without a row 0 and 1.

    It keeps the orders of the epochs that the last call asked for: the next one mostly asks for the same.
    """

    def __init__(self, components: Mapping[str, Sampler], offsets: Mapping[str, int]) -> None:
        rows = [
            (each.num_records, each.shuffle, each.seed or 0)
            if isinstance(each, IndexSampler | KeysSampler | SequentialSampler) and _has_row(each)
            else (1, False, 0)
            for each in components.values()
        ]
        sizes, shuffled, seeds = zip(*rows, strict=True)
        self._sizes = np.array(sizes, np.int64)
        self._shuffled = np.array(shuffled, np.bool_)
        self._all_shuffled = bool(self._shuffled.all())
        self._seeds = np.array(seeds, np.uint64)
        self._offsets = np.array([offsets[name] for name in components], np.int64)
        self._chosen = _ChosenKeys(components.values())
        self._present = self._orders_of(np.zeros(self._sizes.shape, np.int64))

    def of(self, components: IntpArray, ordinals: Int64Array) -> Int64Array:
        """The record keys, (n,), of components that have rows and ordinals of their streams, (n,) each, n > 0."""
        keys = self._in_epochs(components, ordinals, self._present)
        if keys is None:
            firsts, lasts = self._epochs_of(components, ordinals)
            if np.array_equal(firsts, lasts):
                self._present = self._orders_of(firsts)
                keys = self._in_epochs(components, ordinals, self._present)
            else:
                keys = self._in_many(components, ordinals, firsts, lasts)
            assert keys is not None
        keys = self._chosen.of(components, keys)
        keys += self._offsets.take(components)
        return keys

    def _in_epochs(self, components: IntpArray, ordinals: Int64Array, orders: "_Orders") -> Int64Array | None:
        """The keys without offsets where each component is in the epoch of its order, else None."""
        positions = ordinals - orders.begins.take(components)
        limits = self._sizes.take(components)
        # One below 0 is a huge number then.
        if (positions.view(np.uint64) >= limits.view(np.uint64)).any():
            return None
        return self._permuted(positions, limits, components, components, orders.permutations)

    def _epochs_of(self, components: IntpArray, ordinals: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The first and the last epoch of each component; of one that isn't asked for the present one."""
        lows, highs = np.full(self._sizes.shape, ENDLESS - 1), np.full(self._sizes.shape, -1)
        np.minimum.at(lows, components, ordinals)
        np.maximum.at(highs, components, ordinals)
        absent = highs < 0
        lows[absent] = highs[absent] = self._present.begins[absent]
        return lows // self._sizes, highs // self._sizes

    def _in_many(
        self, components: IntpArray, ordinals: Int64Array, firsts: Int64Array, lasts: Int64Array
    ) -> Int64Array:
        sizes = self._sizes.take(components)
        epochs = ordinals // sizes
        positions = ordinals - epochs * sizes
        counts = lasts - firsts + 1
        if counts.sum(dtype=float) > _MOST_ORDERS * (components.size + counts.size):
            # Indices far apart: one order for each of them.
            owners, numbers = components, np.arange(components.size)
        else:
            begins = np.cumsum(counts) - counts
            owners = np.repeat(np.arange(counts.size), counts)
            numbers = begins.take(components) + (epochs - firsts.take(components))
            epochs = np.arange(owners.size) - (begins - firsts).take(owners)
        permutations = Permutations(self._sizes[owners], self._keys_of(owners, epochs))
        return self._permuted(positions, sizes, components, numbers, permutations)

    def _permuted(
        self,
        positions: Int64Array,
        limits: Int64Array,
        components: IntpArray,
        orders: IntpArray,
        permutations: Permutations,
    ) -> Int64Array:
        if self._all_shuffled:
            return permutations.of_checked(positions, orders, limits)
        here = np.flatnonzero(self._shuffled.take(components))
        if here.size:
            positions[here] = permutations.of_checked(positions[here], orders[here], limits[here])
        return positions

    def _orders_of(self, epochs: Int64Array) -> "_Orders":
        keys = self._keys_of(np.arange(epochs.size), epochs)
        return _Orders(epochs * self._sizes, Permutations(self._sizes, keys))

    def _keys_of(self, components: IntpArray, epochs: Int64Array) -> UInt64Array:
        return fold_arrays(self._seeds[components], epochs.view(np.uint64))


class _ChosenKeys:
    """The keys of KeysSamplers, one list behind the other: 8 bytes a key beside those of the samplers."""

    def __init__(self, samplers: Iterable[Sampler]) -> None:
        lists = [
            each.keys if isinstance(each, KeysSampler) and _has_row(each) else np.empty(0, np.int64)
            for each in samplers
        ]
        sizes = np.array([len(keys) for keys in lists], np.int64)
        self._present = sizes > 0
        self._all_present = bool(self._present.all())
        self._keys = np.concatenate(lists) if self._present.any() else None
        self._firsts = np.cumsum(sizes) - sizes

    def of(self, components: IntpArray, positions: Int64Array) -> Int64Array:
        """The keys at positions in components' lists, (n,); of a component without a list the positions themselves."""
        if self._keys is None:
            return positions
        if self._all_present:
            return self._keys.take(positions + self._firsts.take(components))
        here = np.flatnonzero(self._present.take(components))
        positions[here] = self._keys.take(positions[here] + self._firsts.take(components[here]))
        return positions


class _Orders(NamedTuple):
    """The orders of an epoch of each component, and the first ordinal of each epoch."""

    begins: Int64Array
    permutations: Permutations
