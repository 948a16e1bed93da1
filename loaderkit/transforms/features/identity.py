"""Integers that are ids already, checked."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from loaderkit._base.numbers import at_least

from .column_map import ColumnMap, id_dtype, ids_at


@dataclass(frozen=True)
class Identity(ColumnMap):
    """Integers from 0 to num_buckets - 1 as ids, checked.

    Args:
        key, output: of the leaf, and of the ids where the leaf stays.
        num_buckets: how many ids there are.
        default_value: the id of integers outside; without it they are a ValueError.
        dtype: of the ids, a signed integer type.

    >>> Identity("weekday", 7).map({"weekday": np.array([0, 6])})
    {'weekday': array([0, 6], dtype=int32)}
    >>> Identity("weekday", 7).map({"weekday": 7})
    Traceback (most recent call last):
    ValueError: leaf 'weekday': expected ids from 0 to 6, got 7; give default_value= or a greater num_buckets
    """

    num_buckets: int
    default_value: int | None = field(default=None, kw_only=True)
    dtype: Any = field(default="int32", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(num_buckets=at_least("num_buckets", self.num_buckets, 1))
        if self.default_value is not None:
            default = at_least("default_value", self.default_value, 0, below=self.num_buckets)
            self._set(default_value=default)
        self._set(dtype=id_dtype(self.dtype, self.num_buckets))

    def of(self, leaf: Any) -> Any:
        """The ids."""
        ids = ids_at(self.key, leaf)
        outside = (ids < 0) | (ids >= self.num_buckets)
        if outside.any():
            if self.default_value is None:
                raise ValueError(
                    f"leaf {self.key!r}: expected ids from 0 to {self.num_buckets - 1}, got {ids[outside].flat[0]}; "
                    "give default_value= or a greater num_buckets"
                )
            ids = np.where(outside, self.default_value, ids)
        return ids.astype(self.dtype)[()]
