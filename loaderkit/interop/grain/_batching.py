"""How Grain's Batch makes one batch of its rows, on the engine's Batch.

Rows of plain arrays and numbers are written in place by the engine, which gives what np.stack gives. All others are
stacked here, all rows at once: bytes become an array of bytes, objects an array of objects, and where a worker process
of Grain would stack into shared memory the first row says the dtype.

Where a RandomMap comes after the Batch, a row is a pair: the element and the state of its generator.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from loaderkit.errors import BatchError
from loaderkit.transforms.base import Batch
from loaderkit.transforms.stack import Block, stack

from ._order import States
from ._tree import Sealed, map_structure

_NAMED = 4  # rows that an error shows


class StackingBatch(Batch):
    """A Batch without a batch_fn.

    Args:
        batch_size: rows.
        drop_remainder: whether a last, smaller batch is left out.
        paired: whether rows are pairs of an element and a generator's state.
        first_dtype: whether the first row says the dtype.
    """

    def __init__(self, batch_size: int, *, drop_remainder: bool, paired: bool, first_dtype: bool) -> None:
        super().__init__(batch_size, drop_remainder=drop_remainder)
        self.paired = paired
        self.first_dtype = first_dtype

    def stacked(self, parts: Sequence[Block | Sequence[Any]], describe: Callable[[int], str]) -> Any:
        """All rows at once, as Grain stacks them."""
        specs = {part.spec() if isinstance(part, Block) else None for part in parts}
        if len(specs) == 1 and None not in specs:
            return stack(parts, describe)  # arrays and numbers, all alike: there is one way to stack them
        rows = [
            row for part in parts for row in (part.rows(0, part.size) if isinstance(part, Block) else part)
        ]
        elements, states = split(rows) if self.paired else (rows, None)
        elements = [element.row if isinstance(element, Sealed) else element for element in elements]
        try:
            batch = make_batch(elements, first_dtype=self.first_dtype)
        except ValueError as error:
            stack([elements], describe)  # says which two differ, and where
            raise BatchError(str(error)) from error
        return batch if states is None else (batch, states)


class CallingBatch(Batch):
    """A Batch with a batch_fn, of rows that are pairs of an element and a generator's state.

    Args:
        batch_size: rows.
        drop_remainder: whether a last, smaller batch is left out.
        batch_fn: takes the list of elements.
    """

    def __init__(
        self, batch_size: int, *, drop_remainder: bool, batch_fn: Callable[[list[Any]], Any]
    ) -> None:
        super().__init__(batch_size, drop_remainder=drop_remainder, batch_fn=self._call)
        self.function = batch_fn

    def _call(self, rows: list[Any]) -> Any:
        elements, states = split(rows)
        return self.function(elements), states


def split(rows: Sequence[Any]) -> tuple[list[Any], States]:
    """The elements of rows that are pairs, and the states of their generators, one a row."""
    elements, states = zip(*rows, strict=True)
    return list(elements), np.stack(states)


def make_batch(rows: Sequence[Any], *, first_dtype: bool = False) -> Any:
    """One batch of rows, leaf by leaf.

    Args:
        rows: at least one element.
        first_dtype: whether the first row says the dtype, where it isn't one of objects or strings.

    Raises ValueError where the rows differ in structure or shape, TypeError where first_dtype can't hold a row.

    >>> make_batch([{"x": 1, "y": b"a"}, {"x": 2, "y": b"bc"}])
    {'x': array([1, 2]), 'y': array([b'a', b'bc'], dtype='|S2')}
    """
    if not rows:
        raise ValueError("rows: expected one or more, got none")
    if len(rows) == 1:
        return map_structure(lambda leaf: np.expand_dims(leaf, axis=0), rows[0])
    return _joined(_stacked_as_the_first if first_dtype else _stacked, rows)


def _joined(function: Callable[..., Any], rows: Sequence[Any]) -> Any:
    try:
        return map_structure(function, *rows)
    except ValueError as error:
        named = [map_structure(_spec, row) for row in rows[:_NAMED]]
        lines = "\n".join(map(repr, [*named, "..."] if len(rows) > _NAMED else named))
        raise ValueError(
            f"Expected all input elements to have the same structure but got:\n{lines}\n{error}"
        ) from error


def _spec(leaf: Any) -> str:
    array = np.asanyarray(leaf)
    return f"{array.dtype}{[*array.shape]}"


def _stacked(*leaves: Any) -> Any:
    return np.stack(leaves)


def _stacked_as_the_first(*leaves: Any) -> Any:
    first = np.asanyarray(leaves[0])
    if first.dtype.hasobject or first.dtype.kind in "US":
        return np.stack(leaves)
    return np.stack(leaves, out=np.empty((len(leaves), *first.shape), first.dtype))


def batch_and_pad(values: Sequence[Any], *, batch_size: int, pad_value: Any = 0) -> Any:
    """A batch of `batch_size` rows: the values, then rows of pad_value.

    Args:
        values: elements of one structure, 1 to `batch_size` of them.
        batch_size: rows.
        pad_value: of the rows that are missing, one for all leaves or one for each.

    Raises ValueError where there is no value, one too many, or values differ in structure or shape.

    >>> batch_and_pad([1, 2], batch_size=3)
    array([1, 2, 0])
    """
    if not 0 < len(values) <= batch_size:
        raise ValueError(f"values: expected 1 to {batch_size}, got {len(values)}")
    if len(values) == batch_size:
        return make_batch(values)

    def padded(*leaves: Any) -> Any:
        rows = [np.expand_dims(leaf, axis=0) for leaf in leaves]
        # As in Grain, the padding has the first row's shape and dtype; all rows decide the batch's dtype.
        padding = np.full((batch_size - len(rows), *rows[0].shape[1:]), pad_value, rows[0].dtype)
        return np.concatenate([*rows, padding])

    return _joined(padded, values)
