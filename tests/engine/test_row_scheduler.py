"""A fixed, batched pipeline: whatever is cut where and done in which order, its batches are those of a plain loop."""

from collections import Counter

import pytest
from engine_specs import grid_specs
from engine_twins import GridSpec, RowLayout
from engine_values import nothing, rows_read
from engine_world import World, drain
from hypothesis import given
from hypothesis import strategies as st

from loaderkit._engine.scheduler import Reserve
from loaderkit._engine.slots import PAGE
from loaderkit._engine.step_window import StepWindow
from loaderkit._engine.task import MakeBatch, ReadRows, targets_of
from loaderkit._order.facts import Failure
from loaderkit.errors import WorkerError


def world_of(workers, **knobs):
    world = World(workers=workers, **knobs)
    for _ in range(max(workers, 1)):
        world.hire()
    return world


@given(
    grid_specs(),
    st.integers(0, 3),
    st.sampled_from(["none", "batches", "all"]),
    st.none() | st.integers(1, 20),
)
def test_batches_are_those_of_a_plain_loop(spec, workers, memory, task_rows):
    """Every batch, or the first error in the order of the rows, for every number of workers and cut of tasks."""
    world = world_of(workers, arena=memory != "none", reserves=memory == "all", task_rows=task_rows)
    stream = world.open(spec)
    drain(world, stream, turns=5000)
    assert stream in world.ended
    world.wind_up()


@given(grid_specs(), st.integers(1, 9), st.randoms(use_true_random=False))
def test_no_row_is_given_out_twice_or_left_out(spec, task_rows, random):
    """The targets of all tasks partition the rows of the steps that are made."""
    world = world_of(2, task_rows=task_rows)
    stream = world.open(spec)
    tasks = []
    while stream not in world.ended:
        while world.give():
            continue
        if not world.pop(stream):
            worker = random.choice(world.busy)
            tasks.append(world.hands[worker].tasks[0].task)
            world.finish(worker)
    tasks += [assignment.task for hand in world.hands.values() for assignment in hand.tasks]
    rows = Counter(index for task in tasks if isinstance(task, ReadRows) for index in task.indices.tolist())
    assert set(rows.values()) <= {1}
    if isinstance(world.ended[stream], Failure):
        assert sorted(rows) == list(range(len(rows))), "a gap before the error"
    else:
        assert sorted(rows) == [i for step in range(spec.steps) for i in spec.plan(step).tolist()]
    world.wind_up()


def made(world, count):
    """The first tasks, as they are given out."""
    return [world.dispatcher.assign().task for _ in range(count)]


def test_several_workers_write_rows_of_one_batch_and_one_that_is_small_gets_several():
    world = world_of(2, task_rows=2)
    world.open(GridSpec(rows=5, steps=2, last_rows=5))
    assert [[(t.first, t.rows) for t in task.targets] for task in made(world, 3)] == [
        [(0, 2)],
        [(2, 2)],
        [(4, 1)],
    ]
    world = world_of(2, task_rows=7)
    world.open(GridSpec(rows=3, steps=3, last_rows=1, prefetch=4))
    assert [[(t.first, t.rows, t.whole) for t in task.targets] for task in made(world, 2)] == [
        [(0, 3, True), (0, 3, True)],
        [(0, 1, True)],
    ]


def test_once_the_layout_is_known_batches_are_written_in_place_and_handed_out_as_they_lie():
    world = world_of(1, task_rows=4)
    stream = world.open(GridSpec(rows=4, steps=6, last_rows=4, prefetch=1))
    assert drain(world, stream) == 6
    world = world_of(1, task_rows=4)
    stream = world.open(GridSpec(rows=4, steps=60, last_rows=4, prefetch=1))
    slots = set()
    while stream not in world.ended:
        while world.give():
            continue
        if world.busy:
            world.finish(world.busy[0])
        for lease in list(world.leases):
            slots.add(lease.slot)
            world.release(lease)
        world.pop(stream)
    assert slots, "no batch was ever in place"
    assert len(slots) <= world.pace.rows_ahead(4) // 4 < 60, "warm slots are used again"


