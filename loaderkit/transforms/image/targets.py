"""What moves with a picture: its boxes, masks and key points, and the leaves that have an entry for each box."""

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, ClassVar

import numpy as np

from loaderkit._base.system.dataclasses import dataclass
from loaderkit.transforms.base import Map, RandomMap
from loaderkit.transforms.leaf import leaf_key, with_leaf

from .arguments import installed
from .decoded import pixels_of
from .move import Move, Pixels, Size

Places = Hashable | list[Hashable]

# As in torchvision's SanitizeBoundingBoxes.
_LEAST_SIDE = 1.0
_LEAST_AREA = 1.0


class OfImage:
    """An operation on one leaf, an image; a subclass is a frozen dataclass."""

    key: Hashable
    _libraries: ClassVar[tuple[str, ...]] = ("cv2",)

    def __post_init__(self) -> None:
        leaf_key("key", self.key)
        self._check()
        installed(type(self).__name__, *self._libraries)

    def _check(self) -> None:
        """Raises TypeError or ValueError for arguments that can't be."""


@dataclass(frozen=True, kw_only=True)
class Targets(OfImage):
    """The places of the leaves that move with an operation's picture, by keyword; each as `key`, or a list of such.

    Args:
        boxes: arrays (n, 4) of corners x1, y1, x2, y2 in pixels. They are clipped to the picture, and those left out
            that are narrower, lower or smaller than a pixel.
        masks: arrays (height, width), or (n, height, width) with one for each box.
        keypoints: arrays (..., 2) of x, y; those outside the picture stay.
        labels: leaves with an entry for each box, left out as the boxes are.

    >>> from loaderkit.transforms.image import Resize
    >>> Resize(8, key="image", boxes="boxes").boxes
    'boxes'
    """

    boxes: Places = None
    masks: Places = None
    keypoints: Places = None
    labels: Places = None

    def __post_init__(self) -> None:
        super().__post_init__()
        given = {name: getattr(self, name) for name in ("boxes", "masks", "keypoints", "labels")}
        for name, place in given.items():
            for one in _each(place):
                leaf_key(name, one)
        if any(place is not None for place in given.values()) and self.key is None:
            raise ValueError("key: expected the picture's place beside boxes, masks or keypoints, got None")
        if self.labels is not None and (self.boxes is None or isinstance(self.boxes, list)):
            raise ValueError(f"labels: expected entries for each box of one leaf, got boxes={self.boxes!r}")

    def _moved(self, element: Any, move_of: Callable[[Size], Move]) -> Any:
        """The element with its picture moved, and what moves with it."""

        def change(image: Any) -> tuple[Pixels, Move]:
            pixels = pixels_of(image)
            move = move_of((pixels.shape[0], pixels.shape[1]))
            return move.pixels(pixels, False), move

        return self._changed(element, change)

    def _changed(self, element: Any, change: Callable[[Any], tuple[Any, Move]]) -> Any:
        """The element with its picture changed; change: takes it, returns the new one, and how it moved."""
        moves: list[Move] = []

        def changed(image: Any) -> Any:
            made, move = change(image)
            moves.append(move)
            return made

        element = with_leaf(element, self.key, changed)
        if self.boxes is None and self.masks is None and self.keypoints is None:
            return element
        (move,) = moves
        kept: list[Pixels] = []  # (n,) bool of each leaf of boxes
        for place in _each(self.boxes):
            element = with_leaf(element, place, partial(_boxes, move, kept))
        for place in _each(self.labels):
            element = with_leaf(element, place, partial(_entries, kept[0]))
        for place in _each(self.masks):
            element = with_leaf(element, place, partial(_masks, move, kept[0] if len(kept) == 1 else None))
        for place in _each(self.keypoints):
            element = with_leaf(element, place, partial(_points, move))
        return element


class Moves(Targets, Map):
    """An operation that moves an image as its size says."""

    def map(self, element: Any) -> Any:
        """The element with its image moved."""
        return self._moved(element, self._move)

    def _move(self, before: Size) -> Move:
        raise NotImplementedError


class RandomMoves(Targets, RandomMap):
    """An operation that moves an image at random."""

    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        """The element with its image moved."""
        return self._moved(element, lambda before: self._move(before, rng))

    def _move(self, before: Size, rng: np.random.Generator) -> Move:
        raise NotImplementedError


def _each(place: Places) -> list[Any]:
    return place if isinstance(place, list) else [] if place is None else [place]


def _numbers(name: str, leaf: Any, last: int) -> Pixels:
    fits = isinstance(leaf, np.ndarray) and leaf.dtype.kind in "iuf" and leaf.shape[-1:] == (last,)
    if fits and (last == 2 or leaf.ndim == 2):
        return leaf  # type: ignore[no-any-return]
    raise TypeError(
        f"{name}: expected an array of numbers (n, {last}), got {_got(leaf)}; make it one in a Map before"
    )


def _got(leaf: Any) -> str:
    return f"{leaf.dtype} of shape {leaf.shape}" if isinstance(leaf, np.ndarray) else type(leaf).__name__


def _boxes(move: Move, kept: list[Pixels], leaf: Any) -> Pixels:
    boxes = _numbers("boxes", leaf, 4)
    corners = boxes.astype(np.float64)
    points = move.points(corners[:, [0, 1, 2, 1, 2, 3, 0, 3]].reshape(-1, 4, 2))
    made = np.concatenate([points.min(axis=1), points.max(axis=1)], axis=1)
    height, width = move.after
    moved = np.clip(made, 0, (width, height, width, height)).astype(boxes.dtype)
    sides = moved[:, 2:].astype(np.float64) - moved[:, :2]
    large = (sides >= _LEAST_SIDE).all(axis=1) & (sides.prod(axis=1) >= _LEAST_AREA)
    kept.append(large & (corners[:, 2:] > corners[:, :2]).all(axis=1))
    left: Pixels = moved[kept[-1]]
    return left


def _entries(kept: Pixels, leaf: Any) -> Any:
    size = len(leaf) if hasattr(leaf, "__len__") else 0
    if size != len(kept):
        raise ValueError(f"labels: expected an entry for each of {len(kept)} boxes, got {size}")
    if isinstance(leaf, np.ndarray):
        return leaf[kept]
    return type(leaf)(entry for entry, keep in zip(leaf, kept.tolist(), strict=True) if keep)


def _masks(move: Move, kept: Pixels | None, leaf: Any) -> Pixels:
    if not isinstance(leaf, np.ndarray) or leaf.shape[-2:] != move.before or leaf.ndim not in (2, 3):
        raise ValueError(
            f"masks: expected an array (..., {str(move.before)[1:]}, as the picture, got {_got(leaf)}"
        )
    if leaf.ndim == 2:
        return move.pixels(leaf, True)
    if kept is not None and len(kept) != len(leaf):
        raise ValueError(f"masks: expected one for each of {len(kept)} boxes, got {len(leaf)}")
    masks = leaf if kept is None else leaf[kept]
    out = np.empty((len(masks), *move.after), leaf.dtype)
    for place, mask in enumerate(masks):
        out[place] = move.pixels(mask, True)
    return out


def _points(move: Move, leaf: Any) -> Pixels:
    points = _numbers("keypoints", leaf, 2)
    return move.points(points.astype(np.float64)).astype(points.dtype)
