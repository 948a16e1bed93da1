"""Which worker does which task: the moves that aren't allowed, and what each of the others does, one at a time."""

import pytest
from engine_twins import ChainSpec, GridSpec
from engine_world import MAX_RESTARTS, World, drain

from loaderkit._engine.slots import PAGE
from loaderkit._engine.task import Discarded, MakeBatch, targets_of
from loaderkit._order.facts import Failure
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
        world.dispatcher.open(stream, grid().scheduler(world.context))
    world.give()
    world.close(stream)  # still closing: a task of it is out
    with pytest.raises(ValueError, match="open already"):
        world.dispatcher.open(stream, grid().scheduler(world.context))
    with pytest.raises(ValueError, match="ready already"):
        world.dispatcher.ready(next(iter(world.hands)))


def test_tasks_go_to_the_worker_that_has_the_fewest_and_each_has_two_at_least():
    world = world_of(3, task_rows=1)
    world.open(grid())
    order = [world.dispatcher.assign().worker for _ in range(6)]
    assert order[:3] == order[3:] == sorted(set(order))
    assert world.dispatcher.assign() is None


def test_tasks_that_are_withdrawn_are_done_in_their_order():
    """The oldest is waited for first, whichever was withdrawn last."""
    world = world_of(0, task_rows=1)
    world.open(grid())
    far = [world.hire(elsewhere=True) for _ in range(2)]
    given = [world.dispatcher.assign() for _ in range(4)]
    assert {each.worker for each in given} == {*far}
    for each in (given[1], given[0], given[3]):
        assert world.dispatcher.withdraw(each.worker, each.task.id, each.attempt)
    world.dispatcher.take_back(given[2].worker, "a cut")
    world.hire()
    world.hire()
    again = [world.dispatcher.assign().task.id for _ in range(4)]
    assert again == [each.task.id for each in given]


def test_streams_take_turns():
    """Two iterators of one loader at once: neither waits until the other has all it wants."""
    world = world_of(2, task_rows=1)
    first, second = world.open(grid()), world.open(grid())
    assert [world.dispatcher.assign().stream for _ in range(4)] == [first, second, first, second]


def test_a_lost_suspect_is_given_out_before_all_else_alone_and_in_the_same_slot():
    """What was only queued comes behind it, and isn't suspected."""
    world = world_of(1, task_rows=2)
    world.open(grid())
    world.give()
    world.give()
    (worker,) = world.busy
    lost = [assignment.task for assignment in world.hands[worker].tasks]
    world.die(worker, begun=0, scribbling=True)
    other = world.hire()
    suspect = world.dispatcher.assign()
    assert (suspect.task, suspect.attempt, suspect.suspect) == (lost[0], 1, True)
    assert world.dispatcher.assign() is None, "alone"
    world.hire()
    behind = world.dispatcher.assign()
    assert (behind.task, behind.attempt, behind.suspect) == (lost[1], 1, False)
    assert suspect.worker == other != behind.worker


def test_a_worker_that_is_ready_again_is_given_the_suspect_that_was_taken_from_it():
    """As an interrupted call does it: the worker is the same one, and has nothing any more."""
    world = world_of(1)
    world.open(grid())
    world.give()
    world.die(world.busy[0], begun=0)
    worker = world.hire()
    suspect = world.dispatcher.assign()
    world.dispatcher.take_back(worker, "interrupted")
    world.dispatcher.ready(worker)
    assert world.dispatcher.assign() == suspect._replace(attempt=2)


def test_a_suspect_waits_until_a_worker_is_idle():
    """And no worker gets a task before: else it might wait for ever."""
    world = world_of(2, task_rows=1)
    world.open(grid(steps=30))
    while world.give():
        continue
    victim, other = sorted(world.hands)
    world.die(victim, begun=0)
    while world.hands[other].tasks:
        assert not world.give()
        world.finish(other)
    assert world.give()
    assert [assignment.suspect for assignment in world.hands[other].tasks] == [True]


def lose(world, at=None, times=MAX_RESTARTS + 1):
    """Loses as many workers, each at the oldest task of one."""
    for _ in range(times):
        world.die(world.busy[0], begun=0, at=at, scribbling=True)
        world.hire()
        world.give()


def test_a_record_at_which_workers_are_lost_is_named_and_those_before_it_are_delivered():
    """Elements: all of its own task too, made once more without it."""
    world = world_of(1, task_rows=6)
    stream = world.open(ChainSpec(groupings=(), flats=(False,), fans=((1,),), stop=20))
    world.give()
    world.finish(world.busy[0])
    world.give()
    lose(world, at=3)
    assert drain(world, stream) == 6 + 3
    error = world.ended[stream].error
    assert isinstance(error, WorkerError) and (error.indices, error.record_keys) == ((9,), (64,))
    assert "3 workers were lost" in str(error) and "SIGKILL at index 9 (record_key 64)" in str(error)


def test_whole_batches_before_such_a_record_are_delivered_too():
    world = world_of(1, task_rows=12)
    stream = world.open(grid(rows=4, prefetch=6))
    world.give()
    lose(world, at=9)
    assert drain(world, stream) == 2
    assert world.ended[stream].error.indices == (9,)


def test_where_no_record_is_known_the_error_names_the_task():
    world = world_of(1, task_rows=4)
    stream = world.open(grid(rows=4))
    world.give()
    world.give()
    world.finish(world.busy[0])
    lose(world)
    assert drain(world, stream) == 1
    error = world.ended[stream].error
    for words in ("SIGKILL", "indices 4..7", "record keys 29, 36, 43, 50", "3 workers"):
        assert words in str(error)


