"""A live loader: a file that its processes lock, with what they have put into the cache.

    magic, key, start budget, mark, room | number, bytes of each chunk that the loader fetched, 16 bytes each

    start budget    bytes that may be read beside the cache while the feeder fetches the first window
    mark, room      how long the file was at the last eviction, and how many bytes the loader may add after it

All processes of a loader share one: the id is pickled with the source. Entries are appended, which is atomic. Its
numbers are read and written without a lock: one that is lost makes the next eviction come early or late by a chunk.
"""

import fcntl
import os
import struct
import time
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.system.limits import open_descriptor

from .chunk_folder import ChunkFolder

_MAGIC = b"LKLOADER"
_HEADER = struct.Struct("<8s32sqqq")
_HEADER_BYTES = 64
_BUDGET, _MARK = 40, 48
_ATTEMPTS = 1000  # of a millisecond each: another process holds the lock for a call or two
_ENTRY = struct.Struct("<QQ")

# (n, 2) uint64: numbers of chunks and their bytes.
Entries = NDArray[np.uint64]


class LiveLoader:
    """This process's hold on the file of its loader; other processes see that it lives until the last one ends.

    Args:
        folder: of the cache.
        name: the loader's id.
        key: of the chunks that it fetches.

    Raises OSError where the file can't be made.
    """

    # In place of a global, which may be gone when the interpreter ends.
    _close: ClassVar = staticmethod(os.close)

    def __init__(self, folder: ChunkFolder, name: str, key: bytes) -> None:
        self.folder, self.name, self.key = folder, name, key
        self._path = path = f"{folder.loaders}/{name}"
        self._descriptor = _opened(path)
        self._inode = os.fstat(self._descriptor).st_ino
        self._appending = open_descriptor(path, os.O_WRONLY | os.O_APPEND)
        if os.fstat(self._descriptor).st_size < _HEADER_BYTES:
            # Several processes may do so at once, with the same bytes.
            os.pwrite(self._descriptor, _HEADER.pack(_MAGIC, key, 0, _HEADER_BYTES, 0), 0)

    def add(self, number: int, nbytes: int) -> None:
        """Says that the loader has put a chunk into the cache."""
        os.write(self._appending, _ENTRY.pack(number, nbytes))

    @property
    def is_there(self) -> bool:
        """Whether the file is still where other loaders look for it; the cache may be deleted or replaced meanwhile."""
        try:
            return os.stat(self._path).st_ino == self._inode
        except OSError:
            return False

    @property
    def room(self) -> int:
        """Bytes that the loader may still add before the next eviction."""
        mark, room = struct.unpack("<qq", os.pread(self._descriptor, 16, _MARK))
        return int(room) - int(_entries(self._descriptor, mark)[:, 1].sum())

    def entries(self) -> Entries:
        """What the loader has put into the cache; some of it may be gone."""
        return _entries(self._descriptor, _HEADER_BYTES)

    def set_room(self, room: int, kept: Entries) -> None:
        """Says after an eviction how many bytes may be added, and which chunks are left."""
        listed = np.ascontiguousarray(kept, np.uint64).tobytes()
        end = _HEADER_BYTES + len(listed)
        os.pwrite(self._descriptor, listed, _HEADER_BYTES)
        os.ftruncate(self._descriptor, end)
        os.pwrite(self._descriptor, struct.pack("<qq", end, room), _MARK)

    @property
    def start_budget(self) -> int:
        """Bytes that may still be read beside the cache; 0 unless a feeder has begun and isn't ahead yet."""
        return int(struct.unpack("<q", os.pread(self._descriptor, 8, _BUDGET))[0])

    @start_budget.setter
    def start_budget(self, nbytes: int) -> None:
        os.pwrite(self._descriptor, struct.pack("<q", nbytes), _BUDGET)

    def __del__(self) -> None:
        for name in ("_appending", "_descriptor"):
            if (descriptor := self.__dict__.pop(name, None)) is not None:
                self._close(descriptor)


def other_loaders(folder: ChunkFolder, name: str) -> Iterator[tuple[bytes, Entries]]:
    """The key and the entries of each other live loader; the files of dead ones are deleted."""
    try:
        names = sorted(os.listdir(folder.loaders))
    except OSError:  # the cache was deleted
        return
    for found in names:
        path = f"{folder.loaders}/{found}"
        if found == name:
            continue
        try:
            descriptor = open_descriptor(path, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            header = os.pread(descriptor, _HEADER.size, 0)
            if header and (len(header) < _HEADER.size or header[:8] != _MAGIC):
                continue  # another's file
            if _is_dead(descriptor):
                os.unlink(path)
            elif header:  # else it is being made
                yield _HEADER.unpack(header)[1], _entries(descriptor, _HEADER_BYTES)
        except OSError:
            continue
        finally:
            os.close(descriptor)


def _opened(path: str) -> int:
    """The file of a loader, made where it isn't there, and held by this process."""
    for _ in range(_ATTEMPTS):
        descriptor = open_descriptor(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:  # another process looks whether it is a dead one's
            os.close(descriptor)
            time.sleep(0.001)
            continue
        except OSError:  # a file system without locks
            return descriptor
        if os.path.exists(path) and os.path.samestat(os.stat(path), os.fstat(descriptor)):
            return descriptor
        os.close(descriptor)  # it was taken for a dead one's
    raise BlockingIOError(f"{path}: it stays locked by another process")


def _is_dead(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _entries(descriptor: int, begin: int) -> Entries:
    nbytes = max(0, os.fstat(descriptor).st_size - begin) // _ENTRY.size * _ENTRY.size
    listed = np.frombuffer(os.pread(descriptor, nbytes, begin), np.uint64)
    return listed[: len(listed) // 2 * 2].reshape(-1, 2)
