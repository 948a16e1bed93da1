"""Losses at a task: counted where they happened, also where what was read instead of a bad record is to blame."""

import numpy as np

from loaderkit._engine.in_flight import InFlightTask, before
from loaderkit._engine.task import Target, Task


def out_of(*places: tuple[int, tuple[int, int] | None]) -> tuple[InFlightTask, list[bool]]:
    """A task of records 20..29, keys 120..129, whose workers were lost there; each time whether it is done again."""
    indices = np.arange(20, 30)
    out = InFlightTask(0, Task(7, 0, indices, indices + 100, (Target(10, 10, 0, None, True),)))
    lost = [(None, None), *places]
    return out, [out.lose("SIGSEGV", *at, max_restarts=1, retry=True, late=False) for at in lost]


def test_the_record_read_instead_is_named_with_the_row_that_needed_it():
    """The second loss, at a candidate, is the end: its key, and the row's index."""
    out, again = out_of((23, (41, 141)))
    assert again == [True, False]
    assert out.error is not None
    assert (out.error.indices, out.error.record_keys) == ((23,), (141,))
    assert "at index 41 (record_key 141), read instead of index 23 (record_key 123), which is bad" in str(
        out.error
    )


def test_losses_at_other_records_read_for_one_row_are_no_row_of_losses():
    """Each of them may have been bad luck."""
    out, again = out_of((23, None), (23, (41, 141)), (23, (42, 142)))
    assert again[0] and not again[1]
    out, again = out_of()
    assert [
        out.lose("SIGSEGV", *at, max_restarts=2, retry=True, late=False)
        for at in ((23, None), (23, (41, 141)), (23, (42, 142)), (23, (42, 142)))
    ] == [True, True, True, True]
    assert not out.lose("SIGSEGV", 23, (42, 142), max_restarts=2, retry=True, late=False)
    assert out.error is not None and out.error.record_keys == (142,)


def test_what_comes_before_a_record_is_so_in_the_order_of_the_task():
    """Where a stream begins again, or steps of dealt records lie side by side, indices don't ascend."""
    dealt = np.array([0, 2, 4, 1, 3, 5])
    task = Task(7, 0, dealt, dealt + 100, (Target(3, 3, 0, None, True), Target(3, 3, 0, None, True)))
    assert [(before(task, index)[0].indices.tolist(), before(task, index)[1]) for index in (4, 1, 5)] == [
        ([], 0),
        ([0, 2, 4], 1),
        ([0, 2, 4], 1),
    ]
    wrapped = np.array([98, 99, 0, 1])
    task = Task(8, 0, wrapped, wrapped)
    assert before(task, 99)[0].indices.tolist() == [98]
    out = InFlightTask(0, task)
    assert [out.lose("SIGSEGV", 99, max_restarts=1, retry=True, late=False) for _ in range(2)] == [True, True]
    assert out.to_do().indices.tolist() == [98]
