"""What a JPEG's header says, and that no bytes make the reader raise anything but ValueError."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from image_files import encoded, photograph

from loaderkit.transforms.image.header import JpegHeader, read_header

SMALL = np.arange(5 * 9 * 3, dtype=np.uint8).reshape(5, 9, 3)


def test_the_header_of_a_plain_jpeg():
    """Rows before columns, and the place of the height holds the height."""
    data = encoded(SMALL)
    header = read_header(data)
    assert header is not None and header.height_at is not None
    assert header == JpegHeader(5, 9, 3, 1, header.height_at)
    assert data[header.height_at : header.height_at + 2] == (5).to_bytes(2)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_orientation_is_read(orientation):
    """Each of the eight that EXIF knows, in either byte order."""
    data = encoded(SMALL, orientation=orientation)
    assert read_header(data).orientation == orientation
    tag = b"\x01\x12" if b"Exif\0\0MM" in data else b"\x12\x01"
    assert tag in data
    if tag == b"\x01\x12":
        flipped = _little_endian_exif(orientation)
    else:
        flipped = _big_endian_exif(orientation)
    start = data.index(b"Exif\0\0") - 4
    length = int.from_bytes(data[start + 2 : start + 4])
    assert read_header(data[:start] + flipped + data[start + 2 + length :]).orientation == orientation


def _little_endian_exif(orientation: int) -> bytes:
    body = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0" + bytes([orientation, 0, 0, 0]) + bytes(4)
    return b"\xff\xe1" + (len(body) + 2).to_bytes(2) + body


def _big_endian_exif(orientation: int) -> bytes:
    body = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01" + bytes([0, orientation, 0, 0]) + bytes(4)
    return b"\xff\xe1" + (len(body) + 2).to_bytes(2) + body


@pytest.mark.parametrize(
    ("how", "components"),
    [({}, 3), ({"progressive": True}, 3), ({"subsampling": "4:2:0"}, 3), ({"restart_marker_rows": 1}, 3)],
)
def test_frames_whose_rows_can_be_left_out(how, components):
    """Baseline and progressive files, at any subsampling."""
    header = read_header(encoded(photograph()[:40, :50], **how))
    assert (header.height, header.width, header.components) == (40, 50, components)
    assert header.height_at is not None


def test_rows_of_cmyk_are_all_read():
    """Four components have no such shortcut."""
    from PIL import Image

    header = read_header(encoded(Image.fromarray(SMALL).convert("CMYK")))
    assert (header.components, header.height_at) == (4, None)


def test_what_is_not_a_jpeg_has_no_header():
    """Other formats are decoded in another way, so this isn't an error."""
    assert read_header(encoded(SMALL, "PNG")) is None
    assert read_header(b"") is None


@given(st.data())
def test_a_cut_off_jpeg_is_an_error(data):
    """At any length, even if a thumbnail has an end marker of its own."""
    whole = encoded(SMALL, orientation=6)
    whole = whole[:2] + b"\xff\xe2\x00\x06\xff\xd9\xff\xd9" + whole[2:]
    assert read_header(whole) is not None
    cut = data.draw(st.integers(2, len(whole) - 1))
    with pytest.raises(ValueError, match="truncated"):
        read_header(whole[:cut])


@given(st.binary(max_size=80), st.integers(0, 300), st.binary(max_size=6))
def test_any_bytes_give_a_header_or_a_value_error(noise, place, patch):
    """Damage never becomes an IndexError or an endless loop."""
    damaged = bytearray(encoded(SMALL, orientation=8))
    damaged[place : place + len(patch)] = patch
    for data in (b"\xff\xd8" + noise, bytes(damaged)):
        try:
            header = read_header(data)
        except ValueError:
            continue
        assert header is None or (header.height > 0 and header.width > 0 and 1 <= header.orientation <= 8)
