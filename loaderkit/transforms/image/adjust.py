"""Functions of an image's colours by torchvision's formulas, for uint8 in one pass of OpenCV.

An image has 1 or 3 colours, and may have an alpha behind them, which isn't changed. Integers go from 0 to their dtype's
largest value, floats from 0 to 1; what would be outside is clipped. torchvision rounds integers down, and so do these.
Results in uint8 are torchvision's within one level, those of `hue` within a few, as those of its PIL backend.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from .move import Pixels

_GRAY = np.array([0.2989, 0.587, 0.114], np.float32)
_DOWN = 0.499  # OpenCV rounds to the nearest


def largest(dtype: np.dtype[Any]) -> int:
    """The value that is 1.0: 255 for uint8; 1 for floats, which keep their values."""
    if dtype.kind == "f":
        return 1
    if dtype.kind not in "ui":
        raise TypeError(f"expected an image of integers or floats, got {dtype}")
    return int(np.iinfo(dtype).max)


def colours(image: Pixels) -> int:
    """The number of colours of an image, 1 or 3: channels but the alpha. ValueError for more than 4 channels."""
    channels = image.shape[2] if image.ndim == 3 else 1
    if channels > 4:
        raise ValueError(f"expected an image of 1 to 4 channels, got shape {image.shape}")
    return 1 if channels < 3 else 3


def _blend(image: Pixels, factor: float, *, gray: float = 0.0, shift: float = 0.0) -> Pixels:
    """Each colour times a factor, plus a share of its pixel's gray, plus a shift."""
    import cv2

    count, channels = colours(image), image.shape[2] if image.ndim == 3 else 1
    if image.dtype == np.uint8:
        matrix = np.eye(channels, channels + 1, dtype=np.float32)
        matrix[:count, :count] = np.eye(count) * factor + (gray * _GRAY if count == 3 else 0)
        matrix[:count, channels] = shift - _DOWN
        return np.reshape(cv2.transform(np.ascontiguousarray(image), matrix), image.shape)
    top, kind = largest(image.dtype), np.result_type(image.dtype, np.float32)
    out = image.astype(kind, order="C")  # in the order of the channels, or their view below were a copy
    parts = out.reshape(-1, channels)[:, :count]  # a view, which leaves out the alpha
    grays = (parts @ _GRAY.astype(kind))[:, None] * kind.type(gray) if gray else 0
    np.clip(parts * kind.type(factor) + grays + kind.type(shift), 0, top, out=parts)
    return out.astype(image.dtype)


def brightness(image: Pixels, factor: float) -> Pixels:
    """Black for 0, the image for 1."""
    return _blend(image, factor)


def contrast(image: Pixels, factor: float) -> Pixels:
    """The mean gray for 0, the image for 1. ValueError for an image of floats with NaN or infinite values."""
    import cv2

    count = colours(image)
    seen = image if image.ndim == 2 else image[..., :count]
    means = seen.mean(axis=(0, 1), dtype=np.float64) if image.dtype != np.uint8 else cv2.mean(image)[:count]
    mean = float(_GRAY @ means) if count == 3 else float(np.ravel(means)[0])
    if not np.isfinite(mean):
        raise ValueError("expected an image of finite numbers, got NaN or infinite ones, which have no mean")
    if count == 3 and image.dtype.kind in "ui":
        mean -= 0.5  # the mean of grays that are rounded down
    return _blend(image, factor, shift=(1 - factor) * mean)


def saturation(image: Pixels, factor: float) -> Pixels:
    """Gray for 0, the image for 1; an image of one colour is returned itself."""
    if colours(image) == 1:
        return image
    return _blend(image, factor, gray=1 - factor)


def hue(image: Pixels, factor: float) -> Pixels:
    """The colours turned by -0.5 to 0.5 of the circle; an image of one colour is returned itself."""
    import cv2

    if colours(image) == 1:
        return image
    parts = np.ascontiguousarray(image[..., :3])
    if image.dtype == np.uint8:
        turned = cv2.cvtColor(parts, cv2.COLOR_RGB2HSV_FULL)
        turned[..., 0] += np.uint8(round(factor * 256) % 256)  # a full circle has 256 steps
        made = cv2.cvtColor(turned, cv2.COLOR_HSV2RGB_FULL)
    else:
        top = np.float32(largest(image.dtype))
        turned = cv2.cvtColor(parts.astype(np.float32) / top, cv2.COLOR_RGB2HSV)
        turned[..., 0] = (turned[..., 0] + np.float32(factor * 360)) % np.float32(360)
        made = cv2.cvtColor(turned, cv2.COLOR_HSV2RGB) * top
        made = (np.rint(made) if top > 1 else made).astype(image.dtype)
    return made if image.shape[2] == 3 else np.concatenate([made, image[..., 3:]], axis=2)


