"""One chunk on disk: its bytes, checksums of their blocks, and a footer that says which chunk it is.

    payload | checksums | magic, number, begin, length, key, kind, checksum of the checksums | crc32 of these

    checksums   of the blocks of 64 KiB of the payload, as `_base.block_checksums` makes them
    number      of the chunk among those of the index, as chunk_numbers.py counts them
    begin       where the payload begins in its shard, in bytes
    key         digest of the index, of the size of its chunks and of the version of the shard
    kind        of the checksums: 3

A file gets its name by a rename when it is complete, without fsync. A process that is killed leaves a temporary file;
the crash of a system can leave a torn file under a chunk's name, and a disk gives other bits after some time. So each
block is compared with its checksum in each process that reads it, before its first record: 16 us for 64 KiB (measured).
"""

import contextlib
import fcntl
import os
import re
import secrets
import struct
import zlib
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.block_checksums import BLOCK_BYTES, BlockChecksums
from loaderkit._base.system.dataclasses import dataclass
from loaderkit._base.system.limits import above_standard, open_descriptor

MAGIC = b"LKCHUNK1"
_FIELDS = struct.Struct("<8sQQQ32s16xII")
_CRC = struct.Struct("<I")
FOOTER_BYTES = _FIELDS.size + _CRC.size
_TEMPORARY = re.compile(r"[0-9a-f]+\.chunk\.[0-9]+\.[0-9a-f]{12}\.tmp")  # as `_new_temporary` names them
_OF_BLOCKS = 3  # the kind of checksums
# The device, the number and the checksums of a file, and which of its blocks were compared.
State = tuple[tuple[int, int, int], int]
_TAIL_BYTES = 4096  # that are read at once: the footer, and the checksums of 60 MiB


