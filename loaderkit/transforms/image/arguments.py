"""Checks of arguments that the image operations share: sizes, intervals, choices, keys and libraries."""

import math
from collections.abc import Collection
from importlib.util import find_spec
from reprlib import repr as _short
from typing import Any

from loaderkit._base.extras import missing_library
from loaderkit._base.numbers import at_least, number

# Module name: the name of its package.
_PACKAGES = {"cv2": "opencv-python-headless", "simplejpeg": "simplejpeg"}


def size_pair(name: str, size: Any) -> tuple[int, int]:
    """(height, width) from one int for both or from a pair; TypeError and ValueError name the argument.

    >>> size_pair("size", 224), size_pair("size", (192, 256))
    ((224, 224), (192, 256))
    """
    if not isinstance(size, tuple | list):
        side = at_least(name, size, 1)
        return side, side
    if len(size) != 2:
        raise ValueError(f"{name}: expected an int or (height, width), got {_short(size)}")
    return at_least(name, size[0], 1), at_least(name, size[1], 1)


def finite(name: str, value: Any) -> float:
    """`value` as a finite float; TypeError and ValueError name the argument."""
    checked = number(name, value)
    if not math.isfinite(checked):
        raise ValueError(f"{name}: expected a finite number, got {value}")
    return checked


def interval(name: str, pair: Any, *, most: float) -> tuple[float, float]:
    """(low, high) with 0 < low <= high <= most; TypeError and ValueError name the argument.

    >>> interval("scale", (0.5, 2.0), most=1.0)
    Traceback (most recent call last):
    ValueError: scale: expected (low, high) with 0 < low <= high <= 1, got (0.5, 2.0)
    """
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise TypeError(f"{name}: expected a pair (low, high), got {_short(pair)}")
    low, high = finite(name, pair[0]), finite(name, pair[1])
    if not 0 < low <= high <= most:
        top = f" <= {most:g}" if math.isfinite(most) else ""
        raise ValueError(f"{name}: expected (low, high) with 0 < low <= high{top}, got {_short(pair)}")
    return low, high


def choice(name: str, value: Any, known: Collection[str]) -> None:
    """Raises ValueError unless `value` is one of `known`."""
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{name}: expected one of {sorted(known)}, got {_short(value)}")


def leaf_key(key: Any) -> None:
    """Raises TypeError for a key that isn't hashable, such as a list or a slice."""
    try:
        hash(key)
    except TypeError:
        raise TypeError(
            f"key: expected a dict's key, a position or the name of a field, got {_short(key)}"
        ) from None


def installed(operation: str, *modules: str) -> None:
    """Raises ImportError with the line to paste where a library is missing; imports none."""
    missing = [_PACKAGES[module] for module in modules if find_spec(module) is None]
    if missing:
        raise missing_library(f"{operation} needs", " and ".join(missing), "image")
