"""The columns of a table of any kind: a file, a table of another library, a dict of arrays, a source of dicts."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderkit._source.protocol import read_records
from loaderkit._source.tables import library_names
from loaderkit.errors import DataFormatError
from loaderkit.formats.text.csv import CsvDataSource
from loaderkit.sources.checked import require_source

_ROWS = 4096  # of a source that are read together: more takes more memory, fewer more calls


def table_columns(table: Any) -> dict[str, NDArray[Any]]:
    """Name -> values, (rows,) each; texts and other objects in arrays of dtype object.

    Args:
        table: a path of a .csv or .tsv file, a DataFrame, an Arrow table, a dict of arrays, or a data source whose
            records are dicts. TypeError for another object, ValueError where columns differ in length or there is no
            row, DataFormatError naming the record whose names differ from those of the first.

    >>> table_columns([{"id": 1, "text": "a"}, {"id": 2, "text": "b"}])
    {'id': array([1, 2]), 'text': array(['a', 'b'], dtype=object)}
    """
    if isinstance(table, str | os.PathLike):
        name = os.fspath(table)
        with CsvDataSource(name, delimiter="\t" if name.lower().endswith((".tsv", ".tab")) else ",") as rows:
            found = _of_rows(rows)
    elif isinstance(table, Mapping):
        found = {str(name): _column(values) for name, values in table.items()}
    elif _is_table(table):
        names = getattr(table, "column_names", None) or list(table.columns)
        found = {str(name): _column(table[name].to_numpy()) for name in names}
    else:
        found = _of_rows(require_source(table, argument="table"))
    lengths = {name: len(values) for name, values in found.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"table: expected columns of one length, got {lengths}")
    if not any(lengths.values()):
        raise ValueError("table: expected one row or more, got none")
    return found


def column_of(columns: Mapping[str, NDArray[Any]], name: Any, argument: str) -> NDArray[Any]:
    """A column by its name; ValueError that says which there are.

    Args:
        columns: as `table_columns` gives them.
        name: of the column.
        argument: what the caller calls the name.
    """
    if not isinstance(name, str):
        raise TypeError(f"{argument}: expected a column's name, got {name!r}")
    if name not in columns:
        raise ValueError(f"{argument}: expected one of the columns {list(columns)}, got {name!r}")
    return columns[name]


def _is_table(table: Any) -> bool:
    known = {("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "Table")}
    return any(each in known for each in library_names(table))


def _of_rows(source: Any) -> dict[str, NDArray[Any]]:
    values: dict[str, list[Any]] = {}
    for begin in range(0, len(source), _ROWS):
        keys = range(begin, min(begin + _ROWS, len(source)))
        for key, row in zip(keys, read_records(source, keys)):
            if not isinstance(row, Mapping):
                raise TypeError(
                    f"table: expected records that are dicts of column -> value, got a {type(row).__name__} in "
                    f"row {key}"
                )
            if not values:
                values = {name: [] for name in row}
            if row.keys() != values.keys():
                raise DataFormatError(
                    f"table: expected the columns {list(values)} in row {key}, as in row 0, got {list(row)}"
                )
            for name, value in row.items():
                values[name].append(value)
    return {str(name): _column(column) for name, column in values.items()}


def _column(values: Any) -> NDArray[Any]:
    if isinstance(values, np.ndarray) and values.dtype.kind in "biufcmM":
        return values
    if len(values) and all(isinstance(value, bool | int | float | np.generic) for value in values):
        array = np.asarray(values)
        if array.dtype.kind in "biufcM":
            return array
    column = np.empty(len(values), object)
    for row, value in enumerate(values):
        column[row] = value.item() if isinstance(value, np.str_ | np.bytes_) else value
    return column
