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
* `documents`, `rows_excluded(documents)`, `excluding(documents)`: of records that are made of documents of another
  source, some of which may be left out; `sources/exclusion.py` says more.
* `origins(record_keys)`, `records_with(documents, corpus)`, `corpora()`: which documents records are made of, for
  `loader.documents(step)`; `_source/origins.py` says what they give.
* `fingerprint() -> dict`: what a saved state compares, JSON values only; the same data gives the same dict in every
  process and on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from loaderkit._base.tree import map_leaves

from .optional import many_reader

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
