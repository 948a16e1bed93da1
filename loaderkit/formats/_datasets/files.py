"""Data files as one source: which format they have, by their names, else by the first bytes of the first one."""

import contextlib
import errno
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from loaderkit._base.system.made_folder import MADE
from loaderkit._storage.addresses import is_remote, redacted
from loaderkit._storage.patterns import file_parts, names_several, paths_as_written
from loaderkit._storage.range_reader import read_range
from loaderkit.errors import DataFormatError
from loaderkit.formats import registry
from loaderkit.formats._index.shard_set import ShardSet
from loaderkit.formats.format import Format
from loaderkit.formats.tar.unpacking import ARCHIVES
from loaderkit.sources import ConcatDataSource

from .card import CARD
from .find import SAVED, SAVED_SPLITS, TFDS_INFO, is_dataset, is_known_name, split_pattern

_LISTED = 3  # names of a folder's files in an error, of each format


def named_files(
    what: Any,
    data_format: str | None,
    data_dir: str | os.PathLike[str] | None,
    storage_options: Mapping[str, Any] | None,
) -> tuple[Any, Format] | None:
    """The files that are meant, and their format; None for the name of a data set.

    Args:
        what, data_format, data_dir: as `lk.open` takes them.
        storage_options: of the files' server.
    """
    if isinstance(what, list | tuple):
        if not what:
            raise ValueError("what: expected files or the name of a data set, got an empty list")
        return what, _format(what, data_format, storage_options)
    if not isinstance(what, str | os.PathLike):
        return None
    path = os.path.expanduser(os.fspath(what))
    if os.path.isdir(path):
        return _folder(path, data_format, data_dir)
    if os.path.isfile(path):
        if os.path.basename(path) in (CARD, TFDS_INFO):
            return None
        _refuse_two_meanings(path, data_dir)
    elif data_format is None and not _means_files(path):
        return None
    return [path], _format([path], data_format, storage_options)


def _folder(
    path: str, data_format: str | None, data_dir: str | os.PathLike[str] | None
) -> tuple[Any, Format] | None:
    if data_format is None and is_dataset(path):
        return None
    one = registry.of_folder(path)
    if one is not None and data_format in (None, one.name):
        return [path], one
    if data_format is None and is_known_name(path, data_dir):
        return None
    files = files_in(path)
    return files, _format(files, data_format, None)


def _means_files(name: str) -> bool:
    if "://" in name or name.startswith("pipe:"):
        return True
    if split_pattern(name)[2] is not None:
        return False
    return _is_pattern(name) or registry.is_compressed(name) or registry.by_name(name) is not None


def _is_pattern(name: str) -> bool:
    return names_several(name) or "[" in name  # of a pattern, or of a part of a file


def _refuse_two_meanings(path: str, data_dir: str | os.PathLike[str] | None) -> None:
    if is_known_name(path, data_dir):
        raise ValueError(
            f"what: expected a file or a data set, got {path!r}, the name of both; give "
            f"{os.path.join('.', path)!r} for the file, '{path}:*' for the data set"
        )


def _format(
    names: Sequence[Any], data_format: str | None, storage_options: Mapping[str, Any] | None
) -> Format:
    if data_format is not None:
        return registry.of_name(data_format)
    if all(os.fspath(name).endswith(ARCHIVES) for name in names):
        return registry.of_name("tar")  # whose source unpacks them into a cache
    return format_of_files(names, storage_options)


def open_files(data_format: Format, paths: Any, *, index: str | None = None, **options: Any) -> Any:
    """The source of files of a format.

    Args:
        data_format: of all of them.
        paths: as `lk.open` takes files; of a format of one file or folder each, they are concatenated.
        index: the file of their index; None where the source finds or makes it.
        options: of the source.
    """
    if index is not None and data_format.scanner is not None:
        options["index"] = index
    if not data_format.one_file:
        return data_format.open(paths, **options)
    each = [data_format.open(path, **options) for path in paths_as_written(paths)]
    return each[0] if len(each) == 1 else ConcatDataSource(each)


