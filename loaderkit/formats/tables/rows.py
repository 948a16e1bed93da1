"""Records of tables that lie in chunks of rows: the base of the sources of Arrow, Parquet and tables in memory."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loaderkit._base.system.dataclasses import dataclass, field
from loaderkit._codecs.example_encoding import dtype_of
from loaderkit._source.optional import ColumnsDifferError, lacking
from loaderkit._source.record_key import check_key, check_keys
from loaderkit.errors import DataFormatError
from loaderkit.sources.has_card import HasCard
from loaderkit.sources.sliced import sliced

from .arrow_row_readers import RowReader, rows_of
from .arrow_values import (
    ColumnSpec,
    Description,
    NullValueError,
    UnequalShapesError,
    array_of,
    column_spec,
    holds_arrays,
)
from .chunk import TableChunk

METADATA = b"loaderkit"  # of a schema: a JSON object, "record" describes the records
VALUE = "value"  # the column of records that aren't dicts


@dataclass(frozen=True, slots=True)
class RowRuns:
    """Rows that are read, chunk by chunk.

    order: of each row its place among the keys asked for (n,); None where they are in order.
    rows: of each its number in its chunk (n,).
    chunks: those with rows, in order. begins, ends: of each the first of its rows here, and the one behind its last.
    """

    order: NDArray[np.intp] | None
    rows: NDArray[np.int64]
    chunks: list[TableChunk]
    begins: list[int]
    ends: list[int]

    def __iter__(self) -> Iterator[tuple[TableChunk, int, int]]:
        return zip(self.chunks, self.begins, self.ends)


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column: its name, pyarrow type, and how loaderkit described it where it wrote the table.

    text: the type as the table says it; a type that was pickled may name the items of its lists differently.
    """

    name: str
    kind: Any
    description: Description | None
    text: str = field(compare=False)

    @property
    def spec(self) -> ColumnSpec | None:
        """dtype and shape of its rows, where all have the same."""
        return column_spec(self.kind, self.description)


def columns_of(schema: Any, names: Sequence[str] | None, where: str) -> tuple[list[TableColumn], bool]:
    """The columns of a schema, and whether a record is the value of the only one.

    Args:
        schema: a pyarrow Schema.
        names: of the columns wanted, in their order; None for all. ValueError for one that isn't there.
        where: the table's name, for errors. DataFormatError for two columns of one name, and for a description that a
            later version wrote.
    """
    try:
        there = list(schema.names)
        told = json.loads((schema.metadata or {}).get(METADATA, b"{}"))
        version, record = told.get("version"), told.get("record", {})
        fields = (
            record.get("fields", {}) if record.get("kind") == "dict" else {VALUE: record} if record else {}
        )
    except (ValueError, AttributeError) as error:
        raise DataFormatError(
            f"{where}: expected a schema with UTF-8 names and loaderkit's JSON, got another: {error}; the file is "
            "damaged: write it again"
        ) from error
    if len(set(there)) < len(there):
        twice = next(name for name in there if there.count(name) > 1)
        raise DataFormatError(
            f"{where}: expected columns of distinct names, got two named {twice!r}; rename one"
        )
    if told and version != 1:
        raise DataFormatError(
            f"{where}: expected records of version 1 of loaderkit's tables, got {version!r}; a later "
            "loaderkit wrote them: install it"
        )
    alone = bool(record) and record.get("kind") != "dict"
    if names is None:
        names = there
    if isinstance(names, str):
        raise TypeError(f"columns: expected a list of names, got {names!r}")
    for name in names:
        if name not in there:
            raise ValueError(f"columns: expected some of {there}, got {name!r}")
    return [
        TableColumn(name, (kind := schema.field(name).type), fields.get(name), str(kind)) for name in names
    ], alone


def require_same_columns(
    first: tuple[list[TableColumn], bool], other: tuple[list[TableColumn], bool], first_name: str, name: str
) -> None:
    """DataFormatError where two files of a table differ in their columns.

    Args:
        first, other: as `columns_of` gives them.
        first_name, name: of the two files.
    """
    if first == other:
        return
    for mine, theirs in zip(first[0], other[0]):
        if mine != theirs:
            raise DataFormatError(
                f"{name}: expected the column {mine.name!r} of type {_shown(mine)}, as {first_name} has it, got "
                f"{theirs.name!r} of type {_shown(theirs)}; give the columns that all files have by columns=, or the "
                "files of one kind alone"
            )
    raise DataFormatError(
        f"{name}: expected the columns {[each.name for each in first[0]]}, as {first_name} has them, got "
        f"{[each.name for each in other[0]]}; give those that all files have by columns="
    )


def _shown(column: TableColumn) -> str:
    return column.text if column.description is None else f"{column.text}, {column.description}"


