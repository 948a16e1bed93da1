"""Files that are there whole or not at all."""

import contextlib
import os
from collections.abc import Iterator
from typing import BinaryIO

from .limits import above_standard

TEMPORARY = r"\.\d+-[0-9a-f]{8}\.partial"  # ends the names of files that aren't whole yet


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """Gives an error of the system in the block, such as that of a full disk, the name of the file where it has none.

    >>> with naming("a.plan"):
    ...     raise OSError(28, "No space left on device")
    Traceback (most recent call last):
        ...
    OSError: [Errno 28] No space left on device: 'a.plan'
    """
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = path
        raise


@contextlib.contextmanager
def partial_file(path: str) -> Iterator[str]:
    """The name of a file for the block to make, which has the name `path` once the block has ended.

    Args:
        path: a file of that name is replaced. The other name is one beside it that no process has used; what has it is
            deleted where the block ends by an exception.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with partial_file(f"{folder}/a") as partial, open(partial, "xb") as file:
    ...         _ = file.write(b"all of it")
    ...     os.listdir(folder)
    ['a']
    """
    partial = f"{path}.{os.getpid()}-{os.urandom(4).hex()}.partial"
    try:
        yield partial
        os.replace(partial, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(partial)


@contextlib.contextmanager
def whole_file(path: str) -> Iterator[BinaryIO]:
    """A new file for the block to write; it has its name once the block has ended, and is on the disk then.

    Args:
        path: as `partial_file` takes it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with whole_file(f"{folder}/a") as file:
    ...         _ = file.write(b"all of it")
    ...     os.listdir(folder)
    ['a']
    """
    with partial_file(path) as partial:
        with above_standard():
            file = open(partial, "xb")  # noqa: SIM115 - in the next line
        with naming(path), file:
            yield file
            file.flush()
            os.fsync(file.fileno())
