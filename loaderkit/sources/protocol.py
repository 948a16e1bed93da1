"""The protocol of data sources: `len(source)` and `source[record_key]`, and optional ones.

A record_key is a row of the source, from 0 to len(source) - 1. The optional methods and attributes:

* `__getitems__(record_keys: Sequence[int]) -> list`: many records in one call, in the order of the keys.
* `take(record_keys, out=None) -> tree`: many records as columns; one new array (n, ...) for each leaf, written to the
  arrays of `out` where it is given. It is recognised by its name and by `out` as the second parameter.
* `name(record_key) -> str`: a name for a record beside its key, such as its file's, or None. It is shown in errors, the
  quarantine file and `loader.records(step)`, and called only for that, in any process and thread, so it should be
  quick. It is recognised by having one argument.
* `read_ahead: int`: calls in flight that pay, of `__getitems__` or `__getitem__`; a loader has so many in flight where
  the user gave no `ReadOptions(num_threads=...)`. Local sources have 0 or none, remote ones 4.
* `chunk_records: int`: how many consecutive records are read together, about 1 MiB of them; for `ChunkSampler.over`.
* `check_random_reads()`: raises ValueError where single records cost so much that a random order is refused.
* `fingerprint() -> dict`: what a saved state compares, JSON values only; the same data gives the same dict in every
  process and on every machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from loaderkit._base.tree import map_leaves

from .optional import many_reader
from .record_key import short_repr
from .tables import source_instead

_LONGEST_SHOWN = 200  # characters of a path in an error
# These hold the user's own objects, and reading one gives the object, not a copy.
_PLAIN = (list, tuple, np.ndarray)

T_co = TypeVar("T_co", covariant=True)


@runtime_checkable
class RandomAccessDataSource(Protocol[T_co]):
    """A data source: any object with these two methods.

    >>> isinstance(["a list", "is one"], RandomAccessDataSource)
    True
    """

    def __len__(self) -> int: ...

    def __getitem__(self, record_key: int, /) -> T_co: ...


def check_source(source: Any, argument: str = "data_source") -> Any:
    """The source; raises an error for an object that isn't one, and for an empty source.

    Args:
        source: any object. TypeError where it lacks `__len__` or `__getitem__`, or is a path, a mapping of other things
            than columns, a tuple of arrays or a table; ValueError where it has no record.
        argument: the caller's name for it, for the error.

    A dict of arrays of one length is columns, and comes back as an ArrayDataSource.

    >>> check_source([1, 2, 3])
    [1, 2, 3]
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
        from .arrays import ArrayDataSource  # few sources are columns

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
    missing = [name for name in ("__len__", "__getitem__") if not hasattr(type(source), name)]
    if missing:
        raise TypeError(
            f"{argument}: expected an object with {' and '.join(missing)}, got a {kind}; records are read by key, in "
            "any order: write what can only be iterated first, once, by lk.write(generator, 'train.array_record', "
            "format='array_record'), and give lk.ArrayRecordDataSource('train.array_record'); what fits into memory "
            "may be InMemoryDataSource(list(...))"
        )
    instead = source_instead(source)
    if instead is not None:
        raise TypeError(f"{argument}: {instead}")
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


def holds_own_objects(source: Any) -> bool:
    """Whether a source is a list, a tuple or an array: reading it gives the user's own object, not a copy.

    Args:
        source: any data source.

    >>> holds_own_objects([1, 2]), holds_own_objects(range(2))
    (True, False)
    """
    return isinstance(source, _PLAIN)


def read_record(source: Any, record_key: int) -> Any:
    """One record; from a list, tuple or array, which hold the user's own arrays, with read-only views of arrays.

    Args:
        source: any data source.
        record_key: a Python int, as some sources of other libraries take nothing else.

    >>> read_record([np.zeros(2)], 0).flags.writeable
    False
    """
    record = source[record_key]
    return read_only(record) if isinstance(source, _PLAIN) else record


def read_records(source: Any, record_keys: Sequence[int]) -> list[Any]:
    """The records of many keys, in one call where the source has `__getitems__`, else one by one.

    Args:
        source: any data source.
        record_keys: Python ints. ValueError where the source gives another number of records than keys.

    >>> read_records("abc", [2, 0])
    ['c', 'a']
    """
    many = many_reader(source)
    if many is None:
        return [read_record(source, key) for key in record_keys]
    records = list(many(record_keys))
    if len(records) != len(record_keys):
        raise ValueError(
            f"{type(source).__name__}.__getitems__: expected {len(record_keys)} records, one for each key in their "
            f"order, got {len(records)}"
        )
    return records


def read_only(record: Any) -> Any:
    """The record in new containers, with read-only views of its arrays, so that an operation can't change the source.

    Args:
        record: any tree.

    >>> own = {"x": np.zeros(2)}
    >>> read_only(own)["x"].flags.writeable, own["x"].flags.writeable
    (False, True)
    """
    return map_leaves(_locked, record)


def _locked(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray) and leaf.flags.writeable:
        leaf = leaf.view()
        leaf.flags.writeable = False
    return leaf
