"""Fetches an index that lies on a server into the user's cache folder, once a host."""

import contextlib
import hashlib
import os

from loaderkit._base.system.whole_file import whole_file
from loaderkit._storage.range_reader import RangeReader, read_range
from loaderkit.errors import DataFormatError

from .record_index import RecordIndex
from .shard_set import ShardSet, shortened

_PIECE = 8 << 20  # bytes of one request, and those that are in memory


def fetch_index(name: ShardSet, folder: str) -> RecordIndex:
    """The index, from the cache folder where that has it in its present version.

    Args:
        name: the index's address, as a set of one. FileNotFoundError where there is no such object.
        folder: of the cache, made where it lacks.
    """
    with contextlib.closing(name.open()) as ranges:
        version = ranges.version(0)
        shown = name.shown[0]
        told = hashlib.sha256(f"{shown} {version.size} {version.tag}".encode("utf-8", "surrogateescape"))
        stem = shortened(name.base_names[0].removesuffix(".lkx"))
        path = os.path.join(folder, f"{stem}-{told.hexdigest()[:16]}.fetched.lkx")
        with contextlib.suppress(FileNotFoundError, DataFormatError):
            return RecordIndex(path)
        os.makedirs(folder, exist_ok=True)
        _fetch(ranges, version.size, path)
    try:
        return RecordIndex(path)
    except DataFormatError as error:
        os.unlink(path)
        raise DataFormatError(f"{shown}: {error}") from None


def _fetch(ranges: RangeReader, size: int, path: str) -> None:
    with whole_file(path) as file:
        for begin in range(0, size, _PIECE):
            file.write(read_range(ranges, 0, begin, min(begin + _PIECE, size)))
