"""The leaves at one place of many rows as one array: in one step where they agree, by the rules of np.stack otherwise.

An *exact* leaf is one that an array holds without loss: an ndarray (no subclass), a numpy scalar, a bool, a float, or
an int that fits in int64; its dtype must be one that np.stack keeps. A *column* is an array (n, *shape) where n rows
have exact leaves of one dtype and shape, otherwise the list of the leaves.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from loaderkit.errors import BatchError

Column = np.ndarray | list[Any]

# Types of scalars that determine the dtype. A datetime64 isn't one: its dtype has a unit as well.
_DTYPE_OF: dict[type, np.dtype[Any]] = {
    bool: np.dtype(np.bool_),
    int: np.dtype(np.int64),
    float: np.dtype(np.float64),
    **{
        np.dtype(code).type: np.dtype(code)
        for code in np.typecodes["AllInteger"] + np.typecodes["AllFloat"] + "?"
    },
}


# Bytes of a leaf from which on it is looked whether rows lie side by side already: that takes about 1 us a leaf, as
# copying so many bytes into new memory does. Rows of 16 KB that a Pack made are sent with one copy less.
_LARGE = 4096


class LeafSpec(NamedTuple):
    """Shape and dtype of one row's leaf at one place of the tree; shape is () for a scalar."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def stays_in_stack(dtype: np.dtype[Any]) -> bool:
    """Whether np.stack keeps this dtype, and the bytes of a row are all of its value.

    False for objects, another byte order, texts and structs. Of a text a scalar doesn't show the dtype: an element of a
    "U5" array may be "U2".

    Args:
        dtype: of every row.

    >>> [stays_in_stack(np.dtype(code)) for code in ("float32", ">f4", "O", "U5")]
    [True, False, False, False]
    """
    return dtype.isnative and not dtype.hasobject and not issubclass(dtype.type, np.flexible)


def _may_be_exact(cls: type) -> bool:
    return (
        cls is np.ndarray
        or cls in _DTYPE_OF
        or (issubclass(cls, np.generic) and not issubclass(cls, np.flexible))
    )


def fill(column: Sequence[Any], types: set[type], out: np.ndarray) -> bool:
    """Writes leaves to an array if each is exact and fits; otherwise False, and the content of `out` is undefined.

    Args:
        column: n leaves.
        types: the set of their types.
        out: (n, *shape), C-contiguous, of a dtype for which `stays_in_stack` is True.

    >>> out = np.empty(2)
    >>> fill([1.5, 2.5], {float}, out), out
    (True, array([1.5, 2.5]))
    >>> fill([1, 2], {int}, out)
    False
    """
    if types == {np.ndarray} and out.ndim > 1:
        return _fill_from_arrays(column, out)
    if types <= _DTYPE_OF.keys():
        if out.ndim != 1 or any(_DTYPE_OF[cls] != out.dtype for cls in types):
            return False
        try:
            out[...] = np.fromiter(column, out.dtype, len(column))
        except OverflowError:  # an int that doesn't fit in int64; np.stack makes uint64 or objects of it
            return False
        return True
    if not all(map(_may_be_exact, types)):
        return False
    shape, dtype = out.shape[1:], out.dtype
    for row, leaf in enumerate(column):
        array = np.asarray(leaf)
        if array.dtype != dtype or array.shape != shape:
            return False
        out[row] = array
    return True


def _fill_from_arrays(column: Sequence[Any], out: np.ndarray) -> bool:
    # One concatenate along the rows' first axis takes a third of the time of np.stack, which first gives each row a new
    # axis. It checks the dtype (casting="no"), the number of axes and all lengths but the first.
    count, length, *rest = out.shape
    try:
        if set(map(len, column)) != {length}:
            return False
        np.concatenate(column, out=out.reshape(count * length, *rest), casting="no")
    except (TypeError, ValueError):
        return False
    return True


