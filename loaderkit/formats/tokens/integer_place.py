"""Where the integers of a file lie: behind the head of a .npy file, or from its first byte."""

import math
from typing import Any

import numpy as np

from loaderkit._codecs.scan import Malformed
from loaderkit.errors import DataFormatError
from loaderkit.formats.npy import array_place


def place_of_integers(
    name: str, size: int, head: bytes, bare: np.dtype[Any] | None
) -> tuple[int, tuple[int, ...], np.dtype[Any]]:
    """Where the values of a file begin, their shape and dtype; DataFormatError where it isn't a .npy file or too short.

    Args:
        name: of the file, for errors.
        size: its bytes.
        head: the first HEAD_BYTES of a .npy file.
        bare: the dtype of a file without a head; None for a .npy file.
    """
    if bare is not None:
        if size % bare.itemsize:
            raise DataFormatError(
                f"{name}: expected a multiple of {bare.itemsize} bytes, as dtype {bare} has, got {size}; it was "
                "truncated, or has another dtype"
            )
        return 0, (size // bare.itemsize,), bare
    try:
        begin, shape, dtype = array_place(head)
    except Malformed as error:
        raise DataFormatError(f"{name}: {error}; for a file of bare numbers write dtype=") from error
    end = begin + dtype.itemsize * math.prod(shape)
    if end > size:
        raise DataFormatError(
            f"{name}: expected {end} bytes, as its head says, got {size}; the file was truncated"
        )
    return begin, shape, dtype
