"""Limits of this process that the system refuses things for: open files, threads and processes, address space.

The system's own words for a refusal ("can't start new thread", "Resource temporarily unavailable") name no limit, and
the same words stand for several. So what is raised says which limits there are, with their values now.
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
_OF_SYSTEM = (OSError, BlockingIOError)  # not those of a user's class, whose number may be anything
_NAMED = "; the limit"  # in a text that names it already
_ROOT = "/"


def with_limits(error: BaseException) -> str:
    """An error's text, and behind it the limits that the refusal may come from, with their values, if it is one.

    >>> with_limits(OSError(errno.EMFILE, "Too many open files")).partition(" is ")[0]
    '[Errno 24] Too many open files; the limit of open files: RLIMIT_NOFILE'
    >>> with_limits(OSError(errno.ENOENT, "No such file"))
    '[Errno 2] No such file'
    """
    return (text_of(error) or type(error).__qualname__) + limits_behind(error)


@contextlib.contextmanager
def naming_limits(what: str) -> Iterator[None]:
    """An OSError of the block is raised with the same number, and a text that names `what` and the limit.

    >>> with naming_limits("a list of nothing"):
    ...     os.listdir("/nowhere/at/all")
    Traceback (most recent call last):
        ...
    FileNotFoundError: [Errno 2] a list of nothing: No such file or directory
    """
    try:
        yield
    except OSError as error:
        said = error.strerror or os.strerror(error.errno or 0)
        raise OSError(error.errno, f"{what}: {said}{limits_behind(error)}") from error


def is_of_limits(error: BaseException) -> bool:
    """Whether an error says that the system refused something that is limited."""
    return _NAMED in with_limits(error)


def limits_behind(error: BaseException) -> str:
    """The limits that a refusal may come from, with their values; nothing where an error is about none."""
    if _NAMED in text_of(error):
        return ""
    number = error.errno if isinstance(error, OSError) and type(error) in _OF_SYSTEM else None
    if number in _DESCRIPTORS:
        return f"; the limit of open files: {_open_files()}"
    if number in _PROCESSES or (type(error) is RuntimeError and "new thread" in text_of(error)):
        # A thread's stack needs address space, and the system gives the same answer where there is none.
        return f"; the limits of threads and processes: {_processes()}, {_address_space()}"
    if number in _MEMORY or isinstance(error, MemoryError):
        return f"; the limit of address space: {_address_space()}"
    return ""


def inherited_limits() -> str:
    """The limits that the processes started by this one have too, in words."""
    return f"{_open_files()}, {_processes()}, {_address_space()}"


def _open_files() -> str:
    return f"RLIMIT_NOFILE is {_value(resource.RLIMIT_NOFILE)} (ulimit -n)"


def _processes() -> str:
    own = f"RLIMIT_NPROC is {_value(resource.RLIMIT_NPROC)} (ulimit -u)"
    least = most_tasks(_ROOT)
    return own if least is None else f"{own}, the cgroup's pids.max is {least:,}"


def _address_space() -> str:
    return f"RLIMIT_AS is {_value(resource.RLIMIT_AS)} (ulimit -v)"


def _value(limit: int) -> str:
    soft, _ = resource.getrlimit(limit)
    return "unlimited" if soft == resource.RLIM_INFINITY else f"{soft:,}"


def most_tasks(root: str | os.PathLike[str]) -> int | None:
    """The smallest `pids.max` of the cgroups of this process, None where there is none or it can't be read.

    Args:
        root: the file system's.
    """
    values: list[int] = []
    try:
        with open(os.path.join(root, "proc/self/cgroup")) as file:
            lines = file.read().splitlines()
    except (OSError, MemoryError):  # also for want of what this is asked about
        return None
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "pids"):
            group = os.path.join(root, "sys/fs/cgroup", controllers)
            values += _read_number(group)
            for level in filter(None, path.split("/")):
                group = os.path.join(group, level)
                values += _read_number(group)
    return min(values, default=None)


def _read_number(group: str) -> list[int]:
    try:
        with open(os.path.join(group, "pids.max")) as file:
            return [int(file.read())]
    except (OSError, ValueError):  # also "max", which is no number
        return []
