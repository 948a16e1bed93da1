"""Rows of files of tables: the base of the sources of Arrow and Parquet."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loaderkit._base.closing import Closing
from loaderkit._base.numbers import number_of_bytes
from loaderkit._source.origins import Origins
from loaderkit._source.record_key import check_keys

from .chunk import ChunkMemory, TableChunk
from .files import TableChunks, TableFiles
from .rows import TableRowsSource, columns_of, require_same_columns


class TableFileRows(TableRowsSource, Closing):
    """The rows of files. A subclass reads what files say of themselves, and their chunks.

    Args:
        files: in order.
        columns, cache_bytes: as the sources take them.
    """

    _of_this_process: tuple[str, ...] = ("_memory",)  # attributes that `_prepare` makes

    def __init__(self, files: TableFiles, columns: Sequence[str] | None, cache_bytes: int | str) -> None:
        self._cache_bytes = number_of_bytes("cache_bytes", cache_bytes)
        self._files = files
        self._prepare()
        self._begin(range(len(files)))
        rows, found = [], []
        for file, shown in enumerate(files.shown):
            found.append(columns_of(self._schema(file), columns, shown))
            require_same_columns(found[0], found[-1], files.shown[0], shown)
            rows.append(self._chunk_rows(file))
        self._chunks = TableChunks.of(files, rows)
        super().__init__(*found[0], self._chunks.ends, self._chunks.firsts)

    def _prepare(self) -> None:
        self._memory = ChunkMemory(self._cache_bytes)

    def _begin(self, files: Iterable[int]) -> None:
        """Reads what these files say of themselves, where that is faster for several together."""

    def _schema(self, file: int) -> Any:
        """The pyarrow schema of a file."""
        raise NotImplementedError

    def _chunk_rows(self, file: int) -> list[int]:
        """The rows of each chunk of a file."""
        raise NotImplementedError

    def _decoded(self, file: int, place: int, names: list[str]) -> tuple[Any, int]:
        """A chunk of a file as a pyarrow RecordBatch or Table with these columns, and its bytes in memory."""
        raise NotImplementedError

    def _chunk(self, number: int) -> TableChunk:
        def make() -> tuple[TableChunk, int]:
            names = [column.name for column in self._columns]
            file, place = int(self._chunks.files[number]), int(self._chunks.numbers[number])
            table, nbytes = self._decoded(file, place, names)
            return TableChunk(table, self._descriptions), nbytes

        found: TableChunk = self._memory.get(number, make)
        return found

    def _check(self, chunks: NDArray[np.int64]) -> None:
        self._files.check_all(self._chunks.files[chunks])

    def _where(self, number: int, row: int) -> str:
        file = int(self._chunks.files[number])
        return f"{self._files.shown[file]}[{int(self._chunks.begins[number]) + row}]"

    def origins(self, record_keys: ArrayLike) -> Origins:
        """The files of records and their places in them, as `_source/origins.py` says them.

        Args:
            record_keys: integers (n,).
        """
        keys = check_keys(record_keys, len(self), self)
        chunks = self._ends.searchsorted(keys, "right")
        rows = keys + self._offsets[chunks] + self._chunks.begins[chunks]
        return Origins.of_documents(keys).in_files(self._files.shown, self._chunks.files[chunks], rows)

    def data_files(self) -> dict[str, int | None]:
        """The files, and the bytes of each."""
        return self._files.sizes()

    def fingerprint(self) -> dict[str, Any]:
        """The columns, and the identity of the files, without times, folders and addresses."""
        told = {"type": type(self).__name__, "records": len(self), "columns": self._told_columns()}
        return told | self._files.told()

    def close(self) -> None:
        """Forgets the chunks and closes files and connections; a later read opens them again."""
        self._memory.clear()
        self._files.close()

    def __repr__(self) -> str:
        more = f" and {len(self._files) - 1} more" if len(self._files) > 1 else ""
        return f"{type(self).__name__}({self._files.shown[0]!r}{more}, records={len(self)})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in self._of_this_process}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()
