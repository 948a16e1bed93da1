"""A lock that is waited for, but not without a word, and not for ever; and a folder of unfinished work that has it."""

import contextlib
import fcntl
import logging
import os
import re
import socket
import time
from collections.abc import Iterator

from .limits import open_descriptor
from .platform import process_state

TOLD_AFTER = 10.0  # seconds, then a warning says who has the lock
LIMIT = 3600.0  # seconds in which nothing in the folder has changed; one who works writes something
_SHORTEST, _LONGEST = 0.0001, 0.05  # seconds between two tries; some locks are held for microseconds
_NOTE = "user.loaderkit.locked_by"  # an attribute of the file, for other hosts; few file systems have none

_log = logging.getLogger("loaderkit")


@contextlib.contextmanager
def waited_lock(descriptor: int, path: str, *, noted: bool = True) -> Iterator[None]:
    """Locks an open file or folder for the block, where its file system has locks.

    Args:
        descriptor: of the file.
        path: its name. TimeoutError naming it, the process and the host where another one holds the lock, and nothing
            in the folder has changed for an hour.
        noted: whether the file says who has the lock; not for locks that are held for microseconds.

    >>> with open(os.devnull) as file, waited_lock(file.fileno(), file.name):
    ...     pass
    """
    _lock(descriptor, path)
    if noted:
        with contextlib.suppress(OSError, AttributeError):
            os.setxattr(descriptor, _NOTE, f"process {os.getpid()} on host {socket.gethostname()}".encode())
    try:
        yield
    finally:
        if noted:
            with contextlib.suppress(OSError, AttributeError):
                os.removexattr(descriptor, _NOTE)
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)


def _lock(descriptor: int, path: str) -> None:
    changed = look_at = time.monotonic()
    seen, looks, pause = None, 0, _SHORTEST
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            now = time.monotonic()
        except OSError:  # a file system without locks
            return
        if now >= look_at:  # not at each try: the folder may have many files, and lie on a server
            look_at, looks = now + TOLD_AFTER, looks + 1
            if (state := _state_of(path)) != seen:
                seen, changed = state, now
            if looks == 2:
                _log.warning("waiting for %s, which %s has locked", path, _holder(descriptor))
            if now - changed >= LIMIT:
                raise TimeoutError(
                    f"{path}: expected the lock, but {_holder(descriptor)} has it, and nothing there has changed for "
                    f"{now - changed:.0f} s; end that process, or let it go on (kill -CONT), and start this one again"
                )
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST)


def _state_of(path: str) -> list[tuple[str, int]]:
    with contextlib.suppress(OSError), os.scandir(path) as found:
        return sorted((each.name, each.stat(follow_symlinks=False).st_mtime_ns) for each in found)
    return []


def _holder(descriptor: int) -> str:
    """The process that has the lock, and its host, as far as can be known."""
    here = f" on host {socket.gethostname()}"
    told = "another process"
    try:
        told = os.getxattr(descriptor, _NOTE).decode()
    except (OSError, AttributeError):
        with contextlib.suppress(OSError), open("/proc/locks", encoding="ascii") as locks:
            # 1: FLOCK  ADVISORY  WRITE 4321 08:01:1835051 0 EOF
            if found := re.search(rf" FLOCK .* (\d+) \S+:{os.fstat(descriptor).st_ino} ", locks.read()):
                told = f"process {found[1]}{here}"
    if told.endswith(here):
        told += " (stopped)" if "stop" in process_state(int(told.split()[1])) else ""
    return told


@contextlib.contextmanager
def locked_folder(folder: str) -> Iterator[None]:
    """Makes the folder and locks it, where it can be locked; removes it at the end where it is empty.

    Args:
        folder: its path. Another process that holds the lock is waited for, as `waited_lock` does; OSError where it
            can't be made.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     with locked_folder(f"{parent}/a.partial"):
    ...         print(os.listdir(parent))
    ...     print(os.listdir(parent))
    ['a.partial']
    []
    """
    while True:
        try:
            os.makedirs(folder, exist_ok=True)
        except FileExistsError:
            if os.path.lexists(folder) and not os.path.isdir(folder):
                raise FileExistsError(
                    f"{folder}: expected a folder for unfinished work, or none, got a file; move it away"
                ) from None
            continue  # removed meanwhile, as below
        try:
            descriptor = open_descriptor(folder, os.O_RDONLY)
        except FileNotFoundError:
            continue  # removed by a process that has just finished
        try:
            with waited_lock(descriptor, folder):
                if not _is_same(descriptor, folder):
                    continue  # the process that held it has finished and removed it
                try:
                    yield
                finally:
                    with contextlib.suppress(OSError):
                        os.rmdir(folder)
                return
        finally:
            os.close(descriptor)


def _is_same(descriptor: int, folder: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(folder))
    except FileNotFoundError:
        return False
