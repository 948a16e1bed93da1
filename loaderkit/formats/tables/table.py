"""Rows of tables of other libraries: pandas, polars, pyarrow, Hugging Face."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.system.file_identity import Files, check_files
from loaderkit._base.system.optional_library import library
from loaderkit._base.system.shared_memory import goes_to_a_worker
from loaderkit._source.content import content_hash, sampled_keys
from loaderkit._source.fingerprint import fingerprint_of
from loaderkit._source.tables import library_names
from loaderkit.sources.foreign_files import foreign_files
from loaderkit.sources.has_card import file_sizes
from loaderkit.sources.shared_arrays import SharedArrays

from .chunk import TableChunk
from .rows import RowRuns, TableRowsSource, columns_of


class TableDataSource(TableRowsSource):
    """Rows of a table: record k is {column: value}; it needs the extra `arrow`.

    A table in memory is copied once to memory that all workers share. A data set of Hugging Face that lies in files
    stays there: its Arrow table is read without the library's own formatting and decoding, so an image is the dict
    {"bytes": ..., "path": ...} that is stored.

    Values are numpy numbers, str, bytes, numpy arrays for lists of numbers, lists and dicts (see docs/data.md). A null
    is None; in pandas NaN of a float column is a number, other missing values are nulls. The index of a DataFrame isn't
    a column. A table of numbers has `take`, so that a batch is read by column.

    Args:
        table: a DataFrame of pandas or polars, a Table or RecordBatch of pyarrow, or a `datasets.Dataset` without a
            format (`set_format`, `with_transform`): one with a format is a data source itself.
        columns: names of those that are read, in this order; None for all.

    TypeError for another object, and for a column that Arrow can't hold; ValueError for a table without rows.

    >>> import pandas
    >>> source = TableDataSource(pandas.DataFrame({"text": ["a", "b"], "label": [0, 1]}))
    >>> source[1]
    {'text': 'b', 'label': np.int64(1)}
    >>> TableDataSource(pandas.DataFrame({"x": [0.5, 1.5]})).take([1, 0])
    {'x': array([1.5, 0.5])}
    """

    def __init__(self, table: Any, *, columns: Sequence[str] | None = None) -> None:
        library("pyarrow", "lk.formats.TableDataSource needs", "arrow")
        self._dataset: Any = None
        self._indices: SharedArrays | None = None
        self._told: dict[str, Any] | None = None
        self._shared: SharedArrays | None = None
        self._files: Files = {}
        found = _arrow_table(table)
        if found is None:
            found = self._of_hugging_face(table)
        if not found.num_rows:
            raise ValueError("table: expected one row or more, got none")
        chosen = columns_of(found.schema, columns, "table")
        found = found.select([column.name for column in chosen[0]])
        if self._dataset is None:
            self._shared = _in_shared_memory(found)
        self._open()
        rows = np.array([batch.num_rows for batch in self._batches], np.int64)
        super().__init__(*chosen, rows.cumsum(), np.zeros(len(rows), np.int64))
        self._open()

    def _of_hugging_face(self, table: Any) -> Any:
        """The table of a data set, which is kept where it lies in files."""
        if table.format["type"] is not None:
            raise TypeError(
                f"table: expected a data set without a format, got one with the format {table.format['type']!r}; give "
                "the data set itself as data_source, or table.with_format(None)"
            )
        self._told = fingerprint_of(table)
        if not table.cache_files or table.format["columns"] != table.column_names:
            return table.with_format("arrow", columns=table.format["columns"])[:]
        self._dataset, self._files = table, foreign_files(table)
        if table._indices is not None:
            keys = np.asarray(table._indices.column(0).to_numpy(), np.int64)
            self._indices = SharedArrays.of([keys])
        return table.data.table

    def _open(self) -> None:
        import pyarrow as pa

        if self._shared is not None:
            (block,) = self._shared.views()
            self._batches = list(pa.ipc.open_stream(pa.py_buffer(block)))
        elif self._dataset is not None:
            names = [column.name for column in self._columns] if hasattr(self, "_columns") else None
            table = self._dataset.data.table
            batches = (table if names is None else table.select(names)).to_batches()
            self._batches = [batch for batch in batches if batch.num_rows]
        self._chunks: dict[int, TableChunk] = {}
        self._keys = None if self._indices is None else self._indices.views()[0]

    def __len__(self) -> int:
        return super().__len__() if self._keys is None else len(self._keys)

    def _runs(self, keys: NDArray[np.int64]) -> RowRuns:
        return super()._runs(keys if self._keys is None else self._keys[keys])

    def _chunk(self, number: int) -> TableChunk:
        found = self._chunks.get(number)
        if found is None:
            found = self._chunks[number] = TableChunk(self._batches[number], self._descriptions)
        return found

    def name(self, record_key: Any) -> str:
        """Which row, such as "table[17]".

        Args:
            record_key: int in [0, len(source)).
        """
        return f"table[{record_key}]"

    def data_files(self) -> dict[str, int | None]:
        """The files, and the bytes of each."""
        return file_sizes(self._files)

    def fingerprint(self) -> dict[str, Any]:
        """The columns and a hash of some rows; of a data set of Hugging Face its own fingerprint."""
        told = {"type": "TableDataSource", "records": len(self), "columns": self._told_columns()}
        if self._told is not None:
            return told | {"source": self._told}
        return told | {"content": content_hash(self.__getitems__(sampled_keys(len(self))))}

    def __repr__(self) -> str:
        return f"TableDataSource({[column.name for column in self._columns]}, records={len(self)})"

    def __getstate__(self) -> dict[str, Any]:
        # Inode numbers and times hold on this machine and for this run only.
        files = self._files if goes_to_a_worker() else {}
        state = {
            name: value
            for name, value in self.__dict__.items()
            if name not in ("_batches", "_keys", "_chunks")
        }
        return state | {"_files": files}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        check_files(self._files)
        self._open()


def _arrow_table(table: Any) -> Any:
    """The table as a pyarrow Table; None for a data set of Hugging Face."""
    import pyarrow as pa

    for name in library_names(table):
        match name:
            case ("pyarrow", "Table"):
                return table
            case ("pyarrow", "RecordBatch"):
                return pa.Table.from_batches([table])
            case ("polars", "DataFrame"):
                return table.to_arrow()
            case ("pandas", "DataFrame"):
                return _of_pandas(table)
            case ("datasets", "Dataset"):
                return None
    raise TypeError(
        f"table: expected a DataFrame of pandas or polars, a Table of pyarrow or a Dataset of Hugging Face, got a "
        f"{type(table).__name__}; lk.ArrayDataSource takes a dict of arrays, lk.InMemoryDataSource a list of dicts"
    )


def _of_pandas(table: Any) -> Any:
    import pyarrow as pa

    columns = []
    for place, name in enumerate(table.columns):
        series = table.iloc[:, place]
        try:
            if getattr(series.dtype, "kind", "O") in "biuf" and isinstance(series.dtype, np.dtype):
                columns.append(pa.array(series.to_numpy(), from_pandas=False))
            else:
                columns.append(pa.Array.from_pandas(series))
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise TypeError(
                f"table: expected values of one type in the column {name!r}, got {error}; convert it, or leave it out"
            ) from error
    return pa.Table.from_arrays(
        [pa.chunked_array(each) if isinstance(each, list) else each for each in columns],
        names=[str(name) for name in table.columns],
    )


def _in_shared_memory(table: Any) -> SharedArrays:
    import pyarrow as pa

    # Many small batches would cost a call each; a batch of text is limited to 2 GiB.
    table = table.combine_chunks()
    size = pa.MockOutputStream()
    _write_stream(table, size)
    shared = SharedArrays([((size.size(),), np.dtype(np.uint8))])
    (block,) = shared.writable()
    _write_stream(table, pa.FixedSizeBufferWriter(pa.py_buffer(block)))
    return shared


def _write_stream(table: Any, sink: Any) -> None:
    import pyarrow as pa

    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
