"""Recognises tables of other libraries in which `table[i]` isn't row i, and gives the line that makes a source of one.

A library is recognised by the names of its classes; none is imported.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

_NUMBERS = "biufcmM"  # kinds of dtypes that a column in shared memory may have
_ARROW_NUMBERS = ("int", "uint", "float", "double", "halffloat", "bool", "timestamp", "date", "duration")


def library_names(thing: Any) -> Iterator[tuple[str, str]]:
    """Package and name of an object's class and of its base classes, in the order of the MRO.

    Args:
        thing: any object.

    >>> list(library_names(np.zeros(2)))
    [('numpy', 'ndarray'), ('builtins', 'object')]
    """
    for cls in type(thing).__mro__:
        yield cls.__module__.partition(".")[0], cls.__qualname__


def source_instead(thing: Any) -> str | None:
    """Why a table can't be a data source, with the line to write instead; None for other objects.

    Args:
        thing: any object with `__len__` and `__getitem__`.

    >>> source_instead([1, 2]) is None
    True
    """
    if isinstance(instead := getattr(type(thing), "instead_of_source", None), str):
        return instead
    if ("torch", "DataLoader") in library_names(thing):
        return "expected a data source, got a DataLoader of torch; give its dataset"
    if ("pandas", "Series") in library_names(thing):
        return None if _counts_rows(thing.index) else _series_instead(thing)
    return rows_instead(thing)


def rows_instead(thing: Any) -> str | None:
    """As `source_instead`, for an object that is iterated: iterating a Series gives its rows, other tables their
    columns.

    Args:
        thing: any iterable.

    >>> rows_instead([1, 2]) is None
    True
    """
    for name in library_names(thing):
        match name:
            case ("pandas", "DataFrame"):
                numbers = all(getattr(dtype, "kind", "O") in _NUMBERS for dtype in thing.dtypes)
                columns = "lk.ArrayDataSource({name: df[name].to_numpy() for name in df})"
                line = columns if numbers else 'lk.InMemoryDataSource(df.to_dict("records"))'
                return f"expected rows, got a pandas DataFrame, in which df[i] is a column and not row i; write {line}"
            case ("pyarrow", "Table" | "RecordBatch" as kind):
                numbers = all(str(field.type).startswith(_ARROW_NUMBERS) for field in thing.schema)
                values = "to_numpy()" if kind == "Table" else "to_numpy(zero_copy_only=False)"
                columns = f"lk.ArrayDataSource({{name: table[name].{values} for name in table.schema.names}})"
                line = columns if numbers else "lk.InMemoryDataSource(table.to_pylist())"
                return f"expected rows, got a pyarrow {kind}, in which table[i] is a column and not row i; write {line}"
    return None


def _series_instead(series: Any) -> str:
    numbers = getattr(series.dtype, "kind", "O") in _NUMBERS
    line = "lk.ArrayDataSource(series.to_numpy())" if numbers else "lk.InMemoryDataSource(series.tolist())"
    return (
        "expected rows, got a pandas Series, in which series[i] is the value with the label i and not row i; "
        f"write {line}"
    )


def _counts_rows(index: Any) -> bool:
    # With the labels 0, 1, 2, ..., label i is row i.
    labels = np.asarray(index)
    return labels.dtype.kind in "iu" and np.array_equal(labels, np.arange(len(labels)))
