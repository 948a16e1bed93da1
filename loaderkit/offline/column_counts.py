"""`lk.offline.column_stats`: what the values of each column are like, in one pass: for features, and to look at.

A DataLoader gives the records in order, and their columns are folded here, in order: the result is the same, bit for
bit, for any number of workers.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import numpy as np

from loaderkit._base.numbers import at_least
from loaderkit._base.structure import named_children
from loaderkit._base.system.progress_bar import progress_bar
from loaderkit._loader.one_pass import one_pass
from loaderkit._order.mixing import fold
from loaderkit.sources.checked import check_source
from loaderkit.transforms.base import Batch
from loaderkit.transforms.leaf import Place, leaf_at, name_of

BATCH = 256  # records of an element of the loader
# Of a column, kept for exact quantiles; beyond it a sample, chosen by a hash of each place.
MOST_VALUES = 1 << 20
MOST_TERMS = 1 << 20  # distinct words of a column


def column_stats(
    source: Any,
    columns: Sequence[Place] | None = None,
    *,
    quantiles: int = 4,
    vocabulary: int = 0,
    worker_count: int | None = 0,
    worker_kind: str = "process",
) -> dict[str, Any]:
    """What the values of each column of a source of dicts are like, as JSON values.

    Of numbers: minimum, maximum, mean, std (of the population) and quantiles; of arrays the same over all of their
    elements, and mean and std for each entry of the last axis (the channels of a picture); of words and bytes: their
    lengths. NaN and None count as missing; infinite numbers, and arrays with one or with NaN, as `not_finite`.
    `features.Numeric.from_stats` and the like take the result.

    Args:
        source: any data source. The columns are the values of dicts, tuples ("0", "1" and so on), named tuples and
            objects with fields; of other records it is "record".
        columns: their names, or the places of leaves: a position, or a path such as ("inputs", 0), of which the column
            is "inputs.0". All of each record if not given.
        quantiles: in how many parts of equal size they cut the values, 2 or more; the least and the greatest value are
            the first and the last. Exact up to 2**20 values. Beyond that of a sample of at least 2**19 values, chosen
            by a hash of their places: the share of values below a quantile is then off by 0.003 or less, but for once
            in 10,000.
        vocabulary: how many of the most frequent words or integers are counted, 0 for none. ValueError where a column
            has more than 2**20 distinct ones.
        worker_count, worker_kind: as DataLoader takes them.

    >>> import loaderkit as lk
    >>> found = column_stats(
    ...     [{"age": 20, "pet": "cat"}, {"age": 40, "pet": "dog"}], quantiles=2, vocabulary=2
    ... )
    >>> found["columns"]["age"]["mean"], found["columns"]["age"]["std"], found["columns"]["pet"]["vocabulary"]
    (30.0, 10.0, [['cat', 1], ['dog', 1]])
    """
    source = check_source(source, "source")
    quantiles = at_least("quantiles", quantiles, 2)
    vocabulary = at_least("vocabulary", vocabulary, 0)
    if isinstance(columns, str):
        raise TypeError(f"columns: expected a list of names, got {columns!r}; write [{columns!r}]")
    batch = Batch(BATCH, batch_fn=list)
    loader = one_pass(source, [batch], worker_count=worker_count, worker_kind=worker_kind)
    found: dict[str, ColumnStats] = {}
    records = 0
    with loader, closing(iter(loader)) as batches, progress_bar("records", len(source)) as advance:
        for batch in batches:
            for record in batch:
                fields = named_children(record)
                if columns is not None:
                    fields = {name_of(key): _value(record, fields, key, records == 0) for key in columns}
                for name, value in fields.items():
                    if name not in found:
                        found[name] = ColumnStats(name, vocabulary, before=records)
                    found[name].add(value)
                records += 1
                for name in found.keys() - fields if len(found) > len(fields) else ():
                    found[name].add(None)
            advance(len(batch))
    return {"records": records, "columns": {name: column.result(quantiles) for name, column in found.items()}}


def _value(record: Any, fields: dict[str, Any], key: Place, first: bool) -> Any:
    """The value of a column; None in a record without it, but in the first one an error."""
    if key in fields:
        return fields[key]
    try:
        return leaf_at(record, key)
    except (KeyError, IndexError, TypeError):
        if first:
            known = ", ".join(map(repr, fields))
            raise ValueError(f"columns: expected some of {known}, got {key!r}") from None
    return None


class ColumnStats:
    """Folds the values of one column.

    Args:
        name: of the column, for errors.
        vocabulary: how many words are reported, 0 to count none.
        before: records that came without the column.
    """

    def __init__(self, name: str, vocabulary: int, before: int = 0) -> None:
        self._name, self._vocabulary = name, vocabulary
        self._count, self._missing = 0, before
        self._kinds: Counter[str] = Counter()
        self._numbers, self._lengths, self._channels = Moments(), Moments(), Moments()
        self._values: list[tuple[int, float]] = []  # each with the hash of its place
        self._mask, self._seen = 0, 0  # a value stays where no bit of the mask is in its hash
        self._not_finite = 0
        self._least: int | None = None
        self._most: int | None = None
        self._terms: Counter[Any] = Counter()
        self._shapes: set[tuple[int, ...]] = set()  # the first few
        self._last_axes: set[int] = set()  # their lengths, of all arrays; two are enough

    def add(self, value: Any) -> None:
        """Takes the value of the next record; None and NaN for a missing one."""
        if value is None or (isinstance(value, float | np.floating) and math.isnan(value)):
            self._missing += 1
            return
        self._count += 1
        if isinstance(value, str | bytes):
            self._kinds["text" if isinstance(value, str) else "bytes"] += 1
            self._lengths.add(np.array([len(value)], np.float64))
            self._count_term(value.item() if isinstance(value, np.generic) else value)
            return
        try:
            array = np.asarray(value)
        except ValueError:  # of a list, of values of different shapes
            array = np.empty(0, object)
        if array.dtype.kind not in "biuf":
            self._kinds["other"] += 1
            return
        numbers = array.astype(np.float64)
        if not np.isfinite(numbers).all():
            self._not_finite += 1
            if array.ndim == 0:
                return
            numbers = np.where(np.isfinite(numbers), numbers, np.nan)
        if array.ndim == 0:
            self._kinds["integer" if array.dtype.kind in "biu" else "number"] += 1
            self._keep(float(numbers))
            if array.dtype.kind in "biu":
                self._count_integer(int(array))
        else:
            self._kinds["array"] += 1
            if len(self._shapes) <= 8:
                self._shapes.add(array.shape)
            if len(self._last_axes) <= 1:
                self._last_axes.add(array.shape[-1])
            if array.shape[-1] and len(self._last_axes) == 1:
                rows = numbers.reshape(-1, array.shape[-1])
                self._channels.add(rows[~np.isnan(rows).any(axis=1)])
        flat = numbers.reshape(-1)
        self._numbers.add(flat[~np.isnan(flat)])

    def _keep(self, value: float) -> None:
        drawn = fold(0, self._seen)
        self._seen += 1
        if not drawn & self._mask:
            self._values.append((drawn, value))
            while len(self._values) > MOST_VALUES:
                self._mask = 2 * self._mask + 1
                self._values = [(drawn, value) for drawn, value in self._values if not drawn & self._mask]

    def _count_integer(self, value: int) -> None:
        self._least = value if self._least is None else min(self._least, value)
        self._most = value if self._most is None else max(self._most, value)
        self._count_term(value)

    def _count_term(self, term: Any) -> None:
        if not self._vocabulary:
            return
        self._terms[term] += 1
        if len(self._terms) > MOST_TERMS:
            raise ValueError(
                f"vocabulary: expected columns of at most {MOST_TERMS:,} distinct values, got more in {self._name!r}; "
                "name other columns, or use features.Hashed for it"
            )

    def result(self, quantiles: int) -> dict[str, Any]:
        """What was found, as JSON values."""
        kind = self._kinds.most_common(1)[0][0] if self._kinds else "none"
        made: dict[str, Any] = {"kind": kind, "count": self._count, "missing": self._missing}
        if len(self._kinds) > 1:
            made["kinds"] = dict(sorted(self._kinds.items()))
        if self._not_finite:
            made["not_finite"] = self._not_finite
        if self._numbers.count:
            made.update(self._numbers.result())
        if kind == "integer" and len(self._kinds) == 1:
            made["min"], made["max"] = self._least, self._most  # exact beyond 2**53
        if self._values:
            points = np.quantile(
                np.array([value for _, value in self._values]), np.arange(quantiles + 1) / quantiles
            )
            made["quantiles"] = [made["min"], *points[1:-1].tolist(), made["max"]]
        if self._lengths.count:
            made["length"] = self._lengths.result()
        if self._shapes:
            made["shapes"] = sorted(map(list, self._shapes))
            if len(self._last_axes) == 1 and self._channels.count:
                channels = self._channels.result()
                made["channels"] = {"mean": channels["mean"], "std": channels["std"]}
        if self._terms:
            common = sorted(self._terms.items(), key=lambda item: (-item[1], str(item[0])))
            made["vocabulary"] = [
                [term.decode(errors="replace") if isinstance(term, bytes) else term, count]
                for term, count in common[: self._vocabulary]
            ]
        return made


class Moments:
    """Count, minimum, maximum, mean and variance of numbers, or of each column of rows, by Chan's merge.

    Source: Chan, Golub, LeVeque, Updating formulae and a pairwise algorithm for computing sample variances, 1979.

    >>> moments = Moments()
    >>> moments.add(np.array([1.0, 2.0]))
    >>> moments.add(np.array([6.0]))
    >>> moments.result()["mean"], round(moments.result()["std"] ** 2, 6)
    (3.0, 4.666667)
    """

    def __init__(self) -> None:
        self.count = 0
        self._mean: Any = 0.0
        self._squares: Any = 0.0
        self._least: Any = math.inf
        self._most: Any = -math.inf

    def add(self, rows: np.ndarray) -> None:
        """Takes (n,) numbers, or (n, channels); NaN isn't left out."""
        count = len(rows)
        if not count:
            return
        mean = rows.mean(axis=0)
        squares = ((rows - mean) ** 2).sum(axis=0)
        total = self.count + count
        apart = mean - self._mean
        self._mean = self._mean + apart * (count / total)
        self._squares = self._squares + squares + apart**2 * (self.count * count / total)
        self._least = np.minimum(self._least, rows.min(axis=0))
        self._most = np.maximum(self._most, rows.max(axis=0))
        self.count = total

    def result(self) -> dict[str, Any]:
        """min, max, mean and std, as JSON values."""
        std = np.sqrt(self._squares / self.count)
        named = {"min": self._least, "max": self._most, "mean": self._mean, "std": std}
        return {name: np.asarray(value).tolist() for name, value in named.items()}
