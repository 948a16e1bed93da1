"""A folder takes the name of one that exists; a process that is killed on the way leaves one of the two under it."""

import contextlib
import ctypes
import os
import re

from .made_folder import Made, delete_rest

_AT_FDCWD = -100  # paths count from the working folder
_RENAME_EXCHANGE = 2
_ASIDE = r"\.replaced-[0-9a-f]{8}"


def replace_folder(new: str, path: str, aside: str) -> str:
    """Gives a folder the name of another one; the path at which the replaced one is then.

    Where the system can exchange two names, this is one step. Elsewhere there are two, and what a kill between them
    leaves, `restore_folder` mends.

    Args:
        new: the folder.
        path: the name that it gets, of a folder that exists, on the same file system.
        aside: where the system can't exchange names the replaced folder gets this name and ".replaced-" with 8 digits.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     for name in ("new", "set"):
    ...         os.makedirs(f"{parent}/{name}/{name}")
    ...     replaced = replace_folder(f"{parent}/new", f"{parent}/set", f"{parent}/set")
    ...     os.listdir(replaced), os.listdir(f"{parent}/set")
    (['set'], ['new'])
    """
    if _exchanged(new, path):
        return new
    aside = f"{aside}.replaced-{os.urandom(4).hex()}"
    os.rename(path, aside)
    os.rename(new, path)
    return aside


def restore_folder(path: str, aside: str) -> None:
    """Gives a set its name back that `replace_folder` was killed over; removes a set that was replaced by then.

    Args:
        path: as `replace_folder` got it.
        aside: likewise.
    """
    parent, base = os.path.split(aside)
    pattern = re.compile(re.escape(base) + _ASIDE)
    try:
        found = [entry.path for entry in os.scandir(parent) if pattern.fullmatch(entry.name)]
    except FileNotFoundError:
        return
    found = [each for each in found if (made := Made.read(each)) is not None and made.replaced]
    if found and not os.path.lexists(path):
        # Of several the last that was renamed; the others are remains of removals.
        last = max(found, key=lambda each: os.lstat(each).st_ctime_ns)
        found.remove(last)
        os.rename(last, path)
    for each in found:
        delete_rest(each)


def _exchanged(one: str, other: str) -> bool:
    """Exchanges two names in one step; False where it didn't: another system, an old kernel, NFS."""
    with contextlib.suppress(AttributeError):  # not Linux, or a C library older than the call
        rename = ctypes.CDLL(None).renameat2
        return bool(rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0)
    return False
