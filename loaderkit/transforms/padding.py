"""Rows that a last batch lacks: zeros in their place, and a leaf `valid` that says which rows are real.

Where a batch is stacked, every row carries its own `valid` and is written in place like any other; the missing ones
are put in when the batch is whole. A batch_fn gets rows of zeros among its rows, and `valid` is added to what it gives.
"""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from loaderkit._base.tree import map_leaves
from loaderkit._order.fill import Fill

VALID = "valid"


def with_valid(element: Any, valid: Any = True) -> Any:
    """The element with a leaf more: a dict gets "valid", anything else becomes (element, valid).

    Args:
        element: a row, or a batch.
        valid: whether it is real; of a batch, for each row. ValueError where the dict has such a key.

    >>> with_valid({"x": 1}), with_valid(1)
    ({'x': 1, 'valid': True}, (1, True))
    """
    if not isinstance(element, dict):
        return element, valid
    if VALID in element:
        raise ValueError(
            f'remainder="pad" adds a leaf "{VALID}" that says which rows are real, and the elements have one already: '
            "rename theirs in a Map before Batch"
        )
    if type(element) is dict:
        return {**element, VALID: valid}
    element = copy.copy(element)
    element[VALID] = valid
    return element


def valid_rows(fill: Fill) -> np.ndarray:
    """Which rows are real: (n,) bool.

    >>> valid_rows(((2, 1), (1, 0)))
    array([ True,  True, False,  True])
    """
    return np.repeat([True, False] * len(fill), [count for pair in fill for count in pair])


def spread(batch: Any, fill: Fill) -> Any:
    """The batch with rows of zeros in between, of each leaf's dtype; b"", "" or None in leaves of objects.

    Args:
        batch: a tree of arrays (k, …) whose first rows are the real ones; k is 1 or more, also where none is real.
        fill: what is real.

    >>> spread({"x": np.array([1.5, 2.5]), "valid": np.array([True, True])}, ((1, 1), (1, 0)))
    {'x': array([1.5, 0. , 2.5]), 'valid': array([ True, False,  True])}
    """
    valid = valid_rows(fill)
    real = int(valid.sum())

    def leaf(rows: np.ndarray) -> np.ndarray:
        out = _zeros((len(valid), *rows.shape[1:]), rows)
        out[valid] = rows[:real]
        return out

    return map_leaves(leaf, batch)


def spread_rows(rows: Sequence[Any], fill: Fill) -> list[Any]:
    """The rows with such of zeros in between, made after the first one.

    Args:
        rows: one or more, also where none is real.
        fill: what is real.

    >>> spread_rows([(7, "a"), (8, "b")], ((1, 1), (1, 0)))
    [(7, 'a'), (0, ''), (8, 'b')]
    """
    real = iter(rows)
    return [next(real) if valid else map_leaves(_zero_of, rows[0]) for valid in valid_rows(fill).tolist()]


def _zeros(shape: tuple[int, ...], like: np.ndarray) -> np.ndarray:
    zeros = np.zeros(shape, like.dtype)
    if like.dtype == object:
        zeros[...] = _zero_of(like.flat[0]) if like.size else None
    return zeros


def _zero_of(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray):
        return _zeros(leaf.shape, leaf)
    if isinstance(leaf, np.generic):
        return np.zeros((), leaf.dtype)[()]
    # Of a subclass too, whose own constructor may ask for more.
    return next((kind() for kind in (bool, int, float, complex, str, bytes) if isinstance(leaf, kind)), None)
