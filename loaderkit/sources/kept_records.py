"""Where CachedDataSource keeps records: in memory, or in two files of a folder.

    index      a header (magic, bytes reserved, records, length of the version's JSON), that JSON, and from the next
               multiple of 64 on an entry a record (offset, length, checksum), zeros where it isn't kept
    records    the bytes, one record behind the other in the order in which they were read

A process reserves bytes under a lock of the index, writes them, then the entry. Readers take no lock: an entry that is
torn, or whose bytes aren't there, has a wrong checksum, and the record is read from its source again. So a process that
is killed at any point leaves nothing wrong, at most some bytes that no entry names.
"""

import json
import os
import struct
import threading
import zlib
from collections.abc import Callable
from typing import Any

from loaderkit._base.canonical_json import canonical
from loaderkit._base.system.limits import open_descriptor
from loaderkit._base.system.waited_lock import waited_lock
from loaderkit.errors import DataFormatError

_MAGIC = b"LKCACHE1"
_HEADER = struct.Struct("<8sQQQ")
_RESERVED = struct.Struct("<Q")
_RESERVED_AT = 8
_ENTRY = struct.Struct("<QQII")  # offset, length, checksum, and 1 for an entry that was written


class MemoryOfRecords:
    """Records of this process.

    Args:
        limit: bytes that are kept at most; None for no limit.

    >>> kept = MemoryOfRecords(5)
    >>> kept.keep(0, b"abc"), kept.keep(1, b"def"), kept.read(0), kept.read(1)
    (None, None, b'abc', None)
    """

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._nbytes = 0
        self._data: dict[int, bytes] = {}

    def of_this_process(self) -> bool:
        """True: the memory of a child is its own copy."""
        return True

    def read(self, key: int) -> bytes | None:
        """What is kept of a record, None for nothing."""
        return self._data.get(key)

    def keep(self, key: int, data: bytes) -> None:
        """Keeps a record where the limit has room."""
        if key not in self._data and (self._limit is None or self._nbytes + len(data) <= self._limit):
            self._nbytes += len(data)
            self._data[key] = data


class FolderOfRecords:
    """Records in files, opened by this process, closed with the last reference.

    Args:
        folder: its path; made where it is missing.
        version: of the source. ValueError where the folder is the cache of another one.
        records: of the source.
        limit: bytes of records that are kept at most; None for no limit.
    """

    def __init__(self, folder: str, version: dict[str, Any], records: int, limit: int | None) -> None:
        self._index = self._records = -1  # descriptors
        self._process = os.getpid()
        self._limit = limit
        self._full = False
        self._lock = threading.Lock()  # flock doesn't keep threads apart that use the same open file
        os.makedirs(folder, exist_ok=True)
        said = canonical(version).encode()
        self._entries = -(-(_HEADER.size + len(said)) // 64) * 64
        self._folder = folder
        self._index = _opened(f"{folder}/index", folder)
        self._records = _opened(f"{folder}/records", folder)
        with waited_lock(self._index, folder, noted=False):
            self._begin(folder, said, records)

    def _begin(self, folder: str, said: bytes, records: int) -> None:
        """Checks the header, or writes it where there is none yet."""
        index = self._index
        header = os.pread(index, _HEADER.size, 0)
        if not header.strip(b"\0"):  # new, or of a process that was killed here
            os.ftruncate(index, 0)
            os.ftruncate(index, self._entries + records * _ENTRY.size)
            _write(index, said, _HEADER.size)
            _write(index, _HEADER.pack(_MAGIC, 0, records, len(said)), 0)
            return
        magic, _, theirs, length = _HEADER.unpack(header) if len(header) == _HEADER.size else (b"", 0, 0, 0)
        if magic != _MAGIC:
            raise DataFormatError(
                f"{folder}/index: expected the index of a cache, got {header[:20]!r}; give another folder"
            )
        written = os.pread(index, min(length, os.fstat(index).st_size), _HEADER.size)
        if written != said or theirs != records:
            raise ValueError(
                f"folder: expected the cache of this source in {folder}, got that of another: "
                f"{_difference(written, said)}; delete the folder, or give another"
            )

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        for descriptor in (self._index, self._records):
            if descriptor >= 0:
                close(descriptor)  # at the end of the process modules may be gone before this

    def of_this_process(self) -> bool:
        """Whether this process opened the files."""
        return self._process == os.getpid()

    def read(self, key: int) -> bytes | None:
        """What is kept of a record, None for nothing."""
        entry = os.pread(self._index, _ENTRY.size, self._entries + key * _ENTRY.size)
        if len(entry) < _ENTRY.size:
            return None
        offset, length, checksum, is_there = _ENTRY.unpack(entry)
        if not is_there:
            return None
        try:
            data = os.pread(self._records, length, offset)
        except (OSError, OverflowError, MemoryError):  # a torn entry
            return None
        return data if len(data) == length and _checksum(key, data) == checksum else None

    def keep(self, key: int, data: bytes) -> None:
        """Keeps a record where the limit has room; OSError where the disk has none."""
        if self._full:
            return
        with self._lock:
            offset = self._reserve(len(data))
        if offset is None:
            return
        try:
            _write(self._records, data, offset)
            entry = _ENTRY.pack(offset, len(data), _checksum(key, data), 1)
            _write(self._index, entry, self._entries + key * _ENTRY.size)
        except OSError:
            self._full = True
            raise

    def _reserve(self, nbytes: int) -> int | None:
        """The offset of so many bytes of the records; None where the limit has no room for them."""
        index = self._index
        with waited_lock(index, self._folder, noted=False):
            (offset,) = _RESERVED.unpack(os.pread(index, _RESERVED.size, _RESERVED_AT))
            if self._limit is not None and offset + nbytes > self._limit:
                return None
            os.pwrite(index, _RESERVED.pack(offset + nbytes), _RESERVED_AT)
            return int(offset)


def _opened(path: str, folder: str) -> int:
    if not os.path.exists(path) and (others := set(os.listdir(folder)) - {"index", "records"}):
        raise FileExistsError(f"folder: expected a new folder or a cache, got {folder} with {min(others)!r}")
    return open_descriptor(path, os.O_RDWR | os.O_CREAT)


def _write(descriptor: int, data: bytes, offset: int) -> None:
    """All of the data; OSError where the disk is full."""
    done = 0
    while done < len(data):
        done += os.pwrite(descriptor, memoryview(data)[done:], offset + done)


def _checksum(key: int, data: bytes) -> int:
    return zlib.crc32(data, key & 0xFFFFFFFF)


def _difference(written: bytes, said: bytes) -> str:
    """The first field in which two versions differ."""
    try:
        theirs, ours = json.loads(written), json.loads(said)
    except ValueError:
        return "its head is damaged"
    for name in sorted({*theirs, *ours}):
        if theirs.get(name) != ours.get(name):
            return f"{name} is {theirs.get(name)!r:.100} there and {ours.get(name)!r:.100} here"
    return "it has another number of records"
