"""The ledger acts like a dict that is copied at each entry, but is faster; every earlier value stays unchanged."""

import copy
import sys
from collections import Counter
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from internals import plan_of
from interrupts import interrupted

import loaderkit as lk
from loaderkit._order.facts import Facts, Loss
from loaderkit._plan.ledger import Ledger
from loaderkit._plan.position import Position
from loaderkit._plan.seekable_plan import SeekablePlan

MANY = 100_000
LAST = MANY // 100 - 1  # hundred
INDICES = st.integers(0, 5)


@given(
    st.dictionaries(INDICES, INDICES), st.lists(st.tuples(st.integers(0, 9), INDICES, INDICES), max_size=30)
)
def test_each_value_is_what_a_copied_dict_would_be(first, entries):
    """Entries are added to any value: the latest, an older one, one that was extended before."""
    values, twins = [Ledger(first)], [dict(first)]
    for back, index, instead in entries:
        place = max(0, len(values) - 1 - back)
        values.append(values[place].with_entry(index, instead))
        twins.append({**twins[place], index: instead})
        for value, twin in zip(values, twins, strict=True):
            assert value == twin and dict(value) == twin and len(value) == len(twin)
            assert value.last == max(twin, default=-1)
            assert all(value.get(key) == twin.get(key) for key in range(6))
    assert copy.deepcopy(values[-1]) == twins[-1] and eval(repr(values[-1])) == twins[-1]


def test_runs_have_nothing_in_common_but_what_they_begin_with():
    """The empty ledger is one shared object; entries of one run don't show in another."""
    nothing = Ledger()
    one, other = nothing.with_entry(1, 2), nothing.with_entry(1, 2)
    assert one.with_entry(3, 4) == {1: 2, 3: 4} and other.with_entry(5, 6) == {1: 2, 5: 6}
    assert one._log is not other._log and not nothing


class Calls:
    """Counts what is called, of Python's and of C's functions, in a with block."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> "Calls":
        sys.setprofile(self._note)
        return self

    def _note(self, frame: FrameType, event: str, argument: Any) -> None:
        self.count += event in ("call", "c_call")

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)


@pytest.mark.slow
def test_a_hundred_thousand_losses_cost_as_much_each_as_the_first():
    """Each entry exists once, in one log, though every position is kept; and the last losses take as many calls as the
    first to count them, to hold them against the limit and to find what was read instead.
    """
    loader = lk.DataLoader(
        data_source=range(4 * MANY),
        sampler=lk.SequentialSampler(4 * MANY),
        operations=[lk.Batch(2)],
        on_record_error="replace",
        max_bad_records=0.9,
    )
    plan = plan_of(loader)
    position = plan.first_position()
    first, positions, calls, held = 999, [], Counter(), set()
    for number in range(MANY):
        index = first if number == 0 else 2 * number
        lost = [loss_of(index)]
        if number // 100 in (10, LAST):
            with Calls() as counted:
                behind = with_lost(plan, position, lost)
                plan.check_bad_records(behind, lost[0])
                plan.replacement_search(behind)(index, 0)
            calls[number // 100] += counted.count
        else:
            behind = with_lost(plan, position, lost)
        positions.append(position := behind)
        if number >= 1000 and number % 1000 == 0:
            held.add(sys.getrefcount(first))
            assert len(held) == 1, "positions hold entries of their own"
    assert position.losses.count == MANY
    assert 0 < calls[LAST] <= 1.01 * calls[10]
    assert positions[499].losses.ledger == {first: first + 1, **{2 * k: 2 * k + 1 for k in range(1, 500)}}


def with_lost(plan: SeekablePlan, position: Position, lost: list[Loss]) -> Position:
    """The position after an element and the records lost with it."""
    return plan.after(position, Facts(losses={0: tuple(lost)}), 0)


def loss_of(index: int) -> Loss:
    return Loss(0, index, index, index + 1, "source range", "OSError: torn")


def test_it_goes_through_its_entries_in_the_order_in_which_they_first_came():
    """An index that is added again keeps its place."""
    ledger = Ledger({7: 8}).with_entry(3, 4).with_entry(7, 9)
    assert list(ledger.items()) == [(7, 9), (3, 4)]


def test_an_interrupted_extension_does_no_harm():
    """At any line of it: the same entry, or another one, can be added afterwards, and every entry is found."""
    for entry in ((12, 13), (20, 21)):
        line, came = 0, True
        while came:
            line += 1
            base = Ledger().with_entry(3, 4)
            came = interrupted(lambda base=base: base.with_entry(12, 13), line)
            assert dict(base) == {3: 4}
            assert dict(base.with_entry(*entry)) == {3: 4, entry[0]: entry[1]}, f"line {line}"
    assert line > 8
