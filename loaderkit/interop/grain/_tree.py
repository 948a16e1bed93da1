"""Elements as trees the way JAX sees them, which is the way Grain batches them where JAX is installed.

Nodes are dicts (by sorted keys), lists, tuples, named tuples, None, and what was registered with JAX where the program
uses it; everything else is a leaf, a dataclass or an object of attrs included.
"""

import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from ._shared_memory import SharedMemoryArray, SharedMemoryArrayMetadata

_NUMPY_SCALARS = frozenset(np.sctypeDict.values())
# Leaves here and for the engine alike, whose batch is what np.stack gives.
_LEAVES = frozenset({np.ndarray, int, float, bool, complex, str, bytes}) | _NUMPY_SCALARS
_NODES = frozenset({type(None), dict, list, tuple, OrderedDict, defaultdict})


def map_structure(function: Callable[..., Any], *trees: Any) -> Any:
    """A tree like the first with `function(leaf, leaf, ...)` for the leaves in one place of all trees.

    Raises ValueError where the trees differ in structure.

    >>> map_structure(lambda x, y: x + y, {"b": 1, "a": [2]}, {"a": [3], "b": 4})
    {'a': [5], 'b': 5}
    """
    jax = sys.modules.get("jax")
    if jax is not None and hasattr(jax, "tree_util"):
        return jax.tree_util.tree_map(function, *trees)
    first = trees[0]
    kind = type(first)
    if kind not in _NODES and not _is_namedtuple(first):
        return function(*trees)
    if any(type(tree) is not kind for tree in trees):
        raise ValueError(
            f"expected {kind.__name__} in one place of all trees, got {[type(t).__name__ for t in trees]}"
        )
    if first is None:
        return None
    keys = _keys(first)
    if any(_keys(tree) != keys for tree in trees):
        raise ValueError(f"expected the keys {keys} in one place of all trees, got {[*map(_keys, trees)]}")
    values = [map_structure(function, *(tree[key] for tree in trees)) for key in keys]
    if isinstance(first, dict):
        items = dict(zip(keys, values, strict=True))
        return defaultdict(first.default_factory, items) if isinstance(first, defaultdict) else kind(items)
    return kind(*values) if _is_namedtuple(first) else kind(values)


def _keys(node: Any) -> list[Any]:
    if not isinstance(node, dict):
        return [*range(len(node))]
    if isinstance(node, OrderedDict):
        return [*node]
    try:
        return sorted(node)
    except TypeError as error:
        names = f"{[*node]!r:.80}"
        raise TypeError(
            f"keys: expected those of a dict in one order, got keys that can't be sorted: {names}"
        ) from error


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
    except TypeError:  # keys that can't be sorted, or a kind that the engine takes apart in another way
        return Sealed(row)


def _in_order(row: Any) -> Any:
    kind = type(row)
    if kind in _LEAVES or row is None:
        return row
    if kind is dict:
        ordered = sorted(row)
        if _LEAVES.issuperset(map(type, row.values())):
            return row if ordered == list(row) else {key: row[key] for key in ordered}
        return {key: _in_order(row[key]) for key in ordered}
    if kind in (list, tuple):
        return kind(map(_in_order, row))
    if _is_namedtuple(row):
        return kind(*map(_in_order, row))
    raise TypeError(kind)


def as_sent(element: Any) -> Any:
    """An element as it arrives from Grain's worker processes: every dict in the order of its keys, arrays opened.

    The order is that of dict and defaultdict, in lists, tuples and named tuples, too; OrderedDicts and classes of the
    user's keep the order that they have. TypeError or ValueError for keys that can't be sorted, as in Grain.

    A SharedMemoryArray, and metadata of one, become a plain array, and its memory is freed once all of the element is
    there. FileNotFoundError where the memory of metadata is gone.

    >>> as_sent({"b": 1, "a": ({"d": 2, "c": 3},)})
    {'a': ({'c': 3, 'd': 2},), 'b': 1}
    """
    row = sealed(element)
    if type(row) is not Sealed:
        return row
    arrays: dict[str, SharedMemoryArray] = {}  # by name: several leaves may lie in one memory

    def plain(leaf: Any) -> Any:
        if isinstance(leaf, SharedMemoryArrayMetadata):
            leaf = SharedMemoryArray.from_metadata(leaf)
        if not isinstance(leaf, SharedMemoryArray) or leaf.shm is None:
            return leaf
        arrays.setdefault(leaf.shm.name, leaf)
        return np.array(leaf, subok=False)

    sent = map_structure(plain, element)
    for array in arrays.values():
        array.unlink_on_del()
    return sent
