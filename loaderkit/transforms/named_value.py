"""A value of an element by its name."""

from reprlib import repr as _short
from typing import Any


def named_value(element: Any, key: str) -> Any:
    """The value at a key of an element that is a dict; TypeError for another element, KeyError where it is missing.

    >>> named_value({"x": 1}, "y")
    Traceback (most recent call last):
    KeyError: "leaf 'y': expected one of the element's, got an element with 'x'"
    """
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