class TableRowsSource(HasCard):
    """The rows of a table as dicts. A subclass gives its chunks.

    Args:
        columns: of a record.
        alone: whether a record is the value of the only column.
        ends: (chunks,) int64, the records up to and with each chunk.
        firsts: (chunks,) int64, the row of each chunk in its record batch or row group with which it begins.
    """

    def __init__(
        self, columns: list[TableColumn], alone: bool, ends: NDArray[np.int64], firsts: NDArray[np.int64]
    ) -> None:
        self._columns, self._alone = columns, alone
        self._ends, self._firsts = ends, firsts
        self._offsets = firsts - np.concatenate(([0], ends[:-1]))  # added to a key for the row in its chunk
        self._known_specs: list[ColumnSpec | None] | None = None
        self._descriptions = [column.description for column in columns]

    def _chunk(self, number: int) -> TableChunk:
        """A chunk with the columns in order; the rows before `firsts` included."""
        raise NotImplementedError

    def _chunks_of(self, numbers: list[int]) -> list[TableChunk]:
        """These chunks."""
        return [*map(self._chunk, numbers)]

    def _check(self, chunks: NDArray[np.int64]) -> None:
        """Raises FileChangedError where a file of these chunks, (n,) in order, was written to."""

    def _where(self, number: int, row: int) -> str:
        """The file of a chunk, and which of its rows one of the chunk is."""
        raise NotImplementedError

    def __len__(self) -> int:
        return int(self._ends[-1])

    @sliced
    def __getitem__(self, key: int) -> Any:
        return self._read(np.array([key]))[0]

    def __getitems__(self, record_keys: ArrayLike) -> list[Any]:
        return self._read(check_keys(record_keys, len(self), self))

    def _read(self, keys: NDArray[np.int64]) -> list[Any]:
        if not len(keys):
            return []
        runs = self._runs(keys)
        try:
            rows = runs.rows.tolist()
            parts = [(chunk.readers, rows[begin:end]) for chunk, begin, end in runs]
            columns = (self._values(place, runs, parts) for place in range(len(self._columns)))
            return _placed(next(columns), runs.order) if self._alone else self._records(columns, runs.order)
        except (ValueError, KeyError, TypeError, NotImplementedError) as error:
            if len(keys) > 1:
                for key in keys:
                    self._read(np.array([key]))
            raise self._unreadable(int(keys[0]), error) from error

    def _records(self, columns: Iterable[list[Any]], order: NDArray[np.intp] | None) -> list[dict[str, Any]]:
        # A column at a time: half the time of `dict(zip(names, values))` for each row.
        records: list[dict[str, Any]] | None = None
        for column, values in zip(self._columns, columns):
            if records is None:
                records = [{} for _ in values]
            name = column.name
            for record, value in zip(records, values):
                record[name] = value
        assert records is not None
        return _placed(records, order)

    def _runs(self, keys: NDArray[np.int64]) -> RowRuns:
        chunks = self._ends.searchsorted(keys, "right")
        order = None
        if (chunks[1:] < chunks[:-1]).any():
            order = chunks.argsort(kind="stable")
            keys, chunks = keys[order], chunks[order]
        self._check(chunks)
        cuts = (np.flatnonzero(chunks[1:] != chunks[:-1]) + 1).tolist()
        begins = [0, *cuts]
        wanted = self._chunks_of(chunks[begins].tolist())
        return RowRuns(order, keys + self._offsets[chunks], wanted, begins, [*cuts, len(keys)])

    def _values(
        self, place: int, runs: RowRuns, parts: list[tuple[list[RowReader | None], list[int]]]
    ) -> list[Any]:
        values: list[Any] = []
        for readers, rows in parts:
            reader = readers[place]
            if reader is None:
                return rows_of(_taken(place, runs), self._columns[place].description)
            values += reader(rows)
        return values

    def _unreadable(self, key: int, error: Exception) -> DataFormatError:
        return DataFormatError(
            f"{self.name(key)}: expected values of the columns' types, got {type(error).__name__}: {error}; write the "
            "table again, or leave out the column with columns="
        )

    @property
    def take(self) -> Callable[..., Any]:
        """`take(record_keys, out=None)` gives many records as columns, an array (n, ...) each.

        It is there where all columns are numbers, fixed-size lists of them, or arrays that `lk.write` wrote and that
        have one shape in the first record batch or row group; else an AttributeError. Where a column has a null or an
        array of another shape among these records it raises ColumnsDifferError that names the row; the records can be
        read still.
        """
        if self._alone or not all(self._specs):
            raise lacking(self, "take", needs="columns of numbers or arrays of one shape")
        return self._take

    @property
    def _specs(self) -> list[ColumnSpec | None]:
        """dtype and shape of a row of each column; None where they may differ."""
        if self._known_specs is None:
            specs = [column.spec for column in self._columns]
            arrays = [place for place, each in enumerate(self._descriptions) if holds_arrays(each)]
            if arrays and all(spec or place in arrays for place, spec in enumerate(specs)):
                try:
                    chunk = self._chunk(0)
                    for place in arrays:
                        found, description = chunk.array(place), self._descriptions[place]
                        if found is not None and description is not None:
                            specs[place] = dtype_of(description["dtype"]), found.shape[1:]
                except Exception:  # noqa: BLE001 - it is said where the records are read
                    return specs
            self._known_specs = specs
        return self._known_specs

    def _take(self, record_keys: ArrayLike, out: list[NDArray[Any]] | None = None) -> dict[str, NDArray[Any]]:
        keys = check_keys(record_keys, len(self), self)
        runs = self._runs(keys) if len(keys) else None
        taken = {}
        for place, (column, spec) in enumerate(zip(self._columns, self._specs)):
            assert spec is not None
            into = np.empty((len(keys), *spec[1]), spec[0]) if out is None else out[place]
            for chunk, begin, end in runs or ():
                assert runs is not None
                places: Any = slice(begin, end) if runs.order is None else runs.order[begin:end]
                rows: Any = runs.rows[begin:end]
                array = chunk.array(place)
                if array is None or array.shape[1:] != spec[1]:
                    array, rows = self._column(place, spec[1], runs, keys), slice(begin, end)
                into[places] = array[rows]
            taken[column.name] = into
        return taken

    def _column(
        self, place: int, shape: tuple[int, ...], runs: RowRuns, keys: NDArray[np.int64]
    ) -> NDArray[Any]:
        """The rows of a column of which one may have a null or another shape."""
        taken, description = _taken(place, runs), self._descriptions[place]
        try:
            column = array_of(taken, description)
            if column.shape[1:] == shape:
                return column
        except (NullValueError, UnequalShapesError):
            pass
        row, value = next(
            each
            for each in enumerate(rows_of(taken, description))
            if each[1] is None or isinstance(each[1], list) or np.shape(each[1]) != shape
        )
        wanted, got = "a value", "a null"
        if value is not None and not isinstance(value, list):
            wanted, got = (
                f"an array of shape {shape}, as the first row has",
                f"one of shape {np.shape(value)}",
            )
        key = int(keys[row if runs.order is None else runs.order[row]])
        raise ColumnsDifferError(
            f"{self.name(key)}: expected {wanted} in the column {self._columns[place].name!r}, got {got}; change it "
            "before the table is written, or by an operation on records"
        )

    def name(self, record_key: SupportsIndex) -> str:
        """The file and the row in it, such as "/data/train.parquet[17]".

        Args:
            record_key: int in [0, len(source)); IndexError otherwise.
        """
        key = check_key(record_key, len(self), self)
        number = int(self._ends.searchsorted(key, "right"))
        return self._where(number, key + int(self._offsets[number]))

    def _told_columns(self) -> dict[str, Any]:
        """What a fingerprint says of the columns."""
        return {
            column.name: column.text if column.description is None else [column.text, column.description]
            for column in self._columns
        }


