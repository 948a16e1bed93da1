"""An order that is read from tables of slots: one table, or several of which a slot of one leads into another.

child    what a slot leads to: a component, numbered by its place in the names, or a table, numbered behind them
round    places of a table from one slot 0 to the next
tail     a child beside a table's slots, with every period-th place

Which tables there are: weights whose sum fits are one. Otherwise, in descending order: components with 1/256 or more
are children of the table themselves, the others are gathered into groups, each closed as soon as it has 1/256. What is
left, less than 1/256 in all, is the tail: it has every m-th place, m = round(1 / share), and the table has the other
places. A group or a tail has a table of its own by the same rule, over the ordinals of its own.
"""

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from loaderkit._base.system.dataclasses import dataclass

from .fair_table import Int32Array, Int64Array, fair_slots, slot_counts
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


_MOST_PLACE = 1 << 62
_NO_PERIOD = _MOST_PLACE + (1 << 61)  # of a table without a tail: no place is as large


@dataclass(frozen=True, eq=False)
class TableOrder:
    """An even order, or one by a pattern, as `MixtureOrder` says. Tables follow each other, the first one first.

    slots, ordinals, positions: by slot of all tables: the child that it leads to; the slots of this child before it;
        the slots of each child, one child after another.
    table_begins, table_sizes, periods, tails, inside: by table: where it begins in the arrays by slot; its slots; the
        period of its tail; the tail's child, or -1; the children of its slots.
    owners, child_counts, child_begins: by child: the table it is in; its slots there, 0 for a tail; where they begin in
        `positions`.
    """

    names: tuple[str, ...]
    slots: Int32Array
    ordinals: Int32Array
    positions: Int32Array
    table_begins: Int64Array
    table_sizes: Int64Array
    periods: Int64Array
    tails: Int64Array
    inside: tuple[Int32Array, ...]
    owners: Int64Array
    child_counts: Int64Array
    child_begins: Int64Array

    @classmethod
    def planned(cls, names: tuple[str, ...], plan: TablePlan) -> "TableOrder":
        """The order of the tables of a plan; names: all its components, sorted."""
        numbers = {name: number for number, name in enumerate(names)}
        plans = [plan]  # grows as tables are found

        def number_of(child: "str | TablePlan") -> int:
            if isinstance(child, str):
                return numbers[child]
            plans.append(child)
            return len(names) + len(plans) - 1

        by_slot, by_table, inside = [], [], []
        by_child = {len(names): (-1, 0, 0)}
        begin = 0
        for table, plan in enumerate(plans):
            size = plan.slots.size
            tail, period = -1, _NO_PERIOD
            if plan.tail is not None:
                tail, period = number_of(plan.tail), plan.period
                by_child[tail] = (table, 0, 0)
            children = [number_of(child) for child in plan.children]
            counts = np.bincount(plan.slots, minlength=len(children))
            firsts = np.cumsum(counts) - counts
            for child, count, first in zip(children, counts.tolist(), firsts.tolist(), strict=True):
                by_child[child] = (table, count, begin + first)
            positions = np.argsort(plan.slots, kind="stable").astype(np.int32)
            ordinals = np.empty(size, np.int32)
            ordinals[positions] = np.arange(size) - np.repeat(firsts, counts)
            inside.append(np.array(children, np.int32))
            by_slot.append((inside[table][plan.slots], ordinals, positions))
            by_table.append((begin, size, period, tail))
            begin += size
        slots, ordinals, positions = (np.concatenate(parts) for parts in zip(*by_slot, strict=True))
        begins, sizes, periods, tails = np.array(by_table, np.int64).T.copy()
        owners, child_counts, child_begins = np.array(
            [by_child[child] for child in range(len(by_child))], np.int64
        ).T.copy()
        return cls(
            names=names,
            slots=slots,
            ordinals=ordinals,
            positions=positions,
            table_begins=begins,
            table_sizes=sizes,
            periods=periods,
            tails=tails,
            inside=tuple(inside),
            owners=owners,
            child_counts=child_counts,
            child_begins=child_begins,
        )

    @cached_property
    def weights(self) -> Mapping[str, Fraction]:
        shares = {len(self.names): Fraction(1)}
        tables = (self.table_sizes, self.periods, self.tails)
        rows = zip(*(array.tolist() for array in tables), self.inside, strict=True)
        for table, (size, period, tail, inside) in enumerate(rows):
            share = shares[len(self.names) + table]
            if tail >= 0:
                shares[tail] = share / period
                share -= shares[tail]
            for child, count in zip(inside.tolist(), self.child_counts[inside].tolist(), strict=True):
                shares[child] = share * Fraction(count, size)
        return {name: shares[number] for number, name in enumerate(self.names)}

    def of(self, places: Int64Array) -> tuple[Int32Array, Int64Array]:
        children, ordinals = self._children(0, places, tails=bool(self.tails[0] >= 0))
        if self.table_sizes.size == 1:
            return children, ordinals
        inner = np.flatnonzero(children >= len(self.names))
        tails = bool((self.tails >= 0).any())
        while inner.size:
            tables = children[inner] - len(self.names)
            children[inner], ordinals[inner] = self._children(tables, ordinals[inner], tails=tails)
            inner = inner[children[inner] >= len(self.names)]
        return children, ordinals

    def counts(self, place: int) -> Int64Array:
        totals = np.zeros(self.owners.size, np.int64)
        totals[len(self.names)] = place
        # A table stands behind the one that leads to it.
        tables = (self.table_begins, self.table_sizes, self.periods, self.tails)
        rows = zip(*(array.tolist() for array in tables), self.inside, strict=True)
        for table, (begin, size, period, tail, inside) in enumerate(rows):
            count = int(totals[len(self.names) + table])
            if tail >= 0:
                totals[tail] = count // period
                count -= count // period
            rounds, rest = divmod(count, size)
            totals[inside] = self.child_counts[inside] * rounds
            totals += np.bincount(self.slots[begin : begin + rest], minlength=totals.size)
        return totals[: len(self.names)]

    def places_of(self, component: int, ordinals: Int64Array) -> Int64Array:
        child = component
        places = np.minimum(ordinals, _MOST_PLACE)
        while True:
            table = int(self.owners[child])
            tail, period = int(self.tails[table]), int(self.periods[table])
            if child == tail:
                last = (_MOST_PLACE - period + 1) // period
                places = np.where(
                    places > last, _MOST_PLACE, np.minimum(places, last) * period + (period - 1)
                )
            else:
                places = self._slots_of(child, places)
                if tail >= 0:
                    places = np.minimum(places + places // (period - 1), _MOST_PLACE)
            if table == 0:
                return places
            child = len(self.names) + table

    def _children(
        self, tables: Int32Array | int, places: Int64Array, *, tails: bool
    ) -> tuple[Int32Array, Int64Array]:
        """What places of tables lead to, and its ordinals; tails: whether a table among them may have one."""
        if not tails:
            return self._from_slots(tables, places)
        periods = self.periods[tables]
        before = places // periods
        beside = np.flatnonzero(places - before * periods == periods - 1)
        children, ordinals = self._from_slots(tables, places - before)
        children[beside] = self.tails[tables if isinstance(tables, int) else tables[beside]]
        ordinals[beside] = before[beside]
        return children, ordinals

    def _from_slots(self, tables: Int32Array | int, places: Int64Array) -> tuple[Int32Array, Int64Array]:
        # No product is larger than its place: a child has at most the slots of its table.
        sizes = self.table_sizes[tables]
        rounds = places // sizes
        slots = places - rounds * sizes
        if not isinstance(tables, int):
            slots += self.table_begins[tables]
        children: Int32Array = self.slots.take(slots)
        ordinals: Int64Array = self.child_counts.take(children)
        ordinals *= rounds
        ordinals += self.ordinals.take(slots)
        return children, ordinals

    def _slots_of(self, child: int, ordinals: Int64Array) -> Int64Array:
        """The places of a child's ordinals in its table, the tail's places left out."""
        count, begin = int(self.child_counts[child]), int(self.child_begins[child])
        size = int(self.table_sizes[self.owners[child]])
        rounds = ordinals // count
        last = _MOST_PLACE // size
        here = np.minimum(rounds, last) * size + self.positions.take(begin + ordinals - rounds * count)
        return np.where(rounds > last, _MOST_PLACE, np.minimum(here, _MOST_PLACE))
