"""Resizing of pixels by OpenCV, with interpolations by name."""

from typing import Any

import numpy as np

from .decoded import native

# OpenCV's interpolations by name; "linear" uses "area" for strong reductions, see `resized`.
INTERPOLATIONS = ("linear", "area", "cubic", "nearest")


def resized(pixels: np.ndarray[Any, Any], size: tuple[int, int], interpolation: str) -> np.ndarray[Any, Any]:
    """The pixels (height, width) or (height, width, channels) resized and C-contiguous; unchanged at the same size.

    Args:
        pixels: of a dtype that OpenCV resizes: uint8, uint16, int16, float32, float64; TypeError for others.
        size: (height, width).
        interpolation: "area" takes means of areas where it shrinks, and is linear where it enlarges. "linear" uses the
            two nearest pixels of each axis, which is several times as fast; where the result has a quarter of the
            pixels or less it would skip many, so there it is "area". "cubic". "nearest".

    >>> resized(np.array([[0, 10], [20, 30]], np.uint8), (1, 1), "linear")
    array([[15]], dtype=uint8)
    """
    import cv2

    height, width = pixels.shape[:2]
    if (height, width) == size:
        return np.ascontiguousarray(pixels)
    if interpolation == "linear" and height * width >= 4 * size[0] * size[1]:
        interpolation = "area"
    ways = {
        "linear": cv2.INTER_LINEAR,
        "area": cv2.INTER_AREA,
        "cubic": cv2.INTER_CUBIC,
        "nearest": cv2.INTER_NEAREST,
    }
    try:
        out: np.ndarray[Any, Any] = cv2.resize(
            native(pixels), (size[1], size[0]), interpolation=ways[interpolation]
        )
    except cv2.error as error:
        raise TypeError(f"OpenCV can't resize {pixels.dtype} of shape {pixels.shape}: {error}") from None
    # OpenCV drops a last axis of length 1.
    return out.reshape(*size, *pixels.shape[2:])


def averaged(pixels: np.ndarray[Any, Any], by: int) -> np.ndarray[Any, Any]:
    """Means of squares of `by` x `by` pixels; both sides must be multiples of `by`.

    >>> averaged(np.array([[0, 10], [20, 30]], np.uint8), 2)
    array([[15]], dtype=uint8)
    """
    height, width = pixels.shape[:2]
    return resized(pixels, (height // by, width // by), "area")
