"""Which tables an even order has: the rule for few weights, for very unequal ones, and for many.

Weights whose sum fits are one table. Otherwise, in descending order: components with 1/256 or more are children of the
table themselves, the others are gathered into groups, each closed as soon as it has 1/256. What is left, less than
1/256 in all, is the tail: it has every m-th place, m = round(1 / share), and the table has the other places. A group or
a tail has a table of its own by the same rule, over the ordinals of its own.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from .fair_table import Int32Array, fair_slots, slot_counts
from .shares import check_shares

LEAST_SHARE = 256  # a component with less than 1/256 is a member of a group or of a tail
_TABLES = 64  # that are kept: many groups have the same one


@dataclass(frozen=True, slots=True, eq=False)
class TablePlan:
    """A table, what its slots lead to, and the tail beside it.

    children: names of components, or tables. slots: (W,) the child of each slot. tail: what has every `period`-th
    place, the last of each `period` places.
    """

    children: tuple["str | TablePlan", ...]
    slots: Int32Array
    tail: "str | TablePlan | None" = None
    period: int = 0


def plan_of(weights: Mapping[str, int], most_slots: int) -> TablePlan:
    """The tables of integer weights, {name: positive weight}; equal ones by name.

    Raises ValueError for a share below 2**-62.

    >>> plan_of({"code": 1, "web": 2}, 65_536).slots.tolist()
    [1, 0, 1]
    >>> plan = plan_of({"rare": 1, "web": 10**6}, 65_536)
    >>> plan.children, plan.slots.tolist(), plan.tail, plan.period
    (('web',), [0], 'rare', 1000001)
    """
    check_shares(weights)
    return _plan(weights, most_slots, most_slots)


def _plan(weights: Mapping[str, int], slots: int, most_slots: int) -> TablePlan:
    total = sum(weights.values())
    if total <= slots:
        names = tuple(sorted(weights))
        return TablePlan(names, _fair_slots(tuple(weights[name] for name in names)))
    shares: list[int] = []
    children: list[str | TablePlan] = []
    group: dict[str, int] = {}
    share = 0
    # Sorting is stable: of equal weights the lower name comes first.
    for name in sorted(sorted(weights), key=lambda name: -weights[name]):
        if weights[name] * LEAST_SHARE >= total:
            children.append(name)
            shares.append(weights[name])
            continue
        group[name] = weights[name]
        share += weights[name]
        if share * LEAST_SHARE >= total:
            children.append(_gathered(group, most_slots))
            shares.append(share)
            group, share = {}, 0
    table = _fair_slots(tuple(slot_counts(shares, slots)))
    if not group:
        return TablePlan(tuple(children), table)
    return TablePlan(tuple(children), table, _tail(group, most_slots), round(Fraction(total, share)))


def _gathered(members: Mapping[str, int], most_slots: int) -> TablePlan:
    divisor = math.gcd(*members.values())
    weights = {name: weight // divisor for name, weight in members.items()}
    total = sum(weights.values())
    direct = [weight for weight in weights.values() if weight * LEAST_SHARE >= total]
    # Its smallest direct child has as many slots as it can have in a first table: of 65,536 slots these are 256, and
    # rounding changes a share by less than 1/256 of it. More slots are more exact and take longer, half a microsecond
    # each.
    least = most_slots // LEAST_SHARE
    slots = -(-least * total // min(direct)) if direct else most_slots
    return _plan(weights, min(slots, most_slots), most_slots)


def _tail(members: Mapping[str, int], most_slots: int) -> "str | TablePlan":
    if len(members) == 1:
        return next(iter(members))
    plan = _gathered(members, most_slots)
    # Read from its end, a table has each unit due by floor(j * W / w), a slot earlier. So its components stay closer
    # than 1 to their share of all places also just before the tail's next place.
    return TablePlan(plan.children, plan.slots[::-1], plan.tail, plan.period)


@lru_cache(_TABLES)
def _fair_slots(counts: tuple[int, ...]) -> Int32Array:
    slots = fair_slots(counts)
    slots.flags.writeable = False
    return slots
