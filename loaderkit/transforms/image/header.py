"""The header of a JPEG: size, kind of frame, and the camera's orientation.

A JPEG is a sequence of segments, `FF marker length data`, up to the start of the scan. The frame's segment (SOF) holds
the height as two bytes at `height_at`. The end marker is checked too: within the scan FF is always followed by 00 or a
restart marker, so FF D9 after the frame's segment means that the file is whole.
"""

from struct import Struct

from loaderkit._base.system.dataclasses import dataclass

_SOI, _EOI, _SOS, _APP1 = 0xD8, 0xD9, 0xDA, 0xE1
# C4, C8 and CC aren't frames.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
# Markers without a length: TEM and the restart markers.
_ALONE = frozenset({0x01, *range(0xD0, 0xD8)})
# Huffman-coded frames with rows in order: baseline, extended and progressive.
_ROWS_IN_ORDER = frozenset({0xC0, 0xC1, 0xC2})

_FRAME = Struct(">BHHB")  # bits a sample, height, width, components
_LENGTH = Struct(">H")
_ORIENTATION_TAG = 0x0112


@dataclass(frozen=True, slots=True)
class JpegHeader:
    """Height and width as stored, components (1, 3, or 4 for CMYK), EXIF orientation 1 to 8.

    `height_at` is the height's byte offset in the file, None where rows can't be left out.
    """

    height: int
    width: int
    components: int
    orientation: int
    height_at: int | None


def read_header(data: bytes) -> JpegHeader | None:
    """The header of a JPEG, or None for other data; ValueError for a damaged or truncated JPEG.

    >>> read_header(b"\\x89PNG") is None
    True
    """
    if not data.startswith(b"\xff\xd8"):
        return None
    orientation = 1
    for marker, start, end in _segments(data):
        if marker == _APP1 and data[start : start + 6] == b"Exif\0\0":
            orientation = _orientation(data[start + 6 : end])
        elif marker in _FRAMES:
            if end - start < _FRAME.size:
                break
            bits, height, width, components = _FRAME.unpack_from(data, start)
            if height == 0 or width == 0:
                raise ValueError(f"the JPEG is damaged: its header gives {height} rows and {width} columns")
            if data.rfind(b"\xff\xd9", end) < 0:
                raise ValueError(f"the JPEG is truncated: no end marker in its {len(data)} bytes")
            ordered = marker in _ROWS_IN_ORDER and bits == 8 and components in (1, 3)
            return JpegHeader(height, width, components, orientation, start + 1 if ordered else None)
    raise ValueError(f"the JPEG is truncated or damaged: no frame in its {len(data)} bytes")


def _segments(data: bytes) -> list[tuple[int, int, int]]:
    found = []
    at = 2
    while at + 4 <= len(data):
        marker = data[at + 1]
        # Fill bytes and other bytes between segments are skipped, as the decoders do.
        if data[at] != 0xFF or marker in (0x00, 0xFF):
            at += 1
        elif marker in _ALONE:
            at += 2
        elif marker in (_SOI, _EOI, _SOS):
            break
        else:
            end = at + 2 + _LENGTH.unpack_from(data, at + 2)[0]
            if end > len(data):
                break
            found.append((marker, at + 4, end))
            at = end
    return found


def _orientation(exif: bytes) -> int:
    # A damaged EXIF block doesn't affect the pixels: it is ignored, as viewers do.
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(exif[:4])
    if order is None or len(exif) < 8:
        return 1
    (directory,) = Struct(order + "I").unpack_from(exif, 4)
    if directory + 2 > len(exif):
        return 1
    (entries,) = Struct(order + "H").unpack_from(exif, directory)
    entry = Struct(order + "HHIH")  # tag, type, count, value
    for at in range(directory + 2, min(directory + 2 + 12 * entries, len(exif) - 11), 12):
        tag, _, _, value = entry.unpack_from(exif, at)
        if tag == _ORIENTATION_TAG:
            return int(value) if 1 <= value <= 8 else 1
    return 1
