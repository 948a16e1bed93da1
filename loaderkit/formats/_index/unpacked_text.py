"""The text of files compressed by zstd or gzip: from front to back, and block by block.

Such a file is a sequence of zstd's frames or gzip's members, each of which is unpacked by itself. A block is one of
them, or several small ones; they may be cut anywhere in the text. A large member of gzip has blocks within it: each
begins where deflate begins a block of its own, at any bit, and needs the 32 KiB of text before it.
"""

import sys
import zlib
from array import array
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.system.optional_library import library
from loaderkit._codecs.checksums import span_checksums
from loaderkit._codecs.scan import Malformed, ReadAt, ShardScan, TextBlocks, compressed_by

from .gzip_points import WINDOW_BYTES, gzip_points

# Text that one read unpacks at most. Beyond it a frame is read from front to back alone.
MOST_UNPACKED = 64 << 20
# Frames are joined until a block has so much text, so that the table of blocks stays small beside the text.
_LEAST_BLOCK = 32 << 10
# A member of gzip with more text gets blocks within it.
_LARGE_MEMBER = 4 << 20
_NO_WINDOWS = np.empty((0, WINDOW_BYTES), np.uint8)
_PIECE = 1 << 20  # bytes read at once, of text that is made at once, and of text that is kept behind a read
_AGAIN = "copy the file again"


def zstd_library() -> Any:
    """Python's module for zstd, or its copy for older versions; an ImportError that names the extra without it."""
    module = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    return library(module, "files compressed by zstd need", "compressed", package="backports.zstd")


