"""Numbers of records that are shared out: exact totals, each class to within one, and groups that stay whole."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from .permutation import Int64Array

_MOST_BITS = 1 << 28  # of the sums that are looked at together: with those beyond the target 64 MiB


def largest_remainder(total: int, shares: Sequence[Fraction]) -> list[int]:
    """`total` shared out in whole numbers, each the exact share rounded down or up; Hamilton's method.

    Args:
        total: 0 or more.
        shares: 0 or more, of sum 1.

    >>> largest_remainder(10, [Fraction(5, 9), Fraction(3, 9), Fraction(1, 9)])
    [6, 3, 1]
    """
    exact = [total * share for share in shares]
    counts = [one.numerator // one.denominator for one in exact]
    by_rest = sorted(range(len(exact)), key=lambda place: counts[place] - exact[place])
    for place in by_rest[: total - sum(counts)]:
        counts[place] += 1
    return counts


def shared_out(classes: Sequence[int], shares: Sequence[Fraction]) -> Int64Array:
    """How many of each class each part gets, (classes, parts): each the exact share rounded down or up.

    The parts have the sizes that `largest_remainder` gives of all. A controlled rounding: what is left of each class
    goes to parts along shortest augmenting paths, as in a matching of classes to parts.

    Args:
        classes: members of each class.
        shares: of the parts, 0 or more, of sum 1.

    >>> shared_out([3, 3], [Fraction(1, 2), Fraction(1, 2)]).tolist()
    [[2, 1], [1, 2]]
    """
    exact = [[count * share for share in shares] for count in classes]
    counts = np.array([[one.numerator // one.denominator for one in row] for row in exact], np.int64)
    open_ = np.array([[one.denominator != 1 for one in row] for row in exact])
    room = np.array(largest_remainder(sum(classes), shares)) - counts.sum(0)
    more = np.zeros_like(open_)
    for number, left in enumerate((np.array(classes) - counts.sum(1)).tolist()):
        for _ in range(left):
            _give_one(number, more, open_, room)
    result: Int64Array = counts + more
    return result


def _give_one(
    number: int, more: npt.NDArray[np.bool_], open_: npt.NDArray[np.bool_], room: Int64Array
) -> None:
    """One more of a class to a part; others give way to another part where the first ones have no room."""
    parts = np.flatnonzero(open_[number] & ~more[number]).tolist()
    # Part -> (part, class that moves from it).
    came_from: dict[int, tuple[int, int] | None] = dict.fromkeys(parts)
    for part in parts:  # grows while it is walked: breadth first
        if room[part] > 0:
            break
        for other in np.flatnonzero((more[:, part, None] & open_ & ~more).any(0)).tolist():
            if other not in came_from:
                moves = int((more[:, part] & open_[:, other] & ~more[:, other]).argmax())
                came_from[other] = part, moves
                parts.append(other)
    else:
        raise AssertionError("shares of classes: no way to round them")
    room[part] -= 1
    while (before := came_from[part]) is not None:
        more[before[1], [before[0], part]] = False, True
        part = before[0]
    more[number, part] = True


def nearest_sum(sizes: Sequence[int], target: int) -> list[int]:
    """The places of numbers whose sum is nearest to a target; of two as near, the smaller sum.

    The first ones are preferred. All sums are looked at; where they are too many, as of a thousand groups of a million
    records, the first ones are taken until all sums of the others can be.

    Args:
        sizes: 1 or more each.
        target: 0 or more.

    >>> nearest_sum([5, 4, 3], 7), nearest_sum([5, 5], 7)
    ([1, 2], [0])
    """
    taken, left = 0, list(range(len(sizes)))
    chosen: list[int] = []
    while left and (target - taken) * len(left) > _MOST_BITS:
        chosen.append(left.pop(0))
        taken += sizes[chosen[-1]]
    rest = target - taken
    limit = (1 << 2 * rest + 2) - 1  # a sum beyond is further away than none
    sums = [1]  # bit s: whether some of the numbers so far have the sum s
    for place in left:
        sums.append((sums[-1] | sums[-1] << sizes[place]) & limit)
    best = _nearest_bit(sums[-1], rest)
    for place, before in zip(reversed(left), reversed(sums[:-1])):
        if not before >> best & 1:
            chosen.append(place)
            best -= sizes[place]
    return sorted(chosen)


def _nearest_bit(bits: int, place: int) -> int:
    below = (bits & (2 << place) - 1).bit_length() - 1
    above = bits >> place + 1
    distance = (above & -above).bit_length()  # 0 where there is none
    return place + distance if distance and distance < place - below else below
