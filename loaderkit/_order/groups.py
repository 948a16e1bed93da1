"""Where equal numbers stand."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray


def groups(numbers: NDArray[Any]) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Each number that stands in an array (n,) of ints, ascending, with the places where it does, (m,) intp.

    >>> [(number, places.tolist()) for number, places in groups(np.array([5, 3, 5]))]
    [(3, [1]), (5, [0, 2])]
    """
    for number in np.unique(numbers).tolist():
        yield number, np.flatnonzero(numbers == number)
