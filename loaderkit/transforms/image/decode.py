"""Decoding of whole pictures."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from loaderkit._base.numbers import true_or_false
from loaderkit.transforms.base import Map
from loaderkit.transforms.leaf import leaf_key, with_leaf

from .arguments import choice, installed
from .decoders import DECODERS, NEEDS, Pixels, as_bytes, decode_jpeg, decode_other
from .header import read_header
from .region import Region, turn_of


def check_decoder(operation: str, decoder: str, upright: bool) -> None:
    """Checks the arguments that all decoding operations have, and that the decoder's libraries are installed."""
    choice("decoder", decoder, DECODERS)
    true_or_false("upright", upright)
    installed(f"{operation}(decoder={decoder!r})", *NEEDS[decoder])


@dataclass(frozen=True)
class Decode(Map):
    """Decodes a picture: bytes of a JPEG, PNG or another format become uint8 (height, width, 3), RGB.

    Pixels may differ slightly between builds of a decoder (another libjpeg-turbo, another processor), and so may
    streams of machines with different builds. Which library decodes never depends on what is installed.

    Args:
        key: the picture's place in an element: a dict's key, a position, the name of a field, or a path of these as a
            tuple; None where the element is the picture. Other leaves aren't changed.
        decoder: for JPEGs, "opencv" or "simplejpeg". Other formats are read by OpenCV.
        upright: True turns the picture as EXIF says, as viewers do; False takes the pixels as stored.

    >>> import cv2
    >>> import numpy as np
    >>> png = cv2.imencode(".png", np.zeros((2, 3, 3), np.uint8))[1].tobytes()
    >>> Decode().map(png).shape
    (2, 3, 3)
    """

    key: Hashable = None
    decoder: str = "opencv"
    upright: bool = True

    def __post_init__(self) -> None:
        leaf_key("key", self.key)
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
