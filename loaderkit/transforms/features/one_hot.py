"""Numbers of classes as vectors of zeros and ones."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .feature import Feature


@dataclass(frozen=True)
class OneHot(Feature):
    """A column of integers in [0, depth) as (..., depth), with a one at each integer.

    Args:
        key: of the column.
        output: of the new column, the same unless given.
        depth: classes.
        dtype: of the result.

    ValueError for an integer that isn't in [0, depth).

    >>> import numpy as np
    >>> OneHot("label", depth=3).map({"label": np.array([2, 0])})["label"].tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """

    depth: int = 0
    dtype: str = "float32"

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise ValueError(f"depth: expected 1 or more, got {self.depth}")
        np.dtype(self.dtype)

    def column(self, values: np.ndarray) -> np.ndarray:
        """(n, ..., depth)."""
        self._check(values)
        made: np.ndarray = values[..., None] == np.arange(self.depth)
        return made.astype(self.dtype)

    def _check(self, values: np.ndarray) -> None:
        if values.dtype.kind not in "iub":
            raise ValueError(f"{self!r}: expected integers, got {values.dtype}")
        wrong = (
            (values < 0) | (values >= self.depth)
            if values.dtype.kind != "b"
            else np.zeros(values.shape, bool)
        )
        if wrong.any():
            raise ValueError(f"{self.key}: expected integers in [0, {self.depth}), got {values[wrong][0]}")


@dataclass(frozen=True)
class MultiHot(OneHot):
    """Rows of integers in [0, depth), (n, k), as (n, depth): a one at each integer of the row; -1 is none.

    Args:
        key, output, depth, dtype: as OneHot has them.

    >>> import numpy as np
    >>> MultiHot("tags", depth=4).map({"tags": np.array([[0, 2], [3, -1]])})["tags"].tolist()
    [[1.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
    """

    def _made(self, value: Any) -> Any:
        rows = np.asarray(value)
        if rows.ndim == 0:
            raise ValueError(f"{self!r}: expected rows of integers, got one number; use OneHot")
        self._check(np.where(rows == -1, 0, rows) if rows.dtype.kind == "i" else rows)
        made: np.ndarray = (rows[..., None] == np.arange(self.depth)).any(axis=-2)
        return made.astype(self.dtype)
