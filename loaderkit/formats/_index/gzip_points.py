"""Places within a member of gzip from which it can be unpacked, found by the library indexed_gzip."""

import io
import struct

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.system.optional_library import library
from loaderkit._codecs.scan import Malformed, ReadAt
from loaderkit._storage.range_file import RangeFile

WINDOW_BYTES = 1 << 15  # of text that deflate refers back to
# Text between two points: each has a window in the index, and a read unpacks half of it on average.
_SPACING = 1 << 20
# The library's own file: its name and version, flags, sizes of both files, spacing, window, number of points; of each
# point its byte in the file and in the text, the bits of the byte before that belong to it, whether it has a window.
_HEAD = struct.Struct("<5sBBQQIII")
_POINT = np.dtype([("file", "<u8"), ("text", "<u8"), ("bits", "u1"), ("has_window", "u1")])


def gzip_points(
    read: ReadAt, begin: int, end: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
    """Points in a member: their bits in the file, their places in its text, (n,) each, and windows, (n, 32768).

    Args:
        read: gives the file's bytes.
        begin, end: of the member.
    """
    found = library("indexed_gzip", "large members of gzip need", "compressed")
    written = io.BytesIO()
    member = RangeFile(lambda at, length: read(begin + at, length), end - begin)
    with found._IndexedGzipFile(  # the plain class: the other one has a buffer and a lock
        fileobj=io.BufferedReader(member, 1 << 20),
        spacing=_SPACING,
        window_size=WINDOW_BYTES,
    ) as file:
        file.build_full_index()
        file.export_index(fileobj=written)
    data = written.getbuffer()
    name, version, _, _, nbytes, *_, count = _HEAD.unpack_from(data)
    points = np.frombuffer(data, _POINT, count, _HEAD.size)
    windows = np.frombuffer(data, np.uint8, offset=_HEAD.size + points.nbytes).reshape(-1, WINDOW_BYTES)
    has_window = points["has_window"].tolist()
    if (name, version) != (b"GZIDX", 1) or not count or has_window != [0] + [1] * (count - 1):
        raise Malformed(begin, "expected points of indexed_gzip as its version 1.10 writes them, got others")
    bits = 8 * points["file"].astype(np.int64) - points["bits"] + 8 * begin
    # There is no text before the first point, and none is asked for.
    nothing = np.zeros((1, WINDOW_BYTES), np.uint8)
    texts = points["text"].astype(np.int64)
    kept = np.diff(texts, append=nbytes) > 0  # the last one may lie behind all text
    return bits[kept], texts[kept], np.concatenate([nothing, windows])[kept]
