"""What an element looks like: its tree, with the shape and dtype of what will be arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from loaderkit._base.tree import map_leaves


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """Shape and dtype of an array that will come, as `element_spec` gives them.

    Args:
        shape: of the array.
        dtype: of the array.

    >>> ArraySpec((32, 28, 28), np.dtype("uint8"))
    ArraySpec(shape=(32, 28, 28), dtype=dtype('uint8'))
    """

    shape: tuple[int, ...]
    dtype: np.dtype


def spec_of(element: Any) -> Any:
    """An element's tree with an ArraySpec for each array and number, and the type for other leaves.

    >>> spec_of({"x": 1.5, "name": "a"})
    {'x': ArraySpec(shape=(), dtype=dtype('float64')), 'name': <class 'str'>}
    """
    return map_leaves(_leaf_spec, element)


def _leaf_spec(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray | np.generic | bool | int | float | complex):
        array = np.asarray(leaf)
        return ArraySpec(array.shape, array.dtype)
    return type(leaf)