def column_of(leaves: Sequence[Any], types: set[type], *, views: bool) -> Column:
    """The leaves as an array in which row r equals `np.asarray(leaves[r])`, or as a list where there is no such array.

    Args:
        leaves: one or more.
        types: the set of their types.
        views: whether rows that lie side by side in one array may stay there: nothing writes to it later.

    >>> column_of([1, 2], {int}, views=False), column_of([1, 2.5], {int, float}, views=False)
    (array([1, 2]), [1, 2.5])
    """
    if not all(map(_may_be_exact, types)):
        return list(leaves)
    first = leaves[0]
    dtype = _DTYPE_OF.get(type(first)) or np.asarray(first).dtype
    if not stays_in_stack(dtype):
        return list(leaves)
    if views and type(first) is np.ndarray and first.base is not None and first.nbytes >= _LARGE:
        rows = _rows_side_by_side(leaves)
        if rows is not None:
            return rows
    out = np.empty((len(leaves), *np.shape(first)), dtype)  # (n, *shape)
    return out if fill(leaves, types, out) else list(leaves)


def _rows_side_by_side(leaves: Sequence[Any]) -> np.ndarray | None:
    """The part of an array (n, *shape) whose rows the leaves are, in order; None where they aren't."""
    first = leaves[0]
    base = first.base
    if type(base) is not np.ndarray or not base.flags.c_contiguous:
        return None
    if base.shape[1:] != first.shape or base.ndim != first.ndim + 1 or base.dtype != first.dtype:
        return None
    address, nbytes = first.__array_interface__["data"][0], first.nbytes
    row, rest = divmod(address - base.__array_interface__["data"][0], nbytes)
    if rest:
        return None
    for leaf in leaves:
        if (
            type(leaf) is not np.ndarray
            or leaf.base is not base
            or leaf.dtype != first.dtype
            or leaf.shape != first.shape
            or not leaf.flags.c_contiguous
            or leaf.__array_interface__["data"][0] != address
        ):
            return None
        address += nbytes
    rows: np.ndarray = base[row : row + len(leaves)]
    return rows


