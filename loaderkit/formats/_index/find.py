"""Finds the index of a set of shards: beside the data or in the user's cache folder, else makes it.

Local data is indexed at first use, under a lock, beside the data or, where that can't be written, in the cache folder.
Where files can't be locked, several processes may do the work, and each puts a whole index there by a rename.
"""

import contextlib
import errno
import hashlib
import logging
import os
import time
from collections.abc import Iterator, Sequence

import numpy as np

from loaderkit._base.system.made_folder import is_index
from loaderkit._base.system.waited_lock import locked_folder as _locked_folder
from loaderkit._base.system.whole_file import whole_file
from loaderkit._codecs.scan import Scanner
from loaderkit._storage.addresses import is_remote, redacted
from loaderkit._storage.range_reader import RangeReader, read_range
from loaderkit.errors import DataFormatError, FileChangedError, StorageError

from .blocks import BlocksFormat
from .build import build_index
from .check import has_sample
from .counted_index import CountedIndex
from .part_file import ScanOptions
from .record_index import RecordIndex
from .shard_set import ShardSet, distinct_names, shortened

_log = logging.getLogger("loaderkit")

# Shards of which an opening compares samples: 4,096 reads of 4 KiB. A copied set has another time at each shard.
MOST_SAMPLES = 256
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT}
_READ_ONLY = {errno.EACCES, errno.EPERM, errno.EROFS}


def cache_folder() -> str:
    """The folder for indexes of data that can't be written to, or is remote: $XDG_CACHE_HOME/loaderkit/indexes.

    >>> cache_folder().endswith("loaderkit/indexes")
    True
    """
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(home, "loaderkit", "indexes")


def cached_path(shards: ShardSet, kind: str) -> str:
    """The file of their index in the cache folder: one for each set of whole names and kind of format."""
    told = "\n".join([kind, *shards.shown]).encode("utf-8", "surrogateescape")
    stem = shortened(shards.index_name.removesuffix(".lkx"))
    return os.path.join(cache_folder(), f"{stem}-{hashlib.sha256(told).hexdigest()[:16]}.lkx")


def path_beside(shards: ShardSet, *, blocks: bool = False) -> str:
    """The file of their index beside the data; "" where they have no folder in common.

    An index of blocks has a hidden name: other libraries read a folder of Parquet files whole.
    """
    return f"{shards.folder.rstrip('/')}/{'.' * blocks}{shards.index_name}" if shards.folder else ""


def is_free(path: str, shards: ShardSet, scanner: Scanner) -> bool:
    """Whether the index of these shards may have a name: no other file does, and no index of another set."""
    return not os.path.lexists(path) or (is_index(path) and not _foreign(path, shards, scanner))


def find_index(
    shards: ShardSet, scanner: Scanner, *, index: str | None = None, options: ScanOptions | None = None
) -> RecordIndex:
    """The index of these shards.

    Args:
        shards: to be read.
        scanner: reads them.
        index: the name of the index, where the user gives it.
        options: what a new index holds.

    Raises FileNotFoundError where there is none and the data is remote, with the command that makes one;
    DataFormatError for a damaged one, where it isn't made again; FileChangedError where a shard has another size;
    ValueError for an index of other data.
    """
    found = _found(shards, scanner, index, options)
    if not found.counts:
        return found
    writable = os.access(os.path.dirname(found.path), os.W_OK)
    folder = found.path if writable else cached_path(shards, scanner.kind)
    return CountedIndex(found.path, shards, scanner, f"{folder}.parts")


def _found(shards: ShardSet, scanner: Scanner, index: str | None, options: ScanOptions | None) -> RecordIndex:
    if index is not None:
        named = _opened(index, shards)
        _check_belongs(named, shards, scanner)
        return named
    if shards.remote:
        return _find_remote(shards, scanner)
    for path in _candidates(shards, scanner.kind):
        if (local := _usable(path, shards, scanner)) is not None:
            return local
    return _make_local(shards, scanner, options)


