"""Rows of Parquet files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from loaderkit._base.hints import refusing_foreign_arguments
from loaderkit._base.numbers import true_or_false
from loaderkit._base.system.optional_library import library
from loaderkit._storage.fetch_threads import IN_FLIGHT, at_once
from loaderkit.formats.indexed import REMOTE_READ_AHEAD

from .chunk import TableChunk
from .file_rows import TableFileRows
from .files import TableFiles

# Bytes read for each byte used from which a shuffle is refused: there an hour of reading becomes a day.
MOST_READ = 20


class ParquetDataSource(TableFileRows):
    """Rows of Parquet files: record k is {column: value}; it needs the extra `arrow`.

    Values are numpy numbers, str, bytes, numpy arrays for lists of numbers, lists and dicts; a null is None (see
    docs/data.md). Files that `lk.write` made give back the dicts that were written, types included. Pages that have
    checksums, as those of `lk.write` have, are compared with them.

    A row group is decoded as a whole, and the ones used last are kept in each process. In a shuffled order most reads
    decode a row group for one row. A loader refuses that where it decodes more than 20 bytes for each byte used,
    whichever sampler or component of a mixture gives the order; `lk.ChunkSampler.over(source, ...)` shuffles row groups
    and the rows of some of them.

    Args:
        paths: names of files, local or on a server; patterns, braces and parts such as "a.parquet[10:20]" as
            `lk.TarDataSource` takes them.
        columns: names of those that are read, in this order; None for all.
        cache_bytes: of decoded row groups that a process keeps; bytes or a text such as "1GB". The last is always kept.
        random_reads: True where shuffled reads may cost any number of bytes.
        storage_options: of the server, as `lk.TarDataSource` takes them.

    FileNotFoundError for a missing file; DataFormatError for a file that isn't Parquet, is damaged, or has other
    columns than the first one; FileChangedError where a file was written to since.

    >>> import pyarrow as pa, pyarrow.parquet, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> table = pa.table({"text": ["a", "b", "c"], "label": [0, 1, None], "tokens": [[1, 2], [], [3]]})
    >>> pyarrow.parquet.write_table(table, f"{folder.name}/train.parquet")
    >>> source = ParquetDataSource(f"{folder.name}/*.parquet")
    >>> len(source), source[0]
    (3, {'text': 'a', 'label': np.int64(0), 'tokens': array([1, 2])})
    >>> source[2]["label"] is None
    True
    >>> folder.cleanup()
    """

    @refusing_foreign_arguments
    def __init__(
        self,
        paths: Any,
        *,
        columns: Sequence[str] | None = None,
        cache_bytes: int | str = "256MiB",
        random_reads: bool = False,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        library("pyarrow", "lk.ParquetDataSource needs", "arrow")
        self._random_reads = true_or_false("random_reads", random_reads)
        super().__init__(TableFiles(paths, "parquet", storage_options), columns, cache_bytes)
        names = {column.name for column in self._columns}
        groups = (group for file in range(len(self._files)) for group in self._groups(file))
        self._nbytes = max(1, sum(_decoded_bytes(group, names) for group in groups))

    _of_this_process = ("_memory", "_metadata_of")

    def _prepare(self) -> None:
        super()._prepare()
        self._metadata_of: dict[int, Any] = {}

    def _begin(self, files: Iterable[int]) -> None:
        if self._files.remote:  # many at a time, each once
            at_once(self._metadata, [file for file in files if file not in self._metadata_of])

    def _chunks_of(self, numbers: list[int]) -> list[TableChunk]:
        held = {*self._memory.numbers} if self._files.remote else {*numbers}
        found = {number: self._chunk(number) for number in numbers if number in held}
        if missing := [number for number in numbers if number not in found]:
            self._begin(dict.fromkeys(self._chunks.files[missing].tolist()))
            # At a time no more than a process keeps: of each its bytes are there, and the columns in two copies.
            most = min(IN_FLIGHT, max(1, self._cache_bytes // self.chunk_bytes))
            found |= zip(missing, at_once(self._chunk, missing, most=most))
        return [found[number] for number in numbers]

    def _metadata(self, file: int) -> Any:
        """What the end of a file says; read once in a process."""
        import pyarrow.parquet as pq

        found = self._metadata_of.get(file)
        if found is None:
            name = type(self).__name__
            with (
                self._files.naming(file, "a Parquet file", name),
                pq.ParquetFile(self._files.open(file)) as opened,
            ):
                found = self._metadata_of[file] = opened.metadata
        return found

    def _groups(self, file: int) -> list[Any]:
        metadata = self._metadata(file)
        return [metadata.row_group(number) for number in range(metadata.num_row_groups)]

    def _schema(self, file: int) -> Any:
        return self._metadata(file).schema.to_arrow_schema()

    def _chunk_rows(self, file: int) -> list[int]:
        return [group.num_rows for group in self._groups(file)]

    def _decoded(self, file: int, place: int, names: list[str]) -> tuple[Any, int]:
        import pyarrow.parquet as pq

        metadata = self._metadata(file)
        # Opened for each row group: with its metadata given that is cheap, and threads share nothing.
        with (
            self._files.naming(file, f"row group {place} of a Parquet file"),
            pq.ParquetFile(
                self._files.open(file),
                metadata=metadata,
                pre_buffer=self._files.remote,
                page_checksum_verification=True,
            ) as opened,
        ):
            table = opened.read_row_group(place, columns=names, use_threads=False).select(names)
        batches = table.combine_chunks().to_batches()
        chunk = batches[0] if len(batches) == 1 else table
        return chunk, chunk.nbytes

    @property
    def read_ahead(self) -> int:
        """Calls in flight that pay: some where a read waits for a server."""
        return REMOTE_READ_AHEAD if self._files.remote else 0

    @property
    def chunk_records(self) -> int:
        """Rows of a row group, in the mean."""
        return max(1, round(len(self) / len(self._ends)))

    @property
    def chunk_bytes(self) -> int:
        """Bytes of a decoded row group, in the mean."""
        return max(1, self._nbytes // len(self._ends))

    @property
    def shuffled_read_ratio(self) -> float:
        """Bytes decoded for each byte used where single rows are read in a random order, by one process."""
        rows = np.diff(self._ends, prepend=0).astype(float)
        missed = max(0.0, 1 - self._cache_bytes / self._nbytes)
        return max(1.0, missed * float((rows * rows).sum() / rows.sum()))

    def check_random_reads(self) -> None:
        """ValueError where a random order decodes more than 20 bytes for each byte used; a loader asks.

        It passes with random_reads=True.
        """
        ratio = self.shuffled_read_ratio
        if ratio > MOST_READ and not self._random_reads:
            raise ValueError(
                f"data_source: expected an order by row groups, got a random order of the rows of {self!r}, which "
                f"decodes {ratio:.0f} bytes for each byte used; write sampler=lk.ChunkSampler.over(source, cache_bytes="
                f"{self._cache_bytes}, seed=...), or give the source cache_bytes={self._nbytes} (in each process) or "
                "random_reads=True"
            )


def _decoded_bytes(group: Any, names: set[str]) -> int:
    columns = map(group.column, range(group.num_columns))
    return sum(
        column.total_uncompressed_size
        for column in columns
        if column.path_in_schema in names or column.path_in_schema.split(".")[0] in names
    )