def grayscale(image: Pixels) -> Pixels:
    """The gray of each pixel in each of its colours; an image of one colour is returned itself."""
    import cv2

    if image.dtype == np.uint8 and image.shape[2:] == (3,):
        # Half the time of a blend, and rounded to the nearest.
        gray = cv2.cvtColor(np.ascontiguousarray(image), cv2.COLOR_RGB2GRAY)
        made: Pixels = cv2.cvtColor(gray, cv2.COLOR_GRAY2RGB)
        return made
    return image if colours(image) == 1 else _blend(image, 0.0, gray=1.0)


def sharpness(image: Pixels, factor: float) -> Pixels:
    """Blurred for 0, the image for 1; the outermost pixels stay, and so does an image with a side of 2 or less."""
    import cv2

    if min(image.shape[:2]) <= 2:
        return image
    kernel = np.full((3, 3), 1 / 13, np.float32)
    kernel[1, 1] = 5 / 13
    out = image.copy()
    inner = np.ascontiguousarray(image[1:-1, 1:-1])
    blurred = cv2.filter2D(np.ascontiguousarray(image), -1, kernel).reshape(image.shape)[1:-1, 1:-1]
    made = cv2.addWeighted(inner, factor, np.ascontiguousarray(blurred), 1 - factor, -_DOWN)
    out[1:-1, 1:-1] = made.reshape(inner.shape)
    return out


def of_colours(image: Pixels, change: Callable[[Pixels], Pixels]) -> Pixels:
    """The image with its colours changed; its alpha, if it has one, stays."""
    if image.ndim == 2 or (count := colours(image)) == image.shape[2]:
        return change(image)
    made = np.reshape(change(np.ascontiguousarray(image[..., :count])), (*image.shape[:2], count))
    return np.concatenate([made, image[..., count:]], axis=2)


def posterize(image: Pixels, bits: int) -> Pixels:
    """The highest bits of uint8."""
    return image & np.uint8(0xFF << 8 - bits & 0xFF)


def solarize(image: Pixels, threshold: float) -> Pixels:
    """uint8 from a threshold on inverted."""
    return by_table(image, np.where(threshold <= _LEVELS, 255 - _LEVELS, _LEVELS)[:, None])


def autocontrast(image: Pixels) -> Pixels:
    """Each channel of uint8 stretched to 0 to 255, unless it has one value only."""
    flat = image.reshape(image.shape[0] * image.shape[1], -1)
    low, high = flat.min(axis=0).astype(np.float32), flat.max(axis=0).astype(np.float32)
    unit = np.where(high > low, (high - low) * np.float32(1 / 255), 1).astype(np.float32)
    table = np.clip((_LEVELS[:, None] - np.where(high > low, low, 0).astype(np.float32)) / unit, 0, 255)
    return by_table(image, table)


def equalize(image: Pixels) -> Pixels:
    """Each channel of uint8 with a flat histogram, by PIL's rule."""
    import cv2

    parts = image.reshape(*image.shape[:2], -1)
    tables = []
    for channel in range(parts.shape[2]):
        counts = cv2.calcHist([np.ascontiguousarray(parts[..., channel])], [0], None, [256], [0, 256])
        hist = counts.ravel().astype(np.int64)
        step = (hist.sum() - hist[np.flatnonzero(hist)[-1]]) // 255
        below = np.append(0, hist.cumsum()[:-1])
        tables.append(np.minimum((below + step // 2) // step, 255) if step else _LEVELS)
    return by_table(image, np.stack(tables, axis=1))


def by_table(image: Pixels, table: Pixels) -> Pixels:
    """Each level of uint8 replaced as a table (256, 1 or channels) says, rounded down."""
    import cv2

    channels = image.shape[2] if image.ndim == 3 else 1
    given = table.astype(np.uint8)[None] if table.shape[1] == channels else table.astype(np.uint8).ravel()
    out: Pixels = cv2.LUT(np.ascontiguousarray(image), given)
    return out.reshape(image.shape)


_LEVELS = np.arange(256)
