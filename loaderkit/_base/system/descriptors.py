"""Keeps our files off descriptors 0 to 2, the numbers of stdin, stdout and stderr, also where these are closed.

The kernel opens a file at the lowest free number. In a daemon, or after `sys.stdout.close()`, that may be 1, and all
that is printed would go to our file. No system call opens a file at 3 or above, and libraries open files themselves, so
the free numbers below 3 are first filled with `/dev/null`. They stay filled: if they were closed again, another thread
could open a file there, and close it while ours is being opened.
"""

import contextlib
import os
from collections.abc import Iterator

_STANDARD = range(3)


@contextlib.contextmanager
def above_standard() -> Iterator[None]:
    """Files that are opened inside the block, by a library too, get a descriptor of 3 or more.

    Raises OSError where the process is at its limit of descriptors.

    >>> with above_standard():
    ...     fd = os.open(os.devnull, os.O_RDONLY)
    >>> fd >= 3
    True
    >>> os.close(fd)
    """
    for number in _STANDARD:
        if not _is_open(number):
            got = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            if got not in _STANDARD:  # another thread has opened a file at `number` meanwhile
                os.close(got)
    yield


def open_descriptor(path: str | os.PathLike[str], flags: int, mode: int = 0o666) -> int:
    """`os.open` above the standard descriptors; child processes don't inherit what it opens."""
    with above_standard():
        return os.open(path, flags | os.O_CLOEXEC, mode)


def is_stream(number: int) -> bool:
    """Whether an open descriptor is a standard stream, and not a file that Python opened at that number.

    Child processes inherit a standard stream; files that Python opens are not inherited.
    """
    try:
        return os.get_inheritable(number)
    except OSError:  # the descriptor is closed
        return False


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
