"""Elements as trees the way JAX sees them, which is the way Grain batches them where JAX is installed.

Nodes are dicts (by sorted keys), lists, tuples, named tuples, None, and what was registered with JAX where the program
uses it; everything else is a leaf, a dataclass or an object of attrs included.
"""

import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

_NUMPY_SCALARS = frozenset(np.sctypeDict.values())
# Leaves here and for the engine alike, whose batch is what np.stack gives.
_LEAVES = frozenset({np.ndarray, int, float, bool, complex, str, bytes}) | _NUMPY_SCALARS


def map_structure(
    function: Callable[..., Any], *trees: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """A tree like the first with `function(leaf, leaf, ...)` for the leaves in one place of all trees.

    `is_leaf`: of nodes of the first tree, which are leaves where it says so.

    Raises ValueError where the trees differ in structure.

    >>> map_structure(lambda x, y: x + y, {"b": 1, "a": [2]}, {"a": [3], "b": 4})
    {'a': [5], 'b': 5}
    """
    jax = sys.modules.get("jax")
    if jax is not None and hasattr(jax, "tree_util"):
        return jax.tree_util.tree_map(function, *trees, is_leaf=is_leaf)
    first = trees[0]
    kind = type(first)
    if not _is_node(first) or (is_leaf is not None and is_leaf(first)):
        return function(*trees)
    if any(type(tree) is not kind for tree in trees):
        raise ValueError(
            f"expected {kind.__name__} in one place of all trees, got {[type(t).__name__ for t in trees]}"
        )
    if first is None:
        return None
    if isinstance(first, dict):
        keys = list(first) if kind is OrderedDict else sorted(first)
        if any(tree.keys() != first.keys() for tree in trees):
            raise ValueError(
                f"expected the keys {keys} in one place of all trees, got {[list(t) for t in trees]}"
            )
        items = {
            key: map_structure(function, *(tree[key] for tree in trees), is_leaf=is_leaf) for key in keys
        }
        return defaultdict(first.default_factory, items) if isinstance(first, defaultdict) else kind(items)
    if any(len(tree) != len(first) for tree in trees):
        raise ValueError(
            f"expected {len(first)} items in one place of all trees, got {[len(t) for t in trees]}"
        )
    values = [map_structure(function, *column, is_leaf=is_leaf) for column in zip(*trees, strict=True)]
    return kind(*values) if hasattr(first, "_fields") else kind(values)


def _is_node(value: Any) -> bool:
    kind = type(value)
    return value is None or kind in (dict, list, tuple, OrderedDict, defaultdict) or _is_namedtuple(value)


def _is_namedtuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


class Sealed:
    """A row that the engine must not look into: its trees and ours differ."""

    __slots__ = ("row",)

    def __init__(self, row: Any) -> None:
        self.row = row


def sealed(row: Any) -> Any:
    """The row as it may be put in columns: dicts in the order of their keys; sealed where only Grain's way is right.

    >>> sealed({"b": 1, "a": 2}), type(sealed({"x": {1, 2}})).__name__
    ({'a': 2, 'b': 1}, 'Sealed')
    """
    try:
        return _in_order(row)
    except _Strange:
        return Sealed(row)


class _Strange(Exception):  # noqa: N818 - it never leaves this file
    """Something that the engine would take apart otherwise."""


def _in_order(row: Any) -> Any:
    kind = type(row)
    if kind in _LEAVES or row is None:
        return row
    if kind is dict:
        if _LEAVES.issuperset(map(type, row.values())):
            ordered = _sorted_keys(row)
            return row if ordered == list(row) else {key: row[key] for key in ordered}
        return {key: _in_order(row[key]) for key in _sorted_keys(row)}
    if kind in (list, tuple):
        return kind(map(_in_order, row))
    if _is_namedtuple(row):
        return kind(*map(_in_order, row))
    raise _Strange


def _sorted_keys(row: dict[Any, Any]) -> list[Any]:
    try:
        return sorted(row)
    except TypeError:
        raise _Strange from None
