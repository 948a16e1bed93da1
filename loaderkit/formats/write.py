"""Writes records to files of any format."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Any, cast

from loaderkit._base.hints import refusing_foreign_arguments
from loaderkit._base.numbers import at_least
from loaderkit._runtime.worker.reading import ReadOptions
from loaderkit._storage.addresses import is_remote
from loaderkit._storage.patterns import names_several

from . import registry
from ._writing.dropped import Dropped, check_list, list_path
from ._writing.parallel_encoding import encoded_by_workers
from ._writing.record_stream import encoded_records, files_for, record_stream, source_or_none, source_records
from ._writing.run_jobs import dropped_of, equal_shards, made_of_format, run_jobs
from ._writing.shard_stream import SourceShards, write_by_bytes, write_spooled
from ._writing.target import WriteTarget, is_pattern
from ._writing.write_format import RecordFiles, WriteFormat, format_of_path, write_format
from .tar.webdataset import WebDatasetWriting

SHARD_BYTES = 256 * 10**6


@refusing_foreign_arguments
def write(
    records: Any,
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002 - the name that users know
    shards: int | None = None,
    shard_bytes: int | None = None,
    shard_records: int | None = None,
    quality: int | None = None,
    worker_count: int | None = 0,
    worker_kind: str = "process",
    read_options: ReadOptions | None = None,
    on_record_error: str = "raise",
    overwrite: bool = False,
    version: str | int | None = None,
    allow: Collection[str] = (),
) -> list[str]:
    """Writes records to a folder of files, or to one file, whole or not at all; gives the paths of the files.

    An index with checksums lies beside them, which makes the fingerprint of their source exact.
    The files are the same for any number of workers. A run over a source with `shards` that was killed goes on with the
    files that it had finished.

    Args:
        records: a data source, a loader or another iterable, or a function that gives one. Bytes stay bytes, and the
            source of the format gives a dict back as it was, but see `format`.
        path: a folder that is made, a file whose name ends as the format's do, such as "train.tfrecord", or such a name
            with the number of a file in it, "train-%06d.tar".
        format: "array_record", "tar", "tfrecord", "parquet", "arrow", "jsonl", "jsonl.zst", or for documents of tokens,
            dicts of one array of integers, "tokens" and "megatron", a pair of files of which the first one is named; a
            file's name says it. "webdataset" encodes the values of a dict by the extensions that name them, as
            webdataset does: jpg, png, webp, npy, json, cls, txt. TypeError that names a value that the format can't
            hold.
        shards: number of files in the folder; file i of S has the records [i*n//S, (i+1)*n//S).
        shard_bytes: a file is ended where it has so many; 256 MB without `shards`.
        shard_records: a file is ended where it has so many records, also before it has shard_bytes.
        quality: of jpg and webp of format="webdataset", 1 to 100; 95 without.
        worker_count: that read and encode the records of a source; a generator is read here.
        worker_kind: "process" or "thread".
        read_options: how workers read a source where the files are ended by bytes, or there is one; ValueError with
            several `shards`, of which each is read in order.
        on_record_error: a record that can't be read or encoded is an error ("raise"), or is left out ("drop"); then
            PATH.dropped.jsonl has a line for each of them, with its error.
        overwrite: whether what exists at the path is replaced, and unfinished files of another run are written again;
            FileExistsError or ResumeMismatchError otherwise.
        version: of the functions in the source, such as those of a MapDataSource, which aren't compared with those of a
            run that was killed then: another version writes all files again.
        allow: of "source", "function", "tokenizer" and "libraries" what may differ from that run.

    >>> import loaderkit as lk, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = write(({"label": n} for n in range(5)), f"{folder}/train", format="jsonl", shards=2)
    ...     print([os.path.basename(file) for file in files], lk.JsonLinesDataSource(files)[4])
    ['00000-of-00002.jsonl', '00001-of-00002.jsonl'] {'label': 4}
    """
    if isinstance(records, str | os.PathLike) and not isinstance(path, str | os.PathLike):
        raise TypeError(
            f"records: expected records, got the path {os.fspath(records)!r}; write lk.write(records, path)"
        )
    path = os.fspath(path)
    if on_record_error not in ("raise", "drop"):
        raise ValueError(f"on_record_error: expected 'raise' or 'drop', got {on_record_error!r}")
    writing, is_file = format_for(path, format, quality)
    shards, shard_bytes = checked_sizes(shards, shard_bytes, is_file=is_file, shard_records=shard_records)
    told: dict[str, Any] = {"format_name": writing.name, "worker_count": worker_count}
    target = WriteTarget(path, is_file=is_file, overwrite=overwrite, allow=allow, **told)
    source = source_or_none(records)
    drop = on_record_error == "drop"
    if drop:
        check_list(list_path(path))
    asked = None
    if source is not None:
        asked = asked_for(source, writing.name, shards, shard_bytes, version, shard_records)
    if source is not None and shards is not None and shards > 1:
        if read_options is not None:
            raise ValueError(
                f"read_options: expected None for a source with shards={shards}, got {read_options}; give shard_bytes="
            )
        return _write_shards(source, writing, target, asked, shards, drop, worker_count, worker_kind)
    dropped: Dropped = [] if drop else None
    with target.unfinished(writing.extension, asked, goes_on=False) as made:
        if source is None:
            files, stream = files_for(writing, record_stream(records), drop)
            encoded = encoded_records(stream, files.encoder, dropped)
        else:
            files = _files_for_source(source, writing, drop)
            encoded = encoded_by_workers(
                source, files.encoder, dropped, worker_count, worker_kind, read_options
            )
        if shards is None:
            names = write_by_bytes(encoded, files, target, shard_bytes, shard_records)
        else:
            names = target.names(shards, writing.extension)
            write_spooled(encoded, files, target.folder, names)
        return target.finish(made, names, dropped)


def asked_for(
    source: Any,
    format_name: str,
    shards: int | None,
    shard_bytes: int | None,
    version: str | int | None = None,
    shard_records: int | None = None,
) -> dict[str, Any]:
    """What decides the bytes of a source's files, which `made.json` beside them says.

    Args:
        source: a data source.
        format_name: of the files.
        shards, shard_bytes: as `checked_sizes` gives them.
        version, shard_records: as `write` has them.
    """
    size = shard_bytes if shards is None else None
    more = {} if shard_records is None else {"shard_records": shard_records}
    return made_of_format(source, {}, format_name, version=version, shards=shards, shard_bytes=size, **more)


def format_for(path: str, name: str | None, quality: int | None) -> tuple[WriteFormat, bool]:
    """The format of a path, and whether it is one file's.

    Args:
        path: of a file, of shards with %d in its name, or of a folder.
        name, quality: as `write` has them.

    >>> form, is_file = format_for("train-%06d.tar", "webdataset", None)
    >>> form.name, is_file
    ('webdataset', False)
    """
    if is_remote(path):
        raise ValueError(f"path: expected a local path, got {path!r}; write there and copy the files")
    if names_several(os.path.basename(path)):
        raise ValueError(
            f"path: expected a file, a folder or a name with %06d, got {path!r}, which names several files to read; "
            "give a folder and shards=, or write x-%06d.tar"
        )
    by_name = format_of_path(path)
    if name is None and by_name is None:
        found = registry.by_name(os.path.basename(path))
        expected = f"the folder {path!r}" if found is None else f"{path!r}, as {found.name} is only read"
        raise ValueError(
            f"format: expected one for {expected}, got None; give format='array_record', or a file's name "
            f"that ends in .{', .'.join(registry.writable(by_extension=True))}"
        )
    writing = write_format(name or by_name or "")
    if quality is not None:
        if writing.name != WebDatasetWriting.name:
            raise ValueError(f"quality: expected None but for format='webdataset', got {quality!r}")
        writing = cast(WriteFormat, WebDatasetWriting(quality))
    by_extension = None if by_name is None else write_format(by_name).extension
    if by_name != writing.name and by_extension not in (None, writing.extension):
        raise ValueError(
            f"format: expected {by_name!r} for {path!r}, as its extension says, got {name!r}; give the file another "
            f"name, such as {os.path.splitext(path)[0]}.{writing.extension}, or a folder's name without an extension"
        )
    return writing, by_name is not None and not is_pattern(path)


def checked_sizes(
    shards: int | None, shard_bytes: int | None, *, is_file: bool, shard_records: int | None = None
) -> tuple[int | None, int]:
    """The number of files, or None, and the size at which one is ended; ValueError for others than `write` takes.

    Args:
        shards, shard_bytes, shard_records: as `write` has them.
        is_file: whether one file is written, not a folder.

    >>> checked_sizes(None, None, is_file=False)
    (None, 256000000)
    """
    if shards is not None and shard_bytes is not None:
        raise ValueError(f"shards: expected None beside shard_bytes, got {shards}; give one of them")
    if shards is not None:
        shards = at_least("shards", shards, 1)
    if shard_bytes is not None:
        shard_bytes = at_least("shard_bytes", shard_bytes, 1)
    if shard_records is not None:
        at_least("shard_records", shard_records, 1)
        if shards is not None:
            raise ValueError(f"shards: expected None beside shard_records, got {shards}; give one of them")
    if is_file:
        if shard_bytes is not None or shard_records is not None or (shards or 1) > 1:
            raise ValueError(
                "path: expected a folder for several files, got a file's name; leave out its extension, or write the "
                "number of a file into it, as in 'train-%06d.tar'"
            )
        shards = 1
    return shards, shard_bytes or SHARD_BYTES


def _write_shards(
    source: Any,
    writing: WriteFormat,
    target: WriteTarget,
    asked: dict[str, Any] | None,
    shards: int,
    drop: bool,
    worker_count: int | None,
    worker_kind: str,
) -> list[str]:
    if shards > len(source):
        raise ValueError(f"shards: expected at most the {len(source)} records, got {shards}")
    names = target.names(shards, writing.extension)
    with target.unfinished(writing.extension, asked, goes_on=True) as made:
        files = _files_for_source(source, writing, drop)
        keys = equal_shards(len(source), shards)
        results = run_jobs(
            SourceShards(source, files, keys, drop),
            [made.asked, repr(files.encoder)],
            keys,
            [os.path.join(target.folder, name) for name in names],
            drop=drop,
            index_part=target.index_part(names),
            worker_count=worker_count,
            worker_kind=worker_kind,
        )
        return target.finish(made, names, dropped_of(results) if drop else None)


def _files_for_source(source: Any, writing: WriteFormat, drop: bool) -> RecordFiles:
    # One after the other: the first mostly tells, and a function on it may take long.
    each = (source_records(source, [] if drop else None, key, key + 1) for key in range(len(source)))
    records = (record for found in each for _, record in found)
    return files_for(writing, records, drop)[0]
