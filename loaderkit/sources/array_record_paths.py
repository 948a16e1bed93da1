"""Which files a name means: patterns, shards and parts of a file, resolved before any file is opened.

    data.array_record              one file
    data-*.array_record            all files that match, sorted by name
    data@64, data@64.array_record  data-00000-of-00064 and so on, all 64
    data-?????-of-00064            the same
    data.array_record[10:20]       the records 10 to 19 of one file

Where a file of exactly this name exists, the name means that file. Names with a scheme, such as gs://, are passed to
array-record unchanged.
"""

import errno
import glob
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from reprlib import repr as _short
from typing import Any, NoReturn

_RANGE = re.compile(r"(?P<name>.+)\[(?P<start>\d*):(?P<stop>\d*)\]")
_COUNTED = re.compile(r"(?P<stem>[^/]*)@(?P<count>[1-9]\d*)(?P<tail>(\.[^/]*)?)")
_SHARDS = re.compile(r"(?P<stem>.*)-(\?{5}|\*)-of-(?P<count>\d{5})(?P<tail>.*)")


@dataclass(frozen=True, slots=True)
class FilePart:
    """The records from `start` up to, not including, `stop` of one file; stop=None is the file's end.

    >>> FilePart("data.array_record", 0, None)
    FilePart(path='data.array_record', start=0, stop=None)
    """

    path: str
    start: int
    stop: int | None


def is_remote(path: str) -> bool:
    """Whether the path names a file outside the local file system.

    Args:
        path: a path, as `FilePart` holds it.

    >>> is_remote("gs://bucket/data.array_record"), is_remote("/data/data.array_record")
    (True, False)
    """
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", path) is not None


def file_parts(paths: Any) -> list[FilePart]:
    """The files that `paths` means, in the order given; those of a pattern are sorted by name.

    Args:
        paths: a str or path, or an object with `filename`, `skip` and `take` (TFDS's file instruction), or a sequence
            of these. FileNotFoundError naming the pattern without a file, or the first missing shard; TypeError for
            other types; ValueError for an empty sequence or a part without records.

    >>> file_parts("gs://bucket/data@2")
    [FilePart(path='gs://bucket/data-00000-of-00002', start=0, stop=None),
     FilePart(path='gs://bucket/data-00001-of-00002', start=0, stop=None)]
    """
    each = _each(paths)
    if not isinstance(each, Iterable):
        raise TypeError(f"paths: expected a path or a sequence of paths, got a {type(paths).__name__}")
    parts = [part for path in each for part in _parts_of(path)]
    if not parts:
        raise ValueError("paths: expected one path or more, got an empty sequence")
    return parts


def paths_as_written(paths: Any) -> list[str]:
    """The files' names without the parts: for a file named by itself the name as written, which may be relative; for
    the files of patterns and shards their absolute names.

    Args:
        paths: as in `file_parts`.

    >>> paths_as_written(["gs://bucket/data[0:10]", "gs://bucket/more@1"])
    ['gs://bucket/data', 'gs://bucket/more-00000-of-00001']
    """
    names: list[str] = []
    for path in _each(paths):
        files = [part.path for part in _parts_of(path)]
        name = os.fsdecode(path.filename if _is_instruction(path) else path)
        if [_absolute(name)] != files and (found := _RANGE.fullmatch(name)):
            name = found["name"]
        names += [name] if [_absolute(name)] == files else files
    return names


def _each(paths: Any) -> Any:
    return [paths] if isinstance(paths, str | os.PathLike) or _is_instruction(paths) else paths


def _is_instruction(path: Any) -> bool:
    return all(hasattr(path, name) for name in ("filename", "skip", "take"))


def _parts_of(path: Any) -> list[FilePart]:
    if _is_instruction(path):
        # TFDS writes take=-1 for all the records that are left.
        stop = None if path.take < 0 else path.skip + path.take
        return [FilePart(_absolute(os.fspath(path.filename)), path.skip, stop)]
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"paths: expected a str or a path, got {_short(path)}")
    name = _absolute(os.fsdecode(path))
    found = None if os.path.exists(name) else _RANGE.fullmatch(name)
    if found is None:
        return [FilePart(file, 0, None) for file in _files_of(name)]
    files = _files_of(found["name"])
    if len(files) != 1:
        raise ValueError(
            f"paths: expected the name of one file before [start:stop], got {os.fspath(path)!r} with {len(files)} files"
        )
    start, stop = int(found["start"] or 0), int(found["stop"]) if found["stop"] else None
    if stop is not None and stop <= start:
        raise ValueError(
            f"paths: expected start < stop in [start:stop], got {os.fspath(path)!r}, which has no record"
        )
    return [FilePart(files[0], start, stop)]


def _absolute(name: str) -> str:
    # A worker may have another working directory than the process that made the source.
    return name if is_remote(name) else os.path.abspath(os.path.expanduser(name))


def _files_of(name: str) -> Sequence[str]:
    if os.path.exists(name):
        return [name]
    folder, slash, last = name.rpartition("/")
    counted = _COUNTED.fullmatch(last) or _SHARDS.fullmatch(last)
    if counted is not None and not glob.has_magic(counted["stem"] + counted["tail"]):
        stem, count, tail = counted["stem"], int(counted["count"]), counted["tail"]
        files = [f"{folder}{slash}{stem}-{i:05d}-of-{count:05d}{tail}" for i in range(count)]
        for file in files:
            if not (is_remote(file) or os.path.exists(file)):
                _refuse_missing(file, f"{name} means {count} files, and this one is missing")
        return files
    if not glob.has_magic(name):
        return [name]
    if is_remote(name):
        raise ValueError(
            f"paths: expected name@64 for 64 shards, or a list of names, as remote files can't be listed, got {name!r}"
        )
    files = sorted(glob.glob(name, recursive=True))
    if not files:
        _refuse_missing(name, "no file matches the pattern")
    return files


def _refuse_missing(path: str, why: str) -> NoReturn:
    raise FileNotFoundError(errno.ENOENT, why, path)
