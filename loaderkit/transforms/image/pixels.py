"""Values and layout of decoded images: floats, normalisation, channels first."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from loaderkit.transforms.base import Map
from loaderkit.transforms.leaf import with_leaf

from .adjust import largest
from .arguments import finite
from .decoded import pixels_of
from .targets import OfImage

Image = np.ndarray[Any, Any]  # (height, width) or (height, width, channels)
Floats = np.ndarray[Any, np.dtype[np.float32]]


class _OfPixels(OfImage, Map):
    """An operation that makes another array of an image."""

    _libraries = ()

    def map(self, element: Any) -> Any:
        """The element with its image changed."""
        return with_leaf(element, self.key, lambda image: self._changed(pixels_of(image)))

    def _changed(self, pixels: Image) -> Image:
        raise NotImplementedError


@dataclass(frozen=True)
class ToFloat(_OfPixels):
    """A decoded image as float32: integers are divided by their dtype's largest value, floats keep their values.

    Args:
        key: the image's place in an element: a dict's key, a position, the name of a field, or a path of these as a
            tuple; None where the element is the image.

    >>> ToFloat().map(np.array([[0, 51, 255]], np.uint8))
    array([[0. , 0.2, 1. ]], dtype=float32)
    """

    key: Hashable = None

    def _changed(self, pixels: Image) -> Floats:
        top = largest(pixels.dtype)
        if top == 1:
            return pixels.astype(np.float32)
        floats: Floats = np.divide(pixels, np.float32(top), dtype=np.float32)
        return floats


@dataclass(frozen=True)
class Normalize(_OfPixels):
    """A decoded image as float32, `(image - mean) / std` in each channel.

    Args:
        mean: one number for each channel, for an image from 0 to 1. An image of integers is divided by its dtype's
            largest value first, as by `ToFloat`, in the same pass.
        std: one positive number for each channel.
        key: the image's place in an element: a dict's key, a position, the name of a field, or a path of these as a
            tuple; None where the element is the image.

    >>> Normalize(mean=(0.5, 0, 0), std=(0.5, 1, 1)).map(np.array([[[255, 0, 255]]], np.uint8))
    array([[[1., 0., 1.]]], dtype=float32)
    """

    mean: Sequence[float]
    std: Sequence[float]
    key: Hashable = None

    def _check(self) -> None:
        if not all(map(np.iterable, (self.mean, self.std))):
            raise TypeError(
                f"mean, std: expected one number each for each channel, got {self.mean!r:.60} and {self.std!r:.60}; "
                "for three write (0.5, 0.5, 0.5)"
            )
        # Stored as tuples of floats, because arrays have no plain repr and equality.
        given = {name: getattr(self, name) for name in ("mean", "std")}
        self._set(**{name: tuple(finite(name, value) for value in each) for name, each in given.items()})
        if len(self.mean) != len(self.std) or not self.mean:
            raise ValueError(
                f"mean, std: expected one number each for each channel, got {len(self.mean)} and {len(self.std)}"
            )
        if min(self.std) <= 0:
            raise ValueError(f"std: expected positive numbers, got {self.std}")

    def _changed(self, pixels: Image) -> Floats:
        channels = 1 if pixels.ndim == 2 else pixels.shape[2]
        if channels != len(self.mean):
            raise ValueError(
                f"mean, std: expected {channels} numbers for an image of shape {pixels.shape}, got {len(self.mean)}"
            )
        std = np.array(self.std, np.float64)
        # Computed by rows, not by pixels, because numpy's inner loop is as long as the last axis.
        height, width = pixels.shape[:2]
        factor = np.tile(1 / (std * largest(pixels.dtype)), width).astype(np.float32)
        shift = np.tile(np.array(self.mean, np.float64) / std, width).astype(np.float32)
        out = np.multiply(
            pixels.reshape(height, width * channels), factor, dtype=np.float32, casting="same_kind"
        )
        out -= shift
        normalised: Floats = out.reshape(pixels.shape)
        return normalised


@dataclass(frozen=True)
class HWCToCHW(_OfPixels):
    """A decoded image (height, width, channels) as (channels, height, width), C-contiguous, of the same dtype.

    Args:
        key: the image's place in an element: a dict's key, a position, the name of a field, or a path of these as a
            tuple; None where the element is the image.

    >>> HWCToCHW().map(np.zeros((4, 5, 3), np.uint8)).shape
    (3, 4, 5)
    """

    key: Hashable = None

    def _changed(self, pixels: Image) -> Image:
        if pixels.ndim != 3:
            raise ValueError(f"expected an image (height, width, channels), got shape {pixels.shape}")
        return np.ascontiguousarray(pixels.transpose(2, 0, 1))
