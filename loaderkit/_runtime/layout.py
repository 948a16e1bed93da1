"""How the leaves of a batch lie in its slot: one after the other, each at a multiple of 64 bytes, C order."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from loaderkit.transforms.stack import Block, RowSpec
from loaderkit.tree import unflatten

ALIGNMENT = 64  # bytes: a cache line, and what JAX asks of an array that it takes over without a copy


@dataclass(frozen=True, slots=True)
class BatchLayout:
    """The layout of batches whose rows look like `spec`.

    Args:
        spec: structure, shapes and dtypes of one row.
    """

    spec: RowSpec

    def nbytes(self, rows: int) -> int:
        """Bytes of a slot for so many rows."""
        return sum(_padded(leaf.shape, leaf.dtype, rows) for leaf in self.spec.leaves)

    def leaves(self, token: Any, rows: int) -> list[np.ndarray]:
        """The arrays over a slot, each (rows, *shape); they keep the token alive."""
        arrays, offset = [], 0
        for leaf in self.spec.leaves:
            arrays.append(np.ndarray((rows, *leaf.shape), leaf.dtype, buffer=token, offset=offset))
            offset += _padded(leaf.shape, leaf.dtype, rows)
        return arrays

    def batch(self, token: Any, rows: int) -> Any:
        """The batch that lies in a slot."""
        return unflatten(self.spec.structure, self.leaves(token, rows))

    def block(self, token: Any, rows: int, lo: int, hi: int) -> Block:
        """Rows lo..hi of the batch that lies in a slot, by column."""
        return Block(self.spec.structure, tuple(leaf[lo:hi] for leaf in self.leaves(token, rows)), hi - lo)


def _padded(shape: tuple[int, ...], dtype: np.dtype, rows: int) -> int:
    return -(-rows * math.prod(shape) * dtype.itemsize // ALIGNMENT) * ALIGNMENT
