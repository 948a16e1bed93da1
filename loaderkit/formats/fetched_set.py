"""What can be read once, from front to back, becomes a source: it is kept as shards with an index."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from loaderkit._base.numbers import number_of_bytes, true_or_false
from loaderkit._base.system.made_folder import Made
from loaderkit._base.system.progress_bar import progress_bar
from loaderkit._base.system.resume import goes_on_from
from loaderkit._source.tables import rows_instead
from loaderkit._source.version import version_of
from loaderkit._storage.addresses import is_remote, redacted
from loaderkit._storage.braces import expand_braces
from loaderkit._storage.patterns import file_parts

from ._writing.byte_streams import PIPE
from ._writing.fetched_records import write_resumed
from ._writing.fetched_streams import FetchedStreams, stream_format
from ._writing.record_stream import files_for, record_stream, source_or_none, source_records
from ._writing.run_jobs import run_jobs
from ._writing.target import WriteTarget, is_pattern
from ._writing.write_format import format_of_path
from .open import open as open_set
from .tar.unpacking import bytes_in
from .write import checked_sizes, format_for


def fetch(
    what: Any,
    folder: str | os.PathLike[str],
    *,
    allow_commands: bool = False,
    format: str | None = None,  # noqa: A002 - as in lk.write
    limit: int | str | None = None,
    shard_bytes: int | None = None,
    shard_records: int | None = None,
    quality: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    worker_count: int = 0,
    overwrite: bool = False,
    version: str | int | None = None,
) -> Any:
    """Reads once what can't be read by record, keeps it as shards with an index, and gives the source of the folder.

    Called again it opens the folder and reads nothing. After a crash it goes on: shards that are whole stay. Processes
    that share the folder wait for the first of them. On a terminal a bar shows how far it is.

    Args:
        what: names, one or a list: a command ("pipe:aws s3 cp s3://b/train-{000..012}.tar -"), an address of a server
            that gives no ranges, a file packed by gzip, bzip2, xz or zstd; patterns and braces are expanded. The bytes
            of each, unpacked, are a shard as they are. Or records, of which shards are written: any iterable, a
            function that gives one, a `tf.data.Dataset`, a streaming data set of Hugging Face.
        folder: that is made.
        allow_commands: whether names that begin with "pipe:" are run, by a shell; ValueError otherwise.
        format: of the bytes, such as "csv", where neither a name nor a word of the command says it. Of records as
            `lk.write` takes it, "array_record" without.
        limit: bytes that the shards may have together, such as "200GB"; ValueError where they have more.
        shard_bytes, shard_records, quality: of records, as `lk.write` takes them.
        storage_options: of the server, as `lk.TarDataSource` takes them; of a web server `default_headers` alone.
        worker_count: threads that read names side by side; 0 reads one after the other.
        overwrite: whether everything is read again, over what was kept before.
        version: of what is read. Without it names are compared with those of the folder, of which commands and signed
            links change; a source's fingerprint; of other records the name of their function or class, not how they
            are made. Another version is a ResumeMismatchError.

    StorageError for a command that fails, and for a server after some attempts; DataFormatError for bytes of another
    format or cut ones; ResumeMismatchError where the folder is of something else, or the records of a run that goes on
    are others.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     source = fetch(
    ...         ({"label": k} for k in range(5)), f"{folder}/kept", format="jsonl", shard_records=2
    ...     )
    ...     len(source), source[4], sorted(os.listdir(f"{folder}/kept"))[:3]
    (5, {'label': 4}, ['00000-of-00003.jsonl', '00001-of-00003.jsonl', '00002-of-00003.jsonl'])
    """
    given = os.fspath(folder)
    if is_remote(given) or is_pattern(given) or format_of_path(given):
        raise ValueError(f"folder: expected a local folder, a name without an extension, got {given!r}")
    folder = os.path.abspath(os.path.expanduser(given))
    room = partial(
        _check_room, f"{folder}.partial", None if limit is None else number_of_bytes("limit", limit)
    )
    _, nbytes = checked_sizes(None, shard_bytes, is_file=False, shard_records=shard_records)
    of_records = {"shard_bytes": shard_bytes, "shard_records": shard_records, "quality": quality}
    names = _names(what, storage_options)
    if names is not None:
        _check_names(names, allow_commands, of_records)
    told: Any = _told(what, names) if version is None else version
    asked = {"read": told, "arguments": {**of_records, "format": format}}
    if not overwrite and _is_kept(folder, asked):
        return open_set(folder)
    form: Any = (
        format_for(folder, format or "array_record", quality)[0]
        if names is None
        else stream_format(names[0], format)
    )
    extension = form.extension if names is None else form.extensions[0]
    target = WriteTarget(folder, is_file=False, overwrite=overwrite, format_name=form.name, worker_count=0)
    try:
        with target.unfinished(extension, asked, goes_on=True) as made:
            if names is None:
                files, records = files_for(form, _records(what), False)
                shards = write_resumed(records, files, target, asked, nbytes, shard_records, room)
            else:
                shards = target.names(len(names), extension)
                with progress_bar("bytes", None) as advance:
                    run_jobs(
                        FetchedStreams(names, storage_options, form, room, advance),
                        asked,
                        [range(shard, shard + 1) for shard in range(len(names))],
                        [os.path.join(target.folder, name) for name in shards],
                        bar=False,
                        worker_count=worker_count,
                        worker_kind="thread",
                    )
            target.finish(made, shards)
    except FileExistsError:
        if overwrite or not _is_kept(folder, asked):  # by another process, since
            raise
    return open_set(folder)


def _names(what: Any, storage_options: Mapping[str, Any] | None) -> list[str] | None:
    """The names of streams, commands with PIPE in front; None for records."""
    each = [what] if isinstance(what, str | os.PathLike) else what
    if not isinstance(each, list | tuple) or not any(isinstance(one, str | os.PathLike) for one in each):
        return None
    names: list[str] = []
    for one in each:
        if isinstance(one, str) and one.startswith(PIPE):
            names += expand_braces(one)
            continue
        parts = file_parts(one, storage_options=storage_options)
        if any((part.start, part.stop) != (0, None) for part in parts):
            raise ValueError(f"what: expected names of whole files, got {redacted(os.fspath(one))!r}")
        names += [part.path for part in parts]
    return names


def _check_names(names: list[str], allow_commands: bool, of_records: dict[str, Any]) -> None:
    if given := [name for name, value in of_records.items() if value is not None]:
        raise ValueError(f"{given[0]}: expected None for names, whose bytes are kept as they are")
    if not true_or_false("allow_commands", allow_commands) and any(name.startswith(PIPE) for name in names):
        raise ValueError(
            "allow_commands: expected True for names that begin with pipe:, as each is a command that a shell runs "
            "with your rights, got False; give allow_commands=True where you trust all of them"
        )


def _told(what: Any, names: list[str] | None) -> Any:
    """What a folder is of, without secrets: names, the version of a source, the name of a function or a generator."""
    if names is not None:
        return [[redacted(name), hashlib.sha256(name.encode()).hexdigest()[:16]] for name in names]
    if (instead := rows_instead(what)) is not None:
        raise TypeError(f"what: {instead}")
    if source_or_none(what, argument="what") is not None:
        return version_of(what)
    return getattr(what, "__qualname__", type(what).__qualname__)


def _is_kept(folder: str, asked: dict[str, Any]) -> bool:
    """Whether a folder is finished; ResumeMismatchError where it is of something else."""
    made = Made.read(folder) if os.path.isdir(folder) else None
    if made is None or made.files is None:
        return False
    return goes_on_from(made.asked or {}, asked, folder=folder, overwrite=False)


def _check_room(folder: str, limit: int | None) -> None:
    if limit is not None and (total := bytes_in(folder)) > limit:
        raise ValueError(
            f"limit: expected {limit} bytes or fewer of all shards, got {total} in {folder}; give a higher limit: what "
            "is there stays"
        )


def _records(what: Any) -> Iterator[Any]:
    if hasattr(what, "as_numpy_iterator"):  # of tf.data, whose own elements are tensors
        what = what.as_numpy_iterator()
    source = source_or_none(what, argument="what")
    given = record_stream(what) if source is None else (record for _, record in source_records(source, None))
    with progress_bar("records", None) as advance:
        for record in given:
            advance(1)
            yield record
