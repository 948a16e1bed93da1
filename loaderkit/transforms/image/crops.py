"""Crops at a size: of decoded pictures, and with decoding, of as little besides as the library allows."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any

import numpy as np

from loaderkit._base.numbers import true_or_false
from loaderkit.transforms.base import Map, RandomMap

from .arguments import choice, finite, interval, size_pair
from .decode import check_decoder
from .decoders import Pixels, as_bytes, decode_jpeg, decode_other
from .header import read_header
from .move import Move, Size, scaled
from .region import Region, central_region, random_region, reduction, turn_of
from .resample import INTERPOLATIONS, averaged, resized
from .targets import Targets


class _Crop(Targets):
    """A crop of a picture that isn't decoded yet."""

    size: int | tuple[int, int]
    interpolation: str
    decoder: str
    reduced: bool
    upright: bool

    _libraries = ()

    def _check(self) -> None:
        size_pair("size", self.size)
        choice("interpolation", self.interpolation, INTERPOLATIONS)
        true_or_false("reduced", self.reduced)
        check_decoder(type(self).__name__, self.decoder, self.upright)

    def _cropped(self, data: Any, choose: Callable[[int, int], Region]) -> tuple[Pixels, Move]:
        """A region of an encoded picture at the size, and how it moved.

        A region at least 2, 4 or 8 times as large as the size on both axes is moved to a grid of squares with sides of
        2, 4 or 8 pixels; its edges move by less than a pixel of the output. Each square becomes one pixel, by the
        decoder for a JPEG with `reduced`, otherwise as a mean. Then the result is resized.

        Args:
            data: the file's bytes.
            choose: takes the upright picture's height and width, returns the region.
        """
        data, size = as_bytes(data), size_pair("size", self.size)
        header = read_header(data)
        if header is None:
            pixels = decode_other(data, upright=self.upright)
            height, width = pixels.shape[:2]
            region = choose(height, width)
            by = reduction(region, size)
            pixels = averaged(region.divided(by, height, width).times(by).of(pixels), by)
            return resized(pixels, size, self.interpolation), scaled(
                (height, width), size, self.interpolation, region
            )
        turn = turn_of(header.orientation if self.upright else 1)
        height, width = turn.swapped((header.height, header.width))
        region = choose(height, width)
        move, by = scaled((height, width), size, self.interpolation, region), reduction(region, size)
        region = turn.stored(region, height, width).divided(by, header.height, header.width)
        if self.reduced:
            pixels = decode_jpeg(data, header, region, by, decoder=self.decoder)
        else:
            pixels = averaged(decode_jpeg(data, header, region.times(by), 1, decoder=self.decoder), by)
        return turn.upright(resized(pixels, turn.swapped(size), self.interpolation)), move


class _RandomPart(Targets):
    """A part of a picture that is drawn as by torchvision's `RandomResizedCrop`."""

    scale: tuple[float, float]
    ratio: tuple[float, float]

    def _check(self) -> None:
        super()._check()
        interval("scale", self.scale, most=1.0)
        interval("ratio", self.ratio, most=inf)

    def _part(self, height: int, width: int, *, rng: np.random.Generator) -> Region:
        return random_region(height, width, scale=self.scale, ratio=self.ratio, rng=rng)


