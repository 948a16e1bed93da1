"""Descriptors 0 to 2 belong to stdin, stdout and stderr, where these are closed too: no file of ours is opened there.

The kernel gives a new file the lowest number that is free. In a daemon, or after `sys.stdout.close()`, that is 1, and
what any code prints then is written into that file. No system call opens a file at 3 or above, and libraries open files
themselves, so the free numbers below 3 are taken for the moment.
"""

import contextlib
import os
import threading
from collections.abc import Iterator

_STANDARD = range(3)


class _Places:
    def __init__(self) -> None:
        # The garbage collector may free something, and open a file for it, in the midst of this.
        self.lock = threading.RLock()
        self._blocks = 0  # that are being run, of all threads
        self._taken: list[int] = []  # for them

    def enter(self) -> None:
        self._blocks += 1
        try:
            for number in _STANDARD:
                if not _is_open(number):
                    self._take_lowest()
        except OSError:
            self.leave()
            raise

    def _take_lowest(self) -> None:
        got = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        if got in _STANDARD:
            self._taken.append(got)
        else:  # another thread has opened something in this moment
            os.close(got)

    def leave(self) -> None:
        self._blocks -= 1
        while self._taken and not self._blocks:
            number = self._taken.pop()
            # What os.dup2 has put there as a stream meanwhile is inheritable, and stays.
            if _is_open(number) and not os.get_inheritable(number):
                os.close(number)


_places = _Places()


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
    with _places.lock:
        _places.enter()
    try:
        yield
    finally:
        with _places.lock:
            _places.leave()


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


# The lock may be held by a thread that the child doesn't have. What was taken stays so, by /dev/null.
os.register_at_fork(after_in_child=_places.__init__)  # type: ignore[misc]  # made anew in its place
