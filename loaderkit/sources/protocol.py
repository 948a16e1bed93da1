"""What every data source is: `len(source)` and `source[record_key]`, and what some can do besides.

A record_key is a row of the source, from 0 to len(source) - 1. The optional parts:

* `__getitems__(record_keys: Sequence[int]) -> list`: many records in one call, in the order asked for.
* `take(record_keys, out=None) -> tree`: many records as columns; one array (n, ...) for each leaf, written to the
  arrays of `out` where it is given. It is known by its name and by `out` as the second parameter.
* `name(record_key) -> str`: what to call a record beside its key, such as its file's name, or None; shown in errors, in
  the quarantine file and by `loader.records(step)`, and asked for only then, in any process and thread. It should be
  quick. It is known by its one argument.
* `fingerprint() -> dict`: what a saved state compares, JSON values only; the same data gives the same dict in
  every process and on every machine.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from operator import index
from os import PathLike
from typing import Any, Protocol, SupportsIndex, TypeVar, cast, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loaderkit._base.tree import map_leaves

from .optional import many_reader
from .tables import source_instead

_LONGEST_PATH = 4096  # characters, as on Linux: what is longer is text
# What holds the user's own objects and hands out these, not copies.
_PLAIN = (list, tuple, np.ndarray)

T_co = TypeVar("T_co", covariant=True)


@runtime_checkable
class RandomAccessDataSource(Protocol[T_co]):
    """Where records come from; any object with these two methods is one.

    >>> isinstance(["a list", "is one"], RandomAccessDataSource)
    True
    """

    def __len__(self) -> int: ...

    def __getitem__(self, record_key: int, /) -> T_co: ...


def check_source(source: Any) -> None:
    """Refuses what isn't a data source, and an empty one.

    Args:
        source: any object. TypeError where it lacks `__len__` or `__getitem__`, ValueError where it has no
            record.

    >>> check_source([1, 2, 3])
    >>> check_source(iter([1, 2, 3]))
    Traceback (most recent call last):
        ...
    TypeError: data_source: a list_iterator has no __len__ and no __getitem__; records are read by key, in any
    order...
    """
    if isinstance(source, str | bytes):
        raise TypeError(_why_no_path(source, "data_source"))
    require_methods(source, argument="data_source")
    if len(source) == 0:
        raise ValueError(f"data_source: {short_repr(source)} is empty; there is no record to read")


def require_methods(source: Any, *, argument: str) -> None:
    """Refuses what isn't a data source; an empty one is.

    Args:
        source: any object. TypeError where it lacks `__len__` or `__getitem__`, has names for keys, or is a table whose
            `[i]` is a column.
        argument: what the caller calls it, for the error.

    >>> require_methods([], argument="source")
    """
    kind = type(source).__name__
    if isinstance(source, PathLike):
        raise TypeError(_why_no_path(source, argument))
    if isinstance(source, type):
        raise TypeError(
            f"{argument}: the class {source.__name__} came; give an object, {source.__name__}(...)"
        )
    if isinstance(source, Mapping):
        names = ", ".join(repr(name) for name in list(source)[:5])
        raise TypeError(
            f"{argument}: a {kind} with the keys {names} came, and records have numbers; choose one of its "
            "values (a split), or use ArrayDataSource for a dict of columns"
        )
    missing = [name for name in ("__len__", "__getitem__") if not hasattr(type(source), name)]
    if missing:
        raise TypeError(
            f"{argument}: a {kind} has no {' and no '.join(missing)}; records are read by key, in any order: "
            "a data set that can only be iterated has to be written to files first, or put in memory with "
            "InMemoryDataSource(list(...))"
        )
    instead = source_instead(source)
    if instead is not None:
        raise TypeError(f"{argument}: {instead}")


def _why_no_path(source: str | bytes | PathLike[Any], argument: str) -> str:
    path = os.fsdecode(source)
    came = f"the path {path!r:.80} came"
    if isinstance(source, str | bytes):
        came = f"{source!r:.80} came, which would be read character by character"
    if len(path) > _LONGEST_PATH:
        return f"{argument}: {came}; for files write lk.ArrayRecordDataSource(paths)"
    if os.path.isdir(path):
        return (
            f"{argument}: {came}; for its files write lk.ArrayRecordDataSource({os.path.join(path, '*')!r})"
        )
    return f"{argument}: {came}; for files write lk.ArrayRecordDataSource({path!r})"


def short_repr(source: Any) -> str:
    """The repr where it is short, else the type and length; never the data of a list or an array.

    Args:
        source: any data source.

    >>> short_repr([1, 2, 3]), short_repr(range(3))
    ('a list of 3 records', 'range(0, 3)')
    """
    text = "" if isinstance(source, (*_PLAIN, str, bytes)) else repr(source)
    return text if text and len(text) <= 200 else f"a {type(source).__name__} of {len(source)} records"


def check_key(record_key: SupportsIndex, num_records: int, source: Any) -> int:
    """The key as an int that is in range.

    Args:
        record_key: an int, or a numpy integer.
        num_records: the length of the source.
        source: named in the IndexError for a key below 0, or not below num_records.

    >>> check_key(np.int64(2), 3, range(3))
    2
    """
    key = index(record_key)
    if not 0 <= key < num_records:
        raise IndexError(
            f"record_key {key} is out of range: {short_repr(source)} has {num_records} records, with keys "
            f"from 0 to {num_records - 1}"
        )
    return key


def check_keys(record_keys: ArrayLike, num_records: int, source: Any) -> NDArray[np.int64]:
    """Many keys as an int64 array (n,), all of them in range.

    Args:
        record_keys: integers, a sequence or an array (n,).
        num_records: the length of the source.
        source: named in the IndexError for the first bad key.

    >>> check_keys([2, 0], 3, range(3))
    array([2, 0])
    """
    keys = np.asarray(record_keys)
    if keys.size == 0:
        return np.empty(0, np.int64)
    if keys.ndim != 1:
        raise TypeError(f"record_keys: integers in one dimension are needed, shape {keys.shape} came")
    if keys.dtype.kind not in "iu":
        # What isn't an integer, or is too large for numpy's, is found by the check for one.
        keys = np.array([check_key(key, num_records, source) for key in cast("Iterable[int]", record_keys)])
    if keys.dtype.kind == "i":
        keys = keys.astype(np.int64, copy=False)
        bad = keys.view(np.uint64) >= num_records  # a key below 0 is a very large one
    else:
        bad = keys >= num_records
    if bad.any():
        check_key(int(keys[bad.argmax()]), num_records, source)
    return keys.astype(np.int64, copy=False)


def read_record(source: Any, record_key: int) -> Any:
    """One record; of a list, tuple or array, which hold the user's own arrays, it is a read-only view.

    Args:
        source: any data source.
        record_key: a Python int; some sources of others take nothing else.

    >>> read_record([np.zeros(2)], 0).flags.writeable
    False
    """
    record = source[record_key]
    return read_only(record) if isinstance(source, _PLAIN) else record


def read_records(source: Any, record_keys: Sequence[int]) -> list[Any]:
    """The records of these keys, in one call where the source has `__getitems__`, else one by one.

    Args:
        source: any data source.
        record_keys: Python ints. ValueError where the source gives another number of records.

    >>> read_records("abc", [2, 0])
    ['c', 'a']
    """
    many = many_reader(source)
    if many is None:
        return [read_record(source, key) for key in record_keys]
    records = list(many(record_keys))
    if len(records) != len(record_keys):
        raise ValueError(
            f"{type(source).__name__}.__getitems__ gave {len(records)} records for {len(record_keys)} keys; "
            "it has to give one for each, in their order"
        )
    return records


def read_only(record: Any) -> Any:
    """The record in new containers and with read-only views of its arrays, so that writing can't reach the source.

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
