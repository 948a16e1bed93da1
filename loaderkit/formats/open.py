"""Data sets by name, version and split, and data files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

from loaderkit._base.numbers import true_or_false
from loaderkit._storage.patterns import paths_as_written
from loaderkit.errors import DataFormatError, FileChangedError
from loaderkit.formats import registry
from loaderkit.sources import ConcatDataSource, MapDataSource

from ._datasets.card import CARD, DatasetCard, ShardFile, read_card
from ._datasets.files import named_files, open_files
from ._datasets.find import TFDS_INFO, find_dataset
from ._datasets.split_source import SplitDataSource
from ._datasets.splits import check_split, slices_of
from ._datasets.versions import is_version
from .tfds import TfdsDataSource


def open(  # noqa: A001 - lk.open; the built-in is not used in this file
    what: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    split: str | None = None,
    *,
    format: str | None = None,  # noqa: A002 - as in lk.write
    as_supervised: bool = False,
    data_dir: str | os.PathLike[str] | None = None,
    verify: bool = False,
    **options: Any,
) -> Any:
    """The records of data files, or of a split, of slices of it, or of several splits, of a data set with a name.

    Files are what `lk.write` and others write: of tar, TFRecord, ArrayRecord, Parquet, Arrow, JSON Lines, CSV, texts,
    tokens, LMDB, and of the formats of other packages (`lk.formats.register`). A data set is one that
    `lk.write_dataset` wrote, or one that TFDS prepared.

    Args:
        what: in this order: a list is files; a path of a file is that file; a folder is a data set, or the files in it;
            a name with :// is files; "digits:1.*" and "digits:1.0.2" are versions of a data set; a pattern, braces,
            train@64 and a name with a known extension are files; any other name is the newest version of a data set.
        split: of a data set, as TFDS has it: "train", "train[:1000]", "train[10%:20%]+test", "train[0shard]", "all".
            The error for None says which splits there are.
        format: of the files, such as "tar"; None for what their names say, else the bytes of the first one.
        as_supervised: whether records of a data set are tuples (input, target), by the card's supervised keys.
        data_dir: the folder of the data sets; else $LOADERKIT_DATA_DIR, else ~/loaderkit_datasets.
        verify: whether each file of a data set is compared with the card's sha256 before its first record is read, once
            in each process, which reads the whole file: ChecksumError. Not for data sets of TFDS, which have none. Of
            files, whether each record is compared with the checksum that its format has.
        options: of the files' source, such as `cache=` or `storage_options=` of `lk.TarDataSource`.

    FileNotFoundError that says which versions there are; ValueError for an unknown split, for one without records, for
    as_supervised without keys, and for files of several formats or of none; FileChangedError for a file of another size
    than the card says; DataFormatError for a file whose name says another format than its bytes.

    >>> import tempfile
    >>> import loaderkit as lk
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = lk.write([{"n": k} for k in range(5)], f"{folder}/numbers", format="jsonl", shards=2)
    ...     lk.open(folder + "/numbers")[4], len(lk.open(files[0]))
    ({'n': 4}, 2)
    >>> lk.open("digits:1.*", "train[:80%]", data_dir="/data/sets")
    Traceback (most recent call last):
        ...
    FileNotFoundError: digits:1.*: expected a data set in /data/sets/digits, got no such folder; write it with...
    """
    true_or_false("as_supervised", as_supervised)
    true_or_false("verify", verify)
    if split is not None:
        check_split(split)
    files = named_files(what, format, data_dir, options.get("storage_options"))
    if files is None:
        if options:
            raise TypeError(
                f"open: expected options of files for {what!r:.80}, a data set, got {', '.join(options)}"
            )
        return _open_dataset(
            cast(str, what), split, as_supervised=as_supervised, data_dir=data_dir, verify=verify
        )
    if split is not None or as_supervised:
        given = f"split={split!r}" if split is not None else "as_supervised=True"
        raise ValueError(
            f"split, as_supervised: expected neither for the files {what!r:.80}, got {given}; they are for data sets, "
            "which lk.write_dataset makes of files"
        )
    names, data_format = files
    if data_format.one_file and (count := len(paths_as_written(names))) > 1:
        raise ValueError(
            f"what: expected one file of the format {data_format.name}, got {count}; write them as one: "
            f"lk.write(lk.ConcatDataSource([lk.open(path) for path in paths]), 'all.{data_format.name}')"
        )
    if verify:
        options = {**data_format.verify, **options}
    return open_files(data_format, names, **options)


def _open_dataset(
    name: str | os.PathLike[str],
    split: str | None,
    *,
    as_supervised: bool,
    data_dir: str | os.PathLike[str] | None,
    verify: bool,
) -> Any:
    found = find_dataset(name, data_dir)
    if found.is_tfds:
        if verify:
            raise ValueError(
                f"verify: expected False, got True for {found.path}: TFDS keeps no checksums of its files"
            )
        if split is None:
            info = json.loads(Path(found.path, TFDS_INFO).read_text(encoding="utf-8"))
            raise _no_split(each["name"] for each in info["splits"])
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


def _no_split(splits: Iterable[str]) -> ValueError:
    names = ", ".join(map(repr, splits))
    return ValueError(f"split: expected one of {names}, a slice or several such as 'all', got None")


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
        form = registry.of_name(card.format)
        options: dict[str, Any] = {}
        if form.name in ("parquet", "arrow") and isinstance(card.features, dict):
            # Neither has a checksum of its columns' names: those of the card have to be there.
            options["columns"] = [*card.features]
        index_path = None if index is None else os.path.join(folder, index)
        source = open_files(form, paths, index=index_path, **options)
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


class SupervisedPair:
    """Takes the named values out of a dict, as a tuple.

    Args:
        keys: the names, two or three.

    >>> SupervisedPair(("image", "label"))({"label": 3, "image": b"...", "id": 7})
    (b'...', 3)
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = tuple(keys)

    def __call__(self, record: Any) -> tuple[Any, ...]:
        missing = [key for key in self.keys if key not in record]
        if missing:
            raise KeyError(
                f"as_supervised: expected the fields {self.keys}, got a record without {missing[0]!r}"
            )
        return tuple(record[key] for key in self.keys)


def supervised(source: Any, keys: Sequence[str] | None, dataset: str) -> MapDataSource:
    """The source's records as tuples of the named values.

    Args:
        source: gives dicts.
        keys: the card's supervised keys; ValueError for None.
        dataset: a name, for the error.
    """
    if keys is None:
        raise ValueError(
            f"as_supervised: expected a data set with supervised keys, got {dataset}, which has none; choose fields "
            "by a Map, or write it with supervised_keys="
        )
    return MapDataSource(source, SupervisedPair(keys))
