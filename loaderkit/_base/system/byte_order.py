"""Pickling of arrays that keeps their byte order.

numpy's own pickle converts some arrays of the other byte order (dates, and arrays that aren't contiguous) to this
machine's, with the same values. A stream must not depend on whether an element was pickled between worker and user, so
elements and sources are pickled with `reduce_array`.
"""

import copyreg
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

Part = bytes | bytearray
_Reduce = Callable[[Any], Any]
_OWN = ("__reduce__", "__reduce_ex__", "__setstate__")


def reduce_array(array: np.ndarray) -> Any:
    """What `__reduce_ex__(5)` of an array returns, changed so that unpickling keeps the byte order.

    Args:
        array: of any dtype, layout and subclass of ndarray.

    >>> dates = np.array(["2020-01-01"], ">M8[D]")
    >>> function, arguments = reduce_array(dates)
    >>> function(*arguments).dtype == dates.dtype
    True
    """
    dtype = array.dtype
    # numpy's pickle keeps the byte order of the fields of a structured dtype.
    if dtype.isnative or dtype.names is not None or not dtype.itemsize:
        return array.__reduce_ex__(5)
    if _pickles_as_numpy_does(type(array)):
        plain = np.asarray(array)
        return _viewed, (plain.view(f"V{dtype.itemsize}"), dtype, type(array))
    return _cast, (array.astype(dtype.newbyteorder("=")), dtype)


class _Parts(list[Part]):
    """What a pickler writes: large bytes and bytearrays of the content themselves, and frames of all else."""

    write = list.append


def plain_pickle(content: Any, buffer_callback: Callable[[pickle.PickleBuffer], Any]) -> list[Part]:
    """The pickle of `content` by pickle's own Pickler, in C, with `reduce_array` for arrays; in parts.

    Args:
        content: what is pickled; its large bytes are parts themselves, and aren't copied.
        buffer_callback: as pickle's: takes the buffers that are sent out of band, all large ones among them.

    >>> swapped = np.arange(4, dtype=">i4")[::2]
    >>> pickle.loads(b"".join(plain_pickle(swapped, lambda buffer: True))).dtype.isnative
    False
    """
    parts = _Parts()
    pickler = pickle.Pickler(parts, protocol=5, buffer_callback=buffer_callback)
    pickler.dispatch_table = _REDUCERS
    pickler.dump(content)
    return parts


class _Reducers(dict[type, _Reduce]):
    """A dispatch table that covers subclasses of ndarray; the C pickler looks up each class that isn't built in."""

    def __missing__(self, cls: type) -> _Reduce:
        if issubclass(cls, np.ndarray) and cls not in copyreg.dispatch_table:
            return reduce_array
        return copyreg.dispatch_table[cls]


_REDUCERS = _Reducers({np.ndarray: reduce_array})


def _pickles_as_numpy_does(cls: type) -> bool:
    return all(getattr(cls, name) is getattr(np.ndarray, name) for name in _OWN)


def _viewed(raw: np.ndarray, dtype: np.dtype, cls: type[np.ndarray]) -> np.ndarray:
    return raw.view(dtype, cls)


def _cast(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return array.astype(dtype)
