"""Rows of Arrow files: IPC files, IPC streams and Feather."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from loaderkit._base.block_checksums import BLOCK_BYTES
from loaderkit._base.hints import refusing_foreign_arguments
from loaderkit._base.system.optional_library import library
from loaderkit._base.system.process_locks import ProcessLocks
from loaderkit.errors import DataFormatError

from .file_rows import TableFileRows
from .files import TableFiles, file_mark


class ArrowDataSource(TableFileRows):
    """Rows of Arrow files, mapped into memory: record k is {column: value}; it needs the extra `arrow`.

    IPC files (.arrow, Feather version 2) and streams, which Hugging Face's caches are. Values are numpy numbers, str,
    bytes, numpy arrays for lists of numbers, lists and dicts; a null is None (see docs/data.md). Files that `lk.write`
    made give back the dicts that were written, types included. A table of numbers has `take`, so that a batch is read
    by column.

    Args:
        paths: names of local files; patterns, braces and parts such as "a.arrow[10:20]" as `lk.TarDataSource` takes
            them.
        columns: names of those that are read, in this order; None for all.
        cache_bytes: of record batches of compressed files that a process keeps decompressed; bytes or a text such as
            "1GB". The last is always kept.

    FileNotFoundError for a missing file; DataFormatError for a file that isn't Arrow, is damaged, or has other columns
    than the first one; FileChangedError where a file was written to since; ValueError for files of a server.

    >>> import pyarrow as pa, pyarrow.feather, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> table = pa.table({"x": [[1.0, 2.0], [3.0, 4.0]], "label": [0, 1]})
    >>> table = table.cast(pa.schema({"x": pa.list_(pa.float32(), 2), "label": pa.int64()}))
    >>> pyarrow.feather.write_feather(table, f"{folder.name}/train.arrow")
    >>> source = ArrowDataSource(f"{folder.name}/train.arrow")
    >>> source[1]
    {'x': array([3., 4.], dtype=float32), 'label': np.int64(1)}
    >>> source.take([1, 0])["x"]
    array([[3., 4.],
           [1., 2.]], dtype=float32)
    >>> source.close(), folder.cleanup()
    (None, None)
    """

    @refusing_foreign_arguments
    def __init__(
        self, paths: Any, *, columns: Sequence[str] | None = None, cache_bytes: int | str = "256MiB"
    ) -> None:
        library("pyarrow", "lk.formats.ArrowDataSource needs", "arrow")
        super().__init__(TableFiles(paths, "arrow", mapped=True), columns, cache_bytes)

    _of_this_process = ("_memory", "_locks", "_open_files")

    def _prepare(self) -> None:
        super()._prepare()
        self._locks = ProcessLocks(threading.Lock)
        self._open_files: dict[int, _MappedFile] = {}

    def _opened(self, file: int) -> _MappedFile:
        with self._locks.own():
            opened = self._open_files.get(file)
            if opened is None:
                with self._files.naming(file, "an Arrow file", type(self).__name__):
                    opened = self._open_files[file] = _MappedFile(self._files.open(file))
                for begin, end in opened.ends:
                    self._files.compare(file, opened.bytes, begin, end)
        return opened

    def _schema(self, file: int) -> Any:
        return self._opened(file).schema

    def _chunk_rows(self, file: int) -> list[int]:
        with self._files.naming(file, "record batches of an Arrow file"):
            return self._opened(file).rows()

    def _decoded(self, file: int, place: int, names: list[str]) -> tuple[Any, int]:
        opened = self._opened(file)
        with self._files.naming(file, f"record batch {place} of an Arrow file"):
            batch = opened.batch(place)
            self._files.compare(file, opened.bytes, *opened.span(batch))
            _validate(batch)
        return batch.select(names), 0 if opened.is_mapped(batch) else batch.nbytes

    def close(self) -> None:
        """Unmaps the files where no record refers to them; a later read opens them again."""
        with self._locks.own():
            super().close()
            self._open_files.clear()


def _validate(batch: Any) -> None:
    """pyarrow's error where an offset lies beyond its buffer: reading there would end the process."""
    import pyarrow as pa

    batch.validate()
    for column in batch.columns:
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            if "UTF8" not in str(error):  # a text that isn't harms nothing, and its row is a bad record
                raise


class _MappedFile:
    """An IPC file or stream in the memory of this process.

    Args:
        path: of the file. DataFormatError for another format, pyarrow's errors for a damaged file.
    """

    def __init__(self, path: str) -> None:
        import pyarrow as pa

        mark = file_mark(path)
        if mark[:4] == b"PAR1":
            raise DataFormatError(
                f"{path}: expected an Arrow file, got Parquet; write lk.ParquetDataSource(...)"
            )
        if mark[:4] == b"FEA1":
            raise DataFormatError(
                f"{path}: expected an Arrow file, got Feather version 1; read it by pyarrow.feather.read_table and "
                "write it with pyarrow.feather.write_feather, which writes version 2"
            )
        with pa.memory_map(path) as file:
            self._whole = file.read_buffer()
        if mark[:6] == b"ARROW1":
            self._reader: Any = pa.ipc.open_file(self._whole)
            self._batches: list[Any] | None = None
            self.schema = self._reader.schema
        else:
            reader = pa.ipc.open_stream(self._whole)
            self.schema = reader.schema
            self._batches = []
            for batch in reader:
                self._batches.append(batch)
                if not self.is_mapped(batch):
                    raise DataFormatError(
                        f"{path}: expected an IPC file, or a stream without compression, got a compressed stream, of "
                        "which no part can be read alone; write it with pyarrow.ipc.new_file"
                    )

    @property
    def bytes(self) -> memoryview:
        """All of the file."""
        return memoryview(self._whole)

    @property
    def ends(self) -> list[tuple[int, int]]:
        """The first byte and the last two, in whose blocks are the columns' names and the places of the batches."""
        return [(0, 1), (self._whole.size - 2, self._whole.size)]

    def span(self, batch: Any) -> tuple[int, int]:
        """The first byte and the end of what a batch has in the file, with the block before, which has its lengths."""
        whole = self._whole
        places = [
            (each.address - whole.address, each.address - whole.address + each.size)
            for column in batch.columns
            for each in column.buffers()
            if each is not None and 0 <= each.address - whole.address < whole.size
        ]
        if not places:
            return 0, 0
        first, end = min(begin for begin, _ in places), max(end for _, end in places)
        return max(0, first - BLOCK_BYTES), min(end, whole.size)

    def rows(self) -> list[int]:
        """Of each record batch. Those of compressed files are decompressed for it."""
        if self._batches is not None:
            return [batch.num_rows for batch in self._batches]
        return [self._reader.get_batch(place).num_rows for place in range(self._reader.num_record_batches)]

    def batch(self, place: int) -> Any:
        """A record batch."""
        return self._reader.get_batch(place) if self._batches is None else self._batches[place]

    def is_mapped(self, batch: Any) -> bool:
        """Whether a batch lies in the file, not in memory of its own."""
        begin = self._whole.address
        buffers = (each for column in batch.columns for each in column.buffers() if each is not None)
        return all(begin <= each.address < begin + self._whole.size for each in buffers if each.size)
