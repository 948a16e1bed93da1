"""Ids as vectors of zeros and ones."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from loaderkit._base.numbers import at_least, true_or_false
from loaderkit.transforms.leaf import Place

from .column_map import ColumnMap, checked_dtype, ids_at


@dataclass(frozen=True)
class OneHot(ColumnMap):
    """Each id as a vector that is 1 at its place: (...) becomes (..., num_classes), as jax.nn.one_hot has it.

    Args:
        key, output: of the leaf with ids, and of the vectors where the leaf stays.
        num_classes: how many ids there are. The id -1 becomes a vector of zeros, any other outside is a ValueError.
        dtype: of the vectors: floats, integers or bool.

    >>> OneHot("city", 3, dtype="uint8").map({"city": np.array([2, 0, -1])})["city"]
    array([[0, 0, 1],
           [1, 0, 0],
           [0, 0, 0]], dtype=uint8)
    """

    num_classes: int
    dtype: Any = field(default="float32", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(
            num_classes=at_least("num_classes", self.num_classes, 1),
            dtype=str(checked_dtype(self.dtype, "biuf", "a type of numbers or bool")),
        )

    def of(self, leaf: Any) -> np.ndarray:
        """The vectors."""
        ids = _checked(self.key, leaf, self.num_classes)
        flat = ids.ravel()
        out = np.zeros((flat.size, self.num_classes), self.dtype)
        rows = np.flatnonzero(flat >= 0)
        out[rows, flat[rows]] = 1
        return out.reshape(*ids.shape, self.num_classes)


@dataclass(frozen=True)
class MultiHot(ColumnMap):
    """The ids of the last axis as one vector that is 1 at each of them: (..., k) becomes (..., num_classes).

    Args:
        key, output: of the leaf with ids, and of the vectors where the leaf stays.
        num_classes: how many ids there are. The id -1 stands for none, any other outside is a ValueError.
        count: True counts how often each id occurs.
        dtype: of the vectors: floats, integers or bool.

    >>> MultiHot("tags", 4).map({"tags": np.array([[3, 0], [2, -1]])})["tags"]
    array([[1., 0., 0., 1.],
           [0., 0., 1., 0.]], dtype=float32)
    >>> MultiHot("tags", 4, count=True, dtype="int32").map({"tags": np.array([3, 0, 3])})
    {'tags': array([1, 0, 0, 2], dtype=int32)}
    """

    num_classes: int
    count: bool = field(default=False, kw_only=True)
    dtype: Any = field(default="float32", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(
            num_classes=at_least("num_classes", self.num_classes, 1),
            dtype=str(checked_dtype(self.dtype, "biuf", "a type of numbers or bool")),
        )
        true_or_false("count", self.count)

    def of(self, leaf: Any) -> np.ndarray:
        """The vectors."""
        ids = _checked(self.key, leaf, self.num_classes)
        if not ids.ndim:
            raise ValueError(
                f"leaf {self.key!r}: expected ids (..., k) for MultiHot, got a single one; use features.OneHot"
            )
        rows = ids.reshape(-1, ids.shape[-1]) if ids.size else ids.reshape(int(np.prod(ids.shape[:-1])), 0)
        out = np.zeros((len(rows), self.num_classes), self.dtype)
        row, place = np.nonzero(rows >= 0)
        if self.count:
            np.add.at(out, (row, rows[row, place]), 1)
        else:
            out[row, rows[row, place]] = 1
        return out.reshape(*ids.shape[:-1], self.num_classes)


def _checked(key: Place, leaf: Any, num_classes: int) -> np.ndarray:
    ids = ids_at(key, leaf)
    outside = (ids < -1) | (ids >= num_classes)
    if outside.any():
        raise ValueError(
            f"leaf {key!r}: expected ids from -1 to {num_classes - 1}, got {ids[outside].flat[0]}; give a greater "
            "num_classes"
        )
    return ids
