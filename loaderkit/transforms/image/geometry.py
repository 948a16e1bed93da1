"""Geometry of decoded images: resizing, crops, borders, mirroring."""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from loaderkit._base.hints import refusing_foreign_arguments
from loaderkit._base.numbers import at_least

from .arguments import choice, filling, finite, share, size_pair
from .move import Fill, Move, Size, mirrored, placed_at, scaled, unmoved
from .region import Region
from .resample import INTERPOLATIONS
from .targets import Moves, RandomMoves


@dataclass(frozen=True)
class Resize(Moves):
    """Resizes a decoded image; the dtype stays.

    Args:
        size: (height, width); or one int for the shorter side, and the other side keeps the aspect ratio.
        interpolation: "linear", which takes means of areas where the result has a quarter of the pixels or less;
            "area", which takes means wherever it shrinks (antialiased); "cubic"; "nearest", for masks.
        key: the image's place in an element: a dict's key, a position, the name of a field, or a path of these as a
            tuple; None where the element is the image.
        boxes, masks, keypoints, labels: places of what moves with it, by keyword; see docs/images.md.

    >>> Resize(10).map(np.zeros((20, 40, 3), np.uint8)).shape
    (10, 20, 3)
    """

    size: int | tuple[int, int]
    interpolation: str = "linear"
    key: Hashable = None

    def _check(self) -> None:
        size_pair("size", self.size)
        choice("interpolation", self.interpolation, INTERPOLATIONS)

    def _move(self, before: Size) -> Move:
        height, width = before
        if isinstance(self.size, tuple | list):
            size = size_pair("size", self.size)
        else:
            shorter = min(height, width)
            size = (max(1, round(height * self.size / shorter)), max(1, round(width * self.size / shorter)))
        return scaled(before, size, self.interpolation, Region(0, 0, height, width))


@dataclass(frozen=True)
class CenterCrop(Moves):
    """The middle of a decoded image of any dtype, of torchvision's choice; an image that is smaller gets a border of 0.

    Args:
        size: (height, width), or one int for both.
        key: the image's place in an element: a dict's key, a position, the name of a field, or a path of these as a
            tuple; None where the element is the image.
        boxes, masks, keypoints, labels: places of what moves with it, by keyword; see docs/images.md.

    >>> CenterCrop(2).map(np.arange(16).reshape(4, 4))
    array([[ 5,  6],
           [ 9, 10]])
    """

    size: int | tuple[int, int]
    key: Hashable = None
    _libraries = ()

    def _check(self) -> None:
        size_pair("size", self.size)

    def _move(self, before: Size) -> Move:
        size = size_pair("size", self.size)
        top, left = map(_middle, size, before)
        return placed_at(before, top, left, size, 0, "constant")


def _middle(side: int, length: int) -> int:
    return -((side - length) // 2) if side > length else round((length - side) / 2)


@dataclass(frozen=True)
class Pad(Moves):
    """A border around a decoded image of any dtype.

    Args:
        padding: its width in pixels: one int, or (left and right, top and bottom), or (left, top, right, bottom).
        fill: its value, one number for all channels or a tuple with one for each; masks get 0.
        padding_mode: "constant"; "edge" repeats the last pixels; "reflect" mirrors the image without them, "symmetric"
            with them.
        key: the image's place in an element: a dict's key, a position, the name of a field, or a path of these as a
            tuple; None where the element is the image.
        boxes, masks, keypoints, labels: places of what moves with it, by keyword; see docs/images.md.

    >>> Pad((1, 0), padding_mode="edge").map(np.array([[1, 2]]))
    array([[1, 1, 2, 2]])
    """

    padding: int | tuple[int, int] | tuple[int, int, int, int]
    fill: Fill = 0
    padding_mode: str = "constant"
    key: Hashable = None

    def _check(self) -> None:
        for side in self._sides():
            at_least("padding", side, 0)
        filling("fill", self.fill)
        choice("padding_mode", self.padding_mode, ("constant", "edge", "reflect", "symmetric"))

    def _sides(self) -> tuple[int, ...]:
        given = self.padding if isinstance(self.padding, tuple | list) else (self.padding,) * 2
        if len(given) not in (2, 4):
            raise ValueError(f"padding: expected an int, or 2 or 4 for the sides, got {given}")
        return tuple(given) if len(given) == 4 else (*given, *given)

    def _move(self, before: Size) -> Move:
        left, top, right, bottom = self._sides()
        after = (top + before[0] + bottom, left + before[1] + right)
        return placed_at(before, -top, -left, after, self.fill, self.padding_mode)


@refusing_foreign_arguments  # torchvision's and Keras' first argument is the size
@dataclass(frozen=True, kw_only=True)
class RandomCrop(RandomMoves):
    """A random part of a decoded image of any dtype, with a border around it. Its arguments are given by keyword.

    Args:
        padding: width of the border on each side, in pixels, 0 or more.
        size: of the part, one int for both sides or (height, width); None for the image's own size.
        fill: value of the border, one number for all channels.
        key: the image's place in an element: a dict's key, a position, the name of a field, or a path of these as a
            tuple; None where the element is the image.
        boxes, masks, keypoints, labels: places of what moves with it, by keyword; see docs/images.md.

    >>> rng = np.random.Generator(np.random.Philox(key=1))
    >>> RandomCrop(padding=4).random_map(np.ones((32, 32, 3), np.uint8), rng).shape
    (32, 32, 3)
    """

    padding: int = 0
    size: int | tuple[int, int] | None = None
    fill: float = 0
    key: Hashable = None
    _libraries = ()

    def _check(self) -> None:
        at_least("padding", self.padding, 0)
        finite("fill", self.fill)
        if self.size is not None:
            size_pair("size", self.size)

    def _move(self, before: Size, rng: np.random.Generator) -> Move:
        height, width = before
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
        return placed_at(before, top, left, (tall, wide), self.fill, "constant")


@refusing_foreign_arguments
@dataclass(frozen=True)
class RandomFlip(RandomMoves):
    """Mirrors a decoded image of any dtype at random; an image that isn't mirrored is returned itself.

    Args:
        probability: of mirroring, from 0 to 1.
        axis: "horizontal" swaps left and right, "vertical" top and bottom.
        key: the image's place in an element: a dict's key, a position, the name of a field, or a path of these as a
            tuple; None where the element is the image.
        boxes, masks, keypoints, labels: places of what moves with it, by keyword; see docs/images.md.

    >>> rng = np.random.Generator(np.random.Philox(key=1))
    >>> RandomFlip(probability=1).random_map(np.array([[1, 2, 3]], np.uint8), rng)
    array([[3, 2, 1]], dtype=uint8)
    """

    probability: float = 0.5
    axis: str = "horizontal"
    key: Hashable = None

    def _check(self) -> None:
        share("probability", self.probability)
        choice("axis", self.axis, ("horizontal", "vertical"))

    def _move(self, before: Size, rng: np.random.Generator) -> Move:
        return mirrored(before, self.axis) if rng.random() < self.probability else unmoved(before)
