"""An order that is read from tables of slots: one table, or several of which a slot of one leads into another.

child    what a slot leads to: a component, numbered by its place in the names, or a table, numbered behind them
round    places of a table from one slot 0 to the next
tail     a child beside a table's slots, with every period-th place
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from .fair_table import Int32Array, Int64Array
from .table_plan import TablePlan

_MOST_PLACE = 1 << 62
_NO_PERIOD = _MOST_PLACE + (1 << 61)  # of a table without a tail: no place is as large


@dataclass(frozen=True, slots=True, eq=False)
class TableOrder:
    """An even order, or one by a pattern, as `MixtureOrder` says. Tables follow each other, the first one first.

    Arrays by slot, (slots of all tables,): `slots` the child that a slot leads to, `ordinals` the slots of the same
    child before it, `positions` the slots of each child one child after another. Arrays by table: where it begins in
    the arrays by slot, how many slots it has, the period and the child of its tail, -1 where it has none. Arrays by
    child: the table it is in, how many slots it has there (0 for a tail), where they begin in `positions`.
    """

    names: tuple[str, ...]
    weights: Mapping[str, Fraction]
    slots: Int32Array
    ordinals: Int32Array
    positions: Int32Array
    table_begins: Int64Array
    table_sizes: Int64Array
    periods: Int64Array
    tails: Int64Array
    owners: Int64Array
    child_counts: Int64Array
    child_begins: Int64Array

    @classmethod
    def planned(cls, names: tuple[str, ...], plan: TablePlan) -> "TableOrder":
        """The order of the tables of a plan; names: all its components, sorted."""
        numbers = {name: number for number, name in enumerate(names)}
        plans = [plan]  # grows as tables are found
        arrays: list[tuple[Int32Array, Int32Array, Int32Array]] = []
        tables: list[tuple[int, int, int, int]] = []  # begin, size, period, tail
        children: dict[int, tuple[int, int, int]] = {
            len(names): (-1, 0, 0)
        }  # table, slots, begin in positions
        shares = {len(names): Fraction(1)}
        begin = 0

        def number_of(child: "str | TablePlan") -> int:
            if isinstance(child, str):
                return numbers[child]
            plans.append(child)
            return len(names) + len(plans) - 1

        for table, plan in enumerate(plans):
            size = plan.slots.size
            own = shares[len(names) + table]
            tail, period = -1, _NO_PERIOD
            if plan.tail is not None:
                tail, period = number_of(plan.tail), plan.period
                children[tail] = (table, 0, 0)
                shares[tail] = own / period
                own -= shares[tail]
            counts = np.bincount(plan.slots, minlength=len(plan.children))
            ends = np.cumsum(counts)
            inside = [number_of(child) for child in plan.children]
            for child, count, end in zip(inside, counts.tolist(), ends.tolist(), strict=True):
                children[child] = (table, count, begin + end - count)
                shares[child] = own * Fraction(count, size)
            positions = np.argsort(plan.slots, kind="stable").astype(np.int32)
            ordinals = np.empty(size, np.int32)
            ordinals[positions] = np.arange(size) - np.repeat(ends - counts, counts)
            arrays.append((np.array(inside, np.int32)[plan.slots], ordinals, positions))
            tables.append((begin, size, period, tail))
            begin += size
        by_child = np.array([children[number] for number in range(len(children))], np.int64).T
        return cls(
            names,
            {name: shares[number] for name, number in numbers.items()},
            *(np.concatenate(parts) for parts in zip(*arrays, strict=True)),
            *np.array(tables, np.int64).T.copy(),
            *by_child.copy(),
        )

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
        for table, (begin, size, period, tail) in enumerate(
            zip(
                self.table_begins.tolist(),
                self.table_sizes.tolist(),
                self.periods.tolist(),
                self.tails.tolist(),
                strict=True,
            )
        ):
            count = int(totals[len(self.names) + table])
            if tail >= 0:
                totals[tail] = count // period
                count -= count // period
            rounds, rest = divmod(count, size)
            if rounds:
                totals += np.where(self.owners == table, self.child_counts * rounds, 0)
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
