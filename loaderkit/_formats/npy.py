"""Arrays as the bytes of a .npy file, without a file and without pickles."""

from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray


class _Bytes:
    """What numpy.lib.format asks of a file, over bytes."""

    def __init__(self, data: bytes = b"") -> None:
        self.data, self.at = data, 0
        self.parts: list[bytes] = []

    def read(self, size: int = 0) -> bytes:
        found = self.data[self.at : self.at + size]
        self.at += len(found)
        return found

    def write(self, part: bytes) -> int:
        self.parts.append(bytes(part))
        return len(part)


def encoded_array(array: NDArray[Any]) -> bytes:
    """The array as a .npy file; the same bytes for the same values, whatever their order in memory.

    Args:
        array: of any shape; TypeError where it holds Python objects.

    >>> decoded_array(encoded_array(np.arange(3, dtype=">i2")))
    array([0, 1, 2], dtype='>i2')
    """
    if array.dtype.hasobject:
        raise TypeError(f"expected an array of numbers, text or bytes, got one of objects ({array.dtype})")
    file = _Bytes()
    npy.write_array(file, np.array(array, order="C", copy=None, subok=False), allow_pickle=False)
    return b"".join(file.parts)


def decoded_array(data: bytes) -> NDArray[Any]:
    """The array of a .npy file, writable.

    Args:
        data: the file; ValueError where it isn't one, or holds Python objects.

    >>> decoded_array(b"...")
    Traceback (most recent call last):
    ValueError: expected an array in the format npy, got 3 bytes that begin with b'...'
    """
    if not data.startswith(npy.MAGIC_PREFIX):
        raise ValueError(
            f"expected an array in the format npy, got {len(data)} bytes that begin with {data[:12]!r}"
        )
    file = _Bytes(data)
    array: NDArray[Any] = npy.read_array(file, allow_pickle=False)
    return array
