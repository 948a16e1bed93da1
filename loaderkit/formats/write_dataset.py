"""Data sets with a name are written: files of each split, and the card that says what they hold."""

from __future__ import annotations

import bisect
import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import accumulate
from typing import Any

from loaderkit._base.system.made_folder import (
    MADE,
    Made,
    delete_finished_work,
    names_below,
    unfinished_folder,
)
from loaderkit._base.system.numerics import present_versions
from loaderkit._base.system.waited_lock import locked_folder
from loaderkit.sources.record_features import differing_field, features_of, joined_features

from . import registry
from ._datasets.card import CARD, DatasetCard, ShardFile, is_name, is_split, write_card
from ._datasets.files import open_files
from ._datasets.find import data_dir_of
from ._datasets.versions import is_version
from ._writing.record_stream import source_or_none, source_records
from ._writing.shard_jobs import safe_on_disk, sync
from ._writing.write_format import write_format
from .map_shards import shard_count
from .write import asked_for, checked_sizes, write

_OURS = rf"finished/({CARD}|[\w-]+(\.partial)?/([^/]*\.\w+(\.parts/([^/]*\.(part|partial))?)?|spool)?)?"
SAMPLED = 64  # records, spread over a split, from which the features are told
INDEX = ".lkx"


def write_dataset(
    splits: Mapping[str, Any],
    name: str,
    *,
    format: str,  # noqa: A002 - as in lk.write
    data_dir: str | os.PathLike[str] | None = None,
    shards: int | None = None,
    shard_bytes: int | None = None,
    supervised_keys: Sequence[str] | None = None,
    description: str | None = None,
    provenance: Any = None,
    worker_count: int | None = 0,
) -> str:
    """Writes a version of a data set, which `lk.open` reads by its name.

    The files are in DATA_DIR/NAME/VERSION, beside a card, dataset.json, with their records and checksums. The folder
    has its name once all is there. A run that was killed goes on when the same is written again: the files of a source
    that were finished stay, unless they are ended by bytes; an iterable begins again.

    Args:
        splits: name of the split -> what `lk.write` takes: a data source, a loader or another iterable, or a function
            that gives one, such as a generator function.
        name: NAME:VERSION, such as "digits:1.0.0". A version is written once. Another major version has another order
            or content, another minor version has more features, another patch version other bytes.
        format: as in `lk.write`: "tar", "array_record", "tfrecord", "parquet", ...
        data_dir: the folder of the data sets; else $LOADERKIT_DATA_DIR, else ~/loaderkit_datasets.
        shards, shard_bytes: files of each split, or the size at which a file is ended. Without both a source gets a
            file for 256 records or more, 64 at most, and an iterable files of 256 MB.
        supervised_keys: names of input and target, for as_supervised=True of `lk.open`.
        description, provenance: for readers: a text; JSON values.
        worker_count: processes that read and write a source; an iterable is read here.

    Returns the folder. FileExistsError where the version is there.

    >>> import tempfile
    >>> import loaderkit as lk
    >>> records = [{"png": bytes([k]), "cls": k % 2} for k in range(10)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = lk.write_dataset(
    ...         {"train": records, "test": records[:2]},
    ...         "digits:1.0.0",
    ...         format="tar",
    ...         data_dir=folder,
    ...         supervised_keys=("png", "cls"),
    ...     )
    ...     source = lk.open("digits:1.*", "train[-10%:]+test", as_supervised=True, data_dir=folder)
    ...     list(source)
    [(b'\\t', 1), (b'\\x00', 0), (b'\\x01', 1)]
    """
    dataset, version = _checked_name(name)
    keys = _checked_keys(supervised_keys)
    write_format(format)
    checked_sizes(shards, shard_bytes, is_file=False)
    _check_splits(splits, shards, keys)
    _check_json(provenance)
    if not isinstance(description, str | None):
        raise TypeError(f"description: expected a text or None, got {description!r:.80}")
    folder = os.path.join(data_dir_of(data_dir), *dataset.split("/"), version)
    partial = f"{folder}.partial"
    if os.path.isfile(os.path.join(folder, CARD)):
        delete_finished_work(partial)
    _check_absent(folder, name)
    with locked_folder(partial):
        _check_absent(folder, name)  # another process may have just finished
        with unfinished_folder(partial, Made(names=_OURS)) as made:
            finished = os.path.join(partial, "finished")
            os.makedirs(finished, exist_ok=True)
            # Other splits than these, and a card, are of a run that was killed.
            made.delete(partial, keep={each for each in names_below(partial) if _split_of(each) in splits})
            files, index, features = {}, {}, {}
            for split, records in splits.items():
                path = os.path.join(finished, split)
                try:
                    _write_split(records, path, format, shards, shard_bytes, worker_count)
                    files[split], sample, found = _inspect(path, split, format)
                    for record in sample:
                        _check_record(record, keys)
                    features[split] = features_of(sample)
                    _check_fields(features)
                except Exception as error:
                    error.add_note(f"lk.write_dataset: split {split!r} of {name}")
                    with contextlib.suppress(OSError):
                        os.rmdir(finished)  # where it is empty: an error before the first file leaves nothing
                    raise
                if found is not None:
                    index[split] = f"{split}/{found}"
            card = DatasetCard(
                name=dataset,
                version=version,
                format=format,
                features=reduce(joined_features, features.values()),
                splits=files,
                index=index,
                supervised_keys=keys,
                description=description,
                provenance=provenance,
                libraries=present_versions(),
            )
            write_card(finished, card)
            for folder_of_names in (*(os.path.join(finished, split) for split in splits), finished):
                sync(folder_of_names)  # the index of a split got its name behind the split's files
            os.replace(finished, folder)
            sync(os.path.dirname(folder))
    return folder


