"""What may be given as a data source: the errors of other objects say what to write for them."""

import os
from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Any

import numpy as np

from loaderkit._source.record_key import short_repr
from loaderkit._source.tables import source_instead

from .arrays import ArrayDataSource

_LONGEST_SHOWN = 200  # characters of a path in an error


def check_source(source: Any, argument: str = "data_source") -> Any:
    """The source; raises an error for an object that isn't one, and for an empty source.

    Args:
        source: any object. TypeError where it lacks `__len__` or `__getitem__`, or is a path, a mapping of other things
            than columns, a tuple of arrays or a table; ValueError where it has no record.
        argument: the caller's name for it, for the error.

    A dict of arrays of one length is columns, and comes back as an ArrayDataSource.

    >>> check_source([1, 2, 3])
    [1, 2, 3]
    >>> import numpy as np
    >>> type(check_source({"x": np.arange(3), "y": np.ones((3, 2))})).__name__
    'ArrayDataSource'
    >>> check_source(iter([1, 2, 3]))
    Traceback (most recent call last):
        ...
    TypeError: data_source: expected an object with __len__ and __getitem__, got a list_iterator; records are read by
    key, in any order...
    """
    source = require_source(source, argument=argument)
    if len(source) == 0:
        raise ValueError(f"{argument}: expected one record or more, got {short_repr(source)}, which is empty")
    return source


def require_source(source: Any, *, argument: str) -> Any:
    """As `require_methods`; also refuses a text, most often a file's name, and a pair of a source and its sampler.

    >>> require_source("train.jsonl", argument="sources['web']")
    Traceback (most recent call last):
        ...
    TypeError: sources['web']: expected a data source, got 'train.jsonl', which would be read character by character...
    """
    if isinstance(source, str | bytes):
        raise TypeError(_why_no_path(source, argument))
    if isinstance(source, tuple) and len(source) == 2 and hasattr(type(source[1]), "record_keys"):
        raise TypeError(
            f"{argument}: expected a data source, got a pair of a source and a {type(source[1]).__name__}; write "
            f"source, sampler = ... and give source; sampler is for sampler= of lk.DataLoader"
        )
    return require_methods(source, argument=argument)


def require_methods(source: Any, *, argument: str) -> Any:
    """The source; raises TypeError for an object that isn't one. An empty source passes.

    Args:
        source: any object. TypeError where it lacks `__len__` or `__getitem__`, is a path, a tuple of arrays of one
            length or a mapping of other things than arrays of one length, or is a table in which `[i]` is a column.
        argument: the caller's name for it, for the error.

    A dict of arrays of one length is columns, and comes back as an ArrayDataSource. A list is records, always.

    >>> require_methods([], argument="source")
    []
    >>> import numpy as np
    >>> require_methods((np.zeros((3, 2)), np.ones(3)), argument="source")
    Traceback (most recent call last):
        ...
    TypeError: source: expected a data source, got a tuple of 2 arrays of 3 rows, columns or records;
    write lk.ArrayDataSource({'x': t[0], 'y': t[1]}) for 3 records, list(t) for 2
    """
    kind = type(source).__name__
    if isinstance(source, PathLike):
        raise TypeError(_why_no_path(source, argument))
    if isinstance(source, type):
        raise TypeError(
            f"{argument}: expected an object, got the class {source.__name__}; give {source.__name__}(...)"
        )
    if isinstance(source, tuple) and len(source) > 1 and (rows := _rows_of_all(source)) is not None:
        raise TypeError(
            f"{argument}: expected a data source, got a tuple of {len(source)} arrays of {rows} rows, columns or "
            f"records; write lk.ArrayDataSource({{'x': t[0], 'y': t[1]}}) for {rows} records, list(t) for {len(source)}"
        )
    if isinstance(source, Mapping) and _rows_of_all(source.values()) is not None:
        return ArrayDataSource(source)
    if isinstance(source, Mapping) and source and all(map(_rows_of_all, [[v] for v in source.values()])):
        found = {name: v.shape[0] for name, v in source.items()}
        raise TypeError(
            f"{argument}: expected columns of one length, got arrays with these numbers of rows: {found}"
        )
    if isinstance(source, Mapping):
        names = ", ".join(repr(name) for name in list(source)[:5])
        raise TypeError(
            f"{argument}: expected records with the keys 0, 1, 2, ..., got a {kind} with the keys {names}; choose one "
            "of its values (a split), or give arrays of one length, which are columns"
        )
    if (instead := source_instead(source)) is not None:
        raise TypeError(f"{argument}: {instead}")
    if isinstance(source, int | np.integer):
        raise TypeError(f"{argument}: expected a data source, got the int {source}; write range({source})")
    missing = [name for name in ("__len__", "__getitem__") if not hasattr(type(source), name)]
    if missing:
        raise TypeError(
            f"{argument}: expected an object with {' and '.join(missing)}, got a {kind}; records are read by key, in "
            "any order: write what can only be iterated first, once, by lk.write(generator, 'train.array_record', "
            "format='array_record'), and give lk.ArrayRecordDataSource('train.array_record'); what fits into memory "
            "may be InMemoryDataSource(list(...))"
        )
    return source


def _rows_of_all(values: Iterable[Any]) -> int | None:
    """The rows that all arrays have; None where one isn't an array, of any library, or they differ."""
    rows = {v.shape[0] if hasattr(v, "dtype") and len(getattr(v, "shape", ())) else None for v in values}
    return rows.pop() if len(rows) == 1 else None


def _why_no_path(source: str | bytes | PathLike[Any], argument: str) -> str:
    path = os.fsdecode(source)
    problem = f"{argument}: expected a data source, got the path {path!r:.80}"
    if isinstance(source, str | bytes):
        problem = f"{argument}: expected a data source, got {source!r:.80}, which would be read character by character"
    return f"{problem}; for files and data sets write lk.open({'path' if len(path) > _LONGEST_SHOWN else repr(path)})"
