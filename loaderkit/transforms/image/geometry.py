"""Geometry of decoded images: resizing, crops of a padded image, mirroring."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from loaderkit._base.hints import refusing_foreign_arguments
from loaderkit._base.numbers import at_least
from loaderkit.transforms.base import Map, RandomMap

from .arguments import choice, finite, installed, leaf_key, size_pair
from .leaf import pixels_of, with_leaf
from .resample import INTERPOLATIONS, resized

Image = np.ndarray[Any, Any]  # (height, width) or (height, width, channels)
# Dtypes that OpenCV mirrors; numpy mirrors the others, with the same result.
_MIRRORED_BY_OPENCV = frozenset("BbHhifd")


@dataclass(frozen=True)
class Resize(Map):
    """Resizes a decoded image; the dtype stays.

    Args:
        size: (height, width); or one int for the shorter side, and the other side keeps the aspect ratio.
        interpolation: "linear", which takes means of areas where the result has a quarter of the pixels or less;
            "area", which takes means wherever it shrinks (antialiased); "cubic"; "nearest", for masks.
        key: the image's place in an element: a dict's key, a position in a tuple or list, or the name of a field; None
            where the element is the image.

    >>> Resize(10).map(np.zeros((20, 40, 3), np.uint8)).shape
    (10, 20, 3)
    """

    size: int | tuple[int, int]
    interpolation: str = "linear"
    key: Hashable = None

    def __post_init__(self) -> None:
        leaf_key(self.key)
        size_pair("size", self.size)
        choice("interpolation", self.interpolation, INTERPOLATIONS)
        installed("Resize", "cv2")

    def map(self, element: Any) -> Any:
        """The element with its image resized."""
        return with_leaf(element, self.key, self._resized)

    def _resized(self, image: Any) -> Image:
        pixels = pixels_of(image)
        if isinstance(self.size, tuple | list):
            size = size_pair("size", self.size)
        else:
            height, width = pixels.shape[:2]
            shorter = min(height, width)
            size = (max(1, round(height * self.size / shorter)), max(1, round(width * self.size / shorter)))
        return resized(pixels, size, self.interpolation)


@dataclass(frozen=True, kw_only=True)
class RandomCrop(RandomMap):
    """A random part of a decoded image of any dtype, with a border around it. Its arguments are given by keyword.

    Args:
        padding: width of the border on each side, in pixels, 0 or more.
        size: of the part, one int for both sides or (height, width); None for the image's own size.
        fill: value of the border, one number for all channels.
        key: the image's place in an element: a dict's key, a position in a tuple or list, or the name of a field; None
            where the element is the image.

    >>> rng = np.random.Generator(np.random.Philox(key=1))
    >>> RandomCrop(padding=4).random_map(np.ones((32, 32, 3), np.uint8), rng).shape
    (32, 32, 3)
    """

    padding: int = 0
    size: int | tuple[int, int] | None = None
    fill: float = 0
    key: Hashable = None

    def __post_init__(self) -> None:
        leaf_key(self.key)
        at_least("padding", self.padding, 0)
        finite("fill", self.fill)
        if self.size is not None:
            size_pair("size", self.size)

    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        """The element with a random part of its image."""
        return with_leaf(element, self.key, lambda image: self._cropped(pixels_of(image), rng))

    def _cropped(self, pixels: Image, rng: np.random.Generator) -> Image:
        height, width = pixels.shape[:2]
        tall, wide = (height, width) if self.size is None else size_pair("size", self.size)
        room = (height + 2 * self.padding - tall, width + 2 * self.padding - wide)
        if min(room) < 0:
            raise ValueError(
                f"size: expected at most the image of ({height}, {width}) with padding={self.padding}, "
                f"got ({tall}, {wide}); use a larger padding, or Resize before"
            )
        # The part's corner relative to the image without the border, so it may be negative.
        top = int(rng.integers(0, room[0] + 1)) - self.padding
        left = int(rng.integers(0, room[1] + 1)) - self.padding
        rows = slice(max(top, 0), max(min(top + tall, height), 0))
        columns = slice(max(left, 0), max(min(left + wide, width), 0))
        seen = pixels[rows, columns]
        if seen.shape[:2] == (tall, wide):
            return np.ascontiguousarray(seen)
        out = np.full((tall, wide, *pixels.shape[2:]), self.fill, pixels.dtype)
        if seen.size:
            down, right = rows.start - top, columns.start - left
            out[down : down + seen.shape[0], right : right + seen.shape[1]] = seen
        return out


# torchvision's and Keras' first argument is the size.
RandomCrop.__init__ = refusing_foreign_arguments(RandomCrop.__init__)  # type: ignore[method-assign]


@dataclass(frozen=True)
class RandomFlip(RandomMap):
    """Mirrors a decoded image of any dtype at random; an image that isn't mirrored is returned itself.

    Args:
        probability: of mirroring, from 0 to 1.
        axis: "horizontal" swaps left and right, "vertical" top and bottom.
        key: the image's place in an element: a dict's key, a position in a tuple or list, or the name of a field; None
            where the element is the image.

    >>> rng = np.random.Generator(np.random.Philox(key=1))
    >>> RandomFlip(probability=1).random_map(np.array([[1, 2, 3]], np.uint8), rng)
    array([[3, 2, 1]], dtype=uint8)
    """

    probability: float = 0.5
    axis: str = "horizontal"
    key: Hashable = None

    def __post_init__(self) -> None:
        leaf_key(self.key)
        if not 0 <= finite("probability", self.probability) <= 1:
            raise ValueError(f"probability: expected 0 <= probability <= 1, got {self.probability}")
        choice("axis", self.axis, ("horizontal", "vertical"))
        installed("RandomFlip", "cv2")

    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        """The element with its image mirrored or not."""
        return with_leaf(element, self.key, lambda image: self._flipped(pixels_of(image), rng))

    def _flipped(self, pixels: Image, rng: np.random.Generator) -> Image:
        if rng.random() >= self.probability:
            return pixels
        if self.axis == "vertical":
            return np.ascontiguousarray(pixels[::-1])
        known = pixels.dtype.isnative and pixels.dtype.char in _MIRRORED_BY_OPENCV
        if not known or pixels.shape[2:] > (4,):
            return np.ascontiguousarray(pixels[:, ::-1])
        import cv2

        # 30 times as fast as numpy's copy of a mirrored view.
        flipped: Image = cv2.flip(pixels, 1)
        return flipped.reshape(pixels.shape)
