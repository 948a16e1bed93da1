"""Orders with records left out: which place of an epoch each rank has, and back; and the stages of a stream.

    place  of a record in the order of one epoch
    rank   of a place among those that aren't left out

The order itself stays. With the places x_0 < x_1 < ... left out, rank r is place r + #{j: x_j - j <= r}, as x_j - j
places are left before x_j. A stage begins right behind the last place that was read, and its ranks go on from there: so
what was read stays as it was, and from there on none of the stage's records is read, and each other one once an epoch.
"""

from collections.abc import Collection, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from loaderkit.errors import StateError

from .metadata import MOST_INDEX
from .permutation import Int64Array

_DIGEST = 64  # characters


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


class Listed(NamedTuple):
    """The record keys of lists, (n,) int64 ascending each.

    gone: those that aren't read any more. touched: those of packed rows that lose a document, which are read with the
    number `stage` in their keys (_order/stage_keys.py).
    """

    gone: Int64Array
    touched: Int64Array
    stage: int


class PlacesLeft:
    """The places of one epoch without some of them.

    Args:
        excluded: (n,) int64, the places left out: distinct, in any order.

    count: n.

    >>> left = PlacesLeft(np.array([3, 0]))
    >>> left.places_of(np.arange(4)).tolist(), left.rank_at(np.array([1, 3, 4])).tolist()
    ([1, 2, 4, 5], [0, 2, 2])
    """

    def __init__(self, excluded: Int64Array) -> None:
        self.count = excluded.size
        self._excluded = np.sort(excluded)
        self._left_before = self._excluded - np.arange(self._excluded.size)

    def places_of(self, ranks: Int64Array) -> Int64Array:
        """The places of ranks, (k,) int64, k > 0."""
        # Consecutive ranks meet few of the excluded places: only those are searched.
        low, high = np.searchsorted(self._left_before, [ranks.min(), ranks.max()], "right").tolist()
        places: Int64Array = ranks + low
        if low < high:
            between = self._left_before[low:high]
            if (ranks[1:] >= ranks[:-1]).all():  # a third of the time
                behind = np.diff(np.searchsorted(ranks, between), prepend=0, append=ranks.size)
                places += np.repeat(np.arange(between.size + 1), behind)
            else:
                places += np.searchsorted(between, ranks, "right")
        return places

    def rank_at(self, places: Int64Array) -> Int64Array:
        """How many places are left before each of some, (k,) int64: its rank, if it isn't left out."""
        ranks: Int64Array = places - np.searchsorted(self._excluded, places)
        return ranks


def stages_to_json(stages: Collection[ExclusionStage]) -> list[Any]:
    """Stages for `stages_from_json`: [first_index, {name: [sha256, ...]}, {name: [ordinal, epoch, place]}] each.

    >>> stages_to_json([ExclusionStage(7, {"web": ("ab",)}, {"web": Begin(4, 0, 5)})])
    [[7, {'web': ['ab']}, {'web': [4, 0, 5]}]]
    """
    return [
        [
            stage.first_index,
            {name: [*digests] for name, digests in sorted(stage.lists.items())},
            {name: [*begin] for name, begin in sorted(stage.begins.items())},
        ]
        for stage in stages
    ]


def stages_from_json(value: Any) -> tuple[ExclusionStage, ...]:
    """The stages that `stages_to_json` gave. Raises StateError naming the malformed entry."""
    if not isinstance(value, list) or not value:
        raise StateError(f"exclusions: expected a list of stages, got {value!r:.80}")
    stages = tuple(_read(f"exclusions[{place}]", said) for place, said in enumerate(value))
    for place, (before, after) in enumerate(pairwise(stages), start=1):
        if after.first_index <= before.first_index or before.begins.keys() - after.begins.keys():
            raise StateError(
                f"exclusions[{place}]: expected a first index above {before.first_index} and the names of the stages "
                f"before it, got {value[place]!r:.80}"
            )
    return stages


def _read(name: str, said: Any) -> ExclusionStage:
    if not isinstance(said, list) or len(said) != 3 or not all(isinstance(part, dict) for part in said[1:]):
        raise StateError(f"{name}: expected [first_index, lists, begins], got {said!r:.80}")
    first, lists, begins = said
    for digests in lists.values():
        good = isinstance(digests, list) and digests and digests == sorted({*map(str, digests)})
        if not good or any(len(each) != _DIGEST or not each.isalnum() for each in digests):
            raise StateError(f"{name}: expected sha256 digests of lists, ascending, got {digests!r:.80}")
    for begin in begins.values():
        if not isinstance(begin, list) or len(begin) != 3 or not all(map(_is_index, begin)):
            raise StateError(f"{name}: expected [ordinal, epoch, place], got {begin!r:.80}")
    if not _is_index(first) or not begins or lists.keys() - begins.keys():
        raise StateError(
            f"{name}: expected a first index and a begin for each name with lists, got {said!r:.80}"
        )
    return ExclusionStage(
        first,
        {each: tuple(digests) for each, digests in lists.items()},
        {each: Begin(*begin) for each, begin in begins.items()},
    )


def _is_index(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_INDEX
