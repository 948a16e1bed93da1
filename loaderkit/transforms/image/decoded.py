"""Whether an image is a decoded one, and its pixels as OpenCV takes them."""

from typing import Any

import numpy as np


def pixels_of(image: Any) -> np.ndarray[Any, Any]:
    """The image itself if it is an array (height, width) or (height, width, channels), else TypeError or ValueError."""
    if isinstance(image, bytes | bytearray | memoryview) or (
        isinstance(image, np.ndarray) and image.ndim == 1
    ):
        raise TypeError(
            f"expected a decoded image, got {type(image).__name__}; put Decode(), DecodeCenterCrop(...) or "
            "DecodeRandomResizedCrop(...) before this operation"
        )
    if not isinstance(image, np.ndarray):
        instead = (
            "; write lk.Map(np.asarray) before" if type(image).__module__.partition(".")[0] == "PIL" else ""
        )
        raise TypeError(f"expected an array (height, width, channels), got {type(image).__name__}{instead}")
    if image.ndim not in (2, 3) or 0 in image.shape:
        batch = "; for a batch write the operation before lk.Batch" if image.ndim == 4 else ""
        raise ValueError(
            "expected an array (height, width) or (height, width, channels) with pixels, got shape "
            f"{image.shape}{batch}"
        )
    return image


def native(pixels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The pixels in this machine's order of bytes, in which OpenCV reads any; themselves where they are.

    >>> native(np.array([[1]], ">u2")).dtype.isnative
    True
    """
    return pixels if pixels.dtype.isnative else pixels.astype(pixels.dtype.newbyteorder("="))
