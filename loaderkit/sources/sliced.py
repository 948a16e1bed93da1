"""What `source[...]` takes: a key gives a record, several give a source of them."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from loaderkit._source.record_key import check_key

S = TypeVar("S")


def sliced(read: Callable[[S, int], Any]) -> Callable[[S, Any], Any]:
    """A source's `__getitem__`, made of its method that reads one record.

    It takes an int, also one that counts from the end as in a list, and gives the record; IndexError out of range. For
    a slice, a range, a list or array of keys, or a mask with a bool for each record, it gives these records as an
    `lk.SubsetDataSource`, a view. TypeError for other keys.

    Args:
        read: of the source and a key in [0, len(source)).

    >>> from loaderkit.sources import RangeDataSource
    >>> numbers = RangeDataSource(10, 20, 1)
    >>> numbers[-1], list(numbers[2:8:3]), list(numbers[[3, 1]]), list(numbers[np.arange(10) > 7])
    (19, [12, 15], [13, 11], [18, 19])
    """

    @wraps(read)
    def getitem(source: Any, record_key: Any) -> Any:
        if type(record_key) is not int or not 0 <= record_key < len(source):
            if _are_keys(record_key):
                from loaderkit.sources import SubsetDataSource  # by the front, as it is such a source itself

                return SubsetDataSource.slice_of(source, record_key)
            record_key = check_key(record_key, len(source), source)
        return read(source, record_key)

    return getitem


def _are_keys(record_key: Any) -> bool:
    if isinstance(record_key, slice | range | list):
        return True
    # An array of any library. Its scalars have an `__array__` too; a tuple would be two keys in numpy.
    return hasattr(record_key, "__array__") and np.ndim(record_key) > 0