class _GzipMember:
    """A member of gzip, unpacked by the calls of zstd's decompressor."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(wbits=31)

    def decompress(self, data: bytes | memoryview, max_length: int) -> bytes:
        left = self._inflate.unconsumed_tail
        return self._inflate.decompress(left + data if left else data, max_length)

    @property
    def needs_input(self) -> bool:
        return not self._inflate.unconsumed_tail

    @property
    def eof(self) -> bool:
        return self._inflate.eof

    @property
    def unused_data(self) -> bytes:
        return self._inflate.unused_data


def _opened(begin: bytes, at: int) -> tuple[Any, tuple[type[Exception], ...]]:
    """What unpacks a frame or a member that begins so at a byte, and its errors; Malformed for other bytes."""
    program = compressed_by(begin)
    if program == "zstd":
        zstd = zstd_library()
        return zstd.ZstdDecompressor(), (zstd.ZstdError,)
    if program == "gzip":
        return _GzipMember(), (zlib.error,)
    problem = f"expected a frame of zstd, a member of gzip or the end of the file, got {begin!r}"
    raise Malformed(at, problem, _AGAIN)


class UnpackedText:
    r"""The text of a compressed file, a `ReadAt` for reads from front to back; one far before the last begins again.

    Args:
        read: gives the file's bytes.
        size: of the file.
        at_once: bytes of the file that are read at once, and of text that is made.

    begin, end: what of the text is at hand.
    Malformed with the place in the file where it is cut off, damaged or followed by other bytes.

    >>> import gzip
    >>> data = gzip.compress(b"one\n") + gzip.compress(b"two\n")
    >>> text = UnpackedText(lambda at, length: data[at : at + length], len(data))
    >>> text(2, 4), text(6, 100), text.blocks().texts
    (b'e\ntw', b'o\n', array([0, 8]))
    """

    def __init__(self, read: ReadAt, size: int, *, at_once: int | None = None) -> None:
        self._read, self._size, self._at_once = read, size, at_once or _PIECE
        self._begin_again()

    def _begin_again(self) -> None:
        # The bytes of the file that were read, and the last of them, not unpacked yet.
        self._at, self._waiting = 0, b""
        self._frame: Any = None
        self._errors: tuple[type[Exception], ...] = ()
        self.begin, self._text = 0, b""
        # Of each block its first byte in the file, its end there, its first byte in the text.
        self._blocks = array("q")

    @property
    def end(self) -> int:
        return self.begin + len(self._text)

    @property
    def frame_ended(self) -> bool:
        """Whether the text at hand ends with that of a frame or a member."""
        return self._frame is None

    def __call__(self, offset: int, length: int) -> bytes:
        """The bytes of the text, fewer at its end only."""
        if offset < self.begin:
            self._begin_again()
        while self.end < offset + length and (piece := self._next()):
            drop = max(0, min(offset - self.begin, len(self._text) - _PIECE))
            self._text = self._text[drop:] + piece
            self.begin += drop
        at = offset - self.begin
        return self._text[at : at + length]

    def _next(self) -> bytes:
        """The next piece of the text, b"" at its end."""
        while self._frame is not None or self._begin_frame():
            frame = self._frame
            data = self._input() if frame.needs_input else b""
            try:
                piece: bytes = frame.decompress(data, self._at_once)
            except self._errors as error:
                problem = f"expected the rest of a frame or a member, got other bytes: {error}"
                raise Malformed(self._at - len(data), problem, _AGAIN) from None
            if not (piece or data or frame.eof):
                raise Malformed(
                    self._size, "expected the rest of a frame or a member, got the end of the file", _AGAIN
                )
            self._blocks[-2] = self._at
            if frame.eof:
                self._waiting, self._frame = frame.unused_data, None
                self._end_frame(self._at - len(self._waiting), self.end + len(piece))
            if piece:
                return piece
        return b""

    def _input(self) -> bytes:
        if not self._waiting and self._at < self._size:
            self._waiting = self._read(self._at, min(self._at_once, self._size - self._at))
            self._at += len(self._waiting)
        data, self._waiting = self._waiting, b""
        return data

    def _begin_frame(self) -> bool:
        data = self._input().lstrip(b"\0")  # zeros may pad the end
        while not data and self._at < self._size:
            data = self._input().lstrip(b"\0")
        while len(data) < 4 and self._at < self._size:
            data += self._input()
        self._waiting = data
        if not data:
            return False
        self._frame, self._errors = _opened(data[:4], self._at - len(data))
        self._blocks.extend((self._at - len(data), self._at, self.end))
        return True

    def _end_frame(self, at: int, text: int) -> None:
        blocks = self._blocks
        blocks[-2] = at
        if len(blocks) > 3 and blocks[-1] - blocks[-4] < _LEAST_BLOCK and text - blocks[-1] < _LEAST_BLOCK:
            del blocks[-3:]
            blocks[-2] = at

    def blocks(self) -> TextBlocks:
        """The blocks of the text, once it was read to its end; an ImportError where a large member needs a library."""
        first, ends, texts = np.array(self._blocks, np.int64).reshape(-1, 3).T
        whole = np.diff(texts, append=self.end) > 0
        first, ends, texts = first[whole], ends[whole], np.append(texts[whole], self.end)
        parts = [
            gzip_points(self._read, begin, end)
            if nbytes > _LARGE_MEMBER and compressed_by(self._read(begin, 4)) == "gzip"
            else (np.array([8 * begin]), np.zeros(1, np.int64), _NO_WINDOWS)
            for begin, end, nbytes in zip(first.tolist(), ends.tolist(), np.diff(texts).tolist())
        ]
        if not parts:
            none = np.zeros(1, np.int64)
            return TextBlocks(none, none, none[:0], _NO_WINDOWS)
        bits, places, windows = zip(*parts)
        has_window = np.repeat([len(each) > 0 for each in windows], [*map(len, bits)])
        return TextBlocks(
            np.append(np.concatenate(bits), 8 * ends[-1]),
            np.append(np.concatenate([*map(np.add, places, texts.tolist())]), self.end),
            np.where(has_window, np.cumsum(has_window) - 1, -1),
            np.concatenate(windows),
        )


def scan_text(
    read: ReadAt, size: int, starts: Callable[[ReadAt, int | None], NDArray[np.uint64]], *, checksums: bool
) -> ShardScan:
    """The scan of a file, which may be compressed.

    Args:
        read: gives the file's bytes.
        size: of the file.
        starts: gives those of the records, of what reads the text and of its size, None where its end isn't known.
        checksums: whether the scan has them.
    """
    if compressed_by(read(0, 4)) not in ("zstd", "gzip"):
        found = starts(read, size)
        return ShardScan(found, checksums=span_checksums(read, found) if checksums else None)
    text = UnpackedText(read, size)
    found, blocks = starts(text, None), text.blocks()
    return ShardScan(found, checksums=span_checksums(text, found) if checksums else None, blocks=blocks)


def unpacked_block(data: bytes | memoryview, nbytes: int, bit: int, window: bytes | None) -> bytes:
    r"""The text of a block; ValueError where its bytes aren't those that were scanned.

    Args:
        data: of the file, from the byte on in which the block begins.
        nbytes: of its text.
        bit: of the first byte, at which it begins.
        window: the text before it, of a block within a member of gzip.

    >>> import gzip
    >>> unpacked_block(gzip.compress(b"one\n"), 4, 0, None)
    b'one\n'
    """
    if window is not None:
        return _rest_of_member(data, nbytes, bit, window)
    read = memoryview(data)
    # More at once than there is, so that a frame's end and its checksum are read with its text.
    at_once = max(len(data), nbytes) + 1
    text = UnpackedText(lambda at, length: bytes(read[at : at + length]), len(data), at_once=at_once)
    found = text(0, nbytes)
    if text.end != nbytes or not text.frame_ended:
        raise ValueError(f"expected {nbytes} bytes of text, got {text.end}, or a part of a frame or a member")
    return found


def _rest_of_member(data: bytes | memoryview, nbytes: int, bit: int, window: bytes) -> bytes:
    if bit:
        each = np.frombuffer(data, np.uint8)
        data = (each >> bit | np.append(each[1:], np.uint8(0)) << (8 - bit)).tobytes()
    try:
        text = zlib.decompressobj(wbits=-15, zdict=window).decompress(data, nbytes)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if len(text) != nbytes:
        raise ValueError(f"expected {nbytes} bytes of text, got {len(text)}")
    return text
