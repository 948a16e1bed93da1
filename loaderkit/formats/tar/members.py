"""The regular members of a tar archive, in order. Members of other kinds are skipped, damage is found on the way."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from loaderkit._codecs.scan import Malformed, ReadAt, compressed_by

from .header import BLOCK, COPY_AGAIN, checksums_hold, cut, name_of, number, padded, pax_records

# Where headers lie near each other one read gives many of them; where they are far apart a read gives one header and
# what lies beside it, and the values aren't read. Members of 10 KB in the page cache take 6.0 us each with windows of
# 64 KiB and 7.2 us with short ones.
WINDOW, SHORT_WINDOW, NEAR = 64 << 10, 2 << 10, 16 << 10
# A check of one header takes 25 us, of 256 together 0.27 us each.
CHECKED_TOGETHER = 256
# An extended header holds a name or attributes; a larger one is damage, and would be read into memory whole.
MOST_EXTENDED = 16 << 20

_REGULAR, _OLD_REGULAR, _CONTIGUOUS = b"0\x007"
_WITHOUT_DATA = frozenset(b"123456")  # links, devices, folders and pipes, whatever their size says
_PAX, _SOLARIS_PAX, _GLOBAL, _LONG_NAME, _LONG_LINK = b"xXgLK"
_EXTENDED = frozenset((_PAX, _SOLARIS_PAX, _GLOBAL, _LONG_NAME, _LONG_LINK))
_SPARSE, _CONTINUED = b"SM"
_REPACK = "unpack the shard and write it again: tar --create --format=pax, without --sparse"


class Member(NamedTuple):
    """One regular member: where its first header and its value begin, the value's size, in bytes, and its name."""

    begin: int
    data: int
    size: int
    name: bytes


class _Walked(NamedTuple):
    """What was found and not yielded yet: headers, their offsets, and members."""

    headers: list[bytes]
    offsets: list[int]
    members: list[Member]


