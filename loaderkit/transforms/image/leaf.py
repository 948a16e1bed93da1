"""Where the image is in an element: the element itself, or one value of a dict, a tuple or list, or of fields."""

from collections.abc import Callable, Hashable
from copy import copy
from operator import index
from reprlib import repr as _short
from typing import Any

import numpy as np

from loaderkit._base.structure import children_of, kind_of


def with_leaf(element: Any, key: Hashable | None, change: Callable[[Any], Any]) -> Any:
    """The element with its image changed; its container is copied, and its other leaves are the same objects.

    Args:
        element: the image, or what holds it: a dict, a tuple or list, a named tuple, a dataclass's or attrs instance.
        key: the image's key in the dict; its position in the tuple or list, from 0, or from -1 backwards; the name of
            its field; None where the element is the image. KeyError, IndexError or TypeError for what isn't there.
        change: takes the image, returns the new one.

    >>> with_leaf({"image": 2, "label": 7}, "image", lambda image: image * 10)
    {'image': 20, 'label': 7}
    >>> with_leaf((2, 7), 0, lambda image: image * 10)
    (20, 7)
    """
    if isinstance(element, dict):
        return _with_item(element, key, change)
    cls: Any = type(element)
    kind = kind_of(cls)
    if key is None:
        if kind in ("sequence", "namedtuple", "fields"):
            raise TypeError(
                f"the element is {_described(element)}: say which of them is the image with key=..."
            )
        return change(element)
    match kind:
        case "sequence":
            place = _position(element, key)
            values = [*element]
            values[place] = change(values[place])
            return cls(values)
        case "namedtuple":
            names = element._fields
            place = names.index(key) if key in names else _position(element, key)
            values = [*element]
            values[place] = change(values[place])
            return cls._make(values)
        case "fields":
            return _with_field(element, key, change)
    raise TypeError(
        f"key={key!r}: expected a dict, a tuple, a list or fields that hold the image, {cls.__name__} came; "
        "leave key out where the element is the image itself"
    )


def _with_item(element: dict[Any, Any], key: Hashable | None, change: Callable[[Any], Any]) -> dict[Any, Any]:
    if key is None:
        raise TypeError(f"the element is {_described(element)}: say which of them is the image with key=...")
    if key not in element:
        raise KeyError(f"key={key!r}: the element is {_described(element)}")
    changed = dict(element) if type(element) is dict else copy(element)
    changed[key] = change(element[key])
    return changed


def _with_field(element: Any, key: Hashable, change: Callable[[Any], Any]) -> Any:
    names, _ = children_of(element, "fields")
    if key not in names:
        raise KeyError(f"key={key!r}: the element is {_described(element)}")
    name = str(key)
    changed = copy(element)
    object.__setattr__(changed, name, change(getattr(element, name)))  # it may be frozen
    return changed


def _position(element: Any, key: Hashable) -> int:
    size = len(element)
    if isinstance(key, bool) or not isinstance(key, int | np.integer):
        wrong = KeyError if hasattr(element, "_fields") else TypeError
        raise wrong(f"key={key!r}: the element is {_described(element)}")
    place = index(key)
    if not -size <= place < size:
        raise IndexError(f"key={key}: the element is {_described(element)}")
    return place


def _described(element: Any) -> str:
    """What the element holds, for errors."""
    cls: Any = type(element)
    kind = kind_of(cls)
    names, _ = children_of(element, kind)
    if kind == "sequence":
        held = f"the positions 0 to {len(names) - 1}" if names else "no values"
    else:
        held = f"the {'keys' if kind == 'dict' else 'fields'} {_short([*names])}"
    return f"a {cls.__name__} with {held}"


def pixels_of(image: Any) -> np.ndarray[Any, Any]:
    """The image as it came, if it is an array (height, width) or (height, width, channels)."""
    if isinstance(image, bytes | bytearray | memoryview) or (
        isinstance(image, np.ndarray) and image.ndim == 1
    ):
        raise TypeError(
            f"expected a decoded image, {type(image).__name__} came: put Decode(), DecodeCenterCrop(...) or "
            "DecodeRandomResizedCrop(...) before this operation"
        )
    if not isinstance(image, np.ndarray):
        raise TypeError(f"expected an array (height, width, channels), {type(image).__name__} came")
    if image.ndim not in (2, 3) or 0 in image.shape:
        raise ValueError(
            f"expected an array (height, width) or (height, width, channels) with pixels, shape {image.shape} came"
        )
    return image
