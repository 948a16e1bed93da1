"""The part of a picture that is used: rectangles of whole pixels, random or central, and their reduction.

Upright coordinates are those of the picture as viewers show it, stored coordinates those of the file. The EXIF
orientation converts one to the other. A region is chosen in upright coordinates and decoded in stored ones.
"""

from math import exp, log, sqrt
from typing import Any

import numpy as np

from loaderkit._base.system.dataclasses import dataclass

# orientation: (swap rows and columns, then reverse the rows, then reverse the columns)
_TURNS = {
    1: (False, False, False),
    2: (False, False, True),
    3: (False, True, True),
    4: (False, True, False),
    5: (True, False, False),
    6: (True, False, True),
    7: (True, True, True),
    8: (True, True, False),
}
_TRIES = 10  # as in torchvision; part of the stream


@dataclass(frozen=True, slots=True)
class Region:
    """A rectangle of a picture, in pixels."""

    top: int
    left: int
    height: int
    width: int

    def of(self, pixels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The rectangle as a view of an array (height, width, ...)."""
        return pixels[self.top : self.top + self.height, self.left : self.left + self.width]

    def divided(self, by: int, height: int, width: int) -> "Region":
        """The nearest rectangle in whole pixels of the picture, which has (height, width), reduced to 1/by.

        The sides are rounded down. The middle moves by at most half a pixel of the reduced picture, at the picture's
        lower and right edges by at most one pixel.

        >>> Region(5, 8, 100, 51).divided(2, 375, 500)
        Region(top=3, left=4, height=50, width=25)
        """
        tall, wide = self.height // by, self.width // by
        top = (2 * self.top + self.height - by * tall + by) // (2 * by)
        left = (2 * self.left + self.width - by * wide + by) // (2 * by)
        return Region(min(top, height // by - tall), min(left, width // by - wide), tall, wide)

    def times(self, by: int) -> "Region":
        """The same rectangle in a picture that is `by` times as large."""
        return Region(self.top * by, self.left * by, self.height * by, self.width * by)


@dataclass(frozen=True, slots=True)
class Turn:
    """Makes a stored picture upright: a transposition, then mirroring of rows and of columns."""

    transposed: bool
    from_below: bool
    from_right: bool

    def swapped(self, pair: tuple[int, int]) -> tuple[int, int]:
        """The upright (height, width) for the stored one, and the stored one for the upright."""
        return (pair[1], pair[0]) if self.transposed else pair

    def stored(self, region: Region, height: int, width: int) -> Region:
        """The region in stored coordinates of a region of the upright picture, which has (height, width)."""
        top = height - region.top - region.height if self.from_below else region.top
        left = width - region.left - region.width if self.from_right else region.left
        if self.transposed:
            return Region(left, top, region.width, region.height)
        return Region(top, left, region.height, region.width)

    def upright(self, pixels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The stored pixels (height, width, channels) of a picture or region, upright and C-contiguous."""
        turned = pixels.swapaxes(0, 1) if self.transposed else pixels
        turned = turned[::-1] if self.from_below else turned
        turned = turned[:, ::-1] if self.from_right else turned
        return np.ascontiguousarray(turned)


def turn_of(orientation: int) -> Turn:
    """The turn for an EXIF orientation, 1 to 8.

    >>> turn_of(6)
    Turn(transposed=True, from_below=False, from_right=True)
    """
    return Turn(*_TURNS[orientation])


def random_region(
    height: int,
    width: int,
    *,
    scale: tuple[float, float],
    ratio: tuple[float, float],
    rng: np.random.Generator,
) -> Region:
    """A rectangle with a random share of the picture's area and a random aspect ratio.

    Args:
        height: of the picture, in pixels.
        width: of the picture, in pixels.
        scale: smallest and largest share of the area, drawn uniformly.
        ratio: smallest and largest width / height; its logarithm is drawn uniformly.
        rng: the generator. After ten rectangles that don't fit, the result is the largest central one with an allowed
            ratio.

    >>> rng = np.random.Generator(np.random.Philox(key=1))
    >>> random_region(375, 500, scale=(1.0, 1.0), ratio=(1.0, 1.0), rng=rng)
    Region(top=0, left=62, height=375, width=375)
    """
    area = height * width
    low, high = log(ratio[0]), log(ratio[1])
    for _ in range(_TRIES):
        part = area * (scale[0] + (scale[1] - scale[0]) * rng.random())
        aspect = exp(low + (high - low) * rng.random())
        wide, tall = round(sqrt(part * aspect)), round(sqrt(part / aspect))
        if 0 < wide <= width and 0 < tall <= height:
            top = int(rng.integers(0, height - tall + 1))
            left = int(rng.integers(0, width - wide + 1))
            return Region(top, left, tall, wide)
    wide = min(width, max(1, round(height * ratio[1])))
    tall = min(height, max(1, round(width / ratio[0])))
    return Region((height - tall) // 2, (width - wide) // 2, tall, wide)


def central_region(height: int, width: int, *, size: tuple[int, int], fraction: float) -> Region:
    """The middle of a picture, with the aspect ratio of `size`.

    Args:
        height: of the picture, in pixels.
        width: of the picture, in pixels.
        size: (height, width), for the aspect ratio.
        fraction: the rectangle's sides divided by those of the largest one, 0 < fraction <= 1.

    >>> central_region(375, 500, size=(224, 224), fraction=0.875)
    Region(top=23, left=86, height=328, width=328)
    """
    unit = fraction * min(height / size[0], width / size[1])
    tall = min(height, max(1, round(unit * size[0])))
    wide = min(width, max(1, round(unit * size[1])))
    return Region((height - tall) // 2, (width - wide) // 2, tall, wide)


def reduction(region: Region, size: tuple[int, int]) -> int:
    """The largest of 8, 4, 2 and 1 so that the region divided by it still covers the size.

    >>> reduction(Region(0, 0, 1000, 950), (224, 224))
    4
    """
    factor = min(region.height // size[0], region.width // size[1])
    return next(by for by in (8, 4, 2, 1) if by <= max(factor, 1))
