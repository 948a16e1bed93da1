"""A lock that is waited for, but not without a word, and not for ever."""

import contextlib
import fcntl
import logging
import os
import socket
import time
from collections.abc import Iterator

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
    begun = changed = look_at = time.monotonic()
    told, seen, pause = False, None, _SHORTEST
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            now = time.monotonic()
        except OSError:  # a file system without locks
            return
        if not told and now - begun >= TOLD_AFTER:
            told = True
            _log.warning("waiting for %s, which %s has locked", path, _holder(descriptor))
        if now >= look_at:  # not at each try: the folder may have many files, and lie on a server
            look_at = now + TOLD_AFTER
            if (state := _state_of(path)) != seen:
                seen, changed = state, now
        if now - changed >= LIMIT:
            raise TimeoutError(
                f"{path}: expected the lock, but {_holder(descriptor)} has it, and nothing there has changed for "
                f"{now - changed:.0f} s; end that process, or let it go on (kill -CONT), and start this one again"
            )
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST)


def _state_of(path: str) -> list[tuple[str, int, int]]:
    found = []
    with contextlib.suppress(OSError):
        for entry in os.scandir(path):
            status = entry.stat(follow_symlinks=False)
            found.append((entry.name, status.st_size, status.st_mtime_ns))
    return sorted(found)


def _holder(descriptor: int) -> str:
    """The process that has the lock, and its host, as far as can be known."""
    host = socket.gethostname()
    told = "another process"
    with contextlib.suppress(OSError, AttributeError):
        told = os.getxattr(descriptor, _NOTE).decode()
    if told == "another process":
        with contextlib.suppress(OSError), open("/proc/locks", encoding="ascii") as locks:
            ending = f":{os.fstat(descriptor).st_ino}"
            pids = [line.split()[4] for line in locks if "FLOCK" in line and line.split()[5].endswith(ending)]
            told = f"process {pids[0]} on host {host}" if pids else told
    with contextlib.suppress(OSError, IndexError):
        if told.endswith(f" on host {host}"):
            with open(f"/proc/{told.split()[1]}/stat", encoding="utf-8", errors="replace") as status:
                told += " (stopped)" if status.read().rpartition(")")[2].split()[0] in "Tt" else ""
    return told
