"""A folder for unfinished work that one process at a time writes to."""

import contextlib
import os
from collections.abc import Iterator

from .descriptors import open_descriptor
from .waited_lock import waited_lock


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
