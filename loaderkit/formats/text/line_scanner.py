r"""Text with a record a line: each ends in \n or \r\n, the last one perhaps in neither."""

from array import array
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from loaderkit._codecs.scan import Malformed, ReadAt, ShardScan, compressed_by
from loaderkit.formats._index.unpacked_text import scan_text

# Bytes read at once. A window and its mask stay in a processor's cache; fewer bytes would take more calls of numpy.
_WINDOW = 1 << 20
BOM = b"\xef\xbb\xbf"  # UTF-8's byte order mark
_RETURN = 13
_TO_UTF8 = "write it as UTF-8, for example by iconv"

# Takes a window and its offset; gives the offsets behind the ends of the lines, (n,) int64 in rising order.
LineEnds = Callable[[bytes, int], NDArray[np.int64]]


class LinesFormat:
    r"""Files of text, a record a line; an empty line is a record. A byte order mark of UTF-8 belongs to no record.

    Files may be compressed by zstd or gzip: then places are those of the text.

    >>> data = b"one\r\n\nthree"
    >>> LinesFormat().scan(lambda at, length: data[at : at + length], len(data)).starts
    array([ 0,  5,  6, 11], dtype=uint64)
    """

    kind = "lines"
    unit = 1
    _empty_lines = True

    def scan(
        self, read: ReadAt, size: int, *, members: bool = True, keys: bool = False, checksums: bool = False
    ) -> ShardScan:
        """Where the lines lie; Malformed where the file is of UTF-16 or UTF-32, or compressed by other programs."""
        return scan_text(
            read,
            size,
            lambda text, end: line_starts(text, end, newlines, empty_lines=self._empty_lines),
            checksums=checksums,
        )


class JsonLinesFormat(LinesFormat):
    r"""Files of JSON Lines. An empty line is no record: it belongs to the span of the record before it.

    >>> data = b'{"x": 1}\n\n[2]\n\n'
    >>> JsonLinesFormat().scan(lambda at, length: data[at : at + length], len(data)).starts
    array([ 0, 10, 15], dtype=uint64)
    """

    kind = "json_lines"
    _empty_lines = False


def newlines(window: bytes, at: int) -> NDArray[np.int64]:
    r"""The offsets behind each \n of a window.

    >>> newlines(b"a\nb\n", 100)
    array([102, 104])
    """
    return np.flatnonzero(np.frombuffer(window, np.uint8) == 10) + (at + 1)


def line_starts(
    read: ReadAt, size: int | None, line_ends: LineEnds, *, empty_lines: bool
) -> NDArray[np.uint64]:
    """Where each line begins, and where the last one ends, (lines + 1,).

    Args:
        read: gives the text's bytes.
        size: of the text, in bytes; None where it ends where `read` gives no more.
        line_ends: called with each window, in order; the last line may end at `size` without being told.
        empty_lines: whether an empty line is one. Otherwise it belongs to the one before it, and those in front of the
            first line to none.

    >>> line_starts(lambda at, length: b"\\n1\\n"[at : at + length], 3, newlines, empty_lines=False)
    array([1, 3], dtype=uint64)
    """
    found = array("Q")
    at, begin, before = 0, 0, b""  # before: the last byte of the window before this one
    while size is None or at < size:
        window = read(at, _WINDOW if size is None else min(_WINDOW, size - at))
        if not window:
            if size is None:
                break
            raise Malformed(at, f"expected {size} bytes, got the end of the file", "the file is truncated")
        if not at:
            begin = _text_start(window)
        ends = line_ends(window, at)
        if len(ends):
            begins = np.concatenate(([begin], ends[:-1]))
            begin = int(ends[-1])
            if not empty_lines:
                begins = begins[~_are_empty(begins, ends, before + window, at - len(before))]
            found.frombytes(begins.astype(np.uint64).tobytes())
        at += len(window)
        before = window[-1:]
    if begin < at:
        found.append(begin)
    found.append(at)
    return np.frombuffer(found, np.uint64)


def _are_empty(
    begins: NDArray[np.int64], ends: NDArray[np.int64], window: bytes, at: int
) -> NDArray[np.bool_]:
    lengths = ends - begins
    empty: NDArray[np.bool_] = lengths == 1
    two = np.flatnonzero(lengths == 2)
    empty[two] = np.frombuffer(window, np.uint8)[ends[two] - (at + 2)] == _RETURN
    return empty


def _text_start(window: bytes) -> int:
    """Where the text begins; Malformed where the bytes can't be text with a byte for a newline."""
    if (name := compressed_by(window)) is not None:
        remedy = f"its lines can't be read in any order; unpack it first: {name} -d"
        raise Malformed(0, f"expected text, got a file compressed by {name}", remedy)
    if window.startswith((b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")):
        raise Malformed(0, "expected an encoding with a byte for a newline, got UTF-16 or UTF-32", _TO_UTF8)
    return len(BOM) if window.startswith(BOM) else 0