class Joiner:
    """Joins the columns of one place of the tree; where that is impossible, the error names the records.

    Args:
        path: the place in the tree, as `tree.paths` gives it.
        describe: takes the number of a row in the batch, returns the name of its record for errors.
    """

    def __init__(self, path: str, describe: Callable[[int], str]) -> None:
        self._where = f"leaf {path}" if path else "the element itself"
        self._describe = describe

    def join(self, columns: Sequence[Column]) -> np.ndarray:
        """The result of `np.stack` for all rows, C-contiguous; for bytes an array of objects.

        Args:
            columns: one or more, none empty, in the order of the rows. BatchError where rows don't fit together. A
                single array that owns its memory is returned itself, a view is copied.

        >>> Joiner("", "record {}".format).join([np.array([1, 2]), [3.5]])
        array([1. , 2. , 3.5])
        """
        if len(columns) == 1 and (batch := batch_of(columns[0])) is not None:
            return batch
        types = {type(leaf) for column in columns if isinstance(column, list) for leaf in column}
        if types == {str} and not any(isinstance(column, np.ndarray) for column in columns):
            return self._join_texts([text for column in columns for text in column])
        if any(issubclass(cls, bytes) for cls in types):
            return self._join_bytes(columns)
        return self._concatenate(columns)

    def _join_texts(self, texts: list[str]) -> np.ndarray:
        for row, text in enumerate(texts):
            self._refuse_what_would_be_lost(row, text)
        return np.array(texts, np.str_)

    def _join_bytes(self, columns: Sequence[Column]) -> np.ndarray:
        # Leaves other than bytes become numpy scalars, from an array as from a list.
        leaves = [leaf for column in columns for leaf in column]
        if set(map(type, leaves)) == {bytes}:
            return np.fromiter(leaves, object, len(leaves))
        out = np.empty(len(leaves), object)  # (n,) bytes
        expected: tuple[int, ...] | None = None
        for row, leaf in enumerate(leaves):
            array = None if isinstance(leaf, bytes) else self._as_array(row, leaf)
            shape = () if array is None else array.shape
            expected = shape if expected is None else expected
            if shape != expected:
                self._refuse_shapes(row, expected, shape)
            out[row] = leaf if array is None else array[()]
        return out

    def _concatenate(self, columns: Sequence[Column]) -> np.ndarray:
        pieces: list[np.ndarray] = []  # (k, *shape) each
        firsts: list[int] = []  # the first row of each
        count = 0
        for column in columns:
            if isinstance(column, np.ndarray):
                pieces.append(column)
                firsts.append(count)
            else:
                pieces += [self._as_array(count + row, leaf)[None] for row, leaf in enumerate(column)]
                firsts += range(count, count + len(column))
            count += len(column)
        shape = pieces[0].shape[1:]
        for row, piece in zip(firsts, pieces):
            if piece.shape[1:] != shape:
                self._refuse_shapes(row, shape, piece.shape[1:])
        try:
            out = np.empty((count, *shape), _dtype_of_stack(pieces))
            return np.concatenate(pieces, out=out)
        except (TypeError, ValueError) as error:
            self._refuse_dtypes(firsts, pieces, error)

    def _as_array(self, row: int, leaf: Any) -> np.ndarray:
        self._refuse_what_would_be_lost(row, leaf)
        try:
            return np.asarray(leaf)
        except (TypeError, ValueError, RuntimeError) as error:
            raise BatchError(
                f"{self._describe(row)} can't be batched: {self._where} is a {type(leaf).__name__} "
                f"that numpy can't make an array of ({error}); convert it in a Map before Batch"
            ) from error

    def _refuse_what_would_be_lost(self, row: int, leaf: Any) -> None:
        if isinstance(leaf, str) and leaf.endswith("\0"):
            raise BatchError(
                f"{self._describe(row)} can't be batched: {self._where} is a str that ends in NUL, which "
                f"numpy doesn't keep; strip it or encode it to bytes in a Map before Batch"
            )
        if isinstance(leaf, np.ma.MaskedArray):
            raise BatchError(
                f"{self._describe(row)} can't be batched: {self._where} is a masked array, and its mask "
                f"would be lost; make its data and mask two leaves, or fill it, in a Map before Batch"
            )

    def _refuse_shapes(self, row: int, expected: tuple[int, ...], got: tuple[int, ...]) -> NoReturn:
        raise BatchError(
            f"{self._describe(0)} and {self._describe(row)} can't be stacked: {self._where} has shape "
            f"{expected} in the first and {got} in the second; make the shapes equal in a Map before Batch, "
            "pad rows of different lengths by lk.PadTo or lk.PadBatch, or give Batch a batch_fn"
        )

    def _refuse_dtypes(self, firsts: list[int], pieces: list[np.ndarray], error: Exception) -> NoReturn:
        expected = pieces[0].dtype
        row, got = next(
            (
                (row, piece.dtype)
                for row, piece in zip(firsts, pieces)
                if not _promotes(expected, piece.dtype)
            ),
            (firsts[-1], pieces[-1].dtype),
        )
        raise BatchError(
            f"{self._describe(0)} and {self._describe(row)} can't be stacked: {self._where} has dtype "
            f"{expected} in the first and {got} in the second ({error}); convert them to one dtype in a Map "
            f"before Batch"
        ) from error


def batch_of(column: Column) -> np.ndarray | None:
    """The result of np.stack for the rows of one column where no row needs a check; otherwise None.

    Args:
        column: rows. An array that owns its memory is returned itself; copied are a view, as its memory may be reused,
            and a read-only array, which a source may keep.

    >>> batch_of(np.arange(4)[2:]), batch_of([1, 2])
    (array([2, 3]), None)
    """
    if isinstance(column, list) or not stays_in_stack(column.dtype):
        return None
    flags = column.flags
    return column if column.base is None and flags.c_contiguous and flags.writeable else column.copy("C")


def _dtype_of_stack(pieces: Sequence[np.ndarray]) -> np.dtype[Any]:
    # Taken from np.concatenate over every row where dtypes differ, because promoting in parts, or over the set of
    # dtypes, may give another dtype than all rows together.
    first = pieces[0].dtype
    if all(piece.dtype == first for piece in pieces):
        return np.concatenate([np.empty(0, first), np.empty(0, first)]).dtype
    return np.concatenate([np.empty(0, piece.dtype) for piece in pieces for _ in range(len(piece))]).dtype


def _promotes(one: np.dtype[Any], other: np.dtype[Any]) -> bool:
    try:
        np.result_type(one, other)
    except TypeError:
        return False
    return True
