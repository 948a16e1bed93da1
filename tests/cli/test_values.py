"""Values, texts of unknown origin and headers of images."""

import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderkit.cli.image_header import image_header
from loaderkit.cli.printable import printable
from loaderkit.cli.values import value_json, value_text


@given(st.one_of(st.text(), st.binary().map(lambda data: data.decode("utf-8", "surrogateescape"))))
def test_no_control_character_is_printed(text):
    """Whatever a file holds, a terminal shows it and carries out nothing; it can always be encoded."""
    shown = printable(text)
    assert shown.isprintable()
    shown.encode()


@given(st.binary(max_size=200))
def test_any_bytes_are_shown(data):
    """As one printable line, and as JSON."""
    for begin in (b"", b"\x93NUMPY", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF8", b"RIFF1234WEBP", b"BM"):
        assert value_text(begin + data).isprintable()
        json.dumps(value_json(begin + data), allow_nan=False)


@pytest.mark.parametrize("name", ["JPEG", "PNG", "GIF", "WebP", "BMP"])
@pytest.mark.parametrize("size", [(1, 1), (500, 375), (300, 2)])
def test_the_size_of_an_image_is_pillows(name, size):
    """Read from the header alone."""
    image = pytest.importorskip("PIL.Image")
    for mode, options in (("RGB", {}), ("RGB", {"lossless": True}), ("RGBA", {"lossless": True})):
        if (name in ("JPEG", "GIF") and mode == "RGBA") or (options and name != "WebP"):
            continue
        file = io.BytesIO()
        image.new(mode, size, 9).save(file, name, **options)
        header = image_header(file.getvalue())
        assert header is not None and str(header) == f"{name} {size[0]}x{size[1]}"
        assert value_text(file.getvalue()).startswith(f"{name} {size[0]}x{size[1]}, ")


def test_arrays_and_npy():
    """By type, shape and first numbers."""
    file = io.BytesIO()
    np.save(file, np.zeros((3, 4), np.float32))
    assert value_text(file.getvalue()) == "npy float32 (3, 4), 176 B"
    assert value_text(np.arange(20)) == "int64 (20,): 0 1 2 3 4 5 6 7 ..."
    assert value_json(np.float64("nan")) == "nan"
    assert value_text({"a": [1, b"x", None]}) == '{"a": [1, "x", null]}'
