"""Columns as a source: record k is row k of every array."""

from reprlib import repr as _short
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loaderkit._base.tree import flatten, paths, unflatten
from loaderkit._source.content import content_hash, sampled_keys
from loaderkit._source.record_key import check_keys

from .has_card import HasCard
from .shared_arrays import SharedColumns
from .sliced import sliced


class ArrayDataSource(HasCard):
    """Arrays with the same number of rows: a record is one row of each array, a batch is read without a loop.

    Arrays are copied once to memory that all workers share; a `np.memmap` stays in its file, which workers open by
    name. Records are read-only.

    Args:
        columns: a tree of arrays (records, ...), such as `{"image": (n, 28, 28) uint8, "label": (n,) int64}`, or one
            array. ValueError where their lengths differ or there is no array, TypeError for masked arrays and arrays of
            Python objects.

    >>> source = ArrayDataSource({"x": np.arange(6).reshape(3, 2), "y": np.array([0, 1, 0])})
    >>> source[1]
    {'x': array([2, 3]), 'y': np.int64(1)}
    >>> source.take([2, 0])["x"]
    array([[4, 5],
           [0, 1]])
    """

    def __init__(self, columns: Any) -> None:
        leaves, structure = flatten(columns)
        self._paths = paths(structure)
        arrays = [_as_column(leaf, path) for leaf, path in zip(leaves, self._paths)]
        if not arrays:
            raise ValueError(f"columns: expected one array or more, got {_short(columns)}")
        lengths = {path: len(array) for path, array in zip(self._paths, arrays)}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"columns: expected arrays with the same number of rows, got {lengths}")
        self._structure = structure
        self._columns = SharedColumns(arrays)

    def __len__(self) -> int:
        return len(self._columns.arrays[0])

    @sliced
    def __getitem__(self, key: int) -> Any:
        self._columns.check()
        return unflatten(self._structure, [column[key] for column in self._columns.arrays])

    def take(self, record_keys: ArrayLike, out: list[NDArray[Any]] | None = None) -> Any:
        """Many records as a tree of arrays (n, ...), equal to the stacked records.

        Args:
            record_keys: integers (n,); IndexError naming the first that is out of range.
            out: for each leaf, in the order of the tree, an array (n, ...) of the column's dtype to be filled.
        """
        keys = check_keys(record_keys, len(self), self)
        self._columns.check()
        if out is None:
            out = [np.empty((len(keys), *column.shape[1:]), column.dtype) for column in self._columns.arrays]
        for column, place in zip(self._columns.arrays, out, strict=True):
            # mode="clip", as the keys are checked: with mode="raise" numpy would fill a copy of `place` first.
            np.take(column, keys, axis=0, out=place, mode="clip")
        return unflatten(self._structure, out)

    def fingerprint(self) -> dict[str, Any]:
        """Each array's dtype and shape, and a hash of some rows."""
        return {
            "type": "ArrayDataSource",
            "records": len(self),
            "columns": {p: [c.dtype.str, *c.shape[1:]] for p, c in zip(self._paths, self._columns.arrays)},
            "content": content_hash(self[key] for key in sampled_keys(len(self))),
        }

    def __repr__(self) -> str:
        columns = ", ".join(
            f"{p or 'array'}: {c.dtype}{c.shape}" for p, c in zip(self._paths, self._columns.arrays)
        )
        return f"ArrayDataSource({columns})"


def _as_column(leaf: Any, path: str) -> NDArray[Any]:
    if isinstance(leaf, np.ma.MaskedArray):
        raise TypeError(
            f"columns{path}: expected an array without a mask, got a masked array; fill it first, with .filled(value)"
        )
    array = np.asarray(leaf)
    if array.ndim == 0:
        raise ValueError(f"columns{path}: expected an array of rows, got {_short(leaf)}")
    if array.dtype.hasobject:
        raise TypeError(
            f"columns{path}: expected a numeric or string dtype, got {array.dtype}, as Python objects can't be shared; "
            "convert the array, or use InMemoryDataSource"
        )
    return array