@dataclass(frozen=True, slots=True)
class Footer:
    """What a file says of itself.

    >>> Footer.read(Footer(7, 0, 100, bytes(32), 3, 0).packed()).number
    7
    """

    number: int
    begin: int
    length: int
    key: bytes
    kind: int
    checksum: int

    def packed(self) -> bytes:
        """Its bytes at the file's end."""
        fields = _FIELDS.pack(MAGIC, self.number, self.begin, self.length, self.key, self.kind, self.checksum)
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

    @property
    def table_bytes(self) -> int:
        """Bytes of the checksums between the payload and the footer."""
        return -(-self.length // BLOCK_BYTES) * _CRC.size if self.kind == _OF_BLOCKS else 0


class ChunkFile:
    """An open chunk. Its file may be evicted meanwhile: the bytes stay readable until the last reference is gone.

    Args:
        descriptor: open for reading; it is closed with this object.
        begin: where the payload begins in its shard.
        length: bytes of the payload.
        checksums: (blocks,) uint32.
        compared: a bit for each block that has its checksum.

    unchecked: whether a block wasn't compared yet. Safe for threads: at worst two compare the same block.
    """

    __slots__ = ("_checksums", "begin", "compared", "descriptor", "length", "unchecked")
    # In place of a global, which may be gone when the interpreter ends.
    _close: ClassVar = staticmethod(os.close)

    def __init__(
        self, descriptor: int, begin: int, length: int, checksums: NDArray[np.uint32], compared: int = 0
    ) -> None:
        self.descriptor, self.begin, self.length, self._checksums = descriptor, begin, length, checksums
        self._mark(compared)

    def _mark(self, compared: int) -> None:
        self.compared = compared
        self.unchecked = compared != (1 << len(self._checksums)) - 1

    @property
    def state(self) -> State:
        """What this process knows of the file, to be given to `recall` when it is opened again."""
        file = os.fstat(self.descriptor)
        return (file.st_dev, file.st_ino, zlib.crc32(self._checksums.data)), self.compared

    def recall(self, state: State) -> None:
        """Takes blocks as compared that were, if it is the same file: one in its place may have the same checksums."""
        if state[0] == self.state[0]:
            self._mark(self.compared | state[1])

    def is_good(self, begin: int, end: int) -> bool:
        """Whether the blocks with the bytes begin to end of the shard have their checksums; each is compared once."""
        first, last = (begin - self.begin) // BLOCK_BYTES, (end - self.begin - 1) // BLOCK_BYTES
        wanted = ((1 << last - first + 1) - 1) << first if begin < end else 0
        left = wanted & ~self.compared
        if not left:
            return True
        for block in range(first, last + 1):
            if left >> block & 1:
                at = block * BLOCK_BYTES
                data = os.pread(self.descriptor, min(BLOCK_BYTES, self.length - at), at)
                if zlib.crc32(data) != self._checksums[block]:
                    return False
        self._mark(self.compared | wanted)
        return True

    def read(self, begin: int, end: int) -> bytes | None:
        """The bytes begin to end of the shard; None where the file was cut or damaged."""
        if self.unchecked and not self.is_good(begin, end):
            return None
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
    found = _footer_and_table(descriptor)
    return None if found is None else found[0]


def _footer_and_table(descriptor: int) -> tuple[Footer, bytes] | None:
    size = os.fstat(descriptor).st_size
    tail = os.pread(descriptor, min(size, _TAIL_BYTES), max(0, size - _TAIL_BYTES))
    footer = Footer.read(tail[-FOOTER_BYTES:])
    if footer is None or footer.length + footer.table_bytes + FOOTER_BYTES != size:
        return None
    table = tail[-FOOTER_BYTES - footer.table_bytes : -FOOTER_BYTES]
    if len(table) < footer.table_bytes:
        table = os.pread(descriptor, footer.table_bytes, footer.length)
    return footer, table


def open_chunk(path: str, number: int, key: bytes) -> ChunkFile | None:
    """The chunk with that number in a file; None where there is none, or it is torn, or of another index or version."""
    try:
        descriptor = open_descriptor(path, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:  # not there, or not ours to read
        return None
    try:
        footer, table = _footer_and_table(descriptor) or (None, b"")
        if footer is None or (footer.number, footer.key, footer.kind) != (number, key, _OF_BLOCKS):
            os.close(descriptor)
            return None
        if zlib.crc32(table) != footer.checksum:
            os.close(descriptor)
            return None
        with contextlib.suppress(OSError):
            os.utime(descriptor)  # the eviction's time of last use: that of the file system may be off
    except OSError:
        os.close(descriptor)
        return None
    return ChunkFile(descriptor, footer.begin, footer.length, np.frombuffer(table, np.uint32))


def former_payload(path: str, number: int, begin: int, end: int) -> bytes | None:
    """The bytes `begin` to `end` of a shard in a file of any version and kind; None where it has others, or is torn.

    What they are worth is for the caller to find out.
    """
    try:
        with above_standard(), open(path, "rb") as file:
            footer = footer_of(file.fileno())
            if footer is None or (footer.number, footer.begin, footer.length) != (number, begin, end - begin):
                return None
            return file.read(footer.length)
    except OSError:
        return None


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
        blocks = BlockChecksums()
        blocks.update(payload)
        checksums = blocks.values()
        table = checksums.tobytes()
        footer = Footer(number, begin, len(payload), key, _OF_BLOCKS, zlib.crc32(table))
        _write_all(descriptor, payload)
        _write_all(descriptor, table + footer.packed())
        os.rename(temporary, path)
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    except BaseException:
        os.close(descriptor)
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    return ChunkFile(descriptor, begin, len(payload), checksums, (1 << len(checksums)) - 1)


def _new_temporary(path: str) -> tuple[str, int]:
    """A new file beside a path, locked: one that isn't has lost its writer, and `remove_stale` may delete it."""
    while True:
        temporary = f"{path}.{os.getpid()}.{secrets.token_hex(6)}.tmp"
        descriptor = open_descriptor(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
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
