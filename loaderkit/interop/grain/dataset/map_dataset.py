"""MapDataset: a data set whose element at any index i >= 0 is found by arithmetic; `len` is that of one epoch."""

import abc
import builtins
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from loaderkit.interop.grain.options import ReadOptions

from .node import Dataset, made

# (n,) int64, or of Python's ints where one is too large for that
Indices = NDArray[Any]


class MapDataset(Dataset, abc.ABC):
    """Elements by index. None stands for an element that isn't there, such as one that a filter drops.

    Args:
        parents: the node or the nodes before this one.

    A class of a user's defines `__len__` and `__getitem__`, and is a node like the others.

    >>> import loaderkit.interop.grain as grain
    >>> ds = grain.MapDataset.range(5).map(lambda x: 10 * x).repeat(2)
    >>> len(ds), ds[7], [*ds[::4]]
    (10, 20, [0, 40, 30])
    """

    _kind: ClassVar[str] = "MapDataset"
    # Whether an element may be None: by a filter, which says so, or by what a user's function gives.
    _filters: ClassVar[bool] = False
    _may_give_none: bool = True

    @staticmethod
    def source(source: Any) -> "MapDataset":
        """The records of a data source.

        Args:
            source: anything with `__len__` and `__getitem__`.
        """
        return _node("source", source)

    @staticmethod
    def range(start: int, stop: int | None = None, step: int = 1) -> "MapDataset":
        """The numbers of Python's range.

        Args:
            start, stop, step: as `range` takes them.

        >>> [*MapDataset.range(1, 6, 2)]
        [1, 3, 5]
        """
        return _node("range", start, stop, step)

    @staticmethod
    def mix(datasets: Sequence[Any], weights: Sequence[float] | None = None) -> "MapDataset":
        """Elements of all data sets by weights, until one has no more in its epoch.

        Args:
            datasets: MapDatasets.
            weights: a number above 0 for each; None for equal ones.

        >>> [*MapDataset.mix([MapDataset.range(5), MapDataset.range(7, 10)])]
        [0, 7, 1, 8, 2, 9]
        """
        return _node("mix", datasets, weights)

    @staticmethod
    def select_from_datasets(datasets: Sequence[Any], selection_map: Any) -> "MapDataset":
        """The elements that a map names.

        Args:
            datasets: MapDatasets.
            selection_map: a DatasetSelectionMap; for each index it gives a data set's number and an index of that.
        """
        return _node("select", datasets, selection_map)

    @staticmethod
    def concatenate(datasets: Sequence[Any]) -> "MapDataset":
        """The elements of one data set after the other's.

        Args:
            datasets: MapDatasets.

        >>> [*MapDataset.concatenate([MapDataset.range(2), MapDataset.range(7, 9)])]
        [0, 1, 7, 8]
        """
        return _node("concatenate", datasets)

    @abc.abstractmethod
    def __len__(self) -> int:
        """Elements of one epoch."""

    @abc.abstractmethod
    def __getitem__(self, index: Any) -> Any:
        """The element at an index, None where there is none; of a slice the data set of its elements."""

    def __getitems__(self, indices: Any) -> list[Any]:
        """The elements at many indices."""
        return [self[index] for index in as_indices(indices).tolist()]

    def __iter__(self) -> Any:
        return iter(self.to_iter_dataset())

    def batch(
        self,
        batch_size: int,
        *,
        drop_remainder: bool = False,
        batch_fn: Callable[[Sequence[Any]], Any] | None = None,
    ) -> "MapDataset":
        """Batches of consecutive elements of an epoch.

        Args:
            batch_size: elements of a batch, 1 or more.
            drop_remainder: whether a last, smaller batch is left out.
            batch_fn: takes the list of elements and gives the batch, instead of stacking.
        """
        return _node("batch", self, batch_size, drop_remainder=drop_remainder, batch_fn=batch_fn)

    def filter(self, transform: Any) -> "MapDataset":
        """The elements for which a function is true; None in the place of the others.

        Args:
            transform: takes an element and gives a bool, or a Filter.
        """
        return _node("filter", self, transform)

    def map(self, transform: Any) -> "MapDataset":
        """Each element as a function makes it.

        Args:
            transform: takes an element and gives the one in its place, or a Map.
        """
        return _node("map", self, transform)

    def map_with_index(self, transform: Any) -> "MapDataset":
        """Each element as a function of its index makes it.

        Args:
            transform: takes the index here and an element and gives the one in its place, or a MapWithIndex.
        """
        return _node("map_with_index", self, transform)

    def random_map(self, transform: Any, *, seed: int | None = None) -> "MapDataset":
        """Each element as a function that draws makes it.

        Args:
            transform: takes an element and the numpy.random.Generator of its index here, and gives the one in its
                place; or a RandomMap.
            seed: int >= 0; None for one made of the last `seed` before.
        """
        return _node("random_map", self, transform, seed=seed)

    def seed(self, seed: int) -> "MapDataset":
        """The same elements; the steps after it that are given no seed make theirs of this one.

        Args:
            seed: int >= 0.
        """
        return _node("seed", self, seed=seed)

    def shuffle(self, seed: int | None = None) -> "MapDataset":
        """The same elements in another order in each epoch.

        Args:
            seed: int in [0, 2**32); None for one made of the last `seed` before.
        """
        return _node("shuffle", self, seed=seed)

    def slice(self, sl: builtins.slice) -> "MapDataset":
        """The elements at a slice's indices of each epoch.

        Args:
            sl: of the indices of an epoch.
        """
        return _node("slice", self, sl)

    def repeat(self, num_epochs: int | None = None, *, reseed_each_epoch: bool = True) -> "MapDataset":
        """The elements of several epochs.

        Args:
            num_epochs: how many; None for no end.
            reseed_each_epoch: whether steps that draw do so anew in each epoch; False gives the first one again.
        """
        return _node("repeat", self, num_epochs, reseed_each_epoch=reseed_each_epoch)

    def to_iter_dataset(self, read_options: ReadOptions | None = None, *, allow_nones: bool = False) -> Any:
        """An IterDataset of the elements.

        Args:
            read_options: a ReadOptions: how elements are read ahead.
            allow_nones: whether None is given in the place of an element that isn't there.
        """
        return self._made("to_iter_dataset", read_options=read_options, allow_nones=allow_nones)


def _node(step: str, *args: Any, **keywords: Any) -> MapDataset:
    node: MapDataset = made(f"MapDataset.{step}", *args, **keywords)
    return node


def as_indices(indices: Any) -> Indices:
    """Indices as an array.

    >>> as_indices([3]).dtype, as_indices([2**63]).dtype
    (dtype('int64'), dtype('O'))
    """
    if isinstance(indices, np.ndarray):
        return indices
    try:
        return np.array(indices, np.int64)
    except OverflowError:
        return np.array([*map(int, indices)], object)


def exact(indices: Indices, factor: int) -> Indices:
    """Indices for arithmetic whose numbers are up to `factor` times the greatest: Python's ints past 2**63.

    >>> int(exact(np.array([1 << 40]), 1 << 30)[0] * (1 << 30)) == 1 << 70
    True
    """
    if indices.dtype == object or not len(indices):
        return indices
    greatest = max(int(indices.max()), -int(indices.min()))
    return indices.astype(object) if (greatest + 1) * factor >= 1 << 63 else indices


def in_epochs(indices: Indices, length: int) -> tuple[Indices, Indices]:
    """The epoch of each index, and its place there. IndexError where an epoch has no element."""
    if not length:
        raise IndexError("index: expected none, for there are no elements")
    return indices // length, indices % length
