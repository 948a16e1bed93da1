"""Labels of records, as the user gives them: one for each record."""

from reprlib import repr as _short
from typing import Any

import numpy.typing as npt

from loaderkit._base.numbers import as_array
from loaderkit._source.record_key import short_repr

_ADVICE = "give an int or a string for each record"


def checked_labels(labels: Any, source: Any, *, argument: str = "labels") -> npt.NDArray[Any]:
    """The labels as an array (records,) of ints or strings; TypeError or ValueError that names the argument.

    >>> checked_labels(["cat", "dog"], range(2)).tolist()
    ['cat', 'dog']
    """
    if callable(labels) or isinstance(labels, str):
        raise TypeError(
            f"{argument}: expected one for each record, got {_short(labels)}; write "
            "[record['label'] for record in source]"
        )
    array = as_array(labels)
    if array.ndim != 1:
        raise ValueError(f"{argument}: expected one dimension, got {_short(labels)}; {_ADVICE}")
    if len(array) != len(source):
        raise ValueError(
            f"{argument}: expected one for each of the {len(source)} records of {short_repr(source)}, got "
            f"{len(array)}; {_ADVICE}"
        )
    if not len(array):
        raise ValueError(f"{argument}: expected one or more, got none; an empty source can't be sampled")
    if array.dtype.kind not in "iuU":
        raise TypeError(f"{argument}: expected ints or strings, got an array of {array.dtype}; {_ADVICE}")
    return array
