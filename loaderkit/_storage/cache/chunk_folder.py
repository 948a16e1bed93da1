"""Where the files of a cache lie in its folder, and the locks by which processes fetch a chunk once.

    loaderkit-chunks/               all that a cache makes; nothing else of the user's folder is looked at
      chunks/KEY/X/NUMBER.chunk     chunks of one index
      locks/XXX                     4,096 lock files, made when needed and never deleted
      loaders/ID                    a file for each live loader
      evict.lock

On a network file system, and where files can't be locked, each host has such a folder of its own, named by the id of
its boot. Locks save work and decide nothing: a chunk gets its name by a rename.
"""

import contextlib
import fcntl
import functools
import os
import re
import time
import uuid
from collections.abc import Iterator

from loaderkit._base.system.limits import open_descriptor


@functools.cache
def boot_id() -> bytes:
    """16 bytes that are the same for all processes until the system starts again; b"" where it doesn't say.

    >>> len(boot_id()) in (0, 16)
    True
    """
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return uuid.UUID(file.read().strip()).bytes
    except (OSError, ValueError):
        return b""


_NAME = "loaderkit-chunks"
# 200,000 chunks are 12,500 files a folder. With 256 folders half of the CPU time of writing the first 256 chunks, 0.6
# of 1.3 ms for 1 MiB on ext4, went into making folders.
_FOLDERS = 16
# Chunks that share a lock wait for each other. With 64 in flight, one in 64 meets a lock that is held for another.
_LOCKS = 4_096
# File systems on which a lock may not hold between hosts, or not at all. Those that a program serves (fuse) may be
# remote as well.
_NETWORK = """
    nfs nfs4 cifs smb3 smbfs lustre gpfs ceph 9p afs beegfs virtiofs glusterfs orangefs pvfs2 wekafs panfs
"""
_MOUNTS = "/proc/self/mountinfo"


class ChunkFolder:
    """The folder of a cache, made when this is.

    Args:
        folder: the user's, absolute.

    Raises OSError where it can't be made.
    """

    def __init__(self, folder: str) -> None:
        root = os.path.join(folder, _NAME)
        os.makedirs(root, exist_ok=True)
        if on_network(os.path.realpath(root)) or not _locks_work(root):
            root = os.path.join(root, f"host-{(boot_id() or bytes(16)).hex()}")
        self.root = root
        self.chunks, self.loaders = os.path.join(root, "chunks"), os.path.join(root, "loaders")
        self._locks = os.path.join(root, "locks")
        for made in (self.chunks, self.loaders, self._locks):
            os.makedirs(made, exist_ok=True)

    @staticmethod
    def is_in(folder: str) -> bool:
        """Whether a cache has been in the user's folder."""
        return os.path.isdir(os.path.join(folder, _NAME))

    def path(self, key: bytes, number: int) -> str:
        """The file of a chunk."""
        return f"{self.chunks}/{key.hex()}/{number % _FOLDERS:x}/{number:x}.chunk"

    def lock_of(self, key: bytes, number: int) -> str:
        """The lock file of a chunk; several chunks share one."""
        return f"{self._locks}/{(number + key[0]) % _LOCKS:03x}"

    @property
    def eviction_lock(self) -> str:
        """The lock file of the one process that deletes chunks."""
        return f"{self.root}/evict.lock"


@contextlib.contextmanager
def lock_without_waiting(path: str) -> Iterator[bool]:
    """Takes a lock, if it is free: whether the block has it.

    The block runs with it where files can't be locked, too. The kernel frees the lock of a process that dies.
    """
    try:
        descriptor = open_descriptor(path, os.O_RDWR | os.O_CREAT)
    except OSError:
        yield True
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = True
        except OSError as error:
            free = not isinstance(error, BlockingIOError)
        yield free
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def lock_within(path: str, seconds: float) -> Iterator[None]:
    """Takes a lock, or goes on without it after some seconds: its holder may be stopped."""
    deadline, pause = time.monotonic() + seconds, 0.001
    while True:
        with lock_without_waiting(path) as free:
            if free or time.monotonic() > deadline:
                yield
                return
        time.sleep(pause)
        pause = min(2 * pause, 0.02)


def _locks_work(folder: str) -> bool:
    try:
        descriptor = open_descriptor(f"{folder}/flock-works", os.O_RDWR | os.O_CREAT)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def on_network(path: str, mounts: str = _MOUNTS) -> bool:
    """Whether a path is on a network file system, as far as the system says.

    Args:
        path: absolute, without links.
        mounts: the system's list of mounts.

    >>> on_network("/")
    False
    """
    try:
        with open(mounts, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except OSError:
        return False
    kind, longest = "", -1
    for line in lines:
        before, _, after = line.partition(" - ")
        point = re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), before.split(" ")[4])
        within = path == point or path.startswith(point.rstrip("/") + "/")
        if within and len(point) >= longest:  # a later mount at the same place hides the one before
            kind, longest = after.split(" ")[0], len(point)
    return kind in _NETWORK.split() or (kind.startswith("fuse") and kind != "fuseblk")
