"""What becomes of an element that a worker process of Grain's sends."""

from typing import Any

import numpy as np

from ._shared_array import SharedMemoryArray
from ._tree import Sealed, map_structure, sealed


def as_sent(element: Any) -> Any:
    """An element as Grain's worker processes send it: every dict in the order of its keys.

    That is of dict and defaultdict, in lists, tuples and named tuples, too; OrderedDicts and classes of the user's keep
    the order that they have. Keys that can't be sorted, which Grain can't send, stay as they are. A SharedMemoryArray
    becomes a plain array, and its memory is freed.

    >>> as_sent({"b": 1, "a": ({"d": 2, "c": 3},)})
    {'a': ({'c': 3, 'd': 2},), 'b': 1}
    """
    row = sealed(element)
    if type(row) is not Sealed:
        return row
    try:
        return map_structure(_plain, element)
    except (TypeError, ValueError):
        return element


def _plain(leaf: Any) -> Any:
    if isinstance(leaf, SharedMemoryArray) and leaf.shm is not None:
        leaf.unlink_on_del()
        return np.array(leaf, subok=False)
    return leaf
