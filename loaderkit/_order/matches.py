"""Where chosen numbers stand among many."""

import numpy as np
from numpy.typing import NDArray

from .permutation import Int64Array


def matches(wanted: Int64Array, numbers: Int64Array) -> tuple[Int64Array, Int64Array]:
    """All pairs of equal numbers: the place among the wanted ones, and that among the others, which ascends.

    wanted: (n,) int64, few. numbers: (k,) ints. Gives (m,) int64 each; numbers may stand several times in both.

    >>> matches(np.array([5, 3, 5]), np.array([3, 4, 5]))
    (array([1, 0, 2]), array([0, 2, 2]))
    """
    order = np.argsort(wanted, kind="stable")
    low, high = (np.searchsorted(wanted, numbers, side, order) for side in ("left", "right"))
    counts = high - low
    firsts = low - (counts.cumsum() - counts)
    return order[np.repeat(firsts, counts) + np.arange(counts.sum())], np.repeat(
        np.arange(numbers.size), counts
    )


def among(values: Int64Array, ascending: Int64Array) -> NDArray[np.bool_]:
    """Which of the values are in an ascending array, (n,) bool: without the sort that np.isin makes at each call.

    >>> among(np.array([5, 2]), np.array([1, 2]))
    array([False,  True])
    """
    places = ascending.searchsorted(values)
    there: NDArray[np.bool_] = places < ascending.size
    there[there] = ascending[places[there]] == values[there]
    return there
