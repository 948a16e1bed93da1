"""Random colours, blur and erased parts of decoded images, drawn by torchvision's rules."""

from collections.abc import Hashable
from dataclasses import dataclass
from itertools import permutations
from math import exp, inf, log, sqrt
from typing import Any

import numpy as np

from loaderkit.transforms.base import RandomMap
from loaderkit.transforms.leaf import with_leaf

from . import adjust
from .arguments import filling, interval, share, size_pair, spread
from .decoded import native, pixels_of
from .move import Fill, Pixels, fill_of
from .targets import OfImage
from .warps import Range, uniform

_ORDERS = tuple(permutations(range(4)))
_SAME = (1, 1, 1, 0)  # what each of these changes nothing by
_ADJUST = (adjust.brightness, adjust.contrast, adjust.saturation, adjust.hue)
_TRIES = 10  # as in torchvision; part of the stream


class _RandomPixels(OfImage, RandomMap):
    """An operation that changes the values of an image's pixels and moves none."""

    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        """The element with its image changed."""
        return with_leaf(element, self.key, lambda image: self._drawn(pixels_of(image), rng))

    def _drawn(self, pixels: Pixels, rng: np.random.Generator) -> Pixels:
        raise NotImplementedError


@dataclass(frozen=True)
class ColorJitter(_RandomPixels):
    """Changes brightness, contrast, saturation and hue of a decoded image at random, in a random order.

    Args:
        brightness, contrast, saturation: (least, most) factor; one number x for (1 - x, 1 + x), not below 0.
        hue: (least, most) share of the circle of colours, from -0.5 to 0.5; one number x for (-x, x).
        key: the image's place in an element: a dict's key, a position, the name of a field, or a path of these as a
            tuple; None where the element is the image.

    >>> rng = np.random.Generator(np.random.Philox(key=1))
    >>> ColorJitter(brightness=(0.5, 0.5)).random_map(np.array([[[10, 20, 31]]], np.uint8), rng)
    array([[[ 5, 10, 15]]], dtype=uint8)
    """

    brightness: Range = 0
    contrast: Range = 0
    saturation: Range = 0
    hue: Range = 0
    key: Hashable = None

    def _check(self) -> None:
        (*_, (low, high)) = self._ranges()
        if low < -0.5 or high > 0.5:
            raise ValueError(f"hue: expected at most 0.5 of the circle either way, got {self.hue}")

    def _ranges(self) -> list[tuple[float, float]]:
        factors = ("brightness", "contrast", "saturation")
        made = [spread(name, getattr(self, name), around=1, least=0) for name in factors]
        return [*made, spread("hue", self.hue)]

    def _drawn(self, pixels: Pixels, rng: np.random.Generator) -> Pixels:
        order = _ORDERS[int(rng.integers(len(_ORDERS)))]
        drawn = [
            None if low == high == same else uniform(rng, low, high)
            for (low, high), same in zip(self._ranges(), _SAME)
        ]
        adjust.colours(pixels)
        for place in order:
            if (by := drawn[place]) is not None:
                pixels = _ADJUST[place](pixels, by)
        return pixels


@dataclass(frozen=True)
class RandomGrayscale(_RandomPixels):
    """Makes a decoded image gray at random; its channels stay as many, and an image that stays is returned itself.

    Args:
        p: probability of gray, from 0 to 1.
        key: the image's place in an element: a dict's key, a position, the name of a field, or a path of these as a
            tuple; None where the element is the image.

    >>> rng = np.random.Generator(np.random.Philox(key=1))
    >>> RandomGrayscale(1).random_map(np.array([[[10, 20, 30]]], np.uint8), rng)
    array([[[18, 18, 18]]], dtype=uint8)
    """

    p: float = 0.1
    key: Hashable = None

    def _check(self) -> None:
        share("p", self.p)

    def _drawn(self, pixels: Pixels, rng: np.random.Generator) -> Pixels:
        return adjust.grayscale(pixels) if rng.random() < self.p else pixels


