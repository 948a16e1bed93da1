"""Gives an element the form in which Grain's worker process would send it."""

from typing import Any

import numpy as np

from ._shared_memory import SharedMemoryArray, SharedMemoryArrayMetadata
from ._tree import Sealed, map_structure, sealed


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
