"""What a user says of a cache: its folder, and how much of the disk it may take."""

import os
import re
from dataclasses import dataclass
from reprlib import repr as _short

from loaderkit._base.integers import at_least

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_BINARY_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
_SIZE = re.compile(r"(\d+(?:\.\d+)?) *([KMGTP]?)(I?)B?", re.ASCII | re.IGNORECASE)
_ADVICE = 'give bytes, or a text such as "200GB" or "50GiB"'


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

    def __init__(self, folder: str | os.PathLike[str], limit: int | str) -> None:
        given: object = folder  # of any type, whatever the annotation says
        path = os.fspath(given) if isinstance(given, str | os.PathLike) else None
        if not isinstance(path, str):
            raise TypeError(f"folder: expected a path, got {_short(folder)}")
        if not path:
            raise ValueError("folder: expected a path, got ''")
        # Absolute, because a program may change its folder before the first read.
        object.__setattr__(self, "folder", os.path.abspath(os.path.expanduser(path)))
        object.__setattr__(self, "limit", _bytes_of(limit))


def _bytes_of(limit: object) -> int:
    if not isinstance(limit, str):
        return at_least("limit", limit, 1, advice=_ADVICE)
    found = _SIZE.fullmatch(limit.strip())
    if found is None or (found[3] and not found[2]):
        raise ValueError(f"limit: expected a size, got {_short(limit)}; {_ADVICE}")
    unit = (_BINARY_UNITS if found[3] else _UNITS)[found[2].upper()]
    return at_least("limit", int(float(found[1]) * unit), 1, advice=_ADVICE)
