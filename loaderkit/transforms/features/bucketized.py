"""Numbers as the number of the bucket that they are in."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np

from .feature import Feature, stats_of


@dataclass(frozen=True)
class Bucketized(Feature):
    """A column of numbers as buckets, int64: bucket i has boundaries[i - 1] <= x < boundaries[i].

    As TensorFlow's bucketized_column and Keras' Discretization. NaN is in the last bucket.

    Args:
        key: of the column.
        output: of the new column, the same unless given.
        boundaries: ascending numbers, one or more; there is one bucket more.

    >>> import numpy as np
    >>> Bucketized("age", boundaries=(18, 65)).map({"age": np.array([5, 18, 70])})
    {'age': array([0, 1, 2])}
    """

    boundaries: Sequence[float] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "boundaries", tuple(self.boundaries))
        if not self.boundaries or any(not low < high for low, high in pairwise(self.boundaries)):
            raise ValueError(f"boundaries: expected ascending numbers, got {self.boundaries!r:.80}")

    @classmethod
    def from_stats(cls, stats: str | os.PathLike[str] | Mapping[str, Any], key: str, **changes: Any) -> Self:
        """With the quantiles of a column as boundaries, as `loaderkit stats --quantiles N` wrote them."""
        found = stats_of(stats, key, "quantiles")
        return cls(key, boundaries=tuple(dict.fromkeys(found["quantiles"])), **changes)

    @property
    def num_buckets(self) -> int:
        """How many buckets there are."""
        return len(self.boundaries) + 1

    def column(self, values: np.ndarray) -> np.ndarray:
        """(n, ...) int64."""
        if values.dtype.kind not in "biuf":
            raise ValueError(f"{self!r}: expected numbers, got {values.dtype}")
        return np.searchsorted(np.asarray(self.boundaries), values, side="right").astype(np.int64)
