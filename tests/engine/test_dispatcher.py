"""Who works on what: the moves that aren't allowed, and what each of the others does, one at a time."""

import pytest
from engine_twins import ChainSpec, GridSpec
from engine_world import World, drain

from loaderkit._engine.dispatcher import MAX_DEATHS
from loaderkit._engine.slots import PAGE
from loaderkit._engine.task import Broken, Report
from loaderkit.errors import WorkerError


def grid(**changes):
    return GridSpec(**{"rows": 4, "steps": 6, "last_rows": 4, "prefetch": 4, **changes})


def world_of(workers, **knobs):
    world = World(workers=workers, **knobs)
    for _ in range(workers):
        world.hire()
    return world


def test_a_stream_or_worker_that_is_there_already_is_refused():
    world = world_of(1)
    stream = world.open(grid())
    with pytest.raises(ValueError, match="open already"):
        world.dispatcher.open(stream, grid().assembly(world.supplies))
    world.give()
    world.close(stream)  # still closing: a task of it is out
    with pytest.raises(ValueError, match="open already"):
        world.dispatcher.open(stream, grid().assembly(world.supplies))
    with pytest.raises(ValueError, match="ready already"):
        world.dispatcher.ready(next(iter(world.hands)))


def test_tasks_go_to_whoever_has_the_fewest_and_each_has_two_at_least():
    world = world_of(3, task_rows=1)
    world.open(grid())
    order = [world.dispatcher.assign().worker for _ in range(6)]
    assert order[:3] == order[3:] == sorted(set(order))
    assert world.dispatcher.assign() is None


def test_streams_take_turns():
    """Two iterators of one loader at once: neither waits until the other has all it wants."""
    world = world_of(2, task_rows=1)
    first, second = world.open(grid()), world.open(grid())
    assert [world.dispatcher.assign().stream for _ in range(4)] == [first, second, first, second]


def test_a_task_that_was_lost_is_given_out_again_before_anything_new_in_the_same_slot():
    world = world_of(1, task_rows=2)
    world.open(grid())
    world.give()
    world.give()
    (worker,) = world.busy
    lost = [assignment.task for assignment in world.hands[worker].tasks]
    world.die(worker, blame=True, scribbling=True)
    world.hire()
    again = [world.dispatcher.assign() for _ in range(2)]
    assert [assignment.task for assignment in again] == lost
    assert [assignment.attempt for assignment in again] == [1, 1]


def test_after_three_deaths_an_error_that_names_the_records_takes_the_tasks_place():
    """What came before is delivered, and what came after isn't."""
    world = world_of(1, task_rows=4)
    stream = world.open(grid(rows=4))
    world.give()
    world.give()
    world.finish(world.busy[0])
    for _ in range(MAX_DEATHS):
        world.die(world.busy[0], blame=True, scribbling=True)
        world.hire()
        world.give()
    assert drain(world, stream) == 1
    error = world.over[stream].error
    assert isinstance(error, WorkerError)
    for words in ("SIGKILL", "indices 4..7", "record keys 29, 36, 43, 50", "3 workers"):
        assert words in str(error)


def test_only_the_oldest_task_is_suspected():
    world = world_of(1, task_rows=4)
    stream = world.open(grid())
    for _ in range(MAX_DEATHS - 1):
        world.give()
        world.give()
        world.die(world.busy[0], blame=True, scribbling=False)
        world.hire()
    world.give()
    world.finish(
        world.busy[0]
    )  # the suspect is through, and the next is its worker's oldest for the first time
    world.give()
    world.die(world.busy[0], blame=True, scribbling=False)
    world.hire()
    drain(world, stream)
    assert not isinstance(world.over[stream], Broken)


def test_a_worker_that_was_sent_away_is_nobodys_fault():
    world = world_of(1, task_rows=4)
    stream = world.open(grid())
    for _ in range(2 * MAX_DEATHS):
        world.give()
        world.die(world.busy[0], blame=False, scribbling=False)
        world.hire()
    drain(world, stream)
    assert not isinstance(world.over[stream], Broken)


def test_who_died_and_is_not_known_had_nothing():
    assert world_of(1).dispatcher.died("never seen", "exit code 1") == []


def test_an_output_that_was_asked_for_is_written_there_after_a_death_too():
    """The reserve was given up for larger room: the next attempt is told of that, not of the reserve."""
    world = world_of(1, task_rows=4)
    world.open(grid(nbytes=100_000))
    world.give()
    (worker,) = world.busy
    made = world.begin(worker, 0)
    first = world.hands[worker].tasks[0].task.reserve
    assert made.room is not None and made.room != first
    world.die(worker, blame=True, scribbling=True)
    world.hire()
    assert world.dispatcher.assign().task.reserve == made.room


def test_a_closed_stream_keeps_its_bytes_until_the_last_of_its_tasks_is_over():
    world = world_of(2, task_rows=2, reserves=False)
    stream = world.open(grid(steps=400))
    while not world.leases:
        while world.give():
            continue
        world.finish(world.busy[0])
        world.pop(stream)
    while world.give():
        continue
    world.release(world.leases[0])
    used = world.slots.used
    tasks = sum(len(world.hands[worker].tasks) for worker in world.busy)
    assert used and tasks > 1
    world.close(stream)
    for _ in range(tasks):
        assert world.slots.used == used
        world.finish(world.busy[0])
    assert world.slots.used == 0


def test_want_of_memory_is_an_error_only_when_nothing_can_come_back():
    """A user who holds batches gets an error in place of the next; after one was let go of, the next."""
    world = world_of(1, task_rows=4, reserves=False)
    stream = world.open(grid(steps=30, prefetch=1))
    while not world.leases:
        while world.give():
            continue
        world.finish(world.busy[0])
        world.pop(stream)
    world.slots.budget = world.slots.nbytes
    filler = []
    while not filler or filler[-1] is not None:
        try:
            filler.append(world.slots.alloc(PAGE))
        except MemoryError:
            filler.append(None)
    while stream not in world.wanting:
        world.give()
        if not world.pop(stream):
            assert world.busy, "an error, not silence"
            world.finish(world.busy[0])
    assert not world.give()
    world.release(world.leases[0])
    assert world.give(), "asked again once something came back"
    world.finish(world.busy[0])
    assert world.pop(stream) and stream not in world.wanting
    for slot in filler[:-1]:
        world.slots.free(slot)
    world.wind_up()


def test_an_output_for_which_there_is_no_room_fails_its_task_alone():
    """The elements before it are delivered; the error is the memory's."""
    world = world_of(1, task_rows=1)
    stream = world.open(ChainSpec(groupings=(), flats=(False,), fans=((1,),), stop=9, nbytes=10))
    while world.give():
        continue
    world.finish(world.busy[0])
    world.specs[stream].nbytes = 1 << 30
    world.slots.budget = world.slots.nbytes
    assert drain(world, stream) == 1
    assert isinstance(world.over[stream].error, MemoryError)
    world.wind_up()


def test_what_a_worker_reports_twice_counts_once():
    world = world_of(1, task_rows=4)
    world.open(grid())
    world.give()
    world.finish(world.busy[0])
    worker, task, attempt = world.stale[-1]
    assert not world.dispatcher.done(worker, task, attempt, Report(()))
    world.tell_stale(worker, task, attempt)
