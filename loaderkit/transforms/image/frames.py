"""Frames of decoded images that aren't random: the middle, and a border."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from loaderkit._base.numbers import at_least
from loaderkit.transforms.base import Map

from .arguments import choice, filling, installed, size_pair
from .move import Fill, Move, Pixels, placed_at
from .targets import Targets


@dataclass(frozen=True)
class CenterCrop(Targets, Map):
    """The middle of a decoded image of any dtype, of torchvision's choice; an image that is smaller gets a border of 0.

    Args:
        size: (height, width), or one int for both.
        key: the image's place in an element: a dict's key, a position, the name of a field, or a path of these as a
            tuple; None where the element is the image.
        boxes, masks, keypoints, labels: places of what moves with it, by keyword; see docs/images.md.

    >>> import numpy as np
    >>> CenterCrop(2).map(np.arange(16).reshape(4, 4))
    array([[ 5,  6],
           [ 9, 10]])
    """

    size: int | tuple[int, int]
    key: Hashable = None

    def __post_init__(self) -> None:
        self._check_places()
        size_pair("size", self.size)

    def map(self, element: Any) -> Any:
        """The element with the middle of its image."""
        return self._moved(element, self._middle)

    def _middle(self, pixels: Pixels) -> Move:
        size, before = size_pair("size", self.size), pixels.shape[:2]
        top, left = (
            -((side - length) // 2) if side > length else round((length - side) / 2)
            for side, length in zip(size, before, strict=True)
        )
        return placed_at(before, top, left, size, 0)


@dataclass(frozen=True)
class Pad(Targets, Map):
    """A border around a decoded image of any dtype.

    Args:
        padding: its width in pixels: one int, or (left and right, top and bottom), or (left, top, right, bottom).
        fill: its value, one number for all channels or a tuple with one for each; masks get 0.
        padding_mode: "constant"; "edge" repeats the last pixels; "reflect" mirrors the image without them, "symmetric"
            with them.
        key: the image's place in an element: a dict's key, a position, the name of a field, or a path of these as a
            tuple; None where the element is the image.
        boxes, masks, keypoints, labels: places of what moves with it, by keyword; see docs/images.md.

    >>> import numpy as np
    >>> Pad((1, 0), padding_mode="edge").map(np.array([[1, 2]]))
    array([[1, 1, 2, 2]])
    """

    padding: int | tuple[int, int] | tuple[int, int, int, int]
    fill: Fill = 0
    padding_mode: str = "constant"
    key: Hashable = None

    def __post_init__(self) -> None:
        self._check_places()
        self._sides()
        filling("fill", self.fill)
        choice("padding_mode", self.padding_mode, ("constant", "edge", "reflect", "symmetric"))
        installed("Pad", "cv2")

    def map(self, element: Any) -> Any:
        """The element with a border around its image."""
        return self._moved(element, self._bordered)

    def _sides(self) -> tuple[int, ...]:
        given = self.padding if isinstance(self.padding, tuple | list) else (self.padding,) * 2
        if len(given) not in (2, 4):
            raise ValueError(
                f"padding: expected an int, (left and right, top and bottom) or (left, top, right, bottom), got {given}"
            )
        sides = tuple(at_least("padding", side, 0) for side in given)
        return sides if len(sides) == 4 else sides * 2

    def _bordered(self, pixels: Pixels) -> Move:
        left, top, right, bottom = self._sides()
        height, width = pixels.shape[:2]
        after = (top + height + bottom, left + width + right)
        return placed_at((height, width), -top, -left, after, self.fill, self.padding_mode)
