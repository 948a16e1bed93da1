"""Overlapping windows of a series as records."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loaderkit._base.former_arguments import former_arguments
from loaderkit._base.numbers import at_least
from loaderkit._base.tree import StructureMismatch, flatten, map_leaves, typed_columns, unflatten
from loaderkit._source.fingerprint import fingerprint_of
from loaderkit._source.optional import CallAdvice, column_reader, many_reader, offered, where_below_has
from loaderkit._source.protocol import read_records
from loaderkit._source.record_key import check_keys, short_repr

from .checked import require_methods
from .has_card import HasCard
from .sliced import sliced


class WindowDataSource(CallAdvice, HasCard):
    """Windows of a source whose records follow each other in time: record k has `size` of them, stacked leaf by leaf.

    Args:
        source: any data source, such as an ArrayDataSource of a series; its records agree in structure and shapes.
        size: records of a window, 1 or more. tf.data's `window` has the same names; timeseries_dataset_from_array says
            sequence_length.
        shift: from the first record of a window to that of the next, `size` if not given; sequence_stride there.
        stride: from one record of a window to the next; sampling_rate there.

    There are as many as fit: a shorter one at the end is left out. ValueError where none fits, or where
    records can't be stacked.

    >>> from loaderkit.sources import ArrayDataSource
    >>> windows = WindowDataSource(ArrayDataSource(np.arange(7)), size=3, shift=2)
    >>> [window.tolist() for window in windows]
    [[0, 1, 2], [2, 3, 4], [4, 5, 6]]
    >>> WindowDataSource(range(7), size=3, shift=1, stride=3)[0].tolist()
    [0, 3, 6]
    """

    @former_arguments(removed_in="0.3.0", by_place=["shift", "stride"])
    def __init__(self, source: Any, size: int, *, shift: int | None = None, stride: int = 1) -> None:
        source = require_methods(source, argument="source")
        self._source = source
        self._size = at_least("size", size, 1)
        self._shift = self._size if shift is None else at_least("shift", shift, 1)
        self._stride = at_least("stride", stride, 1)
        span = (self._size - 1) * self._stride + 1
        if len(source) < span:
            raise ValueError(
                f"size: expected windows of at most {len(source)} records, as {short_repr(source)} has, got one over "
                f"{span}; give a smaller size or stride"
            )
        self._count = (len(source) - span) // self._shift + 1

    def _source_keys(self, windows: NDArray[np.int64]) -> NDArray[np.int64]:
        """(n, size) int64"""
        return windows[:, None] * self._shift + np.arange(self._size, dtype=np.int64) * self._stride

    def __len__(self) -> int:
        return self._count

    @sliced
    def __getitem__(self, key: int) -> Any:
        return self._read_many([key])[0]

    @where_below_has("__getitems__", many_reader)
    def __getitems__(self, record_keys: ArrayLike) -> list[Any]:
        """Many windows in one call; only where the source has `__getitems__`, else an AttributeError."""
        return self._read_many(record_keys)

    def _read_many(self, record_keys: ArrayLike) -> list[Any]:
        keys = self._source_keys(check_keys(record_keys, len(self), self))
        if (columns := column_reader(self._source)) is not None:
            return [columns(window) for window in keys]
        # Overlapping windows share records: each is read once.
        wanted, places = np.unique(keys, return_inverse=True)
        records = read_records(self._source, wanted.tolist())
        windows: Any = places.reshape(keys.shape).tolist()
        return [_stacked([records[place] for place in window]) for window in windows]

    @property
    def take(self) -> Callable[..., Any]:
        """Many windows as columns (n, size, ...); only where the source has `take`, else an AttributeError.

        Args:
            record_keys: integers (n,).
            out: the arrays to be filled, one for each leaf.
        """
        theirs = offered(self, "take", column_reader(self._source))

        def take(record_keys: ArrayLike, out: list[NDArray[Any]] | None = None) -> Any:
            keys = self._source_keys(check_keys(record_keys, len(self), self))
            flat = None if out is None else [leaf.reshape(keys.size, *leaf.shape[2:]) for leaf in out]
            made = theirs(keys.ravel(), out=flat)
            return map_leaves(lambda leaf: leaf.reshape(*keys.shape, *leaf.shape[1:]), made)

        return take

    def fingerprint(self) -> dict[str, Any]:
        """The source's fingerprint, size, shift and stride."""
        return {
            "type": "WindowDataSource",
            "records": len(self),
            "size": self._size,
            "shift": self._shift,
            "stride": self._stride,
            "source": fingerprint_of(self._source),
        }

    def __repr__(self) -> str:
        return (
            f"WindowDataSource({short_repr(self._source)}, size={self._size}, shift={self._shift}, "
            f"stride={self._stride})"
        )


def _stacked(records: list[Any]) -> Any:
    _, structure = flatten(records[0])
    try:
        columns = typed_columns(records, structure)
    except StructureMismatch as found:
        raise ValueError(
            f"source: expected records of one structure in a window, got {found.expected} and {found.got} of "
            f"{found.path or 'the records'}; make them alike before"
        ) from None
    return unflatten(structure, [np.stack([np.asarray(leaf) for leaf in leaves]) for leaves, _ in columns])
