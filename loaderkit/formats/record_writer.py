"""Records written one at a time to files of any format: the files get their names when all is written."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import Any, Self

from ._writing.record_stream import encode, files_for
from ._writing.shard_stream import SizedShards, name_shards, numbered_paths
from ._writing.target import WriteTarget
from .write import checked_sizes, format_for


def open_writer(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002 - as in lk.write
    shard_bytes: int | None = None,
    shard_records: int | None = None,
    quality: int | None = None,
    overwrite: bool = False,
) -> RecordWriter:
    """A writer to which records are given one after the other, for use with `with`.

    Behind the block all files are there, with an index beside them, as `lk.write` leaves them. Before, and where the
    process is killed, they lie in PATH.partial, and no file has its name. Where the block raises they are deleted.

    Args:
        path: as of `lk.write`: a folder, one file, or names with a number such as "train-%06d.tar".
        format, shard_bytes, shard_records, quality, overwrite: as of `lk.write`.

    >>> import loaderkit as lk, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open_writer(f"{folder}/train-%06d.tar", shard_records=2) as out:
    ...         for number in range(5):
    ...             out.write({"cls": number})
    ...     [os.path.basename(each) for each in out.paths], out.records, lk.TarDataSource(out.paths)[4]
    (['train-000000.tar', 'train-000001.tar', 'train-000002.tar'], 5, {'cls': 4})
    """
    path = os.fspath(path)
    writing, is_file = format_for(path, format, quality)
    _, nbytes = checked_sizes(None, shard_bytes, is_file=is_file, shard_records=shard_records)
    target = WriteTarget(path, is_file=is_file, overwrite=overwrite, format_name=writing.name, worker_count=0)
    return RecordWriter(writing, target, None if is_file else nbytes, shard_records)


class RecordWriter:
    """Writes records in their order; `open_writer` makes it.

    Attributes:
        records: how many were written.
        paths: of the files, once the block is left without an error.

    >>> RecordWriter.write.__name__
    'write'
    """

    def __init__(self, writing: Any, target: WriteTarget, nbytes: int | None, records: int | None) -> None:
        self.records = 0
        self.paths: list[str] = []
        self._writing, self._target, self._nbytes, self._most = writing, target, nbytes, records
        self._stack = ExitStack()
        self._begun = False
        self._made: Any = None  # of the folder of unfinished files; None outside of the block
        self._encoder: Any = None
        self._shards: SizedShards | None = None
        self._failure: BaseException | None = None

    def __enter__(self) -> Self:
        if self._begun:
            raise ValueError("open_writer: expected one `with` for each writer, got another; open a new one")
        self._begun = True
        self._made = self._stack.enter_context(
            self._target.unfinished(self._writing.extension, None, goes_on=False)
        )
        return self

    def write(self, record: Any) -> None:
        """Appends a record.

        Args:
            record: what `lk.write` takes. TypeError or ValueError that names it where it doesn't fit to the first one:
                the next one may be written. Any other error ends the set, which gets no name.
        """
        if self._made is None:
            raise ValueError("write: expected a writer in its `with` block, got one outside of it")
        if self._failure is not None:
            raise self._failure
        if self._shards is None:
            files, _ = files_for(self._writing, [record], False)
            self._encoder = files.encoder
            paths = numbered_paths(self._target, self._writing.extension)
            shards = SizedShards(files, paths, self._nbytes or 1 << 63, self._most)
            self._shards = self._stack.enter_context(shards)
        encoded = encode(self._encoder, record, self.records)
        try:
            self._shards.add(encoded)
        except BaseException as error:
            self._failure = error
            raise
        self.records += 1

    def __exit__(self, *error: Any) -> None:
        with self._stack:
            self._made, made = None, self._made
            if error[0] is not None:
                self._stack.__exit__(*error)
                return
            if self._failure is not None:
                raise self._failure
            if self._shards is not None:
                self._shards.__exit__(None, None, None)
            count = 0 if self._shards is None else len(self._shards.counts)
            names = name_shards(self._target, count, self._writing.extension)
            self.paths = self._target.finish(made, names)
