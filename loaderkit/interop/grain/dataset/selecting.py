"""Nodes that choose which elements come when: sources, orders and mixtures."""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from loaderkit._source.optional import many_reader
from loaderkit.interop.grain._shuffle import shuffled
from loaderkit.interop.grain.options import ReadOptions

from .map_dataset import Indices, MapDataset, as_indices, exact, in_epochs

ENDLESS = sys.maxsize


class MapNode(MapDataset):
    """A node that gives many elements at once; `_rows` takes their indices."""

    _may_give_none = False

    def __len__(self) -> int:
        return len(self._parent)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.slice(index)
        (element,) = self.__getitems__([index])
        return element

    def __getitems__(self, indices: Any) -> list[Any]:
        return self._rows(as_indices(indices))

    def _rows(self, indices: Indices) -> list[Any]:
        return self._parent.__getitems__(self._moved(indices))  # type: ignore[no-any-return]

    def _moved(self, indices: Indices) -> Indices:
        """Where the elements are in the node before."""
        return indices


class SourceMapDataset(MapNode, step="MapDataset.source"):
    """The records of a data source."""

    def __init__(self, source: Any) -> None:
        super().__init__()
        self._source = source

    def __len__(self) -> int:
        return len(self._source)

    def _rows(self, indices: Indices) -> list[Any]:
        keys = in_epochs(indices, len(self))[1].tolist()
        many = many_reader(self._source)
        return [self._source[key] for key in keys] if many is None else [*many(keys)]


class RangeMapDataset(MapNode, step="MapDataset.range"):
    """The numbers of a range."""

    def __init__(self, start: int, stop: int | None = None, step: int = 1) -> None:
        super().__init__()
        self.start, self.stop, self.step = (0, start, step) if stop is None else (start, stop, step)
        self._numbers = range(self.start, self.stop, step)

    def __len__(self) -> int:
        return len(self._numbers)

    def _rows(self, indices: Indices) -> list[Any]:
        places = exact(in_epochs(indices, len(self))[1], abs(self.step) + abs(self.start))
        return (self.start + places * self.step).tolist()  # type: ignore[no-any-return]

    def to_iter_dataset(self, read_options: ReadOptions | None = None, *, allow_nones: bool = False) -> Any:
        """As for all others; without threads, for there is nothing to wait for."""
        return super().to_iter_dataset(
            read_options or ReadOptions(prefetch_buffer_size=0), allow_nones=allow_nones
        )


class WithSeedMapDataset(MapNode, step="MapDataset.seed"):
    """The seed of the steps after it."""

    def __init__(self, parent: Any, *, seed: int) -> None:
        super().__init__(parent)
        self._seed_rng_seed = seed


class ShuffleMapDataset(MapNode, step="MapDataset.shuffle"):
    """Another order in each epoch, that of the seed plus the epoch's number."""

    def __init__(self, parent: Any, *, seed: int | None = None) -> None:
        super().__init__(parent)
        self._seed = self._seed_or_default("shuffle", seed)
        if not 0 <= self._seed < 1 << 32:
            raise ValueError(f"seed: expected an integer between 0 and 2**32-1, got {self._seed}")

    def _moved(self, indices: Indices) -> Indices:
        return _shuffled_in_parts(indices, len(self), lambda epoch: (self._seed + epoch) % (1 << 32))


class WindowShuffleMapDataset(MapNode):
    """The elements of each window of consecutive ones in another order.

    Args:
        parent: the data set before.
        window_size: elements of a window.
        seed: that of window k is seed + k.
    """

    def __init__(self, parent: MapDataset, *, window_size: int, seed: int) -> None:
        super().__init__(parent)
        self._window_size, self._seed = window_size, seed

    def _moved(self, indices: Indices) -> Indices:
        return _shuffled_in_parts(indices, self._window_size, lambda window: self._seed + window)


def _shuffled_in_parts(indices: Indices, length: int, seed_of: Any) -> Indices:
    parts, places = in_epochs(indices, length)
    moved = parts * length
    for part in dict.fromkeys(parts.tolist()):
        here = np.flatnonzero(parts == part)
        moved[here] += shuffled(places[here].astype(np.int64), length - 1, seed_of(part))
    return moved