@dataclass(frozen=True)
class DecodeRandomResizedCrop(_RandomPart, _Crop, RandomMap):
    """Decodes a random part of a picture and resizes it: bytes become uint8 (height, width, 3), RGB.

    The part is drawn as by torchvision's `RandomResizedCrop`: ten tries of an area and an aspect ratio, then the
    largest central part that is allowed. A part at least twice as large as the output is decoded at 1/2, 1/4 or 1/8.
    Pixels may differ slightly between builds of a decoder; the parts don't.

    Args:
        size: of the output, one int for both sides or (height, width).
        scale: smallest and largest share of the picture's area.
        ratio: smallest and largest width / height of the part.
        interpolation: "linear", the fastest with good quality; "area", which takes means wherever it shrinks
            (antialiased); "cubic"; "nearest".
        key: the picture's place in an element: a dict's key, a position, the name of a field, or a path of these as a
            tuple; None where the element is the picture. Other leaves aren't changed.
        decoder: for JPEGs, "opencv" or "simplejpeg", which stops below the crop and is faster. Their pixels may differ,
            which is another stream, so a decoder that isn't installed is an ImportError and isn't replaced.
        reduced: False decodes at full size and takes means, of the same parts: slower, slightly sharper.
        upright: True turns the picture as EXIF says, False takes the pixels as stored.
        boxes, masks, keypoints, labels: places of what moves with it, by keyword; see docs/images.md.

    >>> import cv2
    >>> jpeg = cv2.imencode(".jpg", np.zeros((300, 400, 3), np.uint8))[1].tobytes()
    >>> crop = DecodeRandomResizedCrop(64, key="image")
    >>> rng = np.random.Generator(np.random.Philox(key=1))
    >>> crop.random_map({"image": jpeg, "label": 3}, rng)["image"].shape
    (64, 64, 3)
    """

    size: int | tuple[int, int]
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    interpolation: str = "linear"
    key: Hashable = None
    decoder: str = "opencv"
    reduced: bool = True
    upright: bool = True

    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        """The element with a random part of its picture."""
        return self._changed(element, lambda data: self._cropped(data, partial(self._part, rng=rng)))


@dataclass(frozen=True)
class RandomResizedCrop(_RandomPart, RandomMap):
    """A random part of a decoded image, resized; the dtype stays.

    The part is the one that `DecodeRandomResizedCrop` draws, which is faster for pictures that aren't decoded yet.

    Args:
        size, scale, ratio, interpolation: as in `DecodeRandomResizedCrop`.
        key: the image's place in an element: a dict's key, a position, the name of a field, or a path of these as a
            tuple; None where the element is the image.
        boxes, masks, keypoints, labels: places of what moves with it, by keyword; see docs/images.md.

    >>> rng = np.random.Generator(np.random.Philox(key=1))
    >>> RandomResizedCrop((8, 9)).random_map(np.zeros((20, 30, 3), np.uint8), rng).shape
    (8, 9, 3)
    """

    size: int | tuple[int, int]
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    interpolation: str = "linear"
    key: Hashable = None

    def _check(self) -> None:
        super()._check()
        size_pair("size", self.size)
        choice("interpolation", self.interpolation, INTERPOLATIONS)

    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        """The element with a random part of its image."""

        def move(size: Size) -> Move:
            return scaled(size, size_pair("size", self.size), self.interpolation, self._part(*size, rng=rng))

        return self._moved(element, move)


@dataclass(frozen=True)
class DecodeCenterCrop(_Crop, Map):
    """Decodes the middle of a picture and resizes it: bytes become uint8 (height, width, 3), RGB.

    Args:
        size: of the output, one int for both sides or (height, width).
        fraction: the part's side divided by that of the largest part of this shape, 0 < fraction <= 1. 0.875 with size
            224 is the part that resizing the shorter side to 256 and cropping 224 gives.
        interpolation: as in `DecodeRandomResizedCrop`.
        key: the picture's place in an element: a dict's key, a position, the name of a field, or a path of these as a
            tuple; None where the element is the picture. Other leaves aren't changed.
        decoder: for JPEGs, "opencv" or "simplejpeg".
        reduced: False decodes at full size and takes means.
        upright: True turns the picture as EXIF says, False takes the pixels as stored.
        boxes, masks, keypoints, labels: places of what moves with it, by keyword; see docs/images.md.

    >>> import cv2
    >>> jpeg = cv2.imencode(".jpg", np.zeros((300, 400, 3), np.uint8))[1].tobytes()
    >>> DecodeCenterCrop((96, 128)).map(jpeg).shape
    (96, 128, 3)
    """

    size: int | tuple[int, int]
    fraction: float = 0.875
    interpolation: str = "linear"
    key: Hashable = None
    decoder: str = "opencv"
    reduced: bool = True
    upright: bool = True

    def _check(self) -> None:
        super()._check()
        if not 0 < finite("fraction", self.fraction) <= 1:
            raise ValueError(f"fraction: expected 0 < fraction <= 1, got {self.fraction}")

    def map(self, element: Any) -> Any:
        """The element with the middle of its picture."""
        size = size_pair("size", self.size)

        def choose(height: int, width: int) -> Region:
            return central_region(height, width, size=size, fraction=self.fraction)

        return self._changed(element, lambda data: self._cropped(data, choose))
