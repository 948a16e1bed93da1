"""Combines rows by column: before a batch (Block), as a batch (stack), or in place (write).

A batch is what np.stack gives leaf by leaf for all of its rows at once. `collect` makes arrays, and `write` fills
arrays, only where these hold the rows' values without loss; all other rows reach `stack` unchanged.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from loaderkit._base.structure import Structure, structure_of
from loaderkit._base.system.dataclasses import dataclass
from loaderkit._base.tree import StructureMismatch, leaf_order, paths, typed_columns, unflatten
from loaderkit.errors import BatchError

from .column import Column, Joiner, LeafSpec, batch_of, column_of, fill, stays_in_stack

__all__ = ["Block", "LeafSpec", "RowSpec", "as_block", "collect", "stack", "write"]


class RowSpec(NamedTuple):
    """Structure, shapes and dtypes of a row, where all rows of a batch agree in them.

    Args:
        structure: of a row.
        leaves: shape and dtype of each leaf, in the order of the structure.
    """

    structure: Structure
    leaves: tuple[LeafSpec, ...]


@dataclass(slots=True, eq=False)
class Block:
    """Rows of one structure, by column.

    Args:
        structure: of every row; the keys of a dict are in the order of the first row.
        columns: for each leaf an array (size, *shape), or the list of the rows' leaves.
        size: number of rows.

    >>> block = collect([{"x": 1, "y": "a"}, {"x": 2, "y": "b"}])
    >>> block.columns
    (array([1, 2]), ['a', 'b'])
    >>> block.rows(1, 2)
    [{'x': np.int64(2), 'y': 'b'}]
    """

    structure: Structure
    columns: tuple[Column, ...]
    size: int

    def __len__(self) -> int:
        return self.size

    def rows(self, lo: int, hi: int) -> list[Any]:
        """Rows lo to hi as elements; their leaves are numpy scalars and views where a column is an array."""
        if not self.columns:
            return [unflatten(self.structure, ()) for _ in range(lo, hi)]
        return [
            unflatten(self.structure, leaves) for leaves in zip(*(column[lo:hi] for column in self.columns))
        ]

    def slice(self, lo: int, hi: int) -> "Block":
        """Rows lo to hi, as views."""
        return Block(self.structure, tuple(column[lo:hi] for column in self.columns), hi - lo)

    def spec(self) -> RowSpec | None:
        """The spec of each row; None where a column is a list, or np.stack would change its dtype."""
        leaves = []
        for column in self.columns:
            if isinstance(column, list) or not stays_in_stack(column.dtype):
                return None
            leaves.append(LeafSpec(column.shape[1:], column.dtype))
        return RowSpec(self.structure, tuple(leaves))


def _block_of(rows: Sequence[Any], structure: Structure, *, views: bool = False) -> Block:
    columns = typed_columns(rows, structure)
    return Block(
        structure, tuple(column_of(leaves, types, views=views) for leaves, types in columns), len(rows)
    )


def collect(rows: Sequence[Any], *, views: bool = False) -> Block | None:
    """Rows by column without loss: row r of an array equals `np.asarray` of row r's leaf.

    Args:
        rows: elements. The result is None where there are none, or where their structures differ.
        views: as `column_of` takes it.

    >>> collect([{"x": 1.5}, {"x": 2.5}]).spec().leaves
    (LeafSpec(shape=(), dtype=dtype('float64')),)
    """
    if not rows:
        return None
    try:
        return _block_of(rows, structure_of(rows[0]), views=views)
    except StructureMismatch:
        return None


def as_block(rows: Block | list[Any], *, views: bool = False) -> Block | list[Any]:
    """The rows by column where their structures agree, which is fastest to send and to gather; else the rows.

    Args:
        views: as `column_of` takes it.
    """
    if isinstance(rows, Block) or len(rows) < 2:
        return rows
    return collect(rows, views=views) or rows


def _in_columns(part: Block | Sequence[Any], structure: Structure) -> tuple[Column, ...]:
    if not isinstance(part, Block):
        return _block_of(part, structure).columns
    if part.structure.same_order(structure):
        return part.columns
    if part.structure != structure:
        typed_columns(part.rows(0, 1), structure)
    return tuple(part.columns[number] for number in leaf_order(part.structure, like=structure))


def stack(parts: Sequence[Block | Sequence[Any]], describe: Callable[[int], str]) -> Any:
    """One batch: what np.stack gives leaf by leaf for all rows at once, always C-contiguous.

    Bytes give an array of objects, since np.stack loses their trailing NULs. A str that ends in NUL and a masked array
    are a BatchError. The keys of dicts are in the order of the first row.

    Args:
        parts: the rows in order, by column or one by one; ValueError where there is no row. The arrays of a single part
            become the batch's without a copy where they own their memory.
        describe: takes the number of a row, counted over all parts, and returns the name of its record. The BatchError
            for rows that differ in structure, shape or dtype names two records and the place of the leaf.

    >>> stack([[{"x": 1, "y": b"a"}], [{"x": 2.5, "y": b"b"}]], "record {}".format)
    {'x': array([1. , 2.5]), 'y': array([b'a', b'b'], dtype=object)}
    """
    filled = [part for part in parts if len(part)]
    if not filled:
        raise ValueError("parts: expected one row or more, got none")
    if len(filled) == 1 and isinstance(filled[0], Block):
        leaves = list(map(batch_of, filled[0].columns))
        if all(leaf is not None for leaf in leaves):
            return unflatten(filled[0].structure, leaves)
    structure = filled[0].structure if isinstance(filled[0], Block) else structure_of(filled[0][0])
    table: list[tuple[Column, ...]] = []
    first = 0
    for part in filled:
        try:
            table.append(_in_columns(part, structure))
        except StructureMismatch as found:
            records = f"{describe(0)} and {describe(first + found.position)}"
            where = f" of {found.path}" if found.path else ""
            advice = "make them equal in a Map before Batch"
            if "None" in (str(found.expected), str(found.got)):  # a null of a table or of JSON
                advice = "None is no value of an array: put another in its place in a Map before Batch, such as nan"
            elif str(found.expected)[0] == str(found.got)[0] == "[":
                advice = "make arrays of lists in a Map, and pad these by lk.PadTo or lk.PadBatch"
            raise BatchError(
                f"{records} can't be stacked: the structure{where} is {found.expected} in the first and "
                f"{found.got} in the second; {advice}, or give Batch a batch_fn"
            ) from None
        first += len(part)
    joined = [Joiner(path, describe).join(columns) for path, columns in zip(paths(structure), zip(*table))]
    return unflatten(structure, joined)


def write(rows: Block | Sequence[Any], spec: RowSpec, out: Sequence[np.ndarray]) -> bool:
    """Writes rows to the arrays of a batch where the result equals that of `stack`; otherwise returns False.

    The order of keys must be equal too, because a batch takes the key order of its first row.

    Args:
        rows: n elements, n >= 1, or these by column.
        spec: of the rows of an earlier batch (`Block.spec`).
        out: for each leaf of the spec a C-contiguous array (n, *shape) of its dtype. Where False is returned, its
            content is undefined.

    >>> out = [np.empty(2, np.int64)]
    >>> write([{"x": 1}, {"x": 2}], collect([{"x": 0}]).spec(), out), out
    (True, [array([1, 2])])
    >>> write([{"x": 1}, {"x": 2.5}], collect([{"x": 0}]).spec(), out)
    False
    """
    if isinstance(rows, Block):
        fits = rows.structure.same_order(spec.structure) and rows.spec() == spec
        if fits:
            for column, target in zip(rows.columns, out):
                target[...] = column
        return fits
    if not structure_of(rows[0]).same_order(spec.structure):
        return False
    try:
        columns = typed_columns(rows, spec.structure)
    except StructureMismatch:
        return False
    return all(fill(leaves, types, target) for (leaves, types), target in zip(columns, out))
