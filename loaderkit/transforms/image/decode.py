"""Decoding of whole pictures, and of a region at a size, which the cropping operations share."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from loaderkit.transforms.base import Map

from .arguments import boolean, choice, installed, leaf_key
from .decoders import DECODERS, NEEDS, Pixels, as_bytes, decode_jpeg, decode_other
from .header import read_header
from .leaf import with_leaf
from .region import Region, reduction, turn_of
from .resample import averaged, resized


def check_decoder(operation: str, decoder: str, upright: bool) -> None:
    """Checks the arguments that all decoding operations have, and that the decoder's libraries are installed."""
    choice("decoder", decoder, DECODERS)
    boolean("upright", upright)
    installed(f"{operation}(decoder={decoder!r})", *NEEDS[decoder])


@dataclass(frozen=True)
class Decode(Map):
    """Decodes a picture: bytes of a JPEG, PNG or another format become uint8 (height, width, 3), RGB.

    Pixels may differ slightly between builds of a decoder (another libjpeg-turbo, another processor), and so may
    streams of machines with different builds. Which library decodes never depends on what is installed.

    Args:
        key: the picture's place in an element: a dict's key, a position in a tuple or list, or the name of a field;
            None where the element is the picture. Other leaves aren't changed.
        decoder: for JPEGs, "opencv" or "simplejpeg". Other formats are read by OpenCV.
        upright: True turns the picture as EXIF says, as viewers do; False takes the pixels as stored.

    >>> import cv2
    >>> png = cv2.imencode(".png", np.zeros((2, 3, 3), np.uint8))[1].tobytes()
    >>> Decode().map(png).shape
    (2, 3, 3)
    """

    key: Hashable = None
    decoder: str = "opencv"
    upright: bool = True

    def __post_init__(self) -> None:
        leaf_key(self.key)
        check_decoder("Decode", self.decoder, self.upright)

    def map(self, element: Any) -> Any:
        """The element with its picture decoded."""
        return with_leaf(element, self.key, self._decoded)

    def _decoded(self, data: Any) -> Pixels:
        data = as_bytes(data)
        header = read_header(data)
        if header is None:
            return decode_other(data, upright=self.upright)
        everything = Region(0, 0, header.height, header.width)
        pixels = decode_jpeg(data, header, everything, 1, decoder=self.decoder)
        return turn_of(header.orientation if self.upright else 1).upright(pixels)


def decode_crop(
    data: Any,
    choose: Callable[[int, int], Region],
    *,
    size: tuple[int, int],
    interpolation: str,
    decoder: str,
    reduced: bool,
    upright: bool,
) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """A region of an encoded picture at a size, uint8 (height, width, 3), RGB.

    A region at least 2, 4 or 8 times as large as the size on both axes is moved to a grid of squares with sides of 2, 4
    or 8 pixels; its edges move by less than a pixel of the output. Each square becomes one pixel, by the decoder for a
    JPEG with `reduced`, otherwise as a mean. Then the result is resized.

    Args:
        data: the file's bytes.
        choose: takes the upright picture's height and width, returns the region.
        size: (height, width) of the result.
        interpolation: as in `resized`.
        decoder: as in `Decode`.
        reduced: whether the decoder reduces.
        upright: as in `Decode`.
    """
    data = as_bytes(data)
    header = read_header(data)
    if header is None:
        pixels = decode_other(data, upright=upright)
        region = choose(*pixels.shape[:2])
        by = reduction(region, size)
        pixels = averaged(region.divided(by, *pixels.shape[:2]).times(by).of(pixels), by)
        return resized(pixels, size, interpolation)
    turn = turn_of(header.orientation if upright else 1)
    height, width = turn.swapped((header.height, header.width))
    region = choose(height, width)
    by = reduction(region, size)
    region = turn.stored(region, height, width).divided(by, header.height, header.width)
    if reduced:
        pixels = decode_jpeg(data, header, region, by, decoder=decoder)
    else:
        pixels = averaged(decode_jpeg(data, header, region.times(by), 1, decoder=decoder), by)
    return turn.upright(resized(pixels, turn.swapped(size), interpolation))
