"""Which files a name means: patterns, shards and parts of a file, told apart before any file is opened.

    data.array_record              one file
    data-*.array_record            all files that match, sorted by name
    data@64, data@64.array_record  data-00000-of-00064 and so on, all 64
    data-?????-of-00064            the same
    data.array_record[10:20]       the records 10 to 19 of one file

A name that exists as it is written means that file. Names with a scheme, such as gs://, go to array-record as
they are.
"""

import errno
import glob
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

_RANGE = re.compile(r"(?P<name>.+)\[(?P<start>\d*):(?P<stop>\d*)\]")
_COUNTED = re.compile(r"(?P<stem>[^/]*)@(?P<count>[1-9]\d*)(?P<tail>(\.[^/]*)?)")
_SHARDS = re.compile(r"(?P<stem>.*)-(\?{5}|\*)-of-(?P<count>\d{5})(?P<tail>.*)")


@dataclass(frozen=True, slots=True)
class FilePart:
    """The records from `start` to before `stop` of one file; stop None is its end.

    >>> FilePart("data.array_record", 0, None)
    FilePart(path='data.array_record', start=0, stop=None)
    """

    path: str
    start: int
    stop: int | None


def is_remote(path: str) -> bool:
    """Whether the path names something that isn't in the local file system.

    Args:
        path: a path, as `FilePart` holds it.

    >>> is_remote("gs://bucket/data.array_record"), is_remote("/data/data.array_record")
    (True, False)
    """
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", path) is not None


def file_parts(paths: Any) -> list[FilePart]:
    """The files that were meant, in the order given, each pattern's sorted by name.

    Args:
        paths: a str or path, or an object with `filename`, `skip` and `take` (TFDS's file instruction), or a
            sequence of these. FileNotFoundError naming what is missing: the pattern, or the first shard.

    >>> file_parts("gs://bucket/data@2")
    [FilePart(path='gs://bucket/data-00000-of-00002', start=0, stop=None),
     FilePart(path='gs://bucket/data-00001-of-00002', start=0, stop=None)]
    """
    each = _each(paths)
    if not isinstance(each, Iterable):
        raise TypeError(f"paths: a path or a sequence of paths is needed, a {type(paths).__name__} came")
    parts = [part for path in each for part in _parts_of(path)]
    if not parts:
        raise ValueError("paths: at least one path is needed, an empty sequence came")
    return parts


def paths_as_written(paths: Any) -> list[str]:
    """The names as `file_parts` was given them, without the records meant: a file that is named by itself has the
    name that was written, relative as it may be; those of patterns and shards have their absolute one.

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
        # TFDS writes -1 for "all the rest".
        stop = None if path.take < 0 else path.skip + path.take
        return [FilePart(_absolute(os.fspath(path.filename)), path.skip, stop)]
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"paths: a str or a path is needed, {path!r} came")
    name = _absolute(os.fsdecode(path))
    found = None if os.path.exists(name) else _RANGE.fullmatch(name)
    if found is None:
        return [FilePart(file, 0, None) for file in _files_of(name)]
    files = _files_of(found["name"])
    if len(files) != 1:
        raise ValueError(
            f"paths: {os.fspath(path)!r} takes records of {len(files)} files; [start:stop] goes with one file's name"
        )
    start, stop = int(found["start"] or 0), int(found["stop"]) if found["stop"] else None
    if stop is not None and stop <= start:
        raise ValueError(
            f"paths: {os.fspath(path)!r} has no record; in [start:stop] the stop lies past the start"
        )
    return [FilePart(files[0], start, stop)]


def _absolute(name: str) -> str:
    # A worker's directory need not be the one in which the source was made.
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
            f"paths: {name}: remote files can't be listed; write name@64 for 64 shards, or a list of names"
        )
    files = sorted(glob.glob(name, recursive=True))
    if not files:
        _refuse_missing(name, "no file matches the pattern")
    return files


def _refuse_missing(path: str, why: str) -> NoReturn:
    raise FileNotFoundError(errno.ENOENT, why, path)