class SliceMapDataset(MapNode, step="MapDataset.slice"):
    """The elements at a slice's indices of each epoch."""

    def __init__(self, parent: Any, sl: slice) -> None:
        super().__init__(parent)
        if not isinstance(sl, slice):
            raise ValueError(f"sl: expected a slice, got {sl!r:.80}")
        self._within = len(parent)
        self._range = range(self._within)[sl]

    def __len__(self) -> int:
        return len(self._range)

    def _moved(self, indices: Indices) -> Indices:
        length, (start, step) = len(self), (self._range.start, self._range.step)
        # In all epochs, or in the first, where an endless one is all.
        first = not len(indices) or int(indices.max()) < length
        epochs, places = in_epochs(exact(indices, abs(step) if first else self._within // length + 1), length)
        moved = start + places * step
        return moved if first and int(min(indices, default=0)) >= 0 else moved + epochs * self._within


class RepeatMapDataset(MapNode, step="MapDataset.repeat"):
    """More epochs, which are further indices of the data set before."""

    def __init__(self, parent: Any, num_epochs: int | None = None, *, reseed_each_epoch: bool = True) -> None:
        super().__init__(parent)
        if num_epochs is not None and num_epochs <= 0:
            raise ValueError(f"num_epochs: expected 1 or more, got {num_epochs}")
        self._of_epoch = len(parent)
        if self._of_epoch >= ENDLESS:
            raise ValueError("repeat: expected a data set with an end, got one that is repeated without one")
        self._length = (
            (ENDLESS if self._of_epoch else 0) if num_epochs is None else num_epochs * self._of_epoch
        )
        self._again = not reseed_each_epoch

    def __len__(self) -> int:
        return self._length

    def _moved(self, indices: Indices) -> Indices:
        return in_epochs(indices, self._of_epoch)[1] if self._again else indices


class _SelectingNode(MapNode):
    """Elements of several data sets; `_selected` says of which, and at which of its indices."""

    _length: int

    def __len__(self) -> int:
        return self._length

    def _selected(self, indices: Indices) -> tuple[Indices, Indices]:
        raise NotImplementedError

    def _rows(self, indices: Indices) -> list[Any]:
        which, there = self._selected(indices)
        rows: list[Any] = [None] * len(indices)
        for number in dict.fromkeys(which.tolist()):
            places = np.flatnonzero(which == number)
            for place, row in zip(
                places.tolist(), self._parents[number].__getitems__(there[places]), strict=True
            ):
                rows[place] = row
        return rows


class MixedMapDataset(_SelectingNode, step="MapDataset.mix"):
    """Elements by weights."""

    def __init__(self, parents: Sequence[Any], proportions: Sequence[float] | None = None) -> None:
        super().__init__(tuple(parents))
        self._weights = weights_of(len(self._parents), proportions)
        total = sum(self._weights)
        lengths = [len(one) / (weight / total) for one, weight in zip(parents, self._weights, strict=True)]
        empty = [number for number, length in enumerate(lengths) if not length]
        if empty:
            raise ValueError(f"datasets: expected some elements in each, got none in those at {empty}")
        self._length = min(ENDLESS, int(min(lengths)))

    def _selected(self, indices: Indices) -> tuple[Indices, Indices]:
        return selected(indices, self._weights)


def weights_of(count: int, proportions: Sequence[float] | None) -> tuple[int, ...]:
    """Weights as whole numbers, the least of them 100; ValueError for one of 0 or another number of them.

    >>> weights_of(2, [0.3, 0.7]), weights_of(2, None)
    ((100, 233), (1, 1))
    """
    if proportions is None:
        return (1,) * count
    if len(proportions) != count or 0 in proportions:
        raise ValueError(
            f"weights: expected one other than 0 for each of {count} data sets, got {proportions}"
        )
    factor = 100 / min(proportions)
    return tuple(int(each * factor) for each in proportions)


def selected(indices: Indices, weights: Sequence[int]) -> tuple[Indices, Indices]:
    """Which of several data sets gives the element at each index, and at which of its own indices.

    >>> which, there = selected(np.arange(5), (2, 1))
    >>> which.tolist(), there.tolist()
    ([0, 0, 1, 0, 0], [0, 1, 0, 2, 3])
    """
    left = sum(weights)
    before = exact(indices, left)
    after = before + 1
    which, there = np.zeros(len(indices), np.int64), np.zeros_like(before)
    open_ = np.ones(len(indices), bool)
    for number, weight in enumerate(weights):
        rest_before, rest_after = before * (left - weight) // left, after * (left - weight) // left
        count = after - rest_after
        here = open_ & (before - rest_before != count)
        which[here], there[here] = number, count[here] - 1
        open_ &= ~here
        left, before, after = left - weight, rest_before, rest_after
    return which, there


class SelectedMapDataset(_SelectingNode, step="MapDataset.select"):
    """Elements by a map of the user's."""

    def __init__(self, parents: Sequence[Any], selection_map: Any) -> None:
        super().__init__(tuple(parents))
        self._selection, self._length = selection_map, len(selection_map)

    def _selected(self, indices: Indices) -> tuple[Indices, Indices]:
        pairs = [self._selection[index] for index in indices.tolist()]
        return as_indices([which for which, _ in pairs]), as_indices([there for _, there in pairs])


class ConcatenateMapDataset(_SelectingNode, step="MapDataset.concatenate"):
    """One data set after the other."""

    def __init__(self, parents: Sequence[Any]) -> None:
        super().__init__(tuple(parents))
        lengths = [*map(len, parents)]
        if max(lengths, default=0) >= ENDLESS:
            raise ValueError("datasets: expected some with an end, got one that is repeated without one")
        self._lengths = np.array(lengths, np.int64)
        self._starts = np.cumsum([0, *lengths])[:-1]
        self._length = sum(lengths)

    def _selected(self, indices: Indices) -> tuple[Indices, Indices]:
        epochs, places = in_epochs(indices, self._length)
        which = np.searchsorted(self._starts, places.astype(np.int64), side="right") - 1
        return which, places - self._starts[which] + epochs * self._lengths[which]


class ZipMapDataset(MapNode):
    """Tuples of the elements of several data sets at one index.

    Args:
        parents: of the same length; ValueError for others, or none.
    """

    def __init__(self, parents: Sequence[MapDataset]) -> None:
        super().__init__(tuple(parents))
        lengths = [*map(len, self._parents)]
        if len({*lengths}) != 1:
            raise ValueError(
                f"parents: expected one or more data sets of the same length, got lengths {lengths}"
            )
        self._length = lengths[0]

    def __len__(self) -> int:
        return self._length

    def _rows(self, indices: Indices) -> list[Any]:
        return [*zip(*(parent.__getitems__(indices) for parent in self._parents), strict=True)]