def _split_of(name: str) -> str:
    """The split that a name below the folder of unfinished work is of."""
    return name.removeprefix("finished/").partition("/")[0].removesuffix(".partial")


def _write_split(
    records: Any,
    path: str,
    data_format: str,
    shards: int | None,
    shard_bytes: int | None,
    worker_count: int | None,
) -> None:
    source = source_or_none(records)
    if source is not None:
        if shard_bytes is None:
            shards = shard_count(shards, len(source))
        there = Made.read(path)
        if there is not None and there.asked == asked_for(source, data_format, shards, shard_bytes):
            return
    write(
        records, path, format=data_format, shards=shards, shard_bytes=shard_bytes, worker_count=worker_count,
        overwrite=True,
    )  # fmt: skip


def _inspect(path: str, split: str, data_format: str) -> tuple[tuple[ShardFile, ...], list[Any], str | None]:
    """The files of a split, some of its records, and the name of its index, which opening it makes."""
    names = [each for each in os.listdir(path) if not each.endswith(INDEX) and each != MADE]
    names.sort(key=lambda each: (len(each), each))  # numbers of 5 digits, of 6 after them
    paths = [os.path.join(path, name) for name in names]
    form = registry.of_name(data_format)
    source = open_files(form, paths)
    try:
        total = len(source)
        sample = [source[key] for key in range(0, total, -(-total // SAMPLED))]
        if form.one_file:
            ends = [*accumulate(len(open_files(form, [each])) for each in paths)]
        else:
            # The records of a file have consecutive keys, and the source says the file of any key.
            numbers = {name: number for number, name in enumerate(names)}
            ends = [
                bisect.bisect_right(range(total), number, key=lambda key: numbers[_file_of(source, key)])
                for number in range(len(names))
            ]
    finally:
        if callable(close := getattr(source, "close", None)):  # what is mapped has nothing to close
            close()
    files = []
    for name, begin, end in zip(names, [0, *ends], ends):
        nbytes, sha256 = safe_on_disk(os.path.join(path, name))
        files.append(ShardFile(f"{split}/{name}", end - begin, nbytes, sha256))
    index = [each for each in os.listdir(path) if each.endswith(INDEX)]
    return tuple(files), sample, index[0] if len(index) == 1 else None


def _file_of(source: Any, key: int) -> str:
    return os.path.basename(str(source.name(key)).rpartition("[")[0])


def _checked_name(name: object) -> tuple[str, str]:
    if not isinstance(name, str):
        raise TypeError(f"name: expected NAME:VERSION, got a {type(name).__name__}")
    dataset, _, version = name.rpartition(":")
    if not (is_name(dataset) and is_version(version)):
        raise ValueError(f"name: expected NAME:VERSION such as 'digits:1.0.0', got {name!r:.80}")
    return dataset, version


def _check_splits(splits: object, shards: int | None, keys: tuple[str, ...] | None) -> None:
    if not isinstance(splits, Mapping) or not splits:
        raise TypeError(
            f"splits: expected a dict from names to records, such as {{'train': source}}, got {splits!r:.60}"
        )
    for split, records in splits.items():
        if not isinstance(split, str) or not is_split(split):
            raise ValueError(
                f"splits: expected names of letters, digits, _ and -, and not 'all', got {split!r:.60}"
            )
        source = source_or_none(records, argument=f"splits[{split!r}]")
        if source is not None:
            shard_count(shards, len(source))
            if keys is not None:
                _check_record(next(source_records(source, None, 0, 1))[1], keys)


def _check_fields(features: Mapping[str, Any]) -> None:
    first, *others = features
    for split in others:
        field = differing_field(features[first], features[split])
        if field is not None:
            got = repr(field) if field else "dicts"
            raise ValueError(
                f"splits: expected records of the same fields in each split, got {got} in one of {first!r} and "
                f"{split!r} alone; leave it out by a Map, or write a data set of its own"
            )


def _check_record(record: Any, keys: tuple[str, ...] | None) -> None:
    if keys is None:
        return
    if not isinstance(record, Mapping):
        raise ValueError(
            f"supervised_keys: expected None for records that aren't dicts, got {keys} and a {type(record).__name__}"
        )
    for key in keys:
        if key not in record:
            raise ValueError(
                f"supervised_keys: expected fields of each record, such as {', '.join(map(repr, record))}, got {key!r}"
            )


def _checked_keys(keys: Sequence[str] | None) -> tuple[str, ...] | None:
    if keys is None:
        return None
    given: object = keys  # of any type, whatever the annotation says
    if (
        not isinstance(given, list | tuple)
        or len(given) not in (2, 3)
        or not all(isinstance(key, str) for key in given)
    ):
        raise TypeError(f"supervised_keys: expected two or three names, got {keys!r:.80}")
    return tuple(keys)


def _check_json(provenance: Any) -> None:
    try:
        json.dumps(provenance, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise TypeError(f"provenance: expected JSON values, got {provenance!r:.60}: {error}") from None


def _check_absent(folder: str, name: str) -> None:
    if os.path.lexists(folder):
        raise FileExistsError(
            f"name: expected a version that isn't there, got {name}, which is in {folder}; write another version"
        )
