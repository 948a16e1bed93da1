"""A leaf of an element by its name."""

from reprlib import repr as _short
from typing import Any

import numpy as np


def name_of_leaf(argument: str, name: Any) -> str:
    """The name of a leaf that a user gave; TypeError for another value.

    >>> name_of_leaf("key", 3)
    Traceback (most recent call last):
    TypeError: key: expected the name of a leaf, got 3
    """
    if not isinstance(name, str):
        raise TypeError(f"{argument}: expected the name of a leaf, got {_short(name)}")
    return name


def leaf_at(element: Any, key: str) -> Any:
    """The leaf at a key of a dict: an array, a number, a text, bytes or None.

    >>> leaf_at({"x": 1}, "y")
    Traceback (most recent call last):
    KeyError: "leaf 'y': expected one of the element's, got an element with 'x'"
    """
    leaf = _value(element, key)
    if not isinstance(leaf, np.ndarray | np.generic | str | bytes | int | float | None):
        raise TypeError(
            f"leaf {key!r}: expected an array or a single value, got {type(leaf).__name__}; make it an array in a Map "
            "before"
        )
    return leaf


def array_at(element: Any, key: str) -> np.ndarray:
    """The array (n, ...) at a key of a dict; TypeError or KeyError where there is none.

    >>> array_at({"x": 1}, "x")
    Traceback (most recent call last):
    TypeError: leaf 'x': expected an array (n, ...), got int; make it one in a Map before
    """
    leaf = _value(element, key)
    if not isinstance(leaf, np.ndarray) or not leaf.ndim:
        raise TypeError(
            f"leaf {key!r}: expected an array (n, ...), got {type(leaf).__name__}; make it one in a Map before"
        )
    return leaf


def _value(element: Any, key: str) -> Any:
    if not isinstance(element, dict):
        raise TypeError(
            f"leaf {key!r}: expected an element that is a dict, got {type(element).__name__}; make it one in a Map "
            "before"
        )
    if key not in element:
        raise KeyError(
            f"leaf {key!r}: expected one of the element's, got an element with {_short([*element])[1:-1]}"
        )
    return element[key]
