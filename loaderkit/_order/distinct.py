"""The distinct values among many integers, and which of them each one is."""

import numpy as np

from .permutation import Int64Array


def distinct_of(values: Int64Array) -> tuple[Int64Array, Int64Array | None]:
    """The distinct values, ascending, and for each value its place among them; None where there is only one.

    values: (k,) int64. Where the values are close together, some of the distinct ones may not occur among them.

    >>> distinct_of(np.array([70, 5, 70]))
    (array([ 5, 70]), array([1, 0, 1]))
    >>> distinct_of(np.array([4, 4]))
    (array([4]), None)
    """
    if values.size == 0:
        return values, None
    low, high = int(values.min()), int(values.max())
    if low == high:
        return np.array([low], np.int64), None
    # Close together, as those of consecutive indices; np.unique would sort them, which costs more than a shuffle.
    if high - low < values.size:
        return np.arange(low, high + 1, dtype=np.int64), values - low
    distinct, owners = np.unique(values, return_inverse=True)
    return distinct, owners
