"""Arrays in the other machine's byte order, pickled as they are.

numpy's own pickle brings some of them back in this machine's order (dates, and whatever isn't contiguous), with the
same values. A stream of batches must not depend on whether an element was pickled on its way, so wherever elements
or their sources are pickled here, arrays go through `reduce_array`.
"""

import copyreg
import pickle
from collections.abc import Callable
from io import BytesIO
from typing import Any

import numpy as np

_Reduce = Callable[[Any], Any]
_OWN = ("__reduce__", "__reduce_ex__", "__setstate__")


def reduce_array(array: np.ndarray) -> Any:
    """What a pickler is told of an array, as `__reduce_ex__(5)` gives it, its byte order kept.

    Args:
        array: of any dtype and layout; subclasses too.

    >>> dates = np.array(["2020-01-01"], ">M8[D]")
    >>> function, arguments = reduce_array(dates)
    >>> function(*arguments).dtype == dates.dtype
    True
    """
    dtype = array.dtype
    # Structured dtypes keep the order of their fields by themselves.
    if dtype.isnative or dtype.names is not None or not dtype.itemsize:
        return array.__reduce_ex__(5)
    if _pickles_as_numpy_does(type(array)):
        plain = np.asarray(array)
        return _viewed, (plain.view(f"V{dtype.itemsize}"), dtype, type(array))
    return _cast, (array.astype(dtype.newbyteorder("=")), dtype)


class PlainPickler:
    """pickle's own Pickler, in C, that keeps the byte order of arrays.

    Args:
        beside: takes the buffers that needn't be inside, as pickle's buffer_callback.

    >>> swapped = np.arange(4, dtype=">i4")[::2]
    >>> pickle.loads(PlainPickler().dumps(swapped)).dtype.isnative
    False
    """

    def __init__(self, beside: Callable[[pickle.PickleBuffer], Any] | None = None) -> None:
        self._out = BytesIO()
        self._pickler = pickle.Pickler(self._out, protocol=5, buffer_callback=beside)
        self._pickler.dispatch_table = _REDUCERS

    def dumps(self, content: Any) -> bytes:
        """The pickle of `content`; once."""
        self._pickler.dump(content)
        return self._out.getvalue()


class _Reducers(dict[type, _Reduce]):
    """Read by the C pickler, which asks for each class that it doesn't know itself."""

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
