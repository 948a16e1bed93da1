"""Numbers as the ids of the intervals that they are in."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from reprlib import repr as _short
from typing import Any, Self

import numpy as np

from loaderkit._base.numbers import number, true_or_false
from loaderkit.transforms.leaf import Place

from .column_map import ColumnMap, id_dtype, numbers_at, optional_number
from .stats_file import StatsFile, column_stats


@dataclass(frozen=True)
class Bucketized(ColumnMap):
    """The bucket of each number: id i for boundaries[i-1] <= x < boundaries[i], as np.digitize and Keras have it.

    Args:
        key, output: of the leaf, and of the ids where the leaf stays.
        boundaries: numbers that increase, one or more; b of them make b + 1 buckets.
        right: True takes the right edge into a bucket: boundaries[i-1] < x <= boundaries[i].
        default: takes the place of NaN, and of None in a single record; without it they are a ValueError.
        dtype: of the ids, a signed integer type.

    >>> Bucketized("age", [18, 65]).map({"age": np.array([17.5, 18, 64, 65])})
    {'age': array([0, 1, 1, 2], dtype=int32)}
    """

    boundaries: Sequence[float] | np.ndarray
    right: bool = field(default=False, kw_only=True)
    default: float | None = field(default=None, kw_only=True)
    dtype: Any = field(default="int32", kw_only=True)
    _edges: np.ndarray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.boundaries, list | tuple | np.ndarray) or not len(self.boundaries):
            raise TypeError(f"boundaries: expected a list of numbers, got {_short(self.boundaries)}")
        given = [each.item() if isinstance(each, np.generic) else each for each in self.boundaries]
        edges = np.array([number("boundaries", each) for each in given])
        if not np.isfinite(edges).all() or not (np.diff(edges) > 0).all():
            raise ValueError(
                f"boundaries: expected finite numbers that increase, got {_short(self.boundaries)}"
            )
        true_or_false("right", self.right)
        self._set(boundaries=tuple(given), default=optional_number("default", self.default), _edges=edges)
        self._set(dtype=id_dtype(self.dtype, self.num_buckets))

    @property
    def num_buckets(self) -> int:
        """How many ids there are."""
        return len(self.boundaries) + 1

    @classmethod
    def from_stats(
        cls, stats: StatsFile, key: Place, *, num_buckets: int | None = None, **others: Any
    ) -> Self:
        """With the quantiles that `loaderkit inspect --values` found as boundaries; equal ones once.

        Args:
            stats: the file, or what lk.offline.column_stats gives.
            num_buckets: as many buckets with like numbers of records, of the quantiles that there are; None for all.
            key, others: as Bucketized takes them.

        >>> stats = {"columns": {"age": {"kind": "number", "quantiles": [1, 20, 35, 50, 91]}}}
        >>> Bucketized.from_stats(stats, "age").boundaries
        (20, 35, 50)
        >>> Bucketized.from_stats(stats, "age", num_buckets=2).boundaries
        (35,)
        """
        quantiles = column_stats(stats, key, "quantiles")["quantiles"]
        parts = len(quantiles) - 1
        asked = parts if num_buckets is None else num_buckets
        if not 2 <= asked <= parts:
            raise ValueError(
                f"num_buckets: expected 2 to {parts}, as the stats of {key!r} have {parts + 1} quantiles, got "
                f"{_short(asked)}; make them with --quantiles {_short(asked)}"
            )
        inner = [quantiles[round(part * parts / asked)] for part in range(1, asked)]
        return cls(key, sorted({*inner}), **others)

    def of(self, leaf: Any) -> Any:
        """The ids."""
        values = numbers_at(self.key, leaf, self.default)
        if values.dtype.kind == "f" and np.isnan(values).any():
            raise ValueError(f"leaf {self.key!r}: expected numbers, got NaN or None; give default=")
        ids = np.searchsorted(self._edges, values, side="left" if self.right else "right")
        return ids.astype(self.dtype)[()]
