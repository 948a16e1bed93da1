"""Orders with records left out: which place of an epoch each rank has, and back; and the stages of a stream.

    place  of a record in the order of one epoch
    rank   of a place among those that aren't left out

The order itself stays. With the places x_0 < x_1 < ... left out, rank r is place r + #{j: x_j - j <= r}, as x_j - j
places are left before x_j. A stage begins right behind the last place that was read, and its ranks go on from there: so
what was read stays as it was, and from there on none of the stage's records is read, and each other one once an epoch.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .permutation import Int64Array


class Begin(NamedTuple):
    """Where a stage begins in one order.

    ordinal: index of the order's own stream. epoch, place: what it reads, or would read if nothing were left out.
    """

    ordinal: int
    epoch: int
    place: int


class ExclusionStage(NamedTuple):
    """The lists that hold from an index on.

    first_index: of the whole stream. lists: {name: digests of its lists, sorted}, of components; of "" where the stream
    has none. begins: {name: where it begins}, of all that have a list here or in a stage before.
    """

    first_index: int
    lists: Mapping[str, tuple[str, ...]]
    begins: Mapping[str, Begin]


class PlacesLeft:
    """The places of one epoch without some of them.

    Args:
        excluded: (n,) int64, the places left out: distinct, in any order.

    >>> left = PlacesLeft(np.array([3, 0]))
    >>> left.places_of(np.arange(4)).tolist(), left.rank_at(np.array([1, 3, 4])).tolist()
    ([1, 2, 4, 5], [0, 2, 2])
    """

    def __init__(self, excluded: Int64Array) -> None:
        self._excluded = np.sort(excluded)
        self._left_before = self._excluded - np.arange(self._excluded.size)

    def places_of(self, ranks: Int64Array) -> Int64Array:
        """The places of ranks, (k,) int64, k > 0."""
        # Consecutive ranks meet few of the excluded places: only those are searched.
        low, high = np.searchsorted(self._left_before, [ranks.min(), ranks.max()], "right").tolist()
        places: Int64Array = ranks + low
        if low < high:
            places += np.searchsorted(self._left_before[low:high], ranks, "right")
        return places

    def rank_at(self, places: Int64Array) -> Int64Array:
        """How many places are left before each of some, (k,) int64: its rank, if it isn't left out."""
        ranks: Int64Array = places - np.searchsorted(self._excluded, places)
        return ranks

    def leaves(self, places: Int64Array) -> npt.NDArray[np.bool_]:
        """Whether places aren't left out, (k,) bool."""
        return np.searchsorted(self._excluded, places, "right") == np.searchsorted(self._excluded, places)