def _opened(name: str, shards: ShardSet) -> RecordIndex:
    name = os.fspath(name)
    if is_remote(name):
        return fetch_index(ShardSet([name], shards.storage_options), cache_folder())
    return RecordIndex(os.path.abspath(os.path.expanduser(name)))


def _candidates(shards: ShardSet, kind: str) -> list[str]:
    beside = path_beside(shards)
    return ([beside] if beside else []) + [cached_path(shards, kind)]


def _usable(path: str, shards: ShardSet, scanner: Scanner, *, logs: bool = False) -> RecordIndex | None:
    """The index, None where there is none of these shards as they are now.

    Args:
        path: of the index.
        shards: local ones.
        scanner: which it should be of.
        logs: whether the log says why it isn't taken.
    """
    try:
        found = RecordIndex(path)
        problem = other_set(found, shards, scanner) or changed_shard(found, shards)
        if not problem:
            return found
        problem = f"{path} is of other data: {problem}"
    except FileNotFoundError:
        return None
    except DataFormatError as error:
        problem = str(error)
    if logs:
        _log.info("the index is made again: %s", problem)
    return None


def find_blocks(paths: Sequence[str], format_name: str) -> RecordIndex | None:
    """The index of the blocks of local files that lies beside them; None where there is none of them as they are.

    Args:
        paths: of the files, in order.
        format_name: of the files, whose records have no index of ours.
    """
    shards = ShardSet(paths)
    try:
        return _usable(path_beside(shards, blocks=True), shards, BlocksFormat(format_name))
    except OSError:  # it can't be read: the data can
        return None


def _check_belongs(found: RecordIndex, shards: ShardSet, scanner: Scanner) -> None:
    if difference := other_set(found, shards, scanner):
        raise ValueError(
            f"index: expected the index of these {len(shards.paths)} files, got {redacted(found.path)} of other data: "
            f"{difference}; make one with {command(shards)}"
        )
    if not shards.remote and (difference := changed_shard(found, shards)):
        raise FileChangedError(
            f"{difference}; put the file back that was indexed, or make the index again: {command(shards)}"
        )


def other_set(index: RecordIndex, shards: ShardSet, scanner: Scanner) -> str:
    """What tells the indexed set from this one, without a look at the shards; "" where it is this one."""
    if index.kind != scanner.kind:
        return f"it is of the format {index.kind}, not {scanner.kind}"
    if index.shards != len(shards.paths):
        return f"it is of {index.shards} files, not {len(shards.paths)}"
    names = zip(distinct_names(list(index.shard_names)), distinct_names(shards.shown))
    for shard, (was, now) in enumerate(names):
        if was != now:
            return f"its file {shard} is {was}, not {now}"
    return ""


def changed_shard(index: RecordIndex, shards: ShardSet) -> str:
    """Which local shard isn't the indexed one, and how it differs; "" where none is found.

    All sizes are compared. Where times differ, samples are compared: of 256 shards at most, as the others are when they
    are first read.
    """
    other_times = []
    for shard, (path, was) in enumerate(zip(shards.paths, index.shard_versions)):
        status = os.stat(path)
        if status.st_size != was.size:
            return f"{path}: it had {was.size} bytes, and has {status.st_size} now"
        if was.tag != f"mtime_ns:{status.st_mtime_ns}":
            other_times.append(shard)
    if other_times:
        some = np.linspace(0, len(other_times) - 1, min(len(other_times), MOST_SAMPLES)).astype(int)
        with contextlib.closing(shards.open()) as ranges:
            for shard in (other_times[place] for place in some.tolist()):
                if not has_sample(index, shard, ranges):
                    return f"{shards.paths[shard]}: it has the same size and other bytes"
    return ""


def command(shards: ShardSet) -> str:
    """What to type for an index of these shards."""
    more = " ..." if len(shards.paths) > 1 else ""
    return f"`loaderkit index {redacted(shards.paths[0])}{more}`"


