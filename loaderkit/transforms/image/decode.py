"""Decoding: whole pictures, and the way from bytes to a crop at its size that the cropping operations share."""

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
    """The arguments that all decoding operations have, and that the libraries are there."""
    choice("decoder", decoder, DECODERS)
    boolean("upright", upright)
    installed(f"{operation}(decoder={decoder!r})", *NEEDS[decoder])


@dataclass(frozen=True)
class Decode(Map):
    """Bytes of a JPEG, PNG or other picture become uint8 (height, width, 3), RGB.

    Pixels may differ by a little between builds of a decoder (another libjpeg-turbo, another processor); so may a
    stream between machines whose builds differ. Which library decodes never depends on what is installed.

    Args:
        key: where the picture is in an element: a dict's key, the position in a tuple or list, the name of a field;
            None where the element is the picture. Other leaves stay as they are.
        decoder: for JPEGs, "opencv" or "simplejpeg". Other formats are read by OpenCV.
        upright: turned as EXIF says, the way a viewer shows it. False takes the pixels as stored.

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
    """The chosen region of an encoded picture at the size, uint8 (height, width, 3), RGB.

    A region that covers the size two, four or eight times in both axes is moved to whole squares of as many pixels
    (its edges by less than a pixel of the output), and each square becomes one pixel before the rest is resized: by
    the decoder where `reduced` and a JPEG, else as a mean.

    Args:
        data: the file.
        choose: takes the upright picture's height and width, returns the region.
        size: (height, width) of what comes out.
        interpolation: see `resized`.
        decoder: see `Decode`.
        reduced: whether the decoder reduces.
        upright: see `Decode`.
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
