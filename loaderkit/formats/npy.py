"""Arrays as the bytes of a .npy file, without a file and without pickles."""

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from loaderkit._codecs.scan import Malformed
from loaderkit.errors import DataFormatError

# The records of a set have arrays of few dtypes and shapes. Of an array of 10 KB numpy spends nearly all of its time on
# the header: a record with one took 64 us where each header was parsed, and takes 13.
_HEADERS_KEPT = 1 << 10
_SHORTEST = 12  # bytes of the magic, the version and the length of the header
HEAD_BYTES = 4096  # the head of an array of numbers in one dimension has 128


class _Bytes:
    """What numpy.lib.format asks of a file, over bytes."""

    def __init__(self, data: bytes = b"") -> None:
        self.data, self.at = data, 0

    def read(self, size: int = 0) -> bytes:
        found = self.data[self.at : self.at + size]
        self.at += len(found)
        return found

    def write(self, part: bytes) -> int:
        self.data += bytes(part)
        return len(part)


def encoded_array(array: NDArray[Any]) -> bytes:
    """The array as a .npy file; the same bytes for the same values, whatever their order in memory.

    Args:
        array: of any shape; TypeError for a dtype that such files don't have, such as that of Python objects.

    >>> decoded_array(encoded_array(np.arange(3, dtype=">i2")))
    array([0, 1, 2], dtype='>i2')
    """
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError("expected an array without a mask, got a masked one; write array.filled()")
    return array_header(array.dtype, array.shape) + array.tobytes()


@lru_cache(_HEADERS_KEPT)
def array_header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """What stands before the values in a .npy file; of an array of one dimension as long for any number of values.

    >>> len(array_header(np.dtype(np.uint16), (3,))), len(array_header(np.dtype(np.uint16), (10**15,)))
    (128, 128)
    """
    descr = None if dtype.hasobject or dtype.kind == "T" else npy.dtype_to_descr(np.empty(0, dtype).dtype)
    if descr is None or npy.descr_to_dtype(descr) != dtype:
        raise TypeError(
            f"expected an array of numbers, text or bytes of numpy's own dtypes, got one of {dtype}; of others write "
            "array.view(np.uint16) or the like"
        )
    told = {"descr": descr, "fortran_order": False, "shape": shape}
    file = _Bytes()
    try:
        npy.write_array_header_1_0(file, told)
    except UnicodeEncodeError as error:
        raise TypeError(f"expected names of an array's fields in Latin-1, got {dtype}") from error
    except ValueError:  # a dtype of very many fields
        npy.write_array_header_2_0(file, told)
    return file.data


def decoded_array(data: bytes) -> NDArray[Any]:
    """The array of a .npy file, writable.

    Args:
        data: the file; ValueError where it isn't one, or holds Python objects.

    >>> decoded_array(b"...")
    Traceback (most recent call last):
    ValueError: expected an array in the format npy, got 3 bytes that begin with b'...'
    """
    if not data.startswith(npy.MAGIC_PREFIX) or len(data) < _SHORTEST:
        raise ValueError(
            f"expected an array in the format npy, got {len(data)} bytes that begin with {data[:12]!r}"
        )
    begin = _head_end(data)
    shape, in_fortran_order, dtype = _parsed_header(data[:begin])
    count = math.prod(shape)
    if dtype.hasobject or len(data) != begin + count * dtype.itemsize:
        raise ValueError(
            f"expected {count * dtype.itemsize} bytes of an array of {dtype}, {shape}, got {len(data) - begin}"
        )
    if not count or not dtype.itemsize:
        return np.zeros(shape, dtype)
    array = np.frombuffer(data, dtype, count, begin)
    return array.reshape(shape, order="F" if in_fortran_order else "C").copy("K")


def array_place(head: bytes) -> tuple[int, tuple[int, ...], np.dtype[Any]]:
    """Where the values of a .npy file begin, their shape and dtype.

    Args:
        head: the first HEAD_BYTES of the file, or all of it; Malformed where it isn't that of an array of numbers.

    >>> array_place(encoded_array(np.arange(3)))
    (128, (3,), dtype('int64'))
    """
    if not head.startswith(npy.MAGIC_PREFIX) or len(head) < _SHORTEST:
        raise Malformed(0, f"expected a .npy file, got one that begins with {head[:8]!r}")
    begin = _head_end(head)
    try:
        shape, _, dtype = _parsed_header(head[:begin])
    except ValueError as error:
        raise Malformed(len(npy.MAGIC_PREFIX), str(error)) from error
    return begin, shape, dtype


def _head_end(data: bytes) -> int:
    # The length of the header has two bytes in version 1, and four later.
    if data[6] == 1:
        return 10 + int.from_bytes(data[8:10], "little")
    return 12 + int.from_bytes(data[8:12], "little")


@lru_cache(_HEADERS_KEPT)
def _parsed_header(head: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    file = _Bytes(head)
    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"expected an array in version 1 or 2 of the format npy, got version {version}")
    try:
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, in_fortran_order, dtype = read(file)
    except Exception as error:  # the header is parsed as Python: a tokenizer's errors, those of dtypes, ...
        raise ValueError(f"expected the header of a .npy file, got {head[10:90]!r}: {error}") from error
    if min(shape, default=0) < 0:
        raise ValueError(f"expected a shape without negative numbers, got {shape}")
    return shape, in_fortran_order, dtype


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
