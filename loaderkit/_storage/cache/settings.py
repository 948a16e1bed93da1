"""What a user says of a cache: its folder, and how much of the disk it may take."""

import os
from dataclasses import dataclass
from reprlib import repr as _short

from loaderkit._base.hints import refusing_foreign_arguments
from loaderkit._base.numbers import number_of_bytes


@dataclass(frozen=True, slots=True)
class Cache:
    """A folder in which chunks of records are kept, and the bytes that they may take there.

    Args:
        folder: made at the first read. Loaders of one host share it, of one data set or of several; files of others
            that lie there are never touched.
        limit: bytes as an int, or a text: "200GB" is 200 * 10**9 bytes, "50GiB" is 50 * 2**30.

    Nothing is opened here. A value of the wrong type is a TypeError, one out of range a ValueError.

    >>> Cache("/data/cache", limit="50GiB").limit == 50 * 2**30
    True
    >>> Cache("/data/cache", limit="much")
    Traceback (most recent call last):
        ...
    ValueError: limit: expected a size, got 'much'; give bytes, or a text such as "200GB" or "50GiB"
    """

    folder: str
    limit: int

    @refusing_foreign_arguments
    def __init__(self, folder: str | os.PathLike[str], limit: int | str) -> None:
        given: object = folder  # of any type, whatever the annotation says
        path = os.fspath(given) if isinstance(given, str | os.PathLike) else None
        if not isinstance(path, str):
            raise TypeError(f"folder: expected a path, got {_short(folder)}")
        if not path:
            raise ValueError("folder: expected a path, got ''")
        # Absolute, because a program may change its folder before the first read.
        object.__setattr__(self, "folder", os.path.abspath(os.path.expanduser(path)))
        object.__setattr__(self, "limit", number_of_bytes("limit", limit))
