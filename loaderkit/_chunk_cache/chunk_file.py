"""One chunk on disk: its bytes, and a footer that says which chunk it is and whether it is whole.

    payload | magic, number, begin, length, key, boot, kind, checksum of the payload | crc32 of the footer before it

    number   of the chunk among those of the index, as chunk_numbers.py counts them
    begin    where the payload begins in its shard, in bytes
    key      digest of the index and of the size of its chunks
    boot     id of the system's boot in which the file was written, or checked last
    kind     of the checksum: CRC32C where google_crc32c is installed, which takes 0.07 ms for 1 MiB, else zlib's CRC32,
             which takes 0.6 ms; a file whose checksum can't be computed here is fetched again

A file gets its name by a rename when it is complete, without fsync. A process that is killed leaves a temporary file;
only the crash of a system can leave a torn file under a chunk's name, so the checksum of the payload is computed once
after each boot. The footer and the size are checked at every opening.
"""

import contextlib
import fcntl
import functools
import os
import re
import secrets
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from loaderkit._system.descriptors import above_standard

from .boot import boot_id

MAGIC = b"LKCHUNK1"
_FIELDS = struct.Struct("<8sQQQ32s16sII")
_CRC = struct.Struct("<I")
FOOTER_BYTES = _FIELDS.size + _CRC.size
_TEMPORARY = re.compile(r"[0-9a-f]+\.chunk\.[0-9]+\.[0-9a-f]{12}\.tmp")  # as `_new_temporary` names them
_CRC32C, _CRC32 = 1, 2  # kinds of checksums
_PIECE = 1 << 20  # bytes of a payload that are checked at once


@dataclass(frozen=True, slots=True)
class Footer:
    """What a file says of itself.

    >>> Footer.read(Footer(7, 0, 100, bytes(32), bytes(16), 1, 0).packed()).number
    7
    """

    number: int
    begin: int
    length: int
    key: bytes
    boot: bytes
    kind: int
    checksum: int

    def packed(self) -> bytes:
        """Its bytes at the file's end."""
        fields = _FIELDS.pack(
            MAGIC, self.number, self.begin, self.length, self.key, self.boot, self.kind, self.checksum
        )
        return fields + _CRC.pack(zlib.crc32(fields))

    @classmethod
    def read(cls, packed: bytes) -> "Footer | None":
        """The footer in the last bytes of a file, None where they aren't one."""
        if len(packed) != FOOTER_BYTES or packed[: len(MAGIC)] != MAGIC:
            return None
        fields = packed[: _FIELDS.size]
        if _CRC.unpack(packed[_FIELDS.size :])[0] != zlib.crc32(fields):
            return None
        return cls(*_FIELDS.unpack(fields)[1:])


class ChunkFile:
    """An open chunk. Its file may be evicted meanwhile: the bytes stay readable until the last reference is gone.

    Args:
        descriptor: open for reading; it is closed with this object.
        begin: where the payload begins in its shard.
        length: bytes of the payload.
    """

    __slots__ = ("begin", "descriptor", "length")
    # In place of a global, which may be gone when the interpreter ends.
    _close: ClassVar = staticmethod(os.close)

    def __init__(self, descriptor: int, begin: int, length: int) -> None:
        self.descriptor, self.begin, self.length = descriptor, begin, length

    def read(self, begin: int, end: int) -> bytes | None:
        """The bytes begin to end of the shard; None where the file was cut after it was opened."""
        data = os.pread(self.descriptor, end - begin, begin - self.begin)
        return data if len(data) == end - begin else None

    def __del__(self) -> None:
        self._close(self.descriptor)


@dataclass(frozen=True, slots=True)
class ChunkInMemory:
    """A fetched chunk that couldn't be stored.

    payload: its bytes. begin: where they begin in their shard.
    """

    payload: bytes | memoryview
    begin: int

    def read(self, begin: int, end: int) -> bytes | None:
        """The bytes begin to end of the shard."""
        return bytes(self.payload[begin - self.begin : end - self.begin])


def footer_of(descriptor: int) -> Footer | None:
    """The footer of an open file; None where it has none, or the file isn't as long as the footer says."""
    size = os.fstat(descriptor).st_size
    if size < FOOTER_BYTES:
        return None
    footer = Footer.read(os.pread(descriptor, FOOTER_BYTES, size - FOOTER_BYTES))
    return footer if footer is not None and footer.length == size - FOOTER_BYTES else None