def _find_remote(shards: ShardSet, scanner: Scanner) -> RecordIndex:
    difference, older = "", None
    for beside in (False, True):
        with contextlib.suppress(FileNotFoundError):
            found = _open_beside(shards) if beside else RecordIndex(cached_path(shards, scanner.kind))
            if not (difference := other_set(found, shards, scanner)):
                if beside or _has_versions(found, shards):
                    return found
                older = found
            difference = f" of these files ({redacted(found.path)}: {difference})"
    if older is not None:  # the readers compare what they read
        return older
    with contextlib.closing(shards.open()) as ranges:
        ranges.version(0)  # where the name is wrong, that is the error
    raise FileNotFoundError(
        errno.ENOENT,
        f"paths: expected files on a server with an index, got none{difference}; make it once with {command(shards)}, "
        "or give index=",
        path_beside(shards) or redacted(shards.paths[0]),
    )


def _has_versions(index: RecordIndex, shards: ShardSet) -> bool:
    """Whether the first and the last shard are those that were indexed, as far as the server says."""
    with contextlib.closing(shards.open()) as ranges, contextlib.suppress(StorageError):
        ends = sorted({0, len(shards.paths) - 1})
        return all(ranges.version(shard) == index.shard_versions[shard] for shard in ends)
    return True


def _open_beside(shards: ShardSet) -> RecordIndex:
    if not (beside := path_beside(shards)):
        raise FileNotFoundError(errno.ENOENT, "no folder has all of the files")
    try:
        return fetch_index(ShardSet([beside], shards.storage_options), cache_folder())
    except StorageError as error:
        if not error.refused:  # it may be there
            raise
        # A server that may not list what it has refuses a name that isn't there, and links that are signed are for
        # their own objects only. Where the server can't be read at all, that is the error.
        with contextlib.closing(shards.open()) as ranges:
            ranges.version(0)
        raise FileNotFoundError(errno.ENOENT, "no index", beside) from None


def _make_local(shards: ShardSet, scanner: Scanner, options: ScanOptions | None) -> RecordIndex:
    with contextlib.closing(shards.open()) as ranges:
        for shard in range(len(shards.paths)):
            ranges.version(shard)  # an error for a shard that is missing, before any folder is made
    *beside, cached = _candidates(shards, scanner.kind)
    for path in beside:
        try:
            with locked_folder(f"{path}.parts"):
                # Where another program's index of the same file lies there, such as one of another format, it stays.
                if not _foreign(path, shards, scanner):
                    return _make_once(path, shards, scanner, options)
        except OSError as error:
            if error.errno not in _NO_ROOM and not isinstance(error, PermissionError):
                raise
            if error.errno in _NO_ROOM:
                # Texts: a handler that keeps the error keeps files open.
                told = str(shards), os.path.dirname(cached), str(error)
                _log.warning("the index of %s is made in %s instead: %s", *told)
    with locked_folder(f"{cached}.parts"):
        return _make_once(cached, shards, scanner, options)


def _foreign(path: str, shards: ShardSet, scanner: Scanner) -> bool:
    try:
        return bool(other_set(RecordIndex(path), shards, scanner))
    except (FileNotFoundError, DataFormatError):
        return False


def _make_once(path: str, shards: ShardSet, scanner: Scanner, options: ScanOptions | None) -> RecordIndex:
    if (found := _usable(path, shards, scanner, logs=True)) is not None:
        return found  # another process has just made it
    begun = time.monotonic()
    try:
        index = build_index(shards, scanner, path, options=options)
    except FileNotFoundError:
        # Without locks another process may have finished first, and removed the parts.
        if (found := _usable(path, shards, scanner)) is None:
            raise
        return found
    told = path, index.shards, len(index), time.monotonic() - begun
    _log.info("made the index %s of %d files with %d records in %.1f s", *told)
    return index


@contextlib.contextmanager
def locked_folder(folder: str) -> Iterator[None]:
    """Makes the folder and locks it, as `waited_lock.locked_folder` does; PermissionError where it can't be made."""
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(_locked_folder(folder))
        except OSError as error:
            if error.errno in _READ_ONLY:
                raise PermissionError(
                    error.errno,
                    "no folder for the index can be written to: set XDG_CACHE_HOME to one, or make the index once by "
                    "`loaderkit index SHARDS -o FILE` and give index=",
                    folder,
                ) from error
            raise
        yield


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
