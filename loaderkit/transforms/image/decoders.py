"""Bytes to pixels: the libraries, and how each is asked for no more than a region needs.

Both libraries are libjpeg-turbo inside, and both reduce while they decode: from each 8 x 8 block's frequencies they
compute 4 x 4, 2 x 2 or 1 pixel. Most of the time goes into reading the Huffman codes, which a reduction doesn't
save. Rows do: simplejpeg is given the file with a smaller height in its header, so that it stops below the region,
and the rows above are exactly those of the whole picture. OpenCV does the same work, but prints a warning for every
such file; so it reads the picture to its end.
"""

from collections.abc import Callable
from reprlib import repr as _short
from typing import Any

import numpy as np

from .header import JpegHeader
from .region import Region

Pixels = np.ndarray[Any, np.dtype[np.uint8]]  # (height, width, 3), RGB


def as_bytes(data: Any) -> bytes:
    """An encoded image's bytes; TypeError for anything that isn't one.

    >>> as_bytes(np.array([255, 216], np.uint8))
    b'\\xff\\xd8'
    """
    if isinstance(data, bytes):
        return data
    if isinstance(data, bytearray | memoryview):
        return bytes(data)
    if isinstance(data, np.ndarray) and data.ndim == 1 and data.dtype == np.uint8:
        return data.tobytes()
    if isinstance(data, np.bytes_):
        return bytes(data)
    if isinstance(data, np.ndarray):
        raise TypeError(
            f"expected an encoded image as bytes, an array of shape {data.shape} and dtype {data.dtype} came; "
            "if it is decoded already, use Resize or RandomCrop"
        )
    raise TypeError(f"expected an encoded image as bytes, {type(data).__name__} came: {_short(data)}")


def decode_other(data: bytes, *, upright: bool) -> Pixels:
    """The whole picture of any format but JPEG that OpenCV reads, as RGB without transparency."""
    import cv2

    flags = cv2.IMREAD_COLOR_RGB | (0 if upright else cv2.IMREAD_IGNORE_ORIENTATION)
    pixels = cv2.imdecode(np.frombuffer(data, np.uint8), flags) if data else None
    if pixels is None:
        raise ValueError(
            f"expected a JPEG or another format that OpenCV reads, {len(data)} bytes that start with {data[:8]!r} "
            "came, or the file is truncated"
        )
    return np.asarray(pixels, np.uint8)


def decode_jpeg(data: bytes, header: JpegHeader, region: Region, by: int, *, decoder: str) -> Pixels:
    """A region of a JPEG, as stored, reduced to 1/by.

    Args:
        data: the file.
        header: what `read_header` found in it.
        region: the part wanted, in pixels of the picture reduced to 1/by.
        by: 1, 2, 4 or 8.
        decoder: "opencv" or "simplejpeg".
    """
    return region.of(DECODERS[decoder](data, header, region, by))


def _opencv(data: bytes, header: JpegHeader, region: Region, by: int) -> Pixels:
    import cv2

    flags = cv2.IMREAD_COLOR_RGB | cv2.IMREAD_IGNORE_ORIENTATION
    # The flags that name a reduction name gray or BGR too; the bit they share is the reduction alone.
    flags |= {
        1: 0,
        2: cv2.IMREAD_REDUCED_GRAYSCALE_2,
        4: cv2.IMREAD_REDUCED_GRAYSCALE_4,
        8: cv2.IMREAD_REDUCED_GRAYSCALE_8,
    }[by]
    pixels = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    if pixels is None:
        raise ValueError(f"OpenCV could not decode the JPEG of {len(data)} bytes: it is damaged or truncated")
    return np.asarray(pixels, np.uint8)


def _simplejpeg(data: bytes, header: JpegHeader, region: Region, by: int) -> Pixels:
    import simplejpeg

    rows = header.height
    if header.height_at is not None:
        # Colours are stored at half the rows, and a row of pixels is interpolated from its neighbours.
        rows = min(rows, (region.top + region.height + 4) * by)
        if rows < header.height:
            data = data[: header.height_at] + rows.to_bytes(2) + data[header.height_at + 2 :]
    try:
        pixels: Pixels = simplejpeg.decode_jpeg(
            data,
            "RGB",
            min_height=-(-rows // by),
            min_width=-(-header.width // by),
            min_factor=by,
            # Strict is against bytes behind the last row, too; that the file is whole was seen in its header.
            strict=False,
        )
    except ValueError as error:
        raise ValueError(f"simplejpeg could not decode the JPEG of {len(data)} bytes: {error}") from error
    return pixels


DECODERS: dict[str, Callable[[bytes, JpegHeader, Region, int], Pixels]] = {
    "opencv": _opencv,
    "simplejpeg": _simplejpeg,
}
# What each needs to be installed; OpenCV also resizes, and reads what isn't a JPEG.
NEEDS = {"opencv": ("cv2",), "simplejpeg": ("cv2", "simplejpeg")}
