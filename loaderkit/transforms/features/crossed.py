"""Combinations of categories as ids by a hash."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from reprlib import repr as _short
from typing import Any

import numpy as np

from loaderkit._base.numbers import at_least
from loaderkit._order.mixing import UInt64Array, fold_arrays
from loaderkit.transforms.base import Map
from loaderkit.transforms.leaf import Place, leaf_key, value_at, with_value

from .column_map import id_dtype
from .hashing import hash64


@dataclass(frozen=True)
class Crossed(Map):
    """The id of each combination of the values of two columns or more, by the hash that Hashed has.

    Numbers are bucketized first, in an operation before.

    Args:
        keys: of two leaves or more, of one shape; texts, bytes or integers. They stay. Each is a dict's key, a
            position, the name of a field, or a path of these as a tuple.
        num_buckets: how many ids there are. Two combinations may get one id.
        output: as each of keys, of the ids; unless given, names with "_X_" between, as TensorFlow has them.
        seed: of the hash; another one lets other combinations meet.
        dtype: of the ids, a signed integer type.

    >>> cross = Crossed(["city", "hour"], 10_000)
    >>> cross.map({"city": np.array(["Ulm", "Kiel"]), "hour": np.array([7, 7])})["city_X_hour"]
    array([2150, 1358], dtype=int32)
    """

    keys: Sequence[Place]
    num_buckets: int
    output: Place = field(default=None, kw_only=True)
    seed: int = field(default=0, kw_only=True)
    dtype: Any = field(default="int32", kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.keys, list | tuple) or len(self.keys) < 2:
            raise TypeError(
                f"keys: expected a list of the keys of two leaves or more, got {_short(self.keys)}"
            )
        self._set(
            keys=tuple(leaf_key("keys", key) for key in self.keys),
            num_buckets=at_least("num_buckets", self.num_buckets, 1, below=1 << 63),
            seed=at_least("seed", self.seed, 0, below=1 << 64),
        )
        self._set(dtype=id_dtype(self.dtype, self.num_buckets))
        if self.output is None and not all(isinstance(key, str) for key in self.keys):
            raise ValueError(
                "output: expected a place beside keys that aren't all names, got None; give output="
            )
        leaf_key("output", self.output)

    def map(self, element: Any) -> Any:
        """The element with the ids."""
        leaves = [value_at(element, key) for key in self.keys]
        hashes = [hash64(key, leaf) for key, leaf in zip(self.keys, leaves)]
        for key, each in zip(self.keys, hashes):
            if each.shape != hashes[0].shape:
                raise ValueError(
                    f"leaf {key!r}: expected the shape {hashes[0].shape} of leaf {self.keys[0]!r}, got {each.shape}"
                )
        seeds: UInt64Array = np.full(hashes[0].size, self.seed, np.uint64)
        folded = fold_arrays(seeds, *(each.ravel() for each in hashes)).reshape(hashes[0].shape)
        ids = folded % np.uint64(self.num_buckets)
        output = "_X_".join(map(str, self.keys)) if self.output is None else self.output
        return with_value(element, output, ids.astype(self.dtype)[()])
