"""Which format a file has: by its name, its first bytes, its folder.

The formats of loaderkit are there from the start. Another package calls `register`, or has an entry point in the group
`loaderkit.formats` that is a `Format` or a tuple of them:

    [project.entry-points."loaderkit.formats"]
    fasta = "bio.fasta:FORMAT"

Entry points are read, once, where no other format knows an extension, the bytes or a name. Workers don't ask: they
unpickle sources by their classes.
"""

from __future__ import annotations

import functools
import logging
import re
import threading
import warnings
from typing import TYPE_CHECKING

from loaderkit._codecs.scan import compressed_by

from .built_in import FORMATS
from .format import Format

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "loaderkit.formats"
SNIFFED_BYTES = 4096  # of a file, enough for a header of every format and for a line of most texts
_SLOW_SECONDS = 10.0
_ANY_TEXT = "lines"  # the format of a text that no other one knows, those of other packages included
# Extension of a compressed file -> the program that unpacks it.
_PROGRAM = {
    "tgz": "gunzip",
    "gz": "gunzip",
    "bz2": "bunzip2",
    "xz": "unxz",
    "zst": "unzstd",
    "zstd": "unzstd",
    "lz4": "unlz4",
}
_PART = re.compile(r"\[\d*:\d*\]$")
_QUERY = re.compile(r"[?#].*$")
_OBJECT_QUERY = re.compile(r"\?.*[=&].*$|#.*$")
_SHARD = re.compile(r"(-(\d{5}|\?{5}|\*)-of-\d{5}|@\d+)(?=\.|$)")

_log = logging.getLogger("loaderkit")
_lock = threading.RLock()
_by_name: dict[str, Format] = {}
_by_extension: dict[str, Format] = {}
_claimed_twice: dict[str, str] = {}  # names and extensions of entry points that have another format -> why


def register(format: Format) -> None:  # noqa: A002 - the word of `lk.open`
    """Makes a format known in this process: to `lk.open`, the commands, and what writes and indexes files.

    Args:
        format: its name and extensions must be new; ValueError that names both packages otherwise. The same one may be
            registered again.

    >>> from loaderkit.formats import Format, register
    >>> register(Format(name="tar", extensions=("tar",), source="bio.archives:ArchiveDataSource"))
    Traceback (most recent call last):
        ...
    ValueError: format: expected a new name, got 'tar' of the package bio, which loaderkit has; choose another name
    """
    if not isinstance(format, Format):
        raise TypeError(f"format: expected a Format, got a {type(format).__name__}")
    with _lock:
        for what, key, known in (
            ("name", format.name, _by_name),
            *(("extension", extension, _by_extension) for extension in format.extensions),
        ):
            other = known.get(key)
            if other is not None and other != format:
                raise ValueError(
                    f"format: expected a new {what}, got {key!r} of the package {format.package}, which "
                    f"{other.package} has; choose another {what}"
                )
        _by_name[format.name] = format
        _by_extension.update(dict.fromkeys(format.extensions, format))


def names() -> tuple[str, ...]:
    """The names of all formats, those of other packages last.

    >>> names()[:4]
    ('array_record', 'tar', 'tfrecord', 'parquet')
    """
    _read_entry_points()
    return tuple(_by_name)


def writable(*, by_extension: bool = False) -> tuple[str, ...]:
    """The names of the formats that can be written. by_extension: of those alone that a file's name may say.

    >>> writable()[:4]
    ('array_record', 'tar', 'tfrecord', 'parquet')
    """
    _read_entry_points()
    known = _by_name.items()
    return tuple(
        name for name, each in known if each.writer is not None and (each.extensions or not by_extension)
    )


def find(name: object) -> Format | None:
    """The format of this name, None for an unknown one.

    >>> find("tsv").options
    {'delimiter': '\\t'}
    """
    if not isinstance(name, str):
        return None
    if name not in _by_name:
        _read_entry_points()
    return _known(name, _by_name)


def of_name(name: object) -> Format:
    """The format of this name; ValueError that says which there are.

    >>> of_name("feather")
    Traceback (most recent call last):
        ...
    ValueError: format: expected one of array_record, tar, tfrecord, ..., got 'feather'
    """
    found = find(name)
    if found is None:
        raise ValueError(f"format: expected one of {', '.join(names())}, got {name!r:.80}")
    return found


def of_extension(extension: str, *, ask_packages: bool = True) -> Format | None:
    """The format of files with this extension, None for an unknown one.

    Args:
        extension: without a dot, in small letters.
        ask_packages: whether entry points are read for one that is unknown.

    >>> of_extension("feather").name
    'arrow'
    """
    if extension and extension not in _by_extension and ask_packages:
        _read_entry_points()
    return _known(extension, _by_extension)


def by_name(path: str, *, ask_packages: bool = True) -> Format | None:
    """The format that a file's name says, None where it says none.

    Args:
        path: a path, a pattern or a URL, also with a part "[0:10]" or with numbers of shards.
        ask_packages: as for `of_extension`.

    >>> by_name("s3://b/train.tfrecord-00000-of-00004").name, by_name("data.csv[0:10]").name
    ('tfrecord', 'csv')
    >>> by_name("train-{000..012}.tar").name, by_name("train@64"), by_name("train.csv.gz").name
    ('tar', None, 'csv')
    """
    return of_extension(_extension(path), ask_packages=ask_packages)


