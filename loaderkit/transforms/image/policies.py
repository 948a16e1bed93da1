"""RandAugment and TrivialAugment: operations and magnitudes that are drawn from torchvision's tables."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from math import atan, degrees
from typing import Any

import numpy as np

from loaderkit._base.numbers import at_least
from loaderkit.transforms.base import RandomMap

from . import adjust
from .decoded import pixels_of
from .move import Fill, Move, Pixels, unmoved, warped
from .targets import Targets
from .warps import Warp, affine

_COLOURS: dict[str, Callable[[Pixels, float], Pixels]] = {
    "Brightness": lambda image, magnitude: adjust.brightness(image, 1 + magnitude),
    "Color": lambda image, magnitude: adjust.saturation(image, 1 + magnitude),
    "Contrast": lambda image, magnitude: adjust.contrast(image, 1 + magnitude),
    "Sharpness": lambda image, magnitude: adjust.sharpness(image, 1 + magnitude),
    "Posterize": lambda image, magnitude: adjust.posterize(image, int(magnitude)),
    "Solarize": lambda image, magnitude: adjust.solarize(image, 255 * magnitude),
    "AutoContrast": lambda image, magnitude: adjust.autocontrast(image),
    "Equalize": lambda image, magnitude: adjust.equalize(image),
}


_MOVES = ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate")
_SIGNED = (*_MOVES, "Brightness", "Color", "Contrast", "Sharpness")
_MOST = {"ShearX": (0.3, 0.99), "ShearY": (0.3, 0.99), "Rotate": (30.0, 135.0)}
# In torchvision's order.
_NAMES = ("Identity", *_SIGNED, "Posterize", "Solarize", "AutoContrast", "Equalize")


def magnitude_of(name: str, part: float, before: tuple[int, ...], *, wide: bool) -> float:
    """How strong an operation is; part: from 0 to 1, as linspace has it. wide: for TrivialAugment.

    >>> magnitude_of("Rotate", 0.5, (224, 224), wide=False)
    15.0
    """
    if name.startswith("Translate"):
        return part * (32.0 if wide else 150 / 331 * before[name == "TranslateX"])
    if name == "Posterize":
        return float(round(8 - part * (6 if wide else 4)))
    if name == "Solarize":
        return 1 - part
    return part * _MOST.get(name, (0.9, 0.99))[wide]


class _Policy(Warp, Targets, RandomMap):
    """Draws operations from a table."""

    def _apply(self, image: Pixels, name: str, magnitude: float) -> tuple[Pixels, Move]:
        """The image after one operation, and how it moved; magnitude: as torchvision's."""
        before = (image.shape[0], image.shape[1])
        if name not in _MOVES:
            if (change := _COLOURS.get(name)) is not None:
                image = adjust.of_colours(image, lambda colours: change(colours, magnitude))
            return image, unmoved(before)
        center, turn, shear, translate = (before[1] / 2, before[0] / 2), 0.0, (0.0, 0.0), (0, 0)
        if name == "Rotate":
            turn = -magnitude
        elif name.startswith("Shear"):
            slope = degrees(atan(magnitude))
            center, shear = (0, 0), ((slope, 0.0) if name == "ShearX" else (0.0, slope))
        else:
            translate = (int(magnitude), 0) if name == "TranslateX" else (0, int(magnitude))
        matrix = affine(center, turn, translate, 1.0, shear)
        move = warped(before, matrix, before, self.interpolation, self.fill)
        return move.pixels(image, False), move

    def _drawn(self, element: Any, rng: np.random.Generator, bins: int, index: int | None = None) -> Any:
        """The element after a drawn operation; index: of the magnitude, None to draw it from TrivialAugment's."""
        name = _NAMES[int(rng.integers(len(_NAMES)))]
        part = (int(rng.integers(bins)) if index is None else index) / (bins - 1)
        sign = -1 if name in _SIGNED and rng.random() < 0.5 else 1

        def change(image: Any) -> tuple[Pixels, Move]:
            pixels = pixels_of(image)
            adjust.colours(pixels)
            if pixels.dtype != np.uint8:
                raise TypeError(f"expected an image of uint8, got {pixels.dtype}; put ToFloat behind")
            magnitude = sign * magnitude_of(name, part, pixels.shape, wide=index is None)
            return self._apply(pixels, name, magnitude)

        return self._changed(element, change)


@dataclass(frozen=True)
class RandAugment(_Policy):
    """Changes a decoded image of uint8 by operations that are drawn from 14, all of one magnitude.

    Args:
        num_ops: how many operations, one after the other.
        magnitude: their number on the scale, from 0 on.
        num_magnitude_bins: how many the scale has.
        interpolation: "nearest", "linear" or "cubic"; masks are always moved by "nearest".
        fill: value of what comes from outside, one number for all channels or a tuple with one for each; masks get 0.
        key: the image's place in an element: a dict's key, a position, the name of a field, or a path of these as a
            tuple; None where the element is the image.
        boxes, masks, keypoints, labels: places of what moves with it, by keyword; see docs/images.md.

    >>> rng = np.random.Generator(np.random.Philox(key=1))
    >>> RandAugment().random_map(np.zeros((32, 32, 3), np.uint8), rng).shape
    (32, 32, 3)
    """

    num_ops: int = 2
    magnitude: int = 9
    num_magnitude_bins: int = 31
    interpolation: str = "nearest"
    fill: Fill = 0
    key: Hashable = None

    def _check(self) -> None:
        super()._check()
        at_least("num_ops", self.num_ops, 0)
        at_least(
            "magnitude", self.magnitude, 0, below=at_least("num_magnitude_bins", self.num_magnitude_bins, 2)
        )

    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        """The element with its image changed."""
        for _ in range(self.num_ops):
            element = self._drawn(element, rng, self.num_magnitude_bins, self.magnitude)
        return element


@dataclass(frozen=True)
class TrivialAugment(_Policy):
    """Changes a decoded image of uint8 by one operation and magnitude of many: torchvision's `TrivialAugmentWide`.

    Args:
        num_magnitude_bins: how many magnitudes the scale has.
        interpolation: "nearest", "linear" or "cubic"; masks are always moved by "nearest".
        fill: value of what comes from outside, one number for all channels or a tuple with one for each; masks get 0.
        key: the image's place in an element: a dict's key, a position, the name of a field, or a path of these as a
            tuple; None where the element is the image.
        boxes, masks, keypoints, labels: places of what moves with it, by keyword; see docs/images.md.

    >>> rng = np.random.Generator(np.random.Philox(key=1))
    >>> TrivialAugment().random_map(np.zeros((32, 32, 3), np.uint8), rng).shape
    (32, 32, 3)
    """

    num_magnitude_bins: int = 31
    interpolation: str = "nearest"
    fill: Fill = 0
    key: Hashable = None

    def _check(self) -> None:
        super()._check()
        at_least("num_magnitude_bins", self.num_magnitude_bins, 2)

    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        """The element with its image changed."""
        return self._drawn(element, rng, self.num_magnitude_bins)