def test_losses_at_ever_other_records_are_forgiven_longer_but_not_for_ever():
    """Workers are killed from outside again and again; or a record kills some time after it was done."""
    world = world_of(1, task_rows=6)
    stream = world.open(ChainSpec(groupings=(), flats=(False,), fans=((1,),), stop=20))
    world.give()
    lose(world, times=1)
    for at in range(4 * MAX_RESTARTS - 1):
        lose(world, at=at % 5, times=1)
        assert world.hands[world.busy[0]].tasks[0].task.indices.tolist() == [*range(6)]
    lose(world, at=4, times=1)
    drain(world, stream)
    assert world.ended[stream].error.indices == (4,)


def test_what_was_only_queued_is_never_suspected():
    world = world_of(1, task_rows=4)
    stream = world.open(grid())
    for _ in range(3 * MAX_RESTARTS):
        while world.give():
            continue
        world.die(world.busy[0], scribbling=True)
        world.hire()
    drain(world, stream)
    assert not isinstance(world.ended[stream], Failure)


def test_a_slot_of_a_stuck_worker_is_not_allocated_again_until_it_has_ended():
    """The batch is delivered as a copy; what the worker writes when it wakes up is never read."""
    world = world_of(2, task_rows=2, reserves=False)
    stream = world.open(grid(steps=40))
    stuck = None
    while stuck is None:
        while world.give():
            continue
        firsts = {w: targets_of(world.hands[w].tasks[0].task) for w in world.busy}
        in_slots = [w for w, targets in firsts.items() if targets and targets[0].slot is not None]
        if in_slots:
            stuck = in_slots[0]
        elif world.busy:
            world.finish(world.busy[0])
        world.pop(stream)
    while world.leases:
        world.release(world.leases[0])
    slot = world.hands[stuck].tasks[0].task.targets[0].slot
    world.fence(stuck, begun=0, at=None, retry=True)
    assert world.slots.held(slot)
    drain(world, stream)
    assert world.slots.held(slot) and slot.offset in world.slots.live
    world.write_late(stuck, 0)
    world.fenced_ended(stuck)
    assert not world.slots.held(slot) and slot.offset not in world.slots.live
    world.close(stream)
    world.wind_up()


def test_a_batch_goes_to_the_worker_that_finished_last_not_behind_a_slow_record():
    world = world_of(2, task_rows=1)
    world.open(ChainSpec(groupings=((2, True),), stop=40))
    while world.give():
        continue
    slow, quick = sorted(world.hands)
    world.finish(slow)
    world.finish(quick)
    assert world.give()
    makes = {
        w: [isinstance(given.task, MakeBatch) for given in hand.tasks] for w, hand in world.hands.items()
    }
    assert makes == {slow: [False], quick: [False, True]}


def test_tasks_that_are_done_again_are_counted_where_a_worker_was_lost_and_not_where_it_was_let_go():
    """`stats()` says how much work was lost; a worker that its pool ends has lost nothing."""
    for reason, repeated in (("SIGKILL", 2), ("dismissed", 0)):
        world = world_of(1, task_rows=1)
        world.open(grid())
        while world.give():
            continue
        assert len(world.dispatcher.take_back(world.busy[0], reason)) == 2
        assert world.dispatcher.repeated == repeated


def test_an_unknown_worker_that_died_had_no_task():
    assert world_of(1).dispatcher.take_back("never seen", "exit code 1") == []


def test_an_output_that_was_asked_for_is_written_there_after_a_death_too():
    """The reserve was given up for larger room: the next attempt is told of that, not of the reserve."""
    world = world_of(1, task_rows=4)
    world.open(grid(nbytes=100_000))
    world.give()
    (worker,) = world.busy
    made = world.begin(worker, 0)
    first = world.hands[worker].tasks[0].task.reserve
    assert made.room is not None and made.room != first
    world.die(worker, begun=0, scribbling=True)
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
    while world.leases:
        world.release(world.leases[0])
    used = world.slots.used
    tasks = sum(len(world.hands[worker].tasks) for worker in world.busy)
    assert used and tasks > 1
    world.close(stream)
    for _ in range(tasks):
        assert world.slots.used == used
        world.finish(world.busy[0])
    assert world.slots.used == 0


def test_of_a_closed_stream_only_what_was_begun_is_waited_for():
    world = world_of(2, task_rows=2)
    stream, other = world.open(grid(steps=40)), world.open(grid(steps=40))
    while world.give():
        continue
    first = world.busy[0]
    world.begin(first, 0)
    world.close(stream, recalled=True)
    left = [a.stream for hand in world.hands.values() for a in hand.tasks]
    assert left.count(stream) == 1 and left.count(other) > 0
    assert world.give(), "the workers that had them have room again"
    drain(world, other)
    while world.busy:
        world.finish(world.busy[0])
    while world.leases:
        world.release(world.leases[0])
    world.close(other)
    world.let_go()
    assert world.slots.used == 0


def test_want_of_memory_is_an_error_only_when_nothing_can_come_back():
    """A user that holds batches gets an error in place of the next; after one was freed, the next."""
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
    assert isinstance(world.ended[stream].error, MemoryError)
    world.wind_up()


def test_what_a_worker_reports_twice_counts_once():
    world = world_of(1, task_rows=4)
    world.open(grid())
    world.give()
    world.finish(world.busy[0])
    worker, task, attempt = world.stale[-1]
    assert not world.dispatcher.done(worker, task, attempt, Discarded())
    world.tell_stale(worker, task, attempt)