@dataclass(frozen=True)
class GaussianBlur(_RandomPixels):
    """Blurs a decoded image by a random Gaussian; beyond the edges the image is mirrored.

    Args:
        kernel_size: odd (height, width) of what a pixel is a mean of, or one int for both. OpenCV takes integers and
            floats of 8 to 64 bits, but not all.
        sigma: (least, most) of the Gaussian, in pixels, or one number.
        key: the image's place in an element: a dict's key, a position, the name of a field, or a path of these as a
            tuple; None where the element is the image.

    >>> rng = np.random.Generator(np.random.Philox(key=1))
    >>> GaussianBlur(3, sigma=9).random_map(np.array([[0, 0, 90, 0, 0]], np.uint8), rng)
    array([[ 0, 30, 30, 30,  0]], dtype=uint8)
    """

    kernel_size: int | tuple[int, int]
    sigma: Range = (0.1, 2.0)
    key: Hashable = None

    def _check(self) -> None:
        if any(side % 2 == 0 for side in size_pair("kernel_size", self.kernel_size)):
            raise ValueError(f"kernel_size: expected odd numbers, got {self.kernel_size}")
        self._sigma()

    def _sigma(self) -> tuple[float, float]:
        pair = isinstance(self.sigma, tuple | list)
        return interval("sigma", self.sigma if pair else (self.sigma, self.sigma), most=inf)

    def _drawn(self, pixels: Pixels, rng: np.random.Generator) -> Pixels:
        import cv2

        tall, wide = size_pair("kernel_size", self.kernel_size)
        sigma = uniform(rng, *self._sigma())
        try:
            given, border = np.ascontiguousarray(native(pixels)), cv2.BORDER_REFLECT_101
            made = cv2.GaussianBlur(given, (wide, tall), sigma, borderType=border)
        except cv2.error as error:
            raise TypeError(f"OpenCV can't blur {pixels.dtype} of shape {pixels.shape}: {error}") from None
        return made.reshape(pixels.shape)


@dataclass(frozen=True)
class RandomErasing(_RandomPixels):
    """Erases a random rectangle of a decoded image of any dtype; an image that stays is returned itself.

    Args:
        p: probability, from 0 to 1.
        scale: smallest and largest share of the image's area.
        ratio: smallest and largest height / width. After ten rectangles that don't fit nothing is erased.
        value: what is there then: one number for all channels, a tuple with one for each, or "random", for floats
            normal numbers, for integers any.
        key: the image's place in an element: a dict's key, a position, the name of a field, or a path of these as a
            tuple; None where the element is the image.

    >>> rng = np.random.Generator(np.random.Philox(key=1))
    >>> int(RandomErasing(1, scale=(0.25, 0.25), ratio=(1, 1)).random_map(np.ones((4, 4)), rng).sum())
    12
    """

    p: float = 0.5
    scale: tuple[float, float] = (0.02, 0.33)
    ratio: tuple[float, float] = (0.3, 3.3)
    value: Fill | str = 0
    key: Hashable = None
    _libraries = ()

    def _check(self) -> None:
        share("p", self.p)
        interval("scale", self.scale, most=1.0)
        interval("ratio", self.ratio, most=inf)
        if self.value != "random":
            filling("value", self.value)

    def _drawn(self, pixels: Pixels, rng: np.random.Generator) -> Pixels:
        if rng.random() >= self.p:
            return pixels
        height, width = pixels.shape[:2]
        low, high = log(self.ratio[0]), log(self.ratio[1])
        for _ in range(_TRIES):
            area = height * width * uniform(rng, *self.scale)
            ratio = exp(uniform(rng, low, high))
            tall, wide = round(sqrt(area * ratio)), round(sqrt(area / ratio))
            if tall < height and wide < width:
                top, left = int(rng.integers(height - tall + 1)), int(rng.integers(width - wide + 1))
                out = pixels.copy()
                part = out[top : top + tall, left : left + wide]
                part[...] = self._value(part, rng)
                return out
        return pixels

    def _value(self, part: Pixels, rng: np.random.Generator) -> Any:
        if not isinstance(self.value, str):
            return fill_of(self.value, part)
        if part.dtype.kind == "f":
            return rng.standard_normal(part.shape)
        adjust.largest(part.dtype)
        limits = np.iinfo(part.dtype)
        return rng.integers(limits.min, limits.max, part.shape, part.dtype, endpoint=True)
