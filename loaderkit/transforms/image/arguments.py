"""The checks that the image operations share: sizes, intervals, choices, keys and libraries."""

from collections.abc import Collection
from importlib.util import find_spec
from reprlib import repr as _short
from typing import Any

import numpy as np

# What is imported, and what `pip install` calls it.
_PACKAGES = {"cv2": "opencv-python-headless", "simplejpeg": "simplejpeg"}


def whole(name: str, value: Any, least: int) -> int:
    """`value` as an int of at least `least`; TypeError and ValueError name the argument.

    >>> whole("padding", np.int64(4), 0)
    4
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name}: expected an int, {_short(value)} came")
    if value < least:
        raise ValueError(f"{name}: expected at least {least}, {value} came")
    return int(value)


def size_pair(name: str, size: Any) -> tuple[int, int]:
    """(height, width) of one int for both, or of a pair.

    >>> size_pair("size", 224), size_pair("size", (192, 256))
    ((224, 224), (192, 256))
    """
    if not isinstance(size, tuple | list):
        return whole(name, size, 1), whole(name, size, 1)
    if len(size) != 2:
        raise ValueError(f"{name}: expected one int or (height, width), {_short(size)} came")
    return whole(name, size[0], 1), whole(name, size[1], 1)


def number(name: str, value: Any) -> float:
    """`value` as a finite float."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{name}: expected a number, {_short(value)} came")
    if not np.isfinite(value):
        raise ValueError(f"{name}: expected a finite number, {value} came")
    return float(value)


def interval(name: str, pair: Any, *, most: float) -> tuple[float, float]:
    """(low, high) with 0 < low <= high <= most.

    >>> interval("scale", (0.5, 2.0), most=1.0)
    Traceback (most recent call last):
    ValueError: scale: expected (low, high) with 0 < low <= high <= 1, (0.5, 2.0) came
    """
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise TypeError(f"{name}: expected a pair (low, high), {_short(pair)} came")
    low, high = number(name, pair[0]), number(name, pair[1])
    if not 0 < low <= high <= most:
        top = f" <= {most:g}" if np.isfinite(most) else ""
        raise ValueError(f"{name}: expected (low, high) with 0 < low <= high{top}, {_short(pair)} came")
    return low, high


def choice(name: str, value: Any, known: Collection[str]) -> None:
    """Raises ValueError unless `value` is one of the known words."""
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{name}: expected one of {sorted(known)}, {_short(value)} came")


def boolean(name: str, value: Any) -> None:
    """Raises TypeError unless `value` is True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name}: expected True or False, {_short(value)} came")


def leaf_key(key: Any) -> None:
    """Raises TypeError for what can't be a key: a list, a slice."""
    try:
        hash(key)
    except TypeError:
        raise TypeError(
            f"key: expected a dict's key, a position or the name of a field, {_short(key)} came"
        ) from None


def installed(operation: str, *modules: str) -> None:
    """Raises ImportError with the line to paste where a library is missing, without importing any."""
    missing = [_PACKAGES[module] for module in modules if find_spec(module) is None]
    if missing:
        raise ImportError(
            f"{operation} needs {' and '.join(missing)}: pip install {' '.join(missing)}, "
            "or install loaderkit with the extra [image]"
        )
