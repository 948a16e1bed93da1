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
    """The key as an int in [0, num_records); one below 0 counts from the end, as in a list.

    Args:
        record_key: an int, or an object with `__index__` such as a numpy integer; TypeError otherwise.
        num_records: the length of the source.
        source: named in the IndexError for a key out of range.

    >>> check_key(np.int64(2), 3, range(3)), check_key(-3, 3, range(3))
    (2, 0)
    """
    key = _checked(record_key, -num_records, num_records, source)
    return key + num_records if key < 0 else key


def _checked(record_key: SupportsIndex, least: int, num_records: int, source: Any) -> int:
    try:
        key = index(record_key)
    except TypeError:
        advice = "for several records write source[[3, 1]]" if isinstance(record_key, tuple) else ""
        if isinstance(record_key, str):
            advice = (
                "records have numbers; source[n] is a record, and a tar source with an index made by `loaderkit index "
                "--keys` has source.find(name)"
            )
        raise not_an_int("record_key", record_key, advice) from None
    if not least <= key < num_records:
        raise IndexError(
            f"record_key: expected an int from {least} to {num_records - 1}, got {key}; {short_repr(source)} has "
            f"{num_records} records"
        )
    return key


def check_keys(
    record_keys: ArrayLike, num_records: int, source: Any, *, from_end: bool = False
) -> NDArray[np.int64]:
    """Many keys as an int64 array (n,), all in [0, num_records).

    Args:
        record_keys: integers, as a sequence or an array (n,); TypeError for other values or another shape.
        num_records: the length of the source.
        source: named in the IndexError for the first key out of range.
        from_end: whether keys below 0 count from the end; they are out of range otherwise.

    >>> check_keys([2, 0], 3, range(3)), check_keys([-1], 3, range(3), from_end=True)
    (array([2, 0]), array([2]))
    """
    least = -num_records if from_end else 0
    keys = np.asarray(record_keys)
    if keys.size == 0:
        return np.empty(0, np.int64)
    if keys.ndim != 1:
        raise TypeError(f"record_keys: expected integers in one dimension, got shape {keys.shape}")
    if keys.dtype.kind not in "iu":
        # Each is checked alone: a value that isn't an integer is a TypeError, one too large for numpy's an IndexError.
        given = cast("Iterable[int]", record_keys)
        keys = np.array([_checked(key, least, num_records, source) for key in given])
    if keys.dtype.kind == "i":
        keys = keys.astype(np.int64, copy=False)
        if from_end and keys.min() < 0:
            keys = np.where((keys < 0) & (keys >= least), keys + num_records, keys)
        bad = keys.view(np.uint64) >= num_records  # as unsigned, a key below 0 is very large
    else:
        bad = keys >= num_records
    if bad.any():
        _checked(int(keys[bad.argmax()]), least, num_records, source)
    return keys.astype(np.int64, copy=False)
