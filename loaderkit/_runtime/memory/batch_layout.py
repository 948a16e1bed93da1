"""The layout of a batch in its slot: its leaves one after the other, each at a multiple of 64 bytes, in C order.

With `verify` a table of seals follows them, (rows, 2) uint32: a task that wrote rows first..first+n stores n and their
checksum in row `first` of the table, and the reader of the rows compares.
"""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any
from zlib import crc32

import numpy as np

from loaderkit._base.system.dataclasses import dataclass
from loaderkit._base.tree import unflatten
from loaderkit.errors import ChecksumError
from loaderkit.transforms.stack import Block, RowSpec

ALIGNMENT = 64  # bytes: a cache line, and what JAX needs to take over an array without a copy
_SEAL = np.dtype(np.uint32)


@dataclass(frozen=True, eq=False)
class BatchLayout:
    """The layout of batches with rows of `spec`.

    Args:
        spec: structure, shapes and dtypes of one row.
        verify: whether there is a table of seals.
    """

    spec: RowSpec
    verify: bool = False

    def __eq__(self, other: object) -> bool:
        # Structures are equal in any order of a dict's keys, but that is the order of the leaves here.
        return self is other or (
            isinstance(other, BatchLayout)
            and (self.spec, self.verify) == (other.spec, other.verify)
            and self.spec.structure.same_order(other.spec.structure)
        )

    def __hash__(self) -> int:
        return hash(self.spec)

    @cached_property
    def row_nbytes(self) -> list[int]:
        """The bytes of one row in each leaf."""
        return [math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in self.spec.leaves]

    def nbytes(self, rows: int) -> int:
        """The number of bytes of a slot for `rows` rows."""
        return slot_nbytes(self.row_nbytes, rows, verify=self.verify)

    def leaves(self, token: Any, rows: int) -> list[np.ndarray]:
        """The arrays over a slot, each (rows, *shape); they keep the token alive."""
        arrays, offset = [], 0
        for leaf, nbytes in zip(self.spec.leaves, self.row_nbytes):
            arrays.append(np.ndarray((rows, *leaf.shape), leaf.dtype, buffer=token, offset=offset))
            offset += _padded(nbytes * rows)
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
            write_seal(self.row_nbytes, token, rows, lo, (hi - lo, self._checksum(token, rows, lo, hi)))

    def check(self, token: Any, rows: int, lo: int, hi: int) -> None:
        """Raises ChecksumError where rows lo..hi, which one or several tasks wrote, differ from their seals."""
        if not self.verify:
            return
        seals = _seals(self.row_nbytes, token, rows)
        while lo < hi:
            written, checksum = seals[lo].tolist()
            if not 0 < written <= hi - lo or self._checksum(token, rows, lo, lo + written) != checksum:
                raise ChecksumError(
                    f"rows {lo} to {lo + max(written, 1) - 1} of a batch of {rows} changed between the worker that "
                    "wrote them and their reader; something else writes to its memory"
                )
            lo += written

    def _checksum(self, token: Any, rows: int, lo: int, hi: int) -> int:
        checksum = 0
        for piece in pieces(self.row_nbytes, token, rows, lo, hi):
            checksum = crc32(piece, checksum)
        return checksum


# What follows needs no structure of a row, only its bytes in each leaf.


def slot_nbytes(row_nbytes: Sequence[int], rows: int, *, verify: bool) -> int:
    """The number of bytes of a slot for `rows` rows."""
    seals = _padded(_SEAL.itemsize * 2 * rows) if verify else 0
    return _seals_at(row_nbytes, rows) + seals


def pieces(row_nbytes: Sequence[int], token: Any, rows: int, lo: int, hi: int) -> list[memoryview]:
    """The bytes of rows lo..hi in each leaf of a slot for `rows` rows."""
    found, offset = [], 0
    room = memoryview(token).cast("B")
    for size in row_nbytes:
        found.append(room[offset + lo * size : offset + hi * size])
        offset += _padded(size * rows)
    return found


def read_seal(row_nbytes: Sequence[int], token: Any, rows: int, row: int) -> tuple[int, int]:
    """The seal at a row: how many rows from there on it is of, and their checksum."""
    written, checksum = _seals(row_nbytes, token, rows)[row].tolist()
    return written, checksum


def write_seal(row_nbytes: Sequence[int], token: Any, rows: int, row: int, seal: tuple[int, int]) -> None:
    """Stores what `read_seal` gives."""
    _seals(row_nbytes, token, rows)[row] = seal


def _seals_at(row_nbytes: Sequence[int], rows: int) -> int:
    return sum([_padded(size * rows) for size in row_nbytes])


def _seals(row_nbytes: Sequence[int], token: Any, rows: int) -> np.ndarray:
    return np.ndarray((rows, 2), _SEAL, buffer=token, offset=_seals_at(row_nbytes, rows))


def _padded(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
