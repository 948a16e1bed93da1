"""What is known of elements beside their values: made once by a scheduler, passed on by reference to the iterator."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .cursor import Cursor
from .loss import Loss


@dataclass(frozen=True, slots=True)
class Facts:
    """Of elements that are delivered together, in order.

    ends       for each element, where every logical stream goes on after it; None where the plan knows it
    begins     of a batch: the cursor where each of its rows begins, (n, depth + 1) int64; None where the plan knows it
    losses     by element: the bad records of its rows, and those passed without a row since the element before it
    masked     no row is real: the streams are exhausted, and other processes may have rows for this step
    more       elements with real rows that are sure to follow, as far as is known
    exhausted  whether no others with real rows will follow
    """

    ends: Sequence[Mapping[int, Cursor]] | None = None
    begins: np.ndarray | None = None
    losses: Mapping[int, tuple[Loss, ...]] | None = None
    masked: bool = False
    more: int = 0
    exhausted: bool = False


PLANNED = Facts()  # the plan knows everything
