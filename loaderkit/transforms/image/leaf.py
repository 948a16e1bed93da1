"""Where the image is in an element: the element itself, or one key of a dict."""

from collections.abc import Callable, Hashable
from copy import copy
from reprlib import repr as _short
from typing import Any

import numpy as np


def with_leaf(element: Any, key: Hashable | None, change: Callable[[Any], Any]) -> Any:
    """The element with its image changed; a dict is copied, and its other leaves are the same objects.

    Args:
        element: the image, or a dict that holds it.
        key: the image's key in the dict; None where the element is the image.
        change: takes the image, returns the new one.

    >>> with_leaf({"image": 2, "label": 7}, "image", lambda image: image * 10)
    {'image': 20, 'label': 7}
    """
    if key is None:
        if isinstance(element, dict):
            raise TypeError(
                f"the element is a dict with the keys {_short(list(element))}: "
                "say which of them is the image with key=..."
            )
        return change(element)
    if not isinstance(element, dict):
        raise TypeError(
            f"key={key!r}: expected a dict with this key, {type(element).__name__} came; "
            "leave key out where the element is the image itself"
        )
    if key not in element:
        raise KeyError(f"key={key!r}: the element has the keys {_short(list(element))}")
    changed = dict(element) if type(element) is dict else copy(element)
    changed[key] = change(element[key])
    return changed


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
