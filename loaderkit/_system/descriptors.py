"""Descriptors 0 to 2 belong to stdin, stdout and stderr, where these are closed too: no file of ours is opened there.

The kernel gives a new file the lowest number that is free. In a daemon, or after `sys.stdout.close()`, that is 1, and
what any code prints then is written into that file. No system call opens a file at 3 or above, and libraries open files
themselves, so `/dev/null` takes the free numbers below 3 first. It keeps them: given back, they would go to the next
file that any thread opens, and be free again in the midst of a later opening of ours, when that thread closes it.
"""

import contextlib
import os
from collections.abc import Iterator

_STANDARD = range(3)


@contextlib.contextmanager
def above_standard() -> Iterator[None]:
    """What is opened inside the block, by a library too, has a descriptor of 3 or more.

    Raises OSError where the process may have no more descriptors.

    >>> with above_standard():
    ...     fd = os.open(os.devnull, os.O_RDONLY)
    >>> fd >= 3
    True
    >>> os.close(fd)
    """
    for number in _STANDARD:
        if not _is_open(number):
            got = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            if got not in _STANDARD:  # another thread has opened something in this moment
                os.close(got)
    yield


def is_stream(number: int) -> bool:
    """Whether a descriptor is open as a standard stream is, and not a file's that got its number by chance.

    A stream is meant for the programs that are started; every other file Python opens for this process alone.
    """
    try:
        return os.get_inheritable(number)
    except OSError:  # it is closed
        return False


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