def test_ready_batches_are_handed_out_several_at_once_and_counted_when_the_next_are_asked_for():
    """So what is made ahead, those included, stays within the window."""
    world = world_of(1, task_rows=4)
    world.pace.saw(rows=4, seconds=4e-3)
    stream = world.open(GridSpec(rows=4, steps=400, last_rows=4, prefetch=10))
    window = max(10, world.pace.rows_ahead(4) // 4)
    sizes = []
    while stream not in world.ended:
        while world.give():
            while world.busy:
                world.finish(world.busy[0])
        ahead = len(world.slots.live)
        assert ahead <= window
        world.pop(stream)
        sizes.append(len(world.leases))
        for _ in range(3):
            assert not world.give() or len(world.slots.live) <= window
        while world.leases:
            world.release(world.leases[0])
    assert max(sizes) == 8 and sum(sizes) > 350


def test_large_batches_are_handed_out_several_at_once_by_bytes():
    """No more than 64 MB of them: what `prefetch` says is made ahead needn't all be in the user's hands."""

    class Large(RowLayout):
        def nbytes(self, rows):
            return 24 << 20

    world = world_of(1, task_rows=4, reserves=False)
    spec = GridSpec(rows=4, steps=400, last_rows=4, prefetch=40)
    stream = world.open(spec)
    sizes = []
    for step in range(60):
        while (given := world.dispatcher.assign()) is not None:
            made, world.objects[given.task.id] = spec.work(given.task, world)
            result = rows_read(*made.parts, layout=Large() if step == 0 else None, seconds=1e-3)
            world.dispatcher.done(given.worker, given.task.id, given.attempt, result)
        ready = world.dispatcher.pop(stream)
        if ready.slot is None:
            world.dispatcher.delivered(stream, ready)
            continue
        sizes.append(1 + len(ready.following))
        for each in (ready, *ready.following):
            world.slots.free(each.slot)
    assert max(sizes) == 2


def test_rows_that_dont_fit_in_place_are_gathered_with_those_that_do():
    """The guess was wrong for one row: the finishing task takes all rows from where they are."""
    world = world_of(2, task_rows=2, reserves=False)
    stream = world.open(GridSpec(rows=4, steps=30, last_rows=4, odd=frozenset([102]), prefetch=1))
    sources = {}
    while stream not in world.ended:
        while world.give():
            continue
        for worker in world.busy:
            task = world.hands[worker].tasks[0].task
            if isinstance(task, MakeBatch):
                sources[int(task.indices[0])] = [span.slot is not None for span in task.inputs]
            world.finish(worker)
        while stream not in world.ended and world.pop(stream):
            for lease in list(world.leases):
                world.release(lease)
    assert sources[100] == [True, False]
    world.wind_up()


def test_the_first_failing_row_is_the_error_whichever_worker_was_quicker():
    """Two rows of a batch fail, the later one first: what is raised is the earlier one."""
    world = world_of(2, task_rows=2)
    stream = world.open(GridSpec(rows=4, steps=5, last_rows=4, fails=frozenset([5, 7])))
    while world.give():
        continue
    for worker in reversed(world.busy):
        for place in reversed(range(len(world.hands[worker].tasks))):
            world.finish(worker, place)
    drain(world, stream)
    assert world.ended[stream].error == ("record", 5)


def test_bad_records_of_a_batch_are_told_in_order_whichever_worker_was_quicker():
    """With their batch and no other, also where one task makes several."""
    for task_rows in (1, 2, 8):
        world = world_of(2, task_rows=task_rows)
        stream = world.open(GridSpec(rows=4, steps=5, last_rows=4, lost=frozenset([0, 3, 4, 9, 10, 19])))
        while stream not in world.ended:
            while world.give():
                continue
            for worker in reversed(world.busy):
                world.finish(worker, len(world.hands[worker].tasks) - 1)
            while stream not in world.ended and world.pop(stream):
                continue


def test_behind_a_failing_step_nothing_is_begun():
    world = world_of(1, task_rows=4)
    stream = world.open(GridSpec(rows=4, steps=50, last_rows=4, fails=frozenset([0]), prefetch=40))
    world.give()
    world.finish(world.busy[0])
    while world.pop(stream) and stream not in world.ended:
        pass
    assert not world.give()
    assert world.ended[stream].error == ("record", 0)


def test_a_task_that_ends_early_keeps_the_batches_before_the_failure():
    """One task of three batches fails in the second: the first is handed out, then the error."""
    world = world_of(1, task_rows=6)
    stream = world.open(GridSpec(rows=2, steps=3, last_rows=2, fails=frozenset([3]), prefetch=3))
    assert drain(world, stream) == 1
    assert world.ended[stream].error == ("record", 3)


def test_what_is_made_ahead_is_bounded():
    world = world_of(2, task_rows=4)
    world.open(GridSpec(rows=4, steps=100, last_rows=4, prefetch=3))
    while world.give():
        for worker in world.busy:
            world.finish(worker)
    assert len(world.outputs) <= max(3, world.pace.rows_ahead(4) // 4)


def test_large_batches_are_made_ahead_by_bytes():
    """64 MB of batches, or what keeps the workers busy: a fast pipeline of large batches doesn't fill the memory."""

    class Large(RowLayout):
        def nbytes(self, rows):
            return 32 << 20

    world = world_of(1)
    world.pace.saw(rows=1000, seconds=1e-3)
    spec = GridSpec(rows=10, steps=1000, last_rows=10, prefetch=1)
    world.open(spec)
    task = world.dispatcher.assign()
    parts = spec.work(task.task, world)[0].parts
    result = rows_read(*parts, layout=Large(), seconds=1e-3)
    world.dispatcher.done(task.worker, task.task.id, task.attempt, result)
    assert world.pace.rows_ahead(10) > 100 * 10 + world.pace.least_ahead(world.pace.rows(10))
    slots = [target.slot for _ in range(500) if (a := world.dispatcher.assign()) for target in a.task.targets]
    in_place = [slot for slot in slots if slot is not None]
    assert sum(slot.nbytes for slot in in_place) <= max(
        64 << 20, world.pace.least_ahead(world.pace.rows(10)) // 10 * (32 << 20)
    )


def fill_memory(world, *, leaving):
    """Takes all pages but some."""
    size = world.slots.nbytes
    world.slots.budget = size
    taken = []
    while size >= PAGE:
        try:
            taken.append(world.slots.alloc(size))
        except MemoryError:
            size //= 2
    for slot in taken[-leaving:]:
        assert slot.nbytes == PAGE
        world.slots.free(slot)


def test_no_memory_for_one_of_several_batches_makes_a_smaller_task():
    world = world_of(1, task_rows=12, reserves=False)
    stream = world.open(GridSpec(rows=4, steps=9, last_rows=4, prefetch=9))
    world.give()
    world.finish(world.busy[0])
    world.slots.budget = 2 * 4096
    (targets,) = [task.targets for task in made(world, 1)]
    while stream not in world.ended and world.pop(stream):
        pass
    assert len(targets) in (2, 3)
    assert len([t for t in targets if t.slot]) in (0, 2)


def test_as_many_batches_as_fit_in_64_mb_are_made_ahead_and_not_a_tenth_of_them():
    """Batches of ten rows of 1 MB each: six are whole, and the seventh is begun."""

    class Megabytes(RowLayout):
        def nbytes(self, rows):
            return rows << 20

    world = world_of(1)
    world.pace.saw(rows=100, seconds=0.1)
    window = StepWindow(world.pace, Reserve(world.context), prefetch=1, bulk=False)
    window.layout = Megabytes()
    assert window.room(10) == 7


def test_no_memory_for_what_lies_beside_batches_in_place_takes_nothing():
    """A page is left: a slot for the one batch, but no room for the other, which has zeros. The world checks."""
    world = world_of(1, task_rows=8)
    stream = world.open(GridSpec(rows=4, steps=4, last_rows=3, zeros=1, prefetch=9))
    world.give()
    world.finish(world.busy[0])
    fill_memory(world, leaving=1)
    assert not world.give()
    world.slots_without_end()
    assert drain(world, stream) == 4


def test_a_failure_without_parts_fails_the_first_of_its_batches():
    world = world_of(1, task_rows=4)
    stream = world.open(GridSpec(rows=2, steps=2, last_rows=2))
    assignment = world.dispatcher.assign()
    error = WorkerError("gone")
    world.dispatcher.done(assignment.worker, assignment.task.id, 0, nothing(assignment.task, error))
    assert world.dispatcher.pop(stream).error == error
    assert world.dispatcher.pop(stream).error == error


@pytest.mark.parametrize("in_place", [True, False])
def test_with_a_batch_fn_no_row_is_ever_written_in_place(in_place):
    world = world_of(1, task_rows=1)
    world.open(GridSpec(rows=2, steps=40, last_rows=2, finish=True, in_place=in_place, prefetch=1))
    stream = next(iter(world.twins))
    seen = set()
    while stream not in world.ended:
        while world.give():
            continue
        for worker in world.busy:
            seen |= {target.slot is not None for target in targets_of(world.hands[worker].tasks[0].task)}
            world.finish(worker)
        world.pop(stream)
    assert (True in seen) == in_place
