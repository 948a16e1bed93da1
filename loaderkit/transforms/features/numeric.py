"""Numbers, scaled."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from .feature import Feature, stats_of


@dataclass(frozen=True)
class Numeric(Feature):
    """A column of numbers as float32: `(x - mean) / std`, or scaled from [minimum, maximum] to [0, 1], as given.

    Args:
        key: of the column.
        output: of the new column, the same unless given.
        mean, std: to subtract, and to divide by; std above 0.
        minimum, maximum: what becomes 0 and 1; not with mean and std.
        clip: (low, high) of the result, None for no limits.
        missing: what NaN counts as, before all else; None leaves NaN.

    ValueError for values that aren't numbers.

    >>> import numpy as np
    >>> Numeric("x", mean=2, std=2).map({"x": np.array([2, 6])})
    {'x': array([0., 2.], dtype=float32)}
    >>> Numeric("x", minimum=0, maximum=10, clip=(0, 1), output="y").map({"x": 25.0})
    {'x': 25.0, 'y': np.float32(1.0)}
    """

    mean: float | None = None
    std: float | None = None
    minimum: float | None = None
    maximum: float | None = None
    clip: tuple[float, float] | None = None
    missing: float | None = None

    def __post_init__(self) -> None:
        scaled, ranged = (self.mean, self.std) != (None, None), (self.minimum, self.maximum) != (None, None)
        if scaled and ranged:
            raise ValueError("mean: expected mean and std, or minimum and maximum, got both")
        if self.std is not None and not self.std > 0:
            raise ValueError(f"std: expected a number above 0, got {self.std}")
        if ranged and (self.minimum is None or self.maximum is None or not self.minimum < self.maximum):
            raise ValueError(
                f"minimum: expected a minimum below a maximum, got {self.minimum} and {self.maximum}"
            )
        if self.clip is not None and not self.clip[0] < self.clip[1]:
            raise ValueError(f"clip: expected (low, high), got {self.clip}")

    @classmethod
    def from_stats(cls, stats: str | os.PathLike[str] | Mapping[str, Any], key: str, **changes: Any) -> Self:
        """With mean and std of a column, as `loaderkit stats` wrote them. changes: other arguments."""
        found = stats_of(stats, key, "mean", "std")
        return cls(key, mean=found["mean"], std=found["std"] or 1.0, **changes)

    def column(self, values: np.ndarray) -> np.ndarray:
        """(n, ...) float32."""
        if values.dtype.kind not in "biuf":
            raise ValueError(f"{self!r}: expected numbers, got {values.dtype}")
        made = values.astype(np.float64)
        if self.missing is not None:
            made = np.where(np.isnan(made), self.missing, made)
        if self.minimum is not None and self.maximum is not None:
            made = (made - self.minimum) / (self.maximum - self.minimum)
        else:
            made = (made - (self.mean or 0.0)) / (1.0 if self.std is None else self.std)
        return (made if self.clip is None else np.clip(made, *self.clip)).astype(np.float32)
