"""Which image a value is, and its size: read from the first bytes, without decoding it."""

from loaderkit._base.system.dataclasses import dataclass
from loaderkit.transforms.image.header import read_header


@dataclass(frozen=True, slots=True)
class ImageHeader:
    """An image's format and its size in pixels, 0 where the header is damaged or says it elsewhere (TIFF).

    >>> str(ImageHeader("JPEG", 500, 375))
    'JPEG 500x375'
    """

    format: str
    width: int
    height: int

    @property
    def media_type(self) -> str:
        """Such as "image/jpeg", as an HTML page names it."""
        return f"image/{self.format.lower()}"

    def __str__(self) -> str:
        return f"{self.format} {self.width}x{self.height}" if self.width else f"{self.format} of unknown size"


def image_header(data: bytes) -> ImageHeader | None:
    """The format and size of an image (JPEG, PNG, GIF, WebP, BMP, TIFF), None for other bytes.

    data: a value from its first byte on; a damaged header gives the size 0.

    >>> print(image_header(b"GIF89a" + bytes([4, 1, 2, 0])))
    GIF 260x2
    """
    for begin, read in _READERS.items():
        if data.startswith(begin):
            return read(data)
    return None


def _jpeg(data: bytes) -> ImageHeader:
    try:
        header = read_header(data)
    except ValueError:
        header = None
    return ImageHeader("JPEG", 0, 0) if header is None else ImageHeader("JPEG", header.width, header.height)


def _png(data: bytes) -> ImageHeader:
    return ImageHeader("PNG", int.from_bytes(data[16:20]), int.from_bytes(data[20:24]))


def _gif(data: bytes) -> ImageHeader:
    return ImageHeader("GIF", int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little"))


def _bmp(data: bytes) -> ImageHeader | None:
    if len(data) < 26 or int.from_bytes(data[2:6], "little") > len(data):
        return None  # two letters at the start of a text
    height = int.from_bytes(data[22:26], "little", signed=True)
    return ImageHeader("BMP", int.from_bytes(data[18:22], "little"), abs(height))


def _webp(data: bytes) -> ImageHeader | None:
    if data[8:12] != b"WEBP":
        return None
    kind = data[12:16]
    if kind == b"VP8X":
        width, height = 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    elif kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        width, height = 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    else:
        width = int.from_bytes(data[26:28], "little") & 0x3FFF
        height = int.from_bytes(data[28:30], "little") & 0x3FFF
    return ImageHeader("WebP", width, height)


def _tiff(data: bytes) -> ImageHeader:
    return ImageHeader("TIFF", 0, 0)


_READERS = {
    b"\xff\xd8\xff": _jpeg,
    b"\x89PNG\r\n\x1a\n": _png,
    b"GIF8": _gif,
    b"RIFF": _webp,
    b"BM": _bmp,
    b"II*\0": _tiff,
    b"MM\0*": _tiff,
}