def open_chunk(path: str, number: int, key: bytes) -> ChunkFile | None:
    """The chunk with that number in a file; None where there is none, or it is torn or of another index."""
    try:
        with above_standard():
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:  # not there, or not ours to read
        return None
    try:
        footer = footer_of(descriptor)
        whole = footer is not None and footer.number == number and footer.key == key
        if not whole or not _is_whole(descriptor, footer):
            os.close(descriptor)
            return None
        with contextlib.suppress(OSError):
            os.utime(descriptor)  # the eviction's time of last use: that of the file system may be off
    except OSError:
        os.close(descriptor)
        return None
    assert footer is not None
    return ChunkFile(descriptor, footer.begin, footer.length)


@functools.cache
def _checksums() -> dict[int, Callable[[int, bytes | memoryview], int]]:
    """What continues a checksum with the bytes that follow, by kind; the first is for new files."""
    found: dict[int, Callable[[int, bytes | memoryview], int]] = {}
    with contextlib.suppress(ImportError):
        import google_crc32c

        # It takes no memoryview, but an array of its bytes.
        found[_CRC32C] = lambda checksum, data: google_crc32c.extend(checksum, np.frombuffer(data, np.uint8))
    found[_CRC32] = lambda checksum, data: zlib.crc32(data, checksum)
    return found


def _is_whole(descriptor: int, footer: Footer | None) -> bool:
    assert footer is not None
    boot = boot_id()
    if boot and footer.boot == boot:
        return True
    extend = _checksums().get(footer.kind)
    if extend is None:
        return False
    checksum = 0
    for low in range(0, footer.length, _PIECE):
        checksum = extend(checksum, os.pread(descriptor, min(_PIECE, footer.length - low), low))
    if checksum != footer.checksum:
        return False
    if boot:
        os.pwrite(descriptor, replace(footer, boot=boot).packed(), footer.length)
    return True


def write_chunk(path: str, number: int, begin: int, payload: bytes | memoryview, key: bytes) -> ChunkFile:
    """Writes a chunk and gives it open.

    Raises OSError where the disk doesn't take it; then nothing is left under its name.
    """
    try:
        temporary, descriptor = _new_temporary(path)
    except FileNotFoundError:  # the first chunk in its folder
        os.makedirs(os.path.dirname(path), exist_ok=True)
        temporary, descriptor = _new_temporary(path)
    try:
        kind, extend = next(iter(_checksums().items()))
        checksum = extend(0, payload)
        footer = Footer(number, begin, len(payload), key, boot_id() or bytes(16), kind, checksum)
        _write_all(descriptor, payload)
        _write_all(descriptor, footer.packed())
        os.rename(temporary, path)
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    except BaseException:
        os.close(descriptor)
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    return ChunkFile(descriptor, begin, len(payload))


def _new_temporary(path: str) -> tuple[str, int]:
    """A new file beside a path, locked: one that isn't has lost its writer, and `remove_stale` may delete it."""
    while True:
        temporary = f"{path}.{os.getpid()}.{secrets.token_hex(6)}.tmp"
        with above_standard():
            descriptor = os.open(
                temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644
            )
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_nlink:
                return temporary, descriptor
        except BlockingIOError:
            pass
        except OSError:  # a file system without locks
            return temporary, descriptor
        os.close(descriptor)  # it was deleted before it was locked


def _write_all(descriptor: int, data: bytes | memoryview) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def is_temporary(name: str) -> bool:
    """Whether a file's name is one of those that chunks have while they are written.

    >>> is_temporary("1f.chunk.4242.0123456789ab.tmp"), is_temporary("notes.tmp")
    (True, False)
    """
    return _TEMPORARY.fullmatch(name) is not None


def remove_stale(path: str) -> None:
    """Deletes a temporary file of a writer that has ended.

    Where the writer goes on, as in another container, its rename fails, and it serves the chunk from memory.
    """
    with contextlib.suppress(OSError), above_standard():
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
        except BlockingIOError:
            pass
        except OSError:  # a file system without locks: the name says the writer's process
            if not os.path.exists(f"/proc/{path.split('.')[-3]}"):
                os.unlink(path)
        finally:
            os.close(descriptor)
