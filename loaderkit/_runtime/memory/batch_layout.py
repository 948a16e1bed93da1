"""The layout of a batch in its slot: its leaves one after the other, each at a multiple of 64 bytes, in C order.

With `verify` a table of seals follows them, (rows, 2) uint32: a task that wrote rows first..first+n stores n and their
checksum in row `first` of the table, and the reader of the rows compares.
"""

import math
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from loaderkit._base.tree import unflatten
from loaderkit.errors import ChecksumError
from loaderkit.transforms.stack import Block, RowSpec

ALIGNMENT = 64  # bytes: a cache line, and what JAX needs to take over an array without a copy
_SEAL = np.dtype(np.uint32)


class BatchLayout(NamedTuple):
    """The layout of batches with rows of `spec`.

    Args:
        spec: structure, shapes and dtypes of one row.
        verify: whether there is a table of seals.
    """

    spec: RowSpec
    verify: bool = False

    def nbytes(self, rows: int) -> int:
        """The number of bytes of a slot for `rows` rows."""
        seals = _padded((2,), _SEAL, rows) if self.verify else 0
        return self._seals_at(rows) + seals

    def leaves(self, token: Any, rows: int) -> list[np.ndarray]:
        """The arrays over a slot, each (rows, *shape); they keep the token alive."""
        arrays, offset = [], 0
        for leaf in self.spec.leaves:
            arrays.append(np.ndarray((rows, *leaf.shape), leaf.dtype, buffer=token, offset=offset))
            offset += _padded(leaf.shape, leaf.dtype, rows)
        return arrays

    def batch(self, token: Any, rows: int) -> Any:
        """The batch in a slot; its leaves are views of the slot."""
        return unflatten(self.spec.structure, self.leaves(token, rows))

    def block(self, token: Any, rows: int, lo: int, hi: int) -> Block:
        """Rows lo..hi of the batch in a slot, by column."""
        return Block(self.spec.structure, tuple(leaf[lo:hi] for leaf in self.leaves(token, rows)), hi - lo)

    def seal(self, token: Any, rows: int, lo: int, hi: int) -> None:
        """Stores the seal of rows lo..hi, which are written; does nothing without `verify`."""
        if self.verify:
            self._seals(token, rows)[lo] = hi - lo, self._checksum(token, rows, lo, hi)

    def check(self, token: Any, rows: int, lo: int, hi: int) -> None:
        """Raises ChecksumError where rows lo..hi, which one or several tasks wrote, differ from their seals."""
        if not self.verify:
            return
        seals = self._seals(token, rows)
        while lo < hi:
            written, checksum = seals[lo].tolist()
            if not 0 < written <= hi - lo or self._checksum(token, rows, lo, lo + written) != checksum:
                raise ChecksumError(
                    f"rows {lo} to {lo + max(written, 1) - 1} of a batch of {rows} changed between the worker that "
                    "wrote them and their reader; something else writes to its memory"
                )
            lo += written

    def _seals_at(self, rows: int) -> int:
        return sum(_padded(leaf.shape, leaf.dtype, rows) for leaf in self.spec.leaves)

    def _seals(self, token: Any, rows: int) -> np.ndarray:
        return np.ndarray((rows, 2), _SEAL, buffer=token, offset=self._seals_at(rows))

    def _checksum(self, token: Any, rows: int, lo: int, hi: int) -> int:
        checksum, offset = 0, 0
        room = memoryview(token).cast("B")
        for leaf in self.spec.leaves:
            size = math.prod(leaf.shape) * leaf.dtype.itemsize
            checksum = crc32(room[offset + lo * size : offset + hi * size], checksum)
            offset += _padded(leaf.shape, leaf.dtype, rows)
        return checksum


def _padded(shape: tuple[int, ...], dtype: np.dtype, rows: int) -> int:
    return -(-rows * math.prod(shape) * dtype.itemsize // ALIGNMENT) * ALIGNMENT
