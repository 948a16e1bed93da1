"""What the system gives a process: descriptors that aren't the standard streams', and limits, which our errors name.

The kernel opens a file at the lowest free number. In a daemon, or after `sys.stdout.close()`, that may be 1, and all
that is printed would go to our file. No system call opens a file at 3 or above, and libraries open files themselves, so
the free numbers below 3 are first filled with `/dev/null`. They stay filled: if they were closed again, another thread
could open a file there, and close it while ours is being opened.

Limits are of open files, threads and processes, address space. The system's own message ("can't start new thread",
"Resource temporarily unavailable") names no limit, and the same message may come from several. So our errors add the
limits that it may come from, with their present values.
"""

import contextlib
import errno
import os
import resource
from collections.abc import Iterator

from loaderkit._base.notes import text_of

_DESCRIPTORS = {errno.EMFILE, errno.ENFILE}
_PROCESSES = {errno.EAGAIN}  # of fork and clone
_MEMORY = {errno.ENOMEM}
_OF_SYSTEM = (OSError, BlockingIOError)  # exact types: in a user's subclass the errno may be anything
_NAMED = "; the limit"  # the text of an error that names a limit already has this
_ROOT = "/"


def with_limits(error: BaseException) -> str:
    """An error's text, followed by the limits that it may come from, with their values.

    >>> with_limits(OSError(errno.EMFILE, "Too many open files")).partition(" is ")[0]
    '[Errno 24] Too many open files; the limit of open files: RLIMIT_NOFILE'
    >>> with_limits(OSError(errno.ENOENT, "No such file"))
    '[Errno 2] No such file'
    """
    return (text_of(error) or type(error).__qualname__) + limits_behind(error)


def most_open_files() -> int:
    """How many files a data source keeps open.

    A quarter of the limit leaves descriptors for other sources and for the program. With fewer files open than there
    are, a shuffled read often opens a file again, so there are 16 at least.

    >>> most_open_files() >= 16
    True
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(16, limit // 4) if limit > 0 else 1024


@contextlib.contextmanager
def naming_limits(what: str) -> Iterator[None]:
    """Raises an OSError of the block again, with the same errno and a text that names `what` and the limit.

    >>> with naming_limits("the arena"):
    ...     os.open("/no/such/file", os.O_RDONLY)
    Traceback (most recent call last):
        ...
    FileNotFoundError: [Errno 2] the arena: No such file or directory
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or os.strerror(error.errno or 0)
        raise OSError(error.errno, f"{what}: {reason}{limits_behind(error)}") from error


def is_of_limits(error: BaseException) -> bool:
    """Whether an error may come from one of the limits."""
    return _NAMED in with_limits(error)


def limits_behind(error: BaseException) -> str:
    """The limits that an error may come from, with their values; "" for none, or where its text names them."""
    if _NAMED in text_of(error):
        return ""
    number = error.errno if isinstance(error, OSError) and type(error) in _OF_SYSTEM else None
    if number in _DESCRIPTORS:
        return f"; the limit of open files: {_open_files()}"
    if number in _PROCESSES or (type(error) is RuntimeError and "new thread" in text_of(error)):
        # A thread's stack needs address space, and the system gives the same error where that is exhausted.
        return f"; the limits of threads and processes: {_processes()}, {_address_space()}"
    if number in _MEMORY or isinstance(error, MemoryError):
        return f"; the limit of address space: {_address_space()}"
    return ""


def inherited_limits() -> str:
    """The limits that child processes inherit, with their values, as text."""
    return f"{_open_files()}, {_processes()}, {_address_space()}"


def _open_files() -> str:
    return f"RLIMIT_NOFILE is {_value(resource.RLIMIT_NOFILE)} (ulimit -n)"


def _processes() -> str:
    own = f"RLIMIT_NPROC is {_value(resource.RLIMIT_NPROC)} (ulimit -u)"
    group = most_tasks(_ROOT)
    return own if group is None else f"{own}, the cgroup's pids.max is {group:,}"


def _address_space() -> str:
    return f"RLIMIT_AS is {_value(resource.RLIMIT_AS)} (ulimit -v)"


def _value(limit: int) -> str:
    soft, _ = resource.getrlimit(limit)
    return "unlimited" if soft == resource.RLIM_INFINITY else f"{soft:,}"


def most_tasks(root: str) -> int | None:
    """The smallest `pids.max` of this process's cgroups; None where no limit is set or it can't be read.

    Args:
        root: root folder of the file system.
    """
    values: list[int] = []
    with contextlib.suppress(ImportError, OSError, MemoryError):  # what opens files may hit the same limit
        from .resources import cgroups, read_text  # for errors only

        for group in cgroups(root, "pids"):
            with contextlib.suppress(OSError, ValueError):  # ValueError: "max", no limit
                values.append(int(read_text(f"{group}/pids.max")))
    return min(values, default=None)


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
