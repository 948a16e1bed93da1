"""Several sources, one after the other."""

from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loaderkit._base.structure import Structure
from loaderkit._base.tree import flatten, unflatten

from .fingerprint import fingerprint_of
from .naming import namer_of
from .optional import (
    ColumnsDifferError,
    advised_calls,
    advised_chunk,
    column_reader,
    lacking,
    many_reader,
)
from .protocol import check_key, check_keys, read_record, read_records, require_methods, short_repr


class ConcatDataSource:
    """The records of the first source, then those of the second, and so on.

    It has `__getitems__`, `take` and `chunk_records` where all of its sources that aren't empty have it.

    Args:
        sources: one data source or more, of any kinds. ValueError for none, TypeError naming the place of an object
            that isn't a data source.

    >>> source = ConcatDataSource([range(3), "ab"])
    >>> len(source), source[2], source[3]
    (5, 2, 'a')
    """

    def __init__(self, sources: Sequence[Any]) -> None:
        self._sources = tuple(sources)
        if not self._sources:
            raise ValueError("sources: expected one data source or more, got an empty sequence")
        for place, source in enumerate(self._sources):
            require_methods(source, argument=f"sources[{place}]")
        # (sources,) int64: ends[i] is the first key past source i
        self._ends = np.cumsum([len(source) for source in self._sources], dtype=np.int64)
        # By optional method, whether all have it: asked once, as there may be thousands of sources.
        self._has: dict[str, bool] = {}

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, record_key: SupportsIndex) -> Any:
        key = check_key(record_key, len(self), self)
        place = int(np.searchsorted(self._ends, key, side="right"))
        source = self._sources[place]
        return read_record(source, key - int(self._ends[place]) + len(source))

    def _all_have(self, find: Callable[[Any], Any]) -> bool:
        return all(find(source) is not None for source in self._sources if len(source))

    def _offer(self, name: str, offered: Callable[[], bool]) -> None:
        if name not in self._has:
            self._has[name] = offered()
        if not self._has[name]:
            raise lacking(self, name, needs=f"sources that all have `{name}`")

    @property
    def __getitems__(self) -> Callable[[ArrayLike], list[Any]]:
        """Many records, one call for each source; only where all have `__getitems__`, else an AttributeError."""
        self._offer("__getitems__", lambda: self._all_have(many_reader))
        return self._read_many

    def _read_many(self, record_keys: ArrayLike) -> list[Any]:
        keys = check_keys(record_keys, len(self), self)
        records: list[Any] = [None] * len(keys)
        for source, rows, theirs in self._shares(keys):
            for row, record in zip(rows.tolist(), read_records(source, theirs.tolist())):
                records[row] = record
        return records

    def _shares(self, keys: NDArray[np.int64]) -> list[tuple[Any, NDArray[np.intp], NDArray[np.int64]]]:
        """The sources that have the records, the rows of each, and their keys there; in the order of first rows."""
        places = np.searchsorted(self._ends, keys, side="right")
        found, first = np.unique(places, return_index=True)
        shares = []
        for place in found[np.argsort(first)].tolist():
            source, rows = self._sources[place], np.flatnonzero(places == place)
            shares.append((source, rows, keys[rows] - self._ends[place] + len(source)))
        return shares

    @property
    def take(self) -> Callable[..., Any]:
        """Many records as columns; only where all have `take` with like columns, else an AttributeError.

        One record of each source is read, once, to see whether dtypes, shapes and the order of keys are the same.

        Args:
            record_keys: integers (n,). ColumnsDifferError where the columns of their sources differ nevertheless.
            out: for each leaf, in the order of the tree, an array (n, ...) to be filled.
        """
        self._offer("take", lambda: self._all_have(column_reader) and self._alike())
        return self._take

    def _alike(self) -> bool:
        first: tuple[Structure, list[Any]] | None = None
        for source in self._sources:
            if not len(source):
                continue
            try:
                leaves, structure = flatten(self._columns_of(source, np.zeros(1, np.int64), None))
                forms = [(leaf.dtype, leaf.shape[1:]) for leaf in leaves]
            except Exception:  # noqa: BLE001 - a bad record: it is said where it is read by itself
                return False
            first = first or (structure, forms)
            if not first[0].same_order(structure) or first[1] != forms:
                return False
        return first is not None

    def _take(self, record_keys: ArrayLike, out: list[NDArray[Any]] | None = None) -> Any:
        keys = check_keys(record_keys, len(self), self)
        if not len(keys):
            return self._columns_of(self._sources[int(np.argmax(self._ends > 0))], keys, out)
        (source, rows, theirs), *others = self._shares(keys)
        if not others:
            return self._columns_of(source, theirs, out)
        columns = self._columns_of(source, theirs, None)
        leaves, structure = flatten(columns)
        if out is None:
            out = [np.empty((len(keys), *leaf.shape[1:]), leaf.dtype) for leaf in leaves]
        _fill(out, rows, leaves)
        for source, rows, theirs in others:
            leaves, other = flatten(self._columns_of(source, theirs, None))
            if not other.same_order(structure):
                raise ColumnsDifferError(f"take: expected records of the form {structure}, got {other}")
            _fill(out, rows, leaves)
        return unflatten(structure, out)

    @staticmethod
    def _columns_of(source: Any, keys: NDArray[np.int64], out: list[NDArray[Any]] | None) -> Any:
        take = column_reader(source)
        assert take is not None
        return take(keys) if out is None else take(keys, out=out)

    @property
    def read_ahead(self) -> int:
        """Calls in flight that pay: the most that one of the sources says, 0 where none does."""
        return max(advised_calls(source) for source in self._sources)

    @property
    def chunk_records(self) -> int:
        """Consecutive records that are read together, in the mean; only where all have it, else an AttributeError."""
        self._offer("chunk_records", lambda: self._all_have(advised_chunk))
        chunks = sum(len(source) / (advised_chunk(source) or 1) for source in self._sources)
        return max(1, round(len(self) / max(chunks, 1)))

    def name(self, record_key: SupportsIndex) -> str | None:
        """The name that the record's own source gives it, None where it gives none.

        Args:
            record_key: int in [0, len(source)); IndexError otherwise.
        """
        key = check_key(record_key, len(self), self)
        place = int(np.searchsorted(self._ends, key, side="right"))
        source = self._sources[place]
        return namer_of(source)(key - int(self._ends[place]) + len(source))

    def fingerprint(self) -> dict[str, Any]:
        """The fingerprints of the sources, in order."""
        return {
            "type": "ConcatDataSource",
            "records": len(self),
            "sources": [fingerprint_of(source) for source in self._sources],
        }

    def __repr__(self) -> str:
        names = [short_repr(source) for source in self._sources[:3]]
        more = len(self._sources) - len(names)
        return f"ConcatDataSource([{', '.join(names)}{f', and {more} more' if more else ''}])"


def _fill(out: list[NDArray[Any]], rows: NDArray[np.intp], leaves: list[Any]) -> None:
    for place, leaf in zip(out, leaves, strict=True):
        if (place.dtype, place.shape[1:]) != (leaf.dtype, leaf.shape[1:]):
            raise ColumnsDifferError(
                f"take: expected a column of {place.dtype}{list(place.shape[1:])}, "
                f"got {leaf.dtype}{list(leaf.shape[1:])}"
            )
        place[rows] = leaf
