"""Rotation, affine and perspective maps of decoded images, drawn by torchvision's rules."""

from collections.abc import Hashable
from dataclasses import dataclass
from math import ceil, cos, floor, radians, sin, tan
from typing import Any

import numpy as np

from loaderkit._base.numbers import true_or_false

from .arguments import choice, filling, interval, pair, share, spread
from .move import WARPS, Fill, Move, Pixels, Size, unmoved, warped
from .targets import OfImage, RandomMoves

Pair = tuple[float, float]
Range = float | Pair


def uniform(rng: np.random.Generator, low: float, high: float) -> float:
    """A number from low to high.

    >>> uniform(np.random.default_rng(0), 2.0, 2.0)
    2.0
    """
    return low + (high - low) * rng.random()


def affine(center: Pair, angle: float, translate: Pair, scale: float, shear: Pair) -> Pixels:
    """The matrix (3, 3) of torchvision's `affine`: a shear, a scaling and a turn about the center, then a translation.

    center: (x, y) in pixels from the upper left corner. angle, shear: in degrees, clockwise. translate: (x, y).

    >>> affine((2, 2), 90, (0, 0), 1, (0, 0)).round(9).tolist()
    [[0.0, -1.0, 4.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    turn, x, y = radians(angle), radians(shear[0]), radians(shear[1])
    a, c = cos(turn - y) / cos(y), sin(turn - y) / cos(y)
    inner = np.array([[a, -(a * tan(x) + sin(turn))], [c, cos(turn) - c * tan(x)]]) * scale
    matrix = np.eye(3)
    matrix[:2, :2] = inner
    matrix[:2, 2] = np.add(center, translate) - inner @ np.array(center)
    return matrix


class Warp(OfImage):
    """What the warps share."""

    interpolation: str
    fill: Fill

    def _check(self) -> None:
        choice("interpolation", self.interpolation, WARPS)
        filling("fill", self.fill)


def _center(center: Any, before: tuple[int, int]) -> tuple[float, float]:
    return (before[1] / 2, before[0] / 2) if center is None else pair("center", center)


@dataclass(frozen=True)
class RandomRotate(Warp, RandomMoves):
    """Turns a decoded image by a random angle: torchvision's `RandomRotation`.

    Args:
        degrees: (least, most), counter-clockwise; one number d for (-d, d).
        interpolation: "nearest", "linear" or "cubic"; masks are always moved by "nearest".
        expand: True makes the result large enough for the whole turned image.
        center: (x, y) in pixels from the upper left corner; None for the middle.
        fill: value of what comes from outside, one number for all channels or a tuple with one for each; masks get 0.
        key: the image's place in an element: a dict's key, a position, the name of a field, or a path of these as a
            tuple; None where the element is the image.
        boxes, masks, keypoints, labels: places of what moves with it, by keyword; see docs/images.md.

    >>> rng = np.random.Generator(np.random.Philox(key=1))
    >>> RandomRotate((90, 90)).random_map(np.array([[1, 2], [3, 4]], np.uint8), rng)
    array([[2, 4],
           [1, 3]], dtype=uint8)
    """

    degrees: Range
    interpolation: str = "nearest"
    expand: bool = False
    center: tuple[float, float] | None = None
    fill: Fill = 0
    key: Hashable = None

    def _check(self) -> None:
        super()._check()
        spread("degrees", self.degrees)
        true_or_false("expand", self.expand)
        _center(self.center, (1, 1))

    def _move(self, before: Size, rng: np.random.Generator) -> Move:
        angle = uniform(rng, *spread("degrees", self.degrees))
        matrix = affine(_center(self.center, before), -angle, (0, 0), 1.0, (0, 0))
        after = before
        if self.expand:
            (height, width), turn = before, radians(angle)
            tall = abs(width * sin(turn)) + abs(height * cos(turn))
            wide = abs(width * cos(turn)) + abs(height * sin(turn))
            after = (_whole(height, tall), _whole(width, wide))
            matrix[:2, 2] += (after[1] - width) / 2, (after[0] - height) / 2
        return warped(before, matrix, after, self.interpolation, self.fill)


def _whole(length: int, needed: float) -> int:
    # As torchvision rounds, from the places of the edges to 4 digits.
    high, low = (int(round((length + side * needed) / 2 * 1e4, 3)) / 1e4 for side in (1, -1))
    return ceil(high) - floor(low)


@dataclass(frozen=True)
class RandomAffine(Warp, RandomMoves):
    """Turns, moves, scales and shears a decoded image at random, in one interpolation.

    Args:
        degrees: of the turn, (least, most), clockwise; one number d for (-d, d).
        translate: largest shifts as shares of (width, height), from 0 to 1; None for no shift.
        scale: (least, most); None for 1.
        shear: (least, most) in degrees along x, one number s for (-s, s), or (x least, x most, y least, y most); None
            for none.
        interpolation: "nearest", "linear" or "cubic"; masks are always moved by "nearest".
        fill: value of what comes from outside, one number for all channels or a tuple with one for each; masks get 0.
        center: (x, y) in pixels from the upper left corner; None for the middle.
        key: the image's place in an element: a dict's key, a position, the name of a field, or a path of these as a
            tuple; None where the element is the image.
        boxes, masks, keypoints, labels: places of what moves with it, by keyword; see docs/images.md.

    >>> rng = np.random.Generator(np.random.Philox(key=1))
    >>> RandomAffine(0, scale=(2, 2)).random_map(np.array([[1, 2], [3, 4]], np.uint8), rng)
    array([[1, 2],
           [3, 4]], dtype=uint8)
    """

    degrees: Range
    translate: tuple[float, float] | None = None
    scale: tuple[float, float] | None = None
    shear: float | tuple[float, ...] | None = None
    interpolation: str = "nearest"
    fill: Fill = 0
    center: tuple[float, float] | None = None
    key: Hashable = None

    def _check(self) -> None:
        super()._check()
        spread("degrees", self.degrees)
        if self.translate is not None:
            for each in pair("translate", self.translate):
                share("translate", each)
        if self.scale is not None:
            interval("scale", self.scale, most=float("inf"))
        self._shears()
        _center(self.center, (1, 1))

    def _shears(self) -> list[tuple[float, float]]:
        given: Any = 0.0 if self.shear is None else self.shear
        pairs = (
            [given[:2], given[2:]] if isinstance(given, tuple | list) and len(given) == 4 else [given, 0.0]
        )
        return [spread("shear", each) for each in pairs]

    def _move(self, before: Size, rng: np.random.Generator) -> Move:
        angle = uniform(rng, *spread("degrees", self.degrees))
        most = np.multiply(self.translate or (0, 0), before[::-1]).tolist()
        x, y = (round(uniform(rng, -each, each)) if self.translate else 0 for each in most)
        scale = uniform(rng, *self.scale) if self.scale else 1.0
        along, down = (uniform(rng, *each) if self.shear else 0.0 for each in self._shears())
        matrix = affine(_center(self.center, before), angle, (x, y), scale, (along, down))
        return warped(before, matrix, before, self.interpolation, self.fill)


@dataclass(frozen=True)
class RandomPerspective(Warp, RandomMoves):
    """Looks at a decoded image from a random side: each corner moves inwards.

    Args:
        distortion_scale: how far corners move at most, from 0 to 1 for half of the image.
        p: probability of a move; an image that isn't moved is returned itself. One with a
            side of 1 never moves, nor does one whose corners would be on a line.
        interpolation: "nearest", "linear" or "cubic"; masks are always moved by "nearest".
        fill: value of what comes from outside, one number for all channels or a tuple with one for each; masks get 0.
        key: the image's place in an element: a dict's key, a position, the name of a field, or a path of these as a
            tuple; None where the element is the image.
        boxes, masks, keypoints, labels: places of what moves with it, by keyword; see docs/images.md.

    >>> rng = np.random.Generator(np.random.Philox(key=1))
    >>> RandomPerspective(0, p=1).random_map(np.array([[1, 2], [3, 4]], np.uint8), rng)
    array([[1, 2],
           [3, 4]], dtype=uint8)
    """

    distortion_scale: float = 0.5
    p: float = 0.5
    interpolation: str = "linear"
    fill: Fill = 0
    key: Hashable = None

    def _check(self) -> None:
        super()._check()
        share("distortion_scale", self.distortion_scale)
        share("p", self.p)

    def _move(self, before: Size, rng: np.random.Generator) -> Move:
        import cv2

        height, width = before
        if rng.random() >= self.p or min(before) < 2:
            return unmoved(before)
        down = int(self.distortion_scale * (height // 2)) + 1
        right = int(self.distortion_scale * (width // 2)) + 1
        # (4, 2) of each corner, clockwise from the upper left one
        inwards = rng.integers(0, [(right, down)] * 4)
        corners = np.array([(0, 0), (width - 1, 0), (width - 1, height - 1), (0, height - 1)])
        ends = np.abs(corners - inwards)
        matrix = cv2.getPerspectiveTransform(corners.astype(np.float32), ends.astype(np.float32))
        if not np.linalg.det(matrix):  # with a distortion_scale near 1 corners may be on a line
            return unmoved(before)
        return warped(before, matrix, before, self.interpolation, self.fill)
