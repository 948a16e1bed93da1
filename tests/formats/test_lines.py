r"""Lines: the scan finds those that Python's reading of a file finds, with \n as the only end."""

import bz2
import gzip
import io
from itertools import pairwise

import pytest
from formats.records import read_of
from hypothesis import given
from hypothesis import strategies as st

from loaderkit._codecs.checksums import data_crc32c
from loaderkit._codecs.scan import Malformed
from loaderkit.formats.text import line_scanner as module
from loaderkit.formats.text.line_scanner import JsonLinesFormat, LinesFormat

TEXTS = st.lists(st.sampled_from([b"\n", b"\r\n", b"\r", b"a", b"bc", " é".encode(), b"\x00"])).map(b"".join)
WINDOWS = st.integers(1, 20)


def scanned(format_: LinesFormat, data: bytes, window: int = 1 << 20) -> list[bytes]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_WINDOW", window)
        found = format_.scan(read_of(data), len(data), checksums=True)
    spans = [data[begin:end] for begin, end in pairwise(found.starts.tolist())]
    assert found.checksums.tolist() == [data_crc32c()(span) for span in spans]
    return spans


@given(TEXTS, WINDOWS)
def test_lines_are_those_of_a_file(data, window):
    """Windows of any size; with a byte order mark, which isn't part of the first."""
    assert scanned(LinesFormat(), data, window) == list(io.BytesIO(data))
    marked = scanned(LinesFormat(), b"\xef\xbb\xbf" + data)
    assert marked == list(io.BytesIO(data))


@given(TEXTS, WINDOWS)
def test_empty_lines_are_no_records_of_json_lines(data, window):
    """They belong to the span of the record before; those at the start to none."""
    spans = scanned(JsonLinesFormat(), data, window)
    kept = [line for line in io.BytesIO(data) if line not in (b"\n", b"\r\n")]
    assert [next(iter(io.BytesIO(span))) for span in spans] == kept
    assert all(line in (b"\n", b"\r\n") for span in spans for line in [*io.BytesIO(span)][1:])
    assert data.endswith(b"".join(spans))


@given(st.binary(max_size=100))
def test_any_bytes_are_scanned_or_malformed(data):
    """All bytes are lines, but for compressed files and other encodings."""
    try:
        assert data.endswith(b"".join(scanned(LinesFormat(), data)))
    except Malformed as error:
        offset = error.offset
    else:
        offset = 0
    assert offset == 0


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (bz2.compress(b"one\n"), "bzip2 -d"),
        (gzip.compress(b"one\n", mtime=0)[:-1], "end of the file"),
        ("one\n".encode("utf-16"), "UTF-8"),
        (b"\x28\xb5\x2f\xfd..", "a frame"),
    ],
)
def test_what_has_no_lines_in_its_bytes_is_refused(data, text):
    """With what to do."""
    with pytest.raises(Malformed, match=text):
        scanned(LinesFormat(), data)


def test_a_file_that_became_shorter_is_malformed():
    """The scan ends, though the size promised more."""
    with pytest.raises(Malformed, match="truncated"):
        LinesFormat().scan(lambda at, length: b"one\n"[at : at + length], 100)