class MemberReader:
    """Reads the members of one archive, in windows, none of which is kept.

    Args:
        read: gives bytes of the archive.
        size: of the archive, bytes.
        span: True for consecutive members cut out of an archive: no end mark is expected, and no checksum is compared.
    """

    def __init__(self, read: ReadAt, size: int, *, span: bool = False) -> None:
        self._read, self._size, self._span = read, size, span
        self._ended = False  # the end mark was seen
        self._extended: int | None = None  # where the extended headers of the next member begin
        self._name: bytes | None = None  # the name and the size that they give it
        self._length: int | None = None

    def batches(self) -> Iterator[list[Member]]:
        """The members, some hundreds at a time; Malformed where the archive is damaged or is none."""
        position, length, found = 0, WINDOW, _Walked([], [], [])
        try:
            while not self._ended and not (self._span and position == self._size):
                window = self._window(position, length)
                offsets, before = found.offsets, len(found.offsets)
                behind, least = self._walk(window, position, found)
                if behind > self._size:
                    raise Malformed(
                        offsets[-1],
                        f"the member takes {behind - offsets[-1]} bytes and the archive ends after "
                        f"{self._size - offsets[-1]}: it is truncated",
                        COPY_AGAIN,
                    )
                near = behind - position <= NEAR * (len(offsets) - before)
                length = max(least, WINDOW if near else SHORT_WINDOW)
                position = behind
                if len(found.headers) >= CHECKED_TOGETHER:
                    self._check(found)
                    yield found.members
                    found = _Walked([], [], [])
            if self._extended is not None:
                raise _without_member(self._extended)
            if not self._span:
                self._check_rest(position)
        except Malformed:
            self._check(found)  # an earlier header may be the cause
            raise
        self._check(found)
        yield found.members

    def _window(self, position: int, length: int) -> bytes:
        length = min(length, self._size - position)
        if length < BLOCK:
            if position == 0:
                raise _not_a_header(0, self._read(0, length))
            raise Malformed(
                position,
                "expected a member or the end mark, got the end of the file: it is truncated",
                f"{COPY_AGAIN}; where no member is missing, add the end mark: head -c 1024 /dev/zero >> SHARD",
            )
        window = self._read(position, length)
        if len(window) < length:
            raise Malformed(position + len(window), f"expected {self._size} bytes, got no more", COPY_AGAIN)
        return window

    def _walk(self, window: bytes, base: int, found: _Walked) -> tuple[int, int]:
        """Adds what a window holds; gives where the next header lies, and how long the next window must be."""
        headers, offsets, members = found
        at, last = 0, len(window) - BLOCK
        while at <= last:
            if window[at + 156] == _REGULAR and self._extended is None and window[at + 135] in b"\0 ":
                # Most headers: an octal size, and a name of up to 100 bytes.
                try:
                    size = int(window[at + 124 : at + 135], 8)
                except ValueError:
                    size = -1
                if size >= 0 and not window[at + 345]:
                    headers.append(window[at : at + BLOCK])
                    offsets.append(base + at)
                    stop = window.find(0, at, at + 100)
                    name = window[at : stop if stop >= 0 else at + 100]
                    members.append(Member(base + at, base + at + BLOCK, size, name))
                    at += (size + 1023) & -BLOCK
                    continue
            if window[at + 156] == 0 and window.count(0, at, at + BLOCK) == BLOCK:
                if self._span:
                    raise Malformed(base + at, "expected a tar header, got the end mark", COPY_AGAIN)
                self._ended = True
                return base + at + BLOCK, 0
            at, least = self._unusual(window, base, at, found)
            if least:
                return base + at, least
        return base + at, 0

    def _unusual(self, window: bytes, base: int, at: int, found: _Walked) -> tuple[int, int]:
        """Reads any header but a plain one, as `_walk` does; gives where the next one lies in the window."""
        header, offset = window[at : at + BLOCK], base + at
        found.headers.append(header)
        found.offsets.append(offset)
        try:
            size = number(header[124:136])
        except ValueError:
            problem = f"expected a size in the header, got {header[124:136]!r}"
            raise Malformed(offset, problem, COPY_AGAIN) from None
        if header[156] not in _EXTENDED:
            return at + self._member(header, offset, size, found.members), 0
        if size > MOST_EXTENDED:
            problem = f"expected an extended header of at most {MOST_EXTENDED} bytes, got {size}"
            raise Malformed(offset, problem, COPY_AGAIN)
        behind = at + BLOCK + padded(size)
        if base + behind > self._size:
            return behind, 0
        if behind > len(window):
            found.headers.pop()
            found.offsets.pop()
            return at, behind - at
        if self._extended is None and header[156] != _GLOBAL:
            self._extended = offset
        self._extend(header[156], window[at + BLOCK : at + BLOCK + size], offset + BLOCK)
        return behind, 0

    def _member(self, header: bytes, offset: int, size: int, members: list[Member]) -> int:
        """Adds a member if it is a regular one; gives its bytes, its header included."""
        kind, begin = header[156], offset if self._extended is None else self._extended
        name = name_of(header) if self._name is None else self._name
        size = size if self._length is None else self._length
        self._extended = self._name = self._length = None
        if kind == _SPARSE:
            raise _sparse(offset)
        if kind == _CONTINUED:
            raise Malformed(offset, "expected a whole member, got the rest of one of another volume", _REPACK)
        folder = kind == _OLD_REGULAR and cut(header[:100]).endswith(b"/")
        if kind in _WITHOUT_DATA or folder:
            return BLOCK
        if kind in (_REGULAR, _OLD_REGULAR, _CONTIGUOUS):
            members.append(Member(begin, offset + BLOCK, size, name))
        return BLOCK + padded(size)

    def _extend(self, kind: int, payload: bytes, offset: int) -> None:
        """Keeps what an extended header says of the next member. Of several the first goes before the others."""
        if kind == _LONG_NAME:
            self._name = cut(payload) if self._name is None else self._name
        if kind in (_LONG_NAME, _LONG_LINK) or not any(
            word in payload for word in (b"path=", b"size=", b"GNU.sparse.")
        ):
            return
        records = pax_records(payload, offset)
        if any(keyword.startswith(b"GNU.sparse.") for keyword in records):
            raise _sparse(offset - BLOCK)
        if kind == _GLOBAL:
            if b"path" in records or b"size" in records:
                problem = (
                    "expected a global header without path and size, which are of one member, got one with"
                )
                raise Malformed(offset - BLOCK, problem, _REPACK)
            return
        if b"path" in records and self._name is None:
            self._name = records[b"path"].rstrip(b"/")
        if b"size" in records and self._length is None:
            if not records[b"size"].isdigit() or len(records[b"size"]) > 20:
                problem = f"expected a size in the pax header, got {records[b'size'][:20]!r}"
                raise Malformed(offset, problem, COPY_AGAIN)
            self._length = int(records[b"size"])

    def _check(self, found: _Walked) -> None:
        if self._span or not found.headers:
            return
        holds = checksums_hold(np.frombuffer(b"".join(found.headers), np.uint8).reshape(-1, BLOCK))
        if not holds.all():
            first = int(np.argmin(holds))
            raise _not_a_header(found.offsets[first], found.headers[first])

    def _check_rest(self, position: int) -> None:
        """Readers stop at the end mark: what lies behind it would be lost without a word."""
        while position < self._size:
            rest = self._read(position, min(1 << 20, self._size - position))
            if zeros := len(rest) - len(rest.lstrip(b"\0")) if rest else 0:
                position += zeros
            if not rest:
                raise Malformed(position, f"expected {self._size} bytes, got no more", COPY_AGAIN)
            if zeros < len(rest):
                raise Malformed(
                    position,
                    f"expected zeros behind the end mark, got {rest[zeros : zeros + 12]!r}",
                    "if archives were joined by cat, join them by: tar --concatenate --file=FIRST.tar NEXT.tar",
                )


def _without_member(offset: int) -> Malformed:
    return Malformed(offset, "expected a member behind the extended header, got none", COPY_AGAIN)


def _sparse(offset: int) -> Malformed:
    return Malformed(offset, "expected a member stored whole, got a sparse one", _REPACK)


def _not_a_header(offset: int, got: bytes) -> Malformed:
    if offset == 0 and (name := compressed_by(got)) is not None:
        problem = f"expected a tar archive, got one compressed by {name}"
        return Malformed(0, problem, f"unpack it once: `{name} -dc SHARD > NEW.tar`")
    if offset == 0 and got[:12].strip(b"\0"):
        remedy = f"if it is a tar archive at all, {COPY_AGAIN}; else use the source of its format"
        return Malformed(0, f"expected a tar header with a right checksum, got {got[:12]!r}", remedy)
    return Malformed(offset, f"expected a tar header with a right checksum, got {got[:12]!r}", COPY_AGAIN)
