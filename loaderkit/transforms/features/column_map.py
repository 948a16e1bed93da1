"""What the operations on columns share: which leaf is read, which is made, and what a leaf may hold."""

from reprlib import repr as _short
from typing import Any

import numpy as np
import numpy.typing as npt

from loaderkit._base.numbers import number
from loaderkit._base.system.dataclasses import dataclass, field
from loaderkit.transforms.base import Map
from loaderkit.transforms.leaf import Place, leaf_key, value_at, with_value


@dataclass(frozen=True)
class ColumnMap(Map):
    """A Map of one leaf, value by value; a subclass defines `of(leaf)`.

    Args:
        key: of the leaf, a column of a batch or the value of a single record: a dict's key, a position, the name of a
            field, or a path of these as a tuple; None where the element is the leaf.
        output: as key, of the result, which may be new; None replaces the leaf.
    """

    key: Place
    output: Place = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        leaf_key("key", self.key)
        leaf_key("output", self.output)

    def of(self, leaf: Any) -> Any:
        """The result for a leaf: an array for an array, a numpy scalar for a single value."""
        raise NotImplementedError

    def map(self, element: Any) -> Any:
        """The element with the result."""
        made = self.of(value_at(element, self.key))
        return with_value(element, self.key if self.output is None else self.output, made)


def numbers_at(key: Place, leaf: Any, default: float | None) -> np.ndarray:
    """A leaf as an array of numbers, in which `default` takes the place of NaN and None; without it None is NaN.

    >>> numbers_at("x", np.array([1.0, np.nan]), 7.0), numbers_at("x", None, None)
    (array([1., 7.]), array(nan))
    """
    if leaf is None:
        return np.array(np.nan if default is None else default)
    array = np.asarray(leaf)
    if array.dtype == object:
        values = [np.nan if value is None else value for value in array.ravel().tolist()]
        if any(isinstance(value, str | bytes) for value in values):
            raise _no_numbers(key, leaf)
        array = np.array(values, np.float64).reshape(array.shape)
    if array.dtype.kind not in "biuf":
        raise _no_numbers(key, leaf)
    if default is not None and array.dtype.kind == "f":
        missing = np.isnan(array)
        if missing.any():
            array = np.where(missing, np.asarray(default, array.dtype), array)
    return array


def ids_at(key: Place, leaf: Any) -> np.ndarray:
    """A leaf as an array of integers.

    >>> ids_at("x", 1.5)
    Traceback (most recent call last):
    TypeError: leaf 'x': expected integers, got float64; make ids of them with features.Bucketized
    """
    array = np.asarray(leaf)
    if array.dtype.kind == "b":
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        other = "Bucketized" if array.dtype.kind == "f" else "Vocabulary or features.Hashed"
        raise TypeError(
            f"leaf {key!r}: expected integers, got {array.dtype}; make ids of them with features.{other}"
        )
    return array


def checked_dtype(dtype: npt.DTypeLike, kinds: str, expected: str) -> np.dtype[Any]:
    """A dtype of some of numpy's kinds; TypeError for another, with what was expected.

    >>> checked_dtype("float32", "f", "a float type of numpy")
    dtype('float32')
    """
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = np.dtype(object)
    if found.kind not in kinds:
        raise TypeError(f"dtype: expected {expected}, got {_short(dtype)}")
    return found


def id_dtype(dtype: npt.DTypeLike, num_buckets: int) -> str:
    """The name of a dtype that has room for the ids 0 to num_buckets - 1 and for -1; TypeError or ValueError else.

    >>> id_dtype(np.int32, 10), id_dtype("int64", 2**40)
    ('int32', 'int64')
    """
    kind = checked_dtype(dtype, "i", "a signed integer type")
    if num_buckets - 1 > np.iinfo(kind).max:
        raise ValueError(
            f"dtype: expected one with room for {num_buckets} ids, got {kind}; write dtype='int64'"
        )
    return kind.name


def optional_number(argument: str, value: Any) -> float | None:
    """A number that a user gave, as a float, or None; TypeError for another value.

    >>> optional_number("default", 3), optional_number("default", None)
    (3.0, None)
    """
    return None if value is None else number(argument, value)


def _no_numbers(key: Place, leaf: Any) -> TypeError:
    return TypeError(
        f"leaf {key!r}: expected numbers, got {_short(leaf)}; convert them in a Map before, or use features.Vocabulary"
    )
