"""Which files and objects a name means: braces, patterns, shards and parts of a file, resolved before any is opened.

    data.tar                       one file
    data-*.tar                     all files that match, sorted by name
    data-{000..146}.tar            all 147, as bash expands braces
    data@64, data@64.tar           data-00000-of-00064 and so on, all 64
    data-?????-of-00064            the same
    data.tar[10:20]                the records 10 to 19 of one file

Where a local file of exactly this name exists, the name means that file. A name with a scheme, such as s3://, is of an
object on a server; file:// is of a local file.
"""

import errno
import glob
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn
from urllib.parse import unquote

from loaderkit._base.system.dataclasses import dataclass, field
from loaderkit._base.system.made_folder import MADE

from .addresses import SCHEME, is_remote, redacted
from .braces import expand_braces
from .listing import list_objects
from .range_reader import ObjectVersion

_RANGE = re.compile(r"(?P<name>.+)\[(?P<start>\d*):(?P<stop>\d*)\]", re.DOTALL)
_COUNTED = re.compile(r"(?P<stem>[^/]*)@(?P<count>[1-9]\d*)(?P<tail>(\.[^/]*)?)")
_SEVERAL = re.compile(r"[*?{}]|@\d+(\.|$)")
_SHARDS = re.compile(r"(?P<stem>.*)-(\?{5}|\*)-of-(?P<count>\d{5})(?P<tail>.*)")


def names_several(name: str) -> bool:
    """Whether a name is written as one of several files: with braces, a pattern, or the number of shards.

    >>> names_several("data@64.tar"), names_several("data-*.tar"), names_several("me@home.tar")
    (True, True, False)
    """
    return _SEVERAL.search(name) is not None


@dataclass(frozen=True, slots=True)
class FilePart:
    """The records from `start` up to, not including, `stop` of one file; stop=None is the file's end.

    path: an absolute path, or the whole name of an object, query included; `redacted(path)` is what may be shown.
    version: what the listing said where a pattern of a server's objects was listed, else None.

    >>> FilePart("https://host/data.tar?signature=secret", 0, None)
    FilePart('https://host/data.tar', 0, None)
    """

    path: str
    start: int
    stop: int | None
    version: ObjectVersion | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        return f"FilePart({redacted(self.path)!r}, {self.start}, {self.stop})"

    def bounds(self, total: int, unit: str) -> tuple[int, int]:
        """The first record and the one behind the last; ValueError where the file doesn't have them.

        Args:
            total: records of the file.
            unit: what they are, for the error.

        >>> FilePart("/data/a.tar", 10, None).bounds(100, "records")
        (10, 100)
        """
        if (self.start and self.start >= total) or (self.stop or 0) > total:
            asked = "" if self.stop is None else self.stop
            raise ValueError(
                f"paths: expected a part of the {total} {unit} of {redacted(self.path)}, got [{self.start}:{asked}]"
            )
        return self.start, total if self.stop is None else self.stop


def file_parts(paths: Any, *, storage_options: Mapping[str, Any] | None = None) -> list[FilePart]:
    """The files that `paths` means, in the order given, without the indexes that lie beside them; those of a pattern
    are sorted by name.

    Args:
        paths: a str or path, or an object with `filename`, `skip` and `take` (TFDS's file instruction), or a sequence
            of these, or a function without arguments that gives one. FileNotFoundError naming the pattern without a
            file, or the first missing local shard; TypeError for other types; ValueError for an empty sequence, a part
            without records, a pattern of a server that can't be listed.
        storage_options: for listing the objects that match a pattern, as in `open_ranges`.

    >>> file_parts("gs://bucket/data@2")
    [FilePart('gs://bucket/data-00000-of-00002', 0, None), FilePart('gs://bucket/data-00001-of-00002', 0, None)]
    """
    each = _each(paths)
    if not isinstance(each, Iterable):
        raise TypeError(f"paths: expected a path or a sequence of paths, got a {type(paths).__name__}")
    found = [part for path in each for part in _parts_of(path, storage_options)]
    if not found:
        raise ValueError("paths: expected one path or more, got an empty sequence")
    parts = [
        part for part in found if not part.path.endswith(".lkx") and ".lkx.parts/" not in f"{part.path}/"
    ]
    if not parts:
        raise FileNotFoundError(f"paths: expected files of records, got an index: {redacted(found[0].path)}")
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
        files = [part.path for part in _parts_of(path, None)]
        name = os.fsdecode(path.filename if _is_instruction(path) else path)
        if [_absolute(name)] != files and (found := _RANGE.fullmatch(name)):
            name = found["name"]
        names += [name] if [_absolute(name)] == files else files
    return names


