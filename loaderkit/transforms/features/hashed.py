"""Categories as ids by a hash, without a vocabulary."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from loaderkit._base.numbers import at_least

from .column_map import ColumnMap, id_dtype
from .hashing import hash64


@dataclass(frozen=True)
class Hashed(ColumnMap):
    """The id of each text or integer by a hash that is the same on every machine: hash % num_buckets.

    `transforms/features/hashing.py` says how the hash is made; str and bytes of one text have the same.

    Args:
        key, output: of the leaf, and of the ids where the leaf stays.
        num_buckets: how many ids there are. Two values may get one id.
        seed: of the hash; another one lets other values meet.
        dtype: of the ids, a signed integer type.

    >>> Hashed("user", 1000).map({"user": np.array(["anna", "otto", "anna"])})
    {'user': array([562, 515, 562], dtype=int32)}
    """

    num_buckets: int
    seed: int = field(default=0, kw_only=True)
    dtype: Any = field(default="int32", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(num_buckets=at_least("num_buckets", self.num_buckets, 1, below=1 << 63))
        self._set(seed=at_least("seed", self.seed, 0, below=1 << 64))
        self._set(dtype=id_dtype(self.dtype, self.num_buckets))

    def of(self, leaf: Any) -> Any:
        """The ids."""
        return (hash64(self.key, leaf, self.seed) % np.uint64(self.num_buckets)).astype(self.dtype)[()]