def of_bytes(begin: bytes) -> Format | None:
    """The format of a file that begins with these bytes, None where they say none.

    Args:
        begin: the first `SNIFFED_BYTES` of the file, or all that it has.

    >>> of_bytes(b'{"a": 1}\\n').name, of_bytes(b"a line\\n").name, of_bytes(b"\\0")
    ('jsonl', 'lines', None)
    """
    found = _of_bytes(begin)
    if begin and (found is None or found.name == _ANY_TEXT):
        _read_entry_points()
        found = _of_bytes(begin)
    return found


def of_folder(path: str) -> Format | None:
    """The format of which a folder is one data set, None for a folder of files.

    Args:
        path: of an existing folder.
    """
    found = _of_folder(path)
    if found is None:
        _read_entry_points()
        found = _of_folder(path)
    return found


def is_compressed(path: str, begin: bytes = b"") -> bool:
    """Whether a file's name or its first bytes say that it is compressed, and no format knows such files.

    >>> is_compressed("a.tgz"), is_compressed("https://host/a.tar.gz?x=1"), is_compressed("a.jsonl.gz")
    (True, True, False)
    """
    program = _program(path) is not None or compressed_by(begin) is not None
    return program and by_name(path, ask_packages=False) is None


def how_to_unpack(path: str) -> str:
    """What to do with a compressed file.

    Args:
        path: as it may be shown.

    >>> how_to_unpack("x.tgz")
    'unpack it once: `gunzip x.tgz`'
    >>> how_to_unpack("x.zst")
    "unpack it once: `unzstd x.zst`; text by zstd or gzip is read as it is: give format='lines', 'jsonl' or 'csv'"
    """
    program = _program(path) or "gunzip"
    text = "; text by zstd or gzip is read as it is: give format='lines', 'jsonl' or 'csv'"
    return f"unpack it once: `{program} {path}`{text * _may_be_text(path)}"


def _may_be_text(path: str) -> bool:
    return _extension(path) in ("zst", "gz", "")


def _program(path: str) -> str | None:
    return _PROGRAM.get(_extension(path).rpartition(".")[2])


def _extension(path: str) -> str:
    last = _PART.sub("", path)
    if "://" in last:
        # In the names of objects "?" is a letter of patterns, unless a value follows it.
        web = last.partition("://")[0].lower().endswith(("http", "https"))
        last = (_QUERY if web else _OBJECT_QUERY).sub("", last)
    last = _SHARD.sub("", last.rpartition("/")[2])
    stem, _, extension = last.lower().rpartition(".")
    if extension in _PROGRAM and "." in stem:
        return f"{stem.rpartition('.')[2]}.{extension}"
    return extension if "." in last else ""


def _known(key: str, known: dict[str, Format]) -> Format | None:
    found = known.get(key)
    if key in _claimed_twice and not (found is not None and found.package == "loaderkit"):
        raise ValueError(_claimed_twice[key])
    return found


def _of_bytes(begin: bytes) -> Format | None:
    found = [each for each in [*_by_name.values()] if each.begins is not None and each.begins(begin)]
    return next((each for each in found if each.name != _ANY_TEXT), found[0] if found else None)


def _of_folder(path: str) -> Format | None:
    return next(
        (each for each in [*_by_name.values()] if each.folder is not None and each.folder(path)), None
    )


@functools.cache  # once; again after an error
def _read_entry_points() -> None:
    from importlib.metadata import entry_points  # 6% of the imports of a worker, which does not ask

    for point in entry_points(group=GROUP):
        for each in _loaded(point):
            try:
                register(each)
            except ValueError as error:
                # Of use to the files of this format alone: other files open as they did.
                why = f"{error}, or remove one of the packages"
                _claimed_twice.update(dict.fromkeys((each.name, *each.extensions), why))


def _loaded(point: EntryPoint) -> tuple[Format, ...]:
    package = point.dist.name if point.dist is not None else point.module
    told = f"the format {point.name} of the package {package}"
    # A timer, since an import can't be stopped: the message says what a program that seems to hang is waiting for.
    timer = threading.Timer(
        _SLOW_SECONDS, _log.warning, (f"importing {told} has taken {_SLOW_SECONDS:.0f} s",)
    )
    timer.daemon = True
    timer.start()
    try:
        found = point.load()
    except Exception as error:  # noqa: BLE001 - of the other package's code: any
        warnings.warn(
            f"{told} can't be used: importing {point.value} raised {type(error).__name__}: {error}; mend or remove the "
            "package",
            stacklevel=2,
        )
        return ()
    finally:
        timer.cancel()
        timer.join()
    formats = found if isinstance(found, tuple) else (found,)
    if all(isinstance(each, Format) for each in formats):
        return formats
    warnings.warn(
        f"{told} can't be used: expected a Format or a tuple of them at {point.value}, got a {type(found).__name__}",
        stacklevel=2,
    )
    return ()


for _each in FORMATS:
    register(_each)