def _each(paths: Any) -> Any:
    if callable(paths):
        paths = paths()
    return [paths] if isinstance(paths, str | os.PathLike) or _is_instruction(paths) else paths


def _is_instruction(path: Any) -> bool:
    return all(hasattr(path, name) for name in ("filename", "skip", "take"))


def _parts_of(path: Any, options: Mapping[str, Any] | None) -> list[FilePart]:
    if _is_instruction(path):
        # TFDS writes take=-1 for all the records that are left.
        stop = None if path.take < 0 else path.skip + path.take
        return [FilePart(_absolute(os.fspath(path.filename)), path.skip, stop)]
    if not isinstance(path, str | os.PathLike):
        # What isn't a number may hold an address with a credential.
        shown = repr(path) if isinstance(path, int | float | None) else f"a {type(path).__name__}"
        raise TypeError(f"paths: expected a str or a path, got {shown}")
    written = os.fsdecode(path)
    if written.startswith("pipe:"):
        raise ValueError(
            "paths: expected names of files or objects, got a pipe: url, the output of a command, in which no record "
            "can be found by its place; give the url that the command reads (http, s3, gs, az and what fsspec knows "
            "are read directly), or keep what it gives: lk.formats.fetch(url, folder, allow_commands=True)"
        )
    if os.path.exists(_absolute(written)):
        return [FilePart(_absolute(written), 0, None)]
    return [part for name in expand_braces(written) for part in _expanded(_absolute(name), options)]


def _expanded(name: str, options: Mapping[str, Any] | None) -> list[FilePart]:
    found = None if os.path.exists(name) else _RANGE.fullmatch(name)
    if found is None:
        return _files_of(name, options)
    files = _files_of(found["name"], options)
    if len(files) != 1:
        raise ValueError(
            f"paths: expected the name of one file before [start:stop], got {redacted(name)!r} with {len(files)} files"
        )
    start, stop = int(found["start"] or 0), int(found["stop"]) if found["stop"] else None
    if stop is not None and stop <= start:
        raise ValueError(
            f"paths: expected start < stop in [start:stop], got {redacted(name)!r}, which has no record"
        )
    return [FilePart(files[0].path, start, stop, files[0].version)]


def _absolute(name: str) -> str:
    if name[:7].lower() == "file://":
        host, slash, path = name[7:].partition("/")
        if host not in ("", "localhost"):
            raise ValueError(
                f"paths: expected file:///PATH, got {redacted(name)!r}, which names another host"
            )
        return os.path.abspath(unquote(slash + path))
    # A worker may have another working directory than the process that made the source.
    return name if is_remote(name) else os.path.abspath(os.path.expanduser(name))


def _files_of(name: str, options: Mapping[str, Any] | None) -> list[FilePart]:
    if os.path.exists(name):
        return [FilePart(name, 0, None)]
    path, query = _without_query(name)
    folder, slash, last = path.rpartition("/")
    counted = _COUNTED.fullmatch(last) or _SHARDS.fullmatch(last)
    if counted is not None and not glob.has_magic(counted["stem"] + counted["tail"]):
        stem, count, tail = counted["stem"], int(counted["count"]), counted["tail"]
        files = [f"{folder}{slash}{stem}-{i:05d}-of-{count:05d}{tail}{query}" for i in range(count)]
        for file in files:
            if not (is_remote(file) or os.path.exists(file)):
                _refuse_missing(file, f"{name} means {count} files, and this one is missing")
        return [FilePart(file, 0, None) for file in files]
    scheme = SCHEME.match(path)
    # The host of an address may be in brackets, and so isn't part of the pattern.
    if not glob.has_magic(path[scheme.end() :].partition("/")[2] if scheme else path):
        return [FilePart(name, 0, None)]
    if scheme:
        found = [FilePart(each, 0, None, version) for each, version in list_objects(name, options)]
    else:
        found = [FilePart(file, 0, None) for file in sorted(glob.glob(name, recursive=True))]
    found = [part for part in found if os.path.basename(part.path) != MADE]
    if not found:
        _refuse_missing(redacted(name), "no file matches the pattern")
    return found


def _without_query(name: str) -> tuple[str, str]:
    if not name.lower().startswith(("http://", "https://")):
        return name, ""
    path = re.split(r"[?#]", name, maxsplit=1)[0]
    return path, name[len(path) :]


def _refuse_missing(path: str, why: str) -> NoReturn:
    raise FileNotFoundError(errno.ENOENT, why, path)
