"""Decoding and cropping in one operation: of the rest of the picture as little is decoded as the library allows."""

from collections.abc import Hashable
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from loaderkit.transforms.base import Map, RandomMap

from .arguments import boolean, choice, finite, interval, leaf_key, size_pair
from .decode import check_decoder, decode_crop
from .leaf import with_leaf
from .region import Region, central_region, random_region
from .resample import INTERPOLATIONS


@dataclass(frozen=True)
class DecodeRandomResizedCrop(RandomMap):
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
        key: the picture's place in an element: a dict's key, a position in a tuple or list, or the name of a field;
            None where the element is the picture. Other leaves aren't changed.
        decoder: for JPEGs, "opencv" or "simplejpeg", which stops below the crop and is faster. Their pixels may differ,
            which is another stream, so a decoder that isn't installed is an ImportError and isn't replaced.
        reduced: False decodes at full size and takes means, of the same parts: slower, slightly sharper.
        upright: True turns the picture as EXIF says, False takes the pixels as stored.

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

    def __post_init__(self) -> None:
        leaf_key(self.key)
        size_pair("size", self.size)
        interval("scale", self.scale, most=1.0)
        interval("ratio", self.ratio, most=inf)
        choice("interpolation", self.interpolation, INTERPOLATIONS)
        boolean("reduced", self.reduced)
        check_decoder("DecodeRandomResizedCrop", self.decoder, self.upright)

    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        """The element with a random part of its picture."""

        def choose(height: int, width: int) -> Region:
            return random_region(height, width, scale=self.scale, ratio=self.ratio, rng=rng)

        return with_leaf(
            element,
            self.key,
            lambda data: decode_crop(
                data,
                choose,
                size=size_pair("size", self.size),
                interpolation=self.interpolation,
                decoder=self.decoder,
                reduced=self.reduced,
                upright=self.upright,
            ),
        )


@dataclass(frozen=True)
class DecodeCenterCrop(Map):
    """Decodes the middle of a picture and resizes it: bytes become uint8 (height, width, 3), RGB.

    Args:
        size: of the output, one int for both sides or (height, width).
        fraction: the part's side divided by that of the largest part of this shape, 0 < fraction <= 1. 0.875 with size
            224 is the part that resizing the shorter side to 256 and cropping 224 gives.
        interpolation: as in `DecodeRandomResizedCrop`.
        key: the picture's place in an element: a dict's key, a position in a tuple or list, or the name of a field;
            None where the element is the picture. Other leaves aren't changed.
        decoder: for JPEGs, "opencv" or "simplejpeg".
        reduced: False decodes at full size and takes means.
        upright: True turns the picture as EXIF says, False takes the pixels as stored.

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

    def __post_init__(self) -> None:
        leaf_key(self.key)
        size_pair("size", self.size)
        if not 0 < finite("fraction", self.fraction) <= 1:
            raise ValueError(f"fraction: expected 0 < fraction <= 1, got {self.fraction}")
        choice("interpolation", self.interpolation, INTERPOLATIONS)
        boolean("reduced", self.reduced)
        check_decoder("DecodeCenterCrop", self.decoder, self.upright)

    def map(self, element: Any) -> Any:
        """The element with the middle of its picture."""
        size = size_pair("size", self.size)

        def choose(height: int, width: int) -> Region:
            return central_region(height, width, size=size, fraction=self.fraction)

        return with_leaf(
            element,
            self.key,
            lambda data: decode_crop(
                data,
                choose,
                size=size,
                interpolation=self.interpolation,
                decoder=self.decoder,
                reduced=self.reduced,
                upright=self.upright,
            ),
        )
