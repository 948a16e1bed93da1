"""Data sets by name, version and split."""

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from loaderkit import sources
from loaderkit.errors import DataFormatError, FileChangedError
from loaderkit.sources import ConcatDataSource, TfdsDataSource

from .card import CARD, DatasetCard, ShardFile, read_card
from .find import TFDS_INFO, find_dataset
from .split_source import SplitDataSource
from .splits import check_split, slices_of
from .supervised import supervised
from .versions import is_version

# What reads the files of a format, as lk.write names formats.
_SOURCES = {
    "array_record": "ArrayRecordDataSource",
    "arrow": "ArrowDataSource",
    "jsonl": "JsonLinesDataSource",
    "parquet": "ParquetDataSource",
    "tar": "TarDataSource",
    "tfrecord": "TFRecordDataSource",
    "tokens": "TokenDataSource",
}


def open(  # noqa: A001 - lk.open; the built-in is not used in this file
    name: str | os.PathLike[str],
    split: str | None = None,
    *,
    as_supervised: bool = False,
    data_dir: str | os.PathLike[str] | None = None,
    verify: bool = False,
) -> Any:
    """The records of a split, of slices of it, or of several splits, of a data set with a name.

    It is one that `lk.write_dataset` wrote, or one that TFDS prepared, which `lk.TfdsDataSource` reads.

    Args:
        name: "digits" for the newest version, "digits:1.*", "digits:1.0.2"; or the path of NAME/VERSION or of its
            dataset.json. For one of TFDS with a configuration "mnist/config:1.*".
        split: as TFDS has it: "train", "train[:1000]", "train[10%:20%]+test", "train[0shard]", "all". The error
            for None says which splits there are.
        as_supervised: whether records are tuples (input, target), by the card's supervised keys.
        data_dir: the folder of the data sets; else $LOADERKIT_DATA_DIR, else ~/loaderkit_datasets.
        verify: whether each file is compared with the card's sha256 before its first record is read, once in each
            process, which reads the whole file: ChecksumError. Not for data sets of TFDS, which have none.

    FileNotFoundError that says which versions there are; ValueError for an unknown split, for one without records, and
    for as_supervised without keys; FileChangedError for a file of another size than the card says.

    >>> import loaderkit as lk
    >>> lk.open("digits:1.*", "train[:80%]", data_dir="/data/sets")
    Traceback (most recent call last):
        ...
    FileNotFoundError: digits:1.*: expected a data set in /data/sets/digits, got no such folder; write it with...
    """
    if not isinstance(as_supervised, bool):
        raise TypeError(f"as_supervised: expected True or False, got {as_supervised!r:.60}")
    if not isinstance(verify, bool):
        raise TypeError(f"verify: expected True or False, got {verify!r:.60}")
    if split is not None:
        check_split(split)
    found = find_dataset(name, data_dir)
    if found.is_tfds:
        if verify:
            raise ValueError(
                f"verify: expected False, got True for {found.path}: TFDS keeps no checksums of its files"
            )
        if split is None:
            raise _no_split(_tfds_splits(found.path))
        return TfdsDataSource(found.path, split, as_supervised=as_supervised)
    card = _card_in(found.path)
    if split is None:
        raise _no_split(card.splits)
    slices = [each for each in slices_of(split, card.shard_lengths()) if each.start < each.stop]
    if not slices:
        raise ValueError(
            f"split: expected one record or more, got {split!r} of {card.name}:{card.version}, which has none"
        )
    whole = {each.split: _whole_split(card, found.path, each.split) for each in slices}
    folder = found.path if verify else None
    parts = [SplitDataSource(whole[each.split], card, each, folder) for each in slices]
    source = parts[0] if len(parts) == 1 else ConcatDataSource(parts)
    return (
        supervised(source, card.supervised_keys, f"{card.name}:{card.version}") if as_supervised else source
    )


def check_format(data_format: str) -> None:
    """ValueError for a format whose files can't be opened by the name of their data set.

    Args:
        data_format: as `lk.write` names it.
    """
    if data_format not in _SOURCES:
        raise ValueError(f"format: expected one of {', '.join(_SOURCES)}, got {data_format!r:.60}")


def open_files(
    data_format: str, paths: Sequence[str], index: str | None = None, columns: list[str] | None = None
) -> Any:
    """The source of files of a format.

    Args:
        data_format: as `lk.write` names it. ValueError for another.
        paths: of the files, in order.
        index: the file of their index; None where the source finds or makes it.
        columns: of Parquet and Arrow files, which they must have; None for all that they have.
    """
    check_format(data_format)
    if data_format == "tokens":  # a source has one file
        each = [sources.TokenDataSource(path) for path in paths]
        return each[0] if len(each) == 1 else ConcatDataSource(each)
    options: dict[str, Any] = {} if index is None else {"index": index}
    if data_format in ("parquet", "arrow"):
        options["columns"] = columns
    return getattr(sources, _SOURCES[data_format])(list(paths), **options)


def _no_split(splits: Iterable[str]) -> ValueError:
    names = ", ".join(map(repr, splits))
    return ValueError(f"split: expected one of {names}, a slice or several such as 'all', got None")


def _tfds_splits(folder: str) -> list[str]:
    info = json.loads(Path(folder, TFDS_INFO).read_text(encoding="utf-8"))
    return [each["name"] for each in info["splits"]]


def _card_in(folder: str) -> DatasetCard:
    path = os.path.join(folder, CARD)
    card = read_card(path)
    named = os.path.basename(folder)
    if is_version(named) and named != card.version:
        raise DataFormatError(
            f"{path}: version: expected {named} as its folder is named, got {card.version}; rename the folder"
        )
    return card


def _whole_split(card: DatasetCard, folder: str, split: str) -> Any:
    files = [file for file in card.splits[split] if file.records]
    paths = [_present(folder, file) for file in files]
    index = card.index.get(split)
    try:
        # Neither Parquet nor Arrow has a checksum of its columns' names: those of the card have to be there.
        names = [*card.features] if isinstance(card.features, dict) else None
        source = open_files(card.format, paths, None if index is None else os.path.join(folder, index), names)
    except ValueError as error:
        raise DataFormatError(f"{os.path.join(folder, CARD)}: {error}") from None
    records = sum(file.records for file in files)
    if len(source) != records:
        raise FileChangedError(
            f"{folder}: expected {records} records of the split {split}, got {len(source)} there; write it again "
            "under another version"
        )
    return source


def _present(folder: str, file: ShardFile) -> str:
    path = os.path.join(folder, *file.name.split("/"))
    try:
        size = os.stat(path).st_size
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{path}: expected a file of the data set's card, got none; copy it here"
        ) from None
    if size != file.nbytes:
        raise FileChangedError(
            f"{path}: expected {file.nbytes} bytes as the data set's card says, got {size}; restore the file, or write "
            "the data set again under another version"
        )
    return path
