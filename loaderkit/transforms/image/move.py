"""A move: where an operation puts a picture, for its pixels and for coordinates in it alike.

Coordinates are (x, y) in pixels from the picture's upper left corner, so the middle of the first pixel is (0.5, 0.5).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from loaderkit._base.system.dataclasses import dataclass

from .decoded import native
from .region import Region
from .resample import resized

Pixels = np.ndarray[Any, Any]
Size = tuple[int, int]  # (height, width)
Fill = float | tuple[float, ...]  # one number for all channels, or one for each
Matrix = tuple[tuple[float, ...], ...]  # 3 x 3
# Dtypes that OpenCV mirrors; numpy mirrors the others, with the same result.
_MIRRORED_BY_OPENCV = frozenset("BbHhifd")
_BORDERS = {"edge": "BORDER_REPLICATE", "reflect": "BORDER_REFLECT_101", "symmetric": "BORDER_REFLECT"}
_WAYS = {"nearest": "INTER_NEAREST", "linear": "INTER_LINEAR", "cubic": "INTER_CUBIC"}
WARPS = tuple(_WAYS)


@dataclass(frozen=True, slots=True)
class Move:
    """How a picture of one size becomes one of another.

    before, after: (height, width). matrix: takes (x, y, 1) before to (x, y, 1) after, up to a factor. pixels: takes an
    array (height, width, ...), and whether it is a mask, whose values are never mixed and whose border is 0; returns
    the moved one.
    """

    before: Size
    after: Size
    matrix: Matrix
    pixels: Callable[[Pixels, bool], Pixels]

    def points(self, points: Pixels) -> Pixels:
        """The moved coordinates: (..., 2) float64.

        >>> placed_at((4, 4), 1, 2, (2, 2), 0, "constant").points(np.array([[2.5, 1.5]]))
        array([[0.5, 0.5]])
        """
        matrix = np.array(self.matrix)
        with np.errstate(invalid="ignore", over="ignore"):  # points that aren't finite stay so
            made = points @ matrix[:, :2].T + matrix[:, 2]
            moved: Pixels = made[..., :2] / made[..., 2:]
        return moved


def unmoved(before: Size) -> Move:
    """Nothing moves: an image is returned itself."""
    return Move(before, before, ((1, 0, 0), (0, 1, 0), (0, 0, 1)), lambda pixels, mask: pixels)


def placed_at(before: Size, top: int, left: int, after: Size, fill: Fill, border: str) -> Move:
    """The rectangle with a corner at (top, left), which may reach over the picture's edges; a border is there.

    border: "constant", of the value fill; "edge", "reflect" or "symmetric", as numpy's pad.
    """

    def pixels(image: Pixels, mask: bool) -> Pixels:
        if border == "constant":
            return _placed(image, top, left, after, 0 if mask else fill)
        return _continued(image, top, left, after, border)

    return Move(before, after, ((1, 0, -left), (0, 1, -top), (0, 0, 1)), pixels)


def _placed(pixels: Pixels, top: int, left: int, size: Size, fill: Fill) -> Pixels:
    height, width = pixels.shape[:2]
    rows = slice(max(top, 0), max(min(top + size[0], height), 0))
    columns = slice(max(left, 0), max(min(left + size[1], width), 0))
    seen = pixels[rows, columns]
    if seen.shape[:2] == size:
        # The batch copies it anyway. A view of a small part would keep much of the picture in memory until then.
        return seen if 2 * seen.size >= pixels.size else np.ascontiguousarray(seen)
    out = np.full((*size, *pixels.shape[2:]), fill_of(fill, pixels), pixels.dtype)
    if seen.size:
        down, right = rows.start - top, columns.start - left
        out[down : down + seen.shape[0], right : right + seen.shape[1]] = seen
    return out


def _continued(pixels: Pixels, top: int, left: int, size: Size, border: str) -> Pixels:
    import cv2

    height, width = pixels.shape[:2]
    plain = pixels
    if pixels.dtype != np.uint8:
        # As bytes, because only whole pixels are copied, and OpenCV doesn't know all dtypes.
        plain = np.ascontiguousarray(pixels).view(np.uint8).reshape(height, width, -1)
    below, right = size[0] + top - height, size[1] + left - width
    out = cv2.copyMakeBorder(plain, -top, below, -left, right, getattr(cv2, _BORDERS[border]))
    return np.reshape(out.reshape(-1).view(pixels.dtype), (*size, *pixels.shape[2:]))


def fill_of(fill: Fill, pixels: Pixels) -> Fill:
    """The value of a border, if the picture has as many channels; ValueError otherwise."""
    channels = pixels.shape[2] if pixels.ndim == 3 else 1
    if isinstance(fill, tuple) and len(fill) not in (1, channels):
        raise ValueError(f"fill: expected one number or {channels}, one for each channel, got {len(fill)}")
    return fill


def mirrored(before: Size, axis: str) -> Move:
    """Left and right swapped for axis="horizontal", else top and bottom."""
    if axis == "vertical":
        return Move(before, before, ((1, 0, 0), (0, -1, before[0]), (0, 0, 1)), _upside_down)
    return Move(before, before, ((-1, 0, before[1]), (0, 1, 0), (0, 0, 1)), _left_right)


def _upside_down(pixels: Pixels, mask: bool) -> Pixels:
    return np.ascontiguousarray(pixels[::-1])


def _left_right(pixels: Pixels, mask: bool) -> Pixels:
    known = pixels.dtype.isnative and pixels.dtype.char in _MIRRORED_BY_OPENCV
    if not known or pixels.shape[2:] > (4,):
        return np.ascontiguousarray(pixels[:, ::-1])
    import cv2

    # 30 times as fast as numpy's copy of a mirrored view.
    flipped: Pixels = cv2.flip(pixels, 1)
    return flipped.reshape(pixels.shape)


def scaled(before: Size, after: Size, interpolation: str, part: Region) -> Move:
    """A part of a picture, resized."""
    down, right = after[0] / part.height, after[1] / part.width

    def pixels(image: Pixels, mask: bool) -> Pixels:
        seen = part.of(image)
        return _chosen(seen, after) if mask else resized(seen, after, interpolation)

    return Move(
        before, after, ((right, 0, -part.left * right), (0, down, -part.top * down), (0, 0, 1)), pixels
    )


def _chosen(mask: Pixels, size: Size) -> Pixels:
    # As OpenCV's nearest, for dtypes that it doesn't know too.
    rows, columns = (np.arange(size[axis]) * mask.shape[axis] // size[axis] for axis in (0, 1))
    chosen: Pixels = mask[rows[:, None], columns]
    return chosen


def warped(before: Size, matrix: Pixels, after: Size, interpolation: str, fill: Fill) -> Move:
    """Any affine or perspective map; matrix: (3, 3) float64, as in `Move`."""
    half = np.array([[1, 0, -0.5], [0, 1, -0.5], [0, 0, 1]])
    # OpenCV's coordinates are those of the pixels' middles. It asks where each pixel after the move comes from.
    source = half @ np.linalg.inv(matrix) @ np.linalg.inv(half)

    def pixels(image: Pixels, mask: bool) -> Pixels:
        way = "nearest" if mask else interpolation
        return _warped(image, source, after, way, 0 if mask else fill_of(fill, image))

    return Move(before, after, tuple(map(tuple, matrix.tolist())), pixels)


def _warped(pixels: Pixels, source: Pixels, size: Size, way: str, fill: Fill) -> Pixels:
    import cv2

    channels = pixels.shape[2:]
    if channels > (4,):
        raise ValueError(f"expected an image of 1 to 4 channels, got shape {pixels.shape}")
    pixels = native(pixels)
    plain = np.ascontiguousarray(pixels)
    if way == "nearest" and plain.dtype.kind in "biu" and not np.any(fill):
        # Copied only, so that labels of any dtype may be read as one of the same size that OpenCV knows.
        plain = plain.view({1: np.uint8, 2: np.uint16, 4: np.float32, 8: np.float64}[plain.itemsize])
    values = fill if isinstance(fill, tuple) else (fill,) * 4
    flags = getattr(cv2, _WAYS[way]) | cv2.WARP_INVERSE_MAP
    try:
        if source[2].tolist() == [0, 0, 1]:
            out = cv2.warpAffine(plain, source[:2], size[::-1], flags=flags, borderValue=values)
        else:
            out = cv2.warpPerspective(plain, source, size[::-1], flags=flags, borderValue=values)
    except cv2.error as error:
        raise TypeError(f"OpenCV can't warp {pixels.dtype} of shape {pixels.shape}: {error}") from None
    return np.reshape(out.view(pixels.dtype), (*size, *channels))
