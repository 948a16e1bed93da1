"""Values, and pairs of values of several columns, as buckets of their hash."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from loaderkit.transforms.base import Map

from .feature import Feature, field_of
from .hashing import hash_column, hash_values, mixed


@dataclass(frozen=True)
class Hashed(Feature):
    """A column of text, bytes or integers as buckets in [0, num_buckets), int64, by a hash of each value.

    The hash (features/hashing.py) is the same on every machine and in every version.

    Args:
        key: of the column.
        output: of the new column, the same unless given.
        num_buckets: 1 or more.

    >>> import numpy as np
    >>> Hashed("city", num_buckets=100).map({"city": np.array(["Rome", "Oslo", "Rome"])})
    {'city': array([22, 85, 22])}
    """

    num_buckets: int = 0

    def __post_init__(self) -> None:
        if self.num_buckets < 1:
            raise ValueError(f"num_buckets: expected 1 or more, got {self.num_buckets}")

    def column(self, values: np.ndarray) -> np.ndarray:
        """(n, ...) int64."""
        return hash_column(values.ravel(), self.num_buckets).reshape(values.shape)


@dataclass(frozen=True)
class Crossed(Map):
    """Two columns or more as one: the bucket of the hash of their values together, int64.

    Args:
        keys: of the columns, in this order.
        num_buckets: 1 or more.
        output: of the new column.

    >>> import numpy as np
    >>> batch = {"day": np.array([1, 2]), "city": np.array(["Rome", "Rome"])}
    >>> Crossed(("day", "city"), num_buckets=1000, output="both").map(batch)["both"].tolist()
    [672, 144]
    """

    keys: Sequence[str]
    num_buckets: int
    output: str

    def __post_init__(self) -> None:
        if isinstance(self.keys, str) or len(self.keys) < 2:
            raise ValueError(f"keys: expected two names or more, got {self.keys!r}")
        object.__setattr__(self, "keys", tuple(self.keys))
        if self.num_buckets < 1:
            raise ValueError(f"num_buckets: expected 1 or more, got {self.num_buckets}")

    def map(self, element: Any) -> Any:
        """The dict with the new column."""
        columns = [np.asarray(field_of(element, key, self)) for key in self.keys]
        shapes = {column.shape for column in columns}
        if len(shapes) > 1:
            raise ValueError(f"{self!r}: expected columns of one shape, got {', '.join(map(str, shapes))}")
        words = np.zeros(columns[0].size, np.uint64)
        with np.errstate(over="ignore"):
            for column in columns:
                words = mixed(words * np.uint64(31) + hash_values(column.ravel()))
        made = (words % np.uint64(self.num_buckets)).astype(np.int64).reshape(columns[0].shape)
        return {**element, self.output: made[()] if made.ndim == 0 else made}
