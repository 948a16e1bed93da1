"""Checks of arguments that the image operations share: sizes, intervals, choices and libraries."""

import math
from collections.abc import Collection
from importlib.util import find_spec
from reprlib import repr as _short
from typing import Any

from loaderkit._base.extras import missing_library
from loaderkit._base.numbers import at_least, number

# Module name: the name of its package.
_PACKAGES = {"cv2": "opencv-python-headless", "simplejpeg": "simplejpeg"}
_SPELLINGS = {"bilinear": "linear", "bicubic": "cubic", "box": "area"}  # of torchvision and Pillow


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


def share(name: str, value: Any) -> float:
    """`value` as a float from 0 to 1; TypeError and ValueError name the argument.

    >>> share("p", 2)
    Traceback (most recent call last):
    ValueError: p: expected 0 <= p <= 1, got 2
    """
    if not 0 <= (checked := finite(name, value)) <= 1:
        raise ValueError(f"{name}: expected 0 <= {name} <= 1, got {value}")
    return checked


def pair(name: str, value: Any) -> tuple[float, float]:
    """Two finite floats from a tuple or list; TypeError and ValueError name the argument.

    >>> pair("center", (1, 2))
    (1.0, 2.0)
    """
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise TypeError(f"{name}: expected a pair of numbers, got {_short(value)}")
    return finite(name, value[0]), finite(name, value[1])


def spread(name: str, value: Any, *, around: float = 0.0, least: float = -math.inf) -> tuple[float, float]:
    """(low, high) from such a pair, or from one number for `around` less and more than it; not below `least`.

    >>> spread("degrees", 30), spread("brightness", 1.5, around=1, least=0), spread("hue", (0, 0.1))
    ((-30.0, 30.0), (0.0, 2.5), (0.0, 0.1))
    """
    if not isinstance(value, tuple | list):
        wide = number(name, value)
        low, high = max(around - wide, float(least)), around + wide
    else:
        low, high = pair(name, value)
    if not least <= low <= high < math.inf:
        raise ValueError(
            f"{name}: expected 0 or more, or (low, high) with {least:g} <= low <= high, got {_short(value)}"
        )
    return low, high


def filling(name: str, value: Any) -> None:
    """Raises TypeError unless `value` is a finite number or a tuple of some, one for each channel."""
    for one in value if isinstance(value, tuple) else (value,):
        finite(name, one)


def interval(name: str, given: Any, *, most: float) -> tuple[float, float]:
    """(low, high) with 0 < low <= high <= most; TypeError and ValueError name the argument.

    >>> interval("scale", (0.5, 2.0), most=1.0)
    Traceback (most recent call last):
    ValueError: scale: expected (low, high) with 0 < low <= high <= 1, got (0.5, 2.0)
    """
    low, high = pair(name, given)
    if not 0 < low <= high <= most:
        top = f" <= {most:g}" if math.isfinite(most) else ""
        raise ValueError(f"{name}: expected (low, high) with 0 < low <= high{top}, got {_short(given)}")
    return low, high


def choice(name: str, value: Any, known: Collection[str]) -> None:
    """Raises ValueError unless `value` is one of `known`."""
    if not isinstance(value, str) or value not in known:
        ours = _SPELLINGS.get(str(getattr(value, "value", value)))
        instead = f"; write {ours!r}" if ours in known else ""
        raise ValueError(f"{name}: expected one of {sorted(known)}, got {_short(value)}{instead}")


def installed(operation: str, *modules: str) -> None:
    """Raises ImportError with the line to paste where a library is missing; imports none."""
    missing = [_PACKAGES[module] for module in modules if find_spec(module) is None]
    if missing:
        raise missing_library(f"{operation} needs", " and ".join(missing), "image")