def format_of_files(
    names: Sequence[Any], storage_options: Mapping[str, Any] | None = None, *, shown: str | None = None
) -> Format:
    """The format of all these files.

    Args:
        names: paths, patterns, URLs.
        storage_options: of their server.
        shown: what errors call the first one; None for its path.

    ValueError where they have several, or are compressed, or the bytes of the first one say none;
    DataFormatError where its name says one and its bytes another.
    """
    texts = [os.fspath(name) for name in names]
    if any(_is_pattern(name) and registry.by_name(name) is None for name in texts):
        # A pattern may say less than the names of its files.
        texts = [part.path for part in file_parts(texts, storage_options=storage_options)]
    for name in filter(registry.is_compressed, texts):
        raise _compressed(name)
    said = {registry.by_name(name) for name in texts}
    if len(said) > 1:
        kinds = ", ".join(sorted("an unknown one" if each is None else each.name for each in said))
        raise ValueError(
            f"expected files of one format, got {kinds}; give the format, or open them one by one"
        )
    (only,) = said
    if only is not None and any(map(is_remote, texts)):
        return only
    first = file_parts(texts, storage_options=storage_options)[0].path
    if only is not None and not os.path.isfile(first):
        return only
    begin = _begin(first, storage_options)
    if only is None:
        return _of_bytes(shown or first, begin)
    found = None if not begin or (only.begins and only.begins(begin)) else registry.of_bytes(begin)
    # A format without first bytes of its own may begin as other text does, and as formats of its own package.
    ours = found is not None and found.package == "loaderkit" and found.name != "jsonl"
    if found is not None and found.writer is not None and (only.begins is not None or ours):
        raise DataFormatError(
            f"{redacted(first)}: expected a file of the format {only.name}, as its name says, got one that begins as "
            f"{found.name}; rename it, or give format={found.name!r}"
        )
    return only


def files_in(folder: str) -> list[str]:
    """The data files of a folder, sorted; ValueError where it has none, or folders.

    Args:
        folder: its path. Hidden files, indexes and what `lk.write` notes of a written folder are no data; of one that
            `save_to_disk` of Hugging Face wrote those that it lists are, which leaves its caches out.
    """
    if os.path.isfile(state := os.path.join(folder, SAVED)):
        return _saved_files(folder, state)
    data = sorted(
        (
            entry
            for entry in os.scandir(folder)
            if not entry.name.startswith(".") and ".lkx" not in entry.name and entry.name != MADE
        ),
        key=lambda entry: entry.name,
    )
    if os.path.isfile(os.path.join(folder, SAVED_SPLITS)):
        splits = [os.path.join(folder, entry.name) for entry in data if entry.is_dir()]
        raise ValueError(
            f"{folder}: expected one split of a saved DatasetDict, got all; open one of {splits}"
        )
    below = [entry.name for entry in data if entry.is_dir()]
    if below or not data:
        got = f"the folders {_shown(below)}" if below else "an empty folder"
        raise ValueError(
            f"{folder}: expected a data set or files of one format, got {got}; give the files, such as "
            f"{os.path.join(folder, '*.tar')!r}, or lk.FolderDataSource(...) for a folder of classes"
        )
    by_format: dict[str, list[str]] = {}
    for entry in data:
        found = registry.by_name(entry.name)
        by_format.setdefault("an unknown format" if found is None else found.name, []).append(entry.name)
    if len(by_format) > 1:
        kinds = "; ".join(f"{name}: {_shown(files)}" for name, files in sorted(by_format.items()))
        raise ValueError(
            f"{folder}: expected files of one format, got {kinds}; give those that are meant, such as "
            f"{os.path.join(folder, '*.tar')!r}"
        )
    return [entry.path for entry in data]


def _saved_files(folder: str, state: str) -> list[str]:
    try:
        with open(state, "rb") as file:
            return [os.path.join(folder, each["filename"]) for each in json.loads(file.read())["_data_files"]]
    except (ValueError, KeyError, TypeError) as error:
        raise DataFormatError(
            f"{state}: expected the files of a data set that Hugging Face saved, got {type(error).__name__}: {error}"
        ) from None


def _begin(path: str, storage_options: Mapping[str, Any] | None) -> bytes:
    if not is_remote(path):
        if os.path.isdir(path):
            raise IsADirectoryError(
                errno.EISDIR, "a folder, not a file; write folder/* for the files in it", path
            )
        with open(path, "rb") as file:
            return file.read(registry.SNIFFED_BYTES)
    with contextlib.closing(ShardSet([path], dict(storage_options or {}) or None).open()) as ranges:
        return read_range(ranges, 0, 0, min(ranges.version(0).size, registry.SNIFFED_BYTES))


def _of_bytes(path: str, begin: bytes) -> Format:
    if registry.is_compressed(path, begin):
        raise _compressed(path)
    found = registry.of_bytes(begin)
    if found is None:
        if begin.startswith((b"LKPACK", b"\x93NUMPY")):
            raise ValueError(
                f"{redacted(path)}: expected files of records, got a plan, tokens or another array; "
                "lk.PackedDataSource, lk.TokenDataSource and lk.offline.read_array compare theirs with their checksums "
                "as they read"
            )
        got = f"{begin[:8]!r}..." if begin else "an empty file"
        raise ValueError(
            f"{redacted(path)}: expected a file of a known format, got {got}; give its format, one of "
            f"{', '.join(registry.names())}"
        )
    return found


def _compressed(path: str) -> ValueError:
    shown = redacted(path)
    return ValueError(
        f"{shown}: expected data that can be read from any place, got a compressed file; "
        f"{registry.how_to_unpack(shown)}"
    )


def _shown(names: Iterable[str]) -> str:
    listed = sorted(names)
    more = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
    return ", ".join(listed[:_LISTED]) + more
