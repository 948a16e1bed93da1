"""Anonymous memory that several processes map, and how its descriptor is sent along with a pickle.

A descriptor is valid in its own process only, so it can't be part of the pickled bytes. While a trainer pickles for a
worker, `sending()` collects the descriptors of the objects, and the bytes refer to them by number. The channel sends
the list beside the bytes, and the worker unpickles inside `receiving(descriptors)`. Outside of these two, a
SharedBuffer pickles by value, as any bytes do.
"""

import contextlib
import mmap
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from .huge_pages import HUGE_PAGE, make_huge, mapped_for_huge
from .limits import above_standard, naming_limits

_travel = threading.local()


def anonymous_file(name: str, nbytes: int) -> int:
    """A new descriptor of `nbytes` bytes of zeroed memory without a path, closed on exec.

    Raises OSError naming the limit where the system refuses it.

    >>> fd = anonymous_file("example", 4096)
    >>> os.fstat(fd).st_size
    4096
    >>> os.close(fd)
    """
    with naming_limits(f"shared memory for {name}"), above_standard():
        if sys.platform == "linux":
            fd = os.memfd_create(f"loaderkit-{name}", os.MFD_CLOEXEC)
        else:
            import tempfile  # a slow import, and Linux doesn't need it

            # Unlinked at once, so that a crash leaves no file.
            fd, path = tempfile.mkstemp(prefix=f"loaderkit-{name}-")
            os.unlink(path)
    try:
        with naming_limits(f"{nbytes:,} bytes of shared memory for {name}"):
            os.ftruncate(fd, nbytes)
    except OSError:
        os.close(fd)
        raise
    return fd


def mapped(fd: int, nbytes: int, offset: int = 0) -> memoryview:
    """A shared mapping of `nbytes` bytes of such a file from `offset` on, which needs `fd` no longer.

    Raises OSError naming the limit where the system refuses it.

    >>> fd, begin = anonymous_file("example", 2 * mmap.ALLOCATIONGRANULARITY), mmap.ALLOCATIONGRANULARITY
    >>> os.pwrite(fd, b"there", begin)
    5
    >>> bytes(mapped(fd, 5, begin))
    b'there'
    >>> os.close(fd)
    """
    with naming_limits(f"a mapping of {nbytes:,} bytes of shared memory"), above_standard():
        if sys.platform == "linux" and nbytes >= HUGE_PAGE:
            with contextlib.suppress(
                OSError
            ):  # it takes more addresses, which a limit of private memory counts
                return mapped_for_huge(fd, nbytes, offset)
        return memoryview(mmap.mmap(fd, nbytes, offset=offset))


@contextlib.contextmanager
def sending(*, elsewhere: bool = False) -> Iterator[list[int]]:
    """Collects the descriptors of the objects that are pickled inside the block; the objects keep owning them.

    elsewhere: whether the pickle goes to another machine, together with copies of their contents.
    """
    descriptors: list[int] = []
    _travel.outgoing, _travel.elsewhere = descriptors, elsewhere
    try:
        yield descriptors
    finally:
        _travel.outgoing = None


def goes_to_a_worker() -> bool:
    """Whether this thread is pickling for a worker of this machine, so that the pickle isn't stored.

    >>> goes_to_a_worker()
    False
    """
    return getattr(_travel, "outgoing", None) is not None and not _travel.elsewhere


def goes_to_another_machine() -> bool:
    """Whether this thread is pickling for a worker of another machine.

    >>> goes_to_another_machine()
    False
    """
    return getattr(_travel, "outgoing", None) is not None and bool(_travel.elsewhere)


@contextlib.contextmanager
def receiving(descriptors: list[int]) -> Iterator[None]:
    """Provides the descriptors received with a pickle while it is unpickled inside the block, then closes them."""
    _travel.incoming = descriptors
    try:
        yield
    finally:
        _travel.incoming = None
        for fd in descriptors:
            os.close(fd)


class SharedBuffer:
    """Bytes that the trainer and all its workers share: the memory exists once, whatever the number of workers.

    Args:
        nbytes: length in bytes, at least 1.

    >>> buffer = SharedBuffer(8)
    >>> buffer.writable()[:2] = b"ab"
    >>> bytes(buffer.view()[:3])
    b'ab\\x00'
    """

    def __init__(self, nbytes: int) -> None:
        self._open(anonymous_file("source", nbytes), nbytes)
        make_huge(self._map, 0, nbytes)

    def _open(self, fd: int, nbytes: int) -> None:
        self._fd = fd
        self.nbytes = nbytes
        self._map = mapped(fd, nbytes)

    def writable(self) -> memoryview:
        """The bytes to fill; write only before the buffer is read or sent."""
        return self._map

    def view(self) -> memoryview:
        """The bytes, read-only; the view keeps them alive."""
        return self._map.toreadonly()

    def __reduce__(self) -> tuple[Any, ...]:
        outgoing: list[int] | None = getattr(_travel, "outgoing", None)
        if outgoing is None:
            return _from_bytes, (bytes(self._map),)
        outgoing.append(self._fd)
        return _from_descriptor, (len(outgoing) - 1, self.nbytes)

    # `os.close` is a default value: when the interpreter exits, modules' names are cleared before the last objects.
    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        fd = getattr(self, "_fd", None)
        if fd is not None:
            close(fd)


def _from_bytes(content: bytes) -> SharedBuffer:
    buffer = SharedBuffer(len(content))
    buffer.writable()[:] = content
    return buffer


def _from_descriptor(number: int, nbytes: int) -> SharedBuffer:
    incoming: list[int] | None = getattr(_travel, "incoming", None)
    if incoming is None:
        raise RuntimeError("SharedBuffer: expected to be unpickled in the worker that it was sent to")
    buffer = SharedBuffer.__new__(SharedBuffer)
    with naming_limits("a descriptor of the data source's memory"), above_standard():
        fd = os.dup(incoming[number])
    buffer._open(fd, nbytes)
    return buffer