def _placed(values: list[Any], order: NDArray[np.intp] | None) -> list[Any]:
    """The values in the order of the keys that were asked for."""
    if order is None:
        return values
    placed: list[Any] = [None] * len(values)
    for place, value in zip(order.tolist(), values):
        placed[place] = value
    return placed


def _taken(place: int, runs: RowRuns) -> Any:
    """The rows of a column, as one pyarrow Array."""
    import pyarrow as pa
    import pyarrow.compute as pc

    pieces = []
    for chunk, begin, end in runs:
        column, rows = chunk.table.column(place), runs.rows[begin:end]
        if pa.types.is_run_end_encoded(column.type):
            column = pc.run_end_decode(column)
        try:
            pieces.append(column.slice(int(rows[0]), 1) if len(rows) == 1 else column.take(pa.array(rows)))
        except pa.ArrowNotImplementedError:  # of string views in fixed-size lists and maps, in pyarrow 24
            pieces += [column.slice(row, 1) for row in rows.tolist()]
    return _joined(pieces)


def _joined(arrays: list[Any]) -> Any:
    import pyarrow as pa

    flat: list[Any] = []
    for array in arrays:
        flat += array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    if isinstance(flat[0], pa.ExtensionArray):
        joined = _joined([array.storage for array in flat])
        return pa.ExtensionArray.from_storage(flat[0].type, joined)
    return flat[0] if len(flat) == 1 else pa.concat_arrays(flat)
