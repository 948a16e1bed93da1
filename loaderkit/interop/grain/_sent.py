"""What becomes of an element that a worker process of Grain's sends."""

from collections import defaultdict
from typing import Any

import numpy as np

from ._put_away import PutAway
from ._shared_array import SharedMemoryArray, SharedMemoryArrayMetadata
from ._tree import Sealed, map_structure, sealed


def as_sent(element: Any) -> Any:
    """An element as it arrives from Grain's worker processes: every dict in the order of its keys, arrays opened.

    The order is that of dict and defaultdict, in lists, tuples and named tuples, too; OrderedDicts and classes of the
    user's keep the order that they have. A dict whose keys can't be sorted, which Grain can't send, keeps its order.

    A SharedMemoryArray, and metadata of one, become a plain array, and its memory is freed. Raises FileNotFoundError
    where the memory of metadata is gone.

    >>> as_sent({"b": 1, "a": ({"d": 2, "c": 3},)})
    {'a': ({'c': 3, 'd': 2},), 'b': 1}
    """
    row = sealed(element)
    if type(row) is not Sealed:
        return row
    sending = _Sending()
    sent = sending.tree(element)
    sending.free()
    return sent


class _Sending:
    """One element on its way.

    Nothing is freed before all of it is there: two leaves may lie in one memory, and any of them may fail.
    """

    def __init__(self) -> None:
        self._arrays: dict[str, SharedMemoryArray] = {}
        self._owners: list[PutAway] = []

    def tree(self, tree: Any) -> Any:
        return map_structure(self._leaf, tree, is_leaf=_has_no_order)

    def _leaf(self, leaf: Any) -> Any:
        if _has_no_order(leaf):
            items = {key: self.tree(value) for key, value in leaf.items()}
            return defaultdict(leaf.default_factory, items) if isinstance(leaf, defaultdict) else items
        if isinstance(leaf, SharedMemoryArrayMetadata):
            array = SharedMemoryArray.from_metadata(leaf)
            if isinstance(leaf, PutAway):
                self._owners.append(leaf)
        elif isinstance(leaf, SharedMemoryArray) and leaf.shm is not None:
            array = leaf
        else:
            return leaf
        self._arrays.setdefault(array.metadata.name, array)
        return np.array(array, subok=False)

    def free(self) -> None:
        for owner in self._owners:
            owner.leave()
        for array in self._arrays.values():
            array.unlink_on_del()


def _has_no_order(node: Any) -> bool:
    if type(node) not in (dict, defaultdict):
        return False
    try:
        sorted(node)
    except TypeError:
        return True
    return False
