"""Ranges of local files, read in the calling thread."""

import errno
import os
import stat
import time
import weakref
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.system.file_identity import FileIdentity
from loaderkit._base.system.limits import above_standard, most_open_files, naming_limits
from loaderkit._base.system.shared_memory import goes_to_a_worker

from .range_reader import ObjectVersion
from .read_plan import LOCAL_ALONE, LOCAL_GAP, plan_reads, slices_of
from .versions import OnOtherVersion, VersionCheck, ends_early

# An open file that is written to in place gives other bytes: a read compares each of its files with what it was if its
# last comparison is longer ago. One takes 2 us beside the 10 us of a record of 10 KB (measured): each read of a record
# from another shard would take a fifth longer, with this interval it takes 1% longer.
CHECK_S = 0.1
# Ranges with no more than this between them lie together. Measured at random places, two ranges of 1 KB or 10 KB take
# as long in one read as in two with up to 2 KiB between them, and longer beyond.
_NEAR = 2 << 10
# One pread gives at most 2 GiB less a page.
_MOST_BYTES = 1 << 30


class LocalFiles:
    """Reads ranges of local files. A `RangeReader`; each opening must find the file that was there at the first.

    Args:
        paths: the files, absolute.
        expected: by shard, or None: what was seen when they were indexed.
        on_other_version: as in `open_ranges`.

    names: the files, in order.
    """

    waits = False

    def __init__(
        self,
        paths: Sequence[str],
        *,
        expected: Sequence[ObjectVersion | None] | None = None,
        on_other_version: OnOtherVersion | None = None,
    ) -> None:
        self.names = paths
        self._versions = VersionCheck(paths, expected, on_other_version) if expected is not None else None
        # Threads share the dict; setdefault keeps the first thread's identity.
        self._identities: dict[int, FileIdentity] = {}
        self._prepare()

    def _prepare(self) -> None:
        # The cache is safe for threads; a file that it drops is closed when its last read has ended. It doesn't hold
        # the reader, whose files so are closed with its last reference, without waiting for the garbage collector.
        reader = weakref.proxy(self)
        self._open = lru_cache(most_open_files())(
            lambda shard: reader._open_file(shard)  # noqa: PLW0108 - a bound method would hold the reader
        )
        _READERS.add(self)
        self._check_at = np.zeros(len(self.names))  # by shard: when its next comparison is due

    def version(self, shard: int) -> ObjectVersion:
        """Size and time of a file now; FileNotFoundError where it is missing, OSError where it is no regular file."""
        path = self.names[shard]
        _check_regular(path, os.stat(path).st_mode)
        return _version_of(FileIdentity.of(path))

    def version_in_use(self, shard: int, seen: ObjectVersion | None = None) -> ObjectVersion:
        """Size and time of the file that was opened first."""
        self._open(shard)
        return _version_of(self._identities[shard])

    def hold(self, shard: int, version: ObjectVersion) -> bool:
        """Whether the file has this version."""
        return self.version_in_use(shard) == version

    def read(
        self, shards: NDArray[np.int64], begins: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> list[bytes | memoryview]:
        """The bytes begins[i] to ends[i] of shard shards[i], for each i, in the order given; (n,) each.

        FileChangedError where a file was replaced, written to or truncated since it was indexed or first opened.
        """
        plan = plan_reads(shards, begins, ends, max_gap=LOCAL_GAP, alone=LOCAL_ALONE)
        lengths = plan.ends - plan.begins
        pread, open_file = os.pread, self._open
        places = zip(plan.shards.tolist(), plan.begins.tolist(), lengths.tolist(), strict=True)
        # `_file` keeps the file open during its read: another thread's opening may drop it from the cache.
        found = [
            pread((_file := open_file(shard)).descriptor, length, begin) for shard, begin, length in places
        ]
        if sum(map(len, found)) != int(lengths.sum()):
            got = np.fromiter(map(len, found), np.int64, len(found))
            for place in np.flatnonzero(got != lengths).tolist():
                shard, begin, end = (int(each[place]) for each in (plan.shards, plan.begins, plan.ends))
                found[place] = self._read_on(shard, begin, end)
        self._check_due(plan.shards)
        return slices_of(plan, found, ends - begins)

    def read_each(
        self, shards: NDArray[np.int64], begins: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> Iterator[bytes | memoryview]:
        """What `read` gives, one at a time, so that a range may be read into the memory of the one before the last.

        Where a quarter of the ranges lie behind the one before, and both are small, all are read as `read` does.
        """
        between, small = begins[1:] - ends[:-1], ends - begins < LOCAL_ALONE
        near = (between >= 0) & (between <= _NEAR) & small[1:] & small[:-1]
        if 4 * np.count_nonzero(near) > len(begins):
            return iter(self.read(shards, begins, ends))
        return self._read_singly(shards, begins, ends)

    def _read_singly(
        self, shards: NDArray[np.int64], begins: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> Iterator[bytes]:
        pread, last, descriptor = os.pread, -1, -1
        for shard, begin, length in zip(shards.tolist(), begins.tolist(), (ends - begins).tolist()):
            if shard != last:
                file = self._open(shard)  # keeps it open
                last, descriptor = shard, file.descriptor
            data = pread(descriptor, length, begin)
            yield data if len(data) == length else self._read_on(shard, begin, begin + length)
        self._check_due(shards)

    def read_as_they_come(
        self, shards: NDArray[np.int64], begins: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> Iterator[tuple[int, bytes | memoryview]]:
        """The place of each range among those given, and its bytes; the ranges are as `read` takes them."""
        return enumerate(self._read_singly(shards, begins, ends))

    def close(self) -> None:
        """Closes the files; a later read opens them again."""
        self._open.cache_clear()

    def __repr__(self) -> str:
        return f"LocalFiles({len(self.names)} files)"

    def __getstate__(self) -> tuple[Any, ...]:
        # Inode numbers and times hold on this machine and for this run only.
        return self.names, self._versions, dict(self._identities) if goes_to_a_worker() else {}

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.names, self._versions, self._identities = state
        self._prepare()

    def _read_on(self, shard: int, begin: int, end: int) -> bytes:
        """A range that one pread didn't give: it is large, or the file ends within it."""
        file = self._open(shard)
        parts = []
        while begin < end:
            part = os.pread(file.descriptor, min(end - begin, _MOST_BYTES), begin)
            if not part:
                raise ends_early(self.names[shard], os.fstat(file.descriptor).st_size, end)
            parts.append(part)
            begin += len(part)
        return b"".join(parts)

    def _check_due(self, shards: NDArray[np.int64]) -> None:
        now = time.monotonic()
        due = self._check_at[shards] < now
        if due.any():
            self._check_written(shards[due], now)

    def _check_written(self, shards: NDArray[np.int64], now: float) -> None:
        for shard in set(shards.tolist()):
            file, was = self._open(shard), self._identities[shard]
            status = os.fstat(file.descriptor)
            if (status.st_size, status.st_mtime_ns) != (was.nbytes, was.modified_ns):
                was.check(self.names[shard], FileIdentity.of(file.descriptor))
            self._check_at[shard] = now + CHECK_S

    def _open_file(self, shard: int) -> "_OpenFile":
        path = self.names[shard]
        opened = _opened(path)
        now = FileIdentity.of(opened.descriptor)
        self._identities.setdefault(shard, now).check(path, now)
        if self._versions is not None:
            # What decides reads this file by a reader of its own: here the file is open for others once it is accepted.
            judged = LocalFiles(self.names)
            judged._identities[shard] = now
            self._versions.check(judged, [(shard, _version_of(now))])
        return opened


class _OpenFile:
    """A descriptor that is closed with its last reference, so that no read finds another file at its number."""

    __slots__ = ("descriptor",)
    _close: ClassVar = staticmethod(
        os.close
    )  # at the end of the process modules may be gone before the files

    def __init__(self, path: str) -> None:
        self.descriptor = -1
        with naming_limits(path), above_standard():
            # Opening a named pipe would wait for what writes to it.
            self.descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        _check_regular(path, os.fstat(self.descriptor).st_mode)

    def __del__(self) -> None:
        if self.descriptor >= 0:
            self._close(self.descriptor)


# Each has a share of the limit of open files; many of them may hold all, as the sources of a mixture do.
_READERS: weakref.WeakSet[LocalFiles] = weakref.WeakSet()


def _opened(path: str) -> _OpenFile:
    """The file; where too many are open, the readers of this process close theirs first."""
    try:
        return _OpenFile(path)
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
        if error.__cause__ is not None:  # with the frames of this read it holds a file
            error.__cause__.__traceback__ = None
    for reader in _readers():
        reader.close()
    return _OpenFile(path)


def _readers() -> list[LocalFiles]:
    while True:
        try:
            return list(_READERS)
        except RuntimeError:  # another thread has made a reader meanwhile
            continue


def _check_regular(path: str, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(
            errno.EISDIR, "a folder, not a file; write folder/* for the files in it", path
        )
    if not stat.S_ISREG(mode):
        raise OSError(errno.ESPIPE, "a pipe or a device, in which no record can be found by its place", path)


def _version_of(identity: FileIdentity) -> ObjectVersion:
    return ObjectVersion(identity.nbytes, f"mtime_ns:{identity.modified_ns}")
