"""The decoders: bytes to pixels, with as little decoded as a region needs.

Both libraries use libjpeg-turbo, and both can reduce while they decode: from the frequencies of a block of 8 x 8 pixels
they compute 4 x 4, 2 x 2 or 1 pixel. Most of the time is spent on the Huffman codes, which a reduction still has to
read; decoding fewer rows saves time. So simplejpeg gets the file with a smaller height in its header and stops below
the region; the rows above are exactly those of the whole picture. OpenCV could do the same but prints a warning for
each such file, so it decodes all rows.
"""

from collections.abc import Callable
from reprlib import repr as _short
from typing import Any

import numpy as np

from .header import JpegHeader
from .region import Region

Pixels = np.ndarray[Any, np.dtype[np.uint8]]  # (height, width, 3), RGB


def as_bytes(data: Any) -> bytes:
    """An encoded image's bytes, from bytes or an array (n,) uint8; TypeError for anything else.

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
            f"expected an encoded image as bytes, got an array of shape {data.shape} and dtype {data.dtype}; "
            "use Resize or RandomResizedCrop for an image that is already decoded"
        )
    raise TypeError(f"expected an encoded image as bytes, got {type(data).__name__} {_short(data)}")


def decode_other(data: bytes, *, upright: bool) -> Pixels:
    """The whole picture, as RGB without transparency, of any format but JPEG that OpenCV reads; else ValueError."""
    import cv2

    flags = cv2.IMREAD_COLOR_RGB | (0 if upright else cv2.IMREAD_IGNORE_ORIENTATION)
    pixels = cv2.imdecode(np.frombuffer(data, np.uint8), flags) if data else None
    if pixels is None:
        raise ValueError(
            f"expected a whole JPEG or another format that OpenCV reads, got {len(data)} bytes that start with "
            f"{data[:8]!r}; the file may be truncated"
        )
    return np.asarray(pixels, np.uint8)


def decode_jpeg(data: bytes, header: JpegHeader, region: Region, by: int, *, decoder: str) -> Pixels:
    """A region of a JPEG as stored, reduced to 1/by; ValueError for a damaged or truncated file.

    Args:
        data: the file's bytes.
        header: what `read_header` gave.
        region: the part, in pixels of the picture reduced to 1/by.
        by: 1, 2, 4 or 8.
        decoder: "opencv" or "simplejpeg".
    """
    return region.of(DECODERS[decoder](data, header, region, by))


def _opencv(data: bytes, header: JpegHeader, region: Region, by: int) -> Pixels:
    import cv2

    flags = cv2.IMREAD_COLOR_RGB | cv2.IMREAD_IGNORE_ORIENTATION
    # A REDUCED_GRAYSCALE flag is the bit of its reduction alone, as IMREAD_GRAYSCALE is 0.
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
        # 4 rows more, because colours may be stored for every other row and are interpolated from neighbouring rows.
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
            strict=False,  # strict=True refuses bytes after the last row; `read_header` checked that the file is whole
        )
    except ValueError as error:
        raise ValueError(f"simplejpeg could not decode the JPEG of {len(data)} bytes: {error}") from error
    return pixels


DECODERS: dict[str, Callable[[bytes, JpegHeader, Region, int], Pixels]] = {
    "opencv": _opencv,
    "simplejpeg": _simplejpeg,
}
# The modules that each decoder needs; OpenCV also resizes, and reads the other formats.
NEEDS = {"opencv": ("cv2",), "simplejpeg": ("cv2", "simplejpeg")}
