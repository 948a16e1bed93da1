"""Rows of a table with the same key as one record."""

from __future__ import annotations

from reprlib import repr as _short
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loaderkit._source.content import content_hash
from loaderkit._source.record_key import check_key
from loaderkit.errors import DataFormatError
from loaderkit.sources.has_card import HasCard
from loaderkit.sources.sliced import sliced

from .tables.columns import column_of, table_columns


class GroupedRowsDataSource(HasCard):
    """The rows of a table that have the same key, as one record: a dict of columns, with the rows in their order.

    The groups are in the order of `keys`, or else in that in which their keys first appear. A column of numbers is an
    array (rows,), another one a list; the key's own column is its one value. Groups differ in length: `lk.PadTo` makes
    their arrays equal.

    Args:
        table: a path of a .csv or .tsv file, a DataFrame, an Arrow table, a dict of arrays, or a data source of dicts;
            it is read into memory. Values of a path are texts (str); CsvDataSource has `types=`.
        by: the name of the key's column. DataFormatError naming the row for a key that is missing (None, NaN).
        keys: the key of each record, (records,) without repeats, such as those of the arrays that `lk.ZipDataSource`
            puts beside it. A key without rows is a record of empty columns; DataFormatError for rows of another key.

    >>> table = {"hid": [7, 3, 7], "x": [0.5, 1.5, 2.5]}
    >>> source = GroupedRowsDataSource(table, "hid")
    >>> len(source), source[0], source.keys.tolist()
    (2, {'hid': np.int64(7), 'x': array([0.5, 2.5])}, [7, 3])
    >>> GroupedRowsDataSource(table, "hid", keys=[3, 5, 7])[1]
    {'hid': np.int64(5), 'x': array([], dtype=float64)}
    """

    def __init__(self, table: Any, by: str, *, keys: ArrayLike | None = None) -> None:
        columns = table_columns(table)
        values = column_of(columns, by, "by")
        self._by = by
        numbers, first = _group_numbers(values, by)
        self.keys: NDArray[Any] = values[first]
        if keys is not None:
            self.keys, numbers = _in_order_of(keys, self.keys, numbers, by)
        # The rows of group g are ends[g] to ends[g + 1] of the columns, which are sorted by group.
        order = np.argsort(numbers, kind="stable")
        lengths = np.bincount(numbers, minlength=len(self.keys))
        self._ends = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        self._columns = {name: column[order] for name, column in columns.items() if name != by}
        self._names = list(columns)

    def __len__(self) -> int:
        return len(self.keys)

    @sliced
    def __getitem__(self, key: int) -> dict[str, Any]:
        begin, end = self._ends[key : key + 2].tolist()
        record: dict[str, Any] = {}
        for name in self._names:
            if name == self._by:
                record[name] = self.keys[key]
            else:
                rows = self._columns[name][begin:end]
                record[name] = rows.tolist() if rows.dtype.hasobject else rows.copy()
        return record

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Rows of each group, (records,) int64: their maximum is a size for `lk.PadTo`."""
        return np.diff(self._ends)

    def name(self, record_key: SupportsIndex) -> str:
        """The key's column and value, such as "hid=7".

        Args:
            record_key: int in [0, len(source)); IndexError otherwise.
        """
        return f"{self._by}={self.keys[check_key(record_key, len(self), self)]}"

    def fingerprint(self) -> dict[str, Any]:
        """A hash of the keys, of the groups' lengths and of the columns."""
        content = content_hash([{"keys": self.keys, "ends": self._ends, "columns": self._columns}])
        return {"type": "GroupedRowsDataSource", "records": len(self), "by": self._by, "content": content}

    def __repr__(self) -> str:
        return f"GroupedRowsDataSource(by={self._by!r}, records={len(self)}, rows={int(self._ends[-1])})"


def _group_numbers(values: NDArray[Any], by: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each row's group, in the order of first appearance, and each group's first row."""
    if values.dtype.hasobject:
        known: dict[Any, int] = {}
        found = np.empty(len(values), np.int64)
        for row, value in enumerate(values.tolist()):
            try:
                missing = bool(value is None or value != value)
                found[row] = known.setdefault(value, len(known))
            except TypeError as error:
                raise DataFormatError(
                    f"table, row {row}: expected a text or a number in {by}, got {_short(value)}"
                ) from error
            if missing:
                raise _missing(row, by, value)
        return found, np.unique(found, return_index=True)[1]
    absent = np.isnat(values) if values.dtype.kind in "mM" else values != values
    if absent.any():
        row = int(absent.argmax())
        raise _missing(row, by, values[row])
    _, first, numbers = np.unique(values, return_index=True, return_inverse=True)
    by_appearance = np.argsort(first)
    rank = np.empty_like(by_appearance)
    rank[by_appearance] = np.arange(len(first))
    return rank[numbers], first[by_appearance]


def _in_order_of(
    keys: ArrayLike, groups: NDArray[Any], numbers: NDArray[np.int64], by: str
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The keys as the user ordered them, and each row's place among them."""
    if np.ndim(keys) != 1 or not np.size(keys):
        raise ValueError(f"keys: expected a key of each record, (records,), got {_short(keys)}")
    ordered = table_columns({by: keys})[by]
    places = {key: place for place, key in enumerate(ordered.tolist())}
    if len(places) < len(ordered):
        repeated = next(key for place, key in enumerate(ordered.tolist()) if places[key] != place)
        raise ValueError(f"keys: expected each key once, got {_short(repeated)} twice or more")
    found = np.array([places.get(key, -1) for key in groups.tolist()], np.int64)[numbers]
    if (found < 0).any():
        row = int((found < 0).argmax())
        got = _short(groups.tolist()[numbers[row]])
        raise DataFormatError(
            f"table, row {row}: expected one of `keys` in {by}, got {got}; leave this row out of the table, or "
            "add its key"
        )
    return ordered, found


def _missing(row: int, by: str, value: Any) -> DataFormatError:
    return DataFormatError(
        f"table, row {row}: expected a key in {by}, got {value}; leave this row out of the table"
    )
