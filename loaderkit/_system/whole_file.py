"""Files that are there whole or not at all."""

import contextlib
import os
from collections.abc import Iterator
from typing import BinaryIO

from .descriptors import above_standard

TEMPORARY = r"\.\d+-[0-9a-f]{8}\.partial"  # ends the names of files that aren't whole yet


@contextlib.contextmanager
def whole_file(path: str) -> Iterator[BinaryIO]:
    """A new file for the block to write; it has its name once the block has ended, and is on the disk then.

    Args:
        path: a file of that name is replaced. Until then there is another beside it, with a name that ends in
            ".partial", which is deleted where the block ends by an exception.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with whole_file(f"{folder}/a") as file:
    ...         _ = file.write(b"all of it")
    ...     os.listdir(folder)
    ['a']
    """
    partial = f"{path}.{os.getpid()}-{os.urandom(4).hex()}.partial"
    try:
        with above_standard():
            file = open(partial, "xb")  # noqa: SIM115 - in the next line
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(partial)
