"""Record keys that a user gives, checked: an error names the key, the source and its number of records."""

from collections.abc import Iterable
from operator import index
from typing import Any, SupportsIndex, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loaderkit._base.numbers import not_an_int


def short_repr(source: Any) -> str:
    """The repr where it is short, else type and length; always type and length of a list, tuple, array or text.

    Args:
        source: any data source.

    >>> short_repr([1, 2, 3]), short_repr(range(3))
    ('a list of 3 records', 'range(0, 3)')
    """
    text = "" if isinstance(source, (list, tuple, np.ndarray, str, bytes)) else repr(source)
    return text if text and len(text) <= 200 else f"a {type(source).__name__} of {len(source)} records"


def check_key(record_key: SupportsIndex, num_records: int, source: Any) -> int:
    """The key as an int in [0, num_records).

    Args:
        record_key: an int, or an object with `__index__` such as a numpy integer; TypeError otherwise.
        num_records: the length of the source.
        source: named in the IndexError for a key out of range.

    >>> check_key(np.int64(2), 3, range(3))
    2
    """
    try:
        key = index(record_key)
    except TypeError:
        raise not_an_int("record_key", record_key) from None
    if not 0 <= key < num_records:
        raise IndexError(
            f"record_key: expected an int from 0 to {num_records - 1}, got {key}; {short_repr(source)} has "
            f"{num_records} records"
        )
    return key


def check_keys(record_keys: ArrayLike, num_records: int, source: Any) -> NDArray[np.int64]:
    """Many keys as an int64 array (n,), all in [0, num_records).

    Args:
        record_keys: integers, as a sequence or an array (n,); TypeError for other values or another shape.
        num_records: the length of the source.
        source: named in the IndexError for the first key out of range.

    >>> check_keys([2, 0], 3, range(3))
    array([2, 0])
    """
    keys = np.asarray(record_keys)
    if keys.size == 0:
        return np.empty(0, np.int64)
    if keys.ndim != 1:
        raise TypeError(f"record_keys: expected integers in one dimension, got shape {keys.shape}")
    if keys.dtype.kind not in "iu":
        # Each is checked alone: a value that isn't an integer is a TypeError, one too large for numpy's an IndexError.
        keys = np.array([check_key(key, num_records, source) for key in cast("Iterable[int]", record_keys)])
    if keys.dtype.kind == "i":
        keys = keys.astype(np.int64, copy=False)
        bad = keys.view(np.uint64) >= num_records  # as unsigned, a key below 0 is very large
    else:
        bad = keys >= num_records
    if bad.any():
        check_key(int(keys[bad.argmax()]), num_records, source)
    return keys.astype(np.int64, copy=False)
