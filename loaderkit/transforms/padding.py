"""Padding of a last batch: rows of zeros in place of the missing ones, and a leaf `valid` that tells which are real.

Where a batch is stacked, every row has its own leaf `valid` and is written in place; the rows of zeros are inserted
when the batch is complete. A batch_fn gets the rows of zeros among its rows, and `valid` is added to its result.
"""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from loaderkit._base.tree import map_leaves
from loaderkit._order.facts import Fill

VALID = "valid"


def with_valid(element: Any, valid: Any = True) -> Any:
    """The element with one leaf more: a dict gets the key "valid", anything else becomes (element, valid).

    Args:
        element: a row, or a batch.
        valid: of a row, whether it is real; of a batch, an array (n,) bool. ValueError where the dict has the key.

    >>> with_valid({"x": 1}), with_valid(1)
    ({'x': 1, 'valid': True}, (1, True))
    """
    if not isinstance(element, dict):
        return element, valid
    if VALID in element:
        raise ValueError(
            f'remainder="pad": expected elements without a leaf "{VALID}", which it adds to tell the real rows, got '
            "one with it; rename it in a Map before Batch"
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
    """The batch with rows of zeros inserted, of each leaf's dtype; b"", "" or None in leaves of objects.

    Args:
        batch: a tree of arrays (k, …), the real rows first; k >= 1, also where no row is real.
        fill: which rows are real.

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
    """The rows with rows of zeros inserted, which have the structure, shapes and dtypes of the first row.

    Args:
        rows: one or more, also where no row is real.
        fill: which rows are real.

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
    # For a subclass, a zero of its base: its own constructor may need other arguments.
    return next((kind() for kind in (bool, int, float, complex, str, bytes) if isinstance(leaf, kind)), None)
