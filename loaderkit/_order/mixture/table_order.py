"""An order that is read from tables of slots: one table, or several of which a slot of one leads into another.

child    what a slot leads to: a component, numbered by its place in the names, or a table, numbered behind them
round    places of a table from one slot 0 to the next
tail     a child beside a table's slots, with every period-th place
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from .fair_table import Int32Array, Int64Array
from .table_plan import TablePlan

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
