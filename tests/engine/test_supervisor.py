"""What becomes of workers that are lost, and when starting others is given up; times and events are made up."""

from itertools import product

import pytest
from engine_values import make_batch, read_stream

import loaderkit._engine.supervisor as module
from loaderkit._engine.stall_watch import Stall
from loaderkit._engine.supervisor import (
    DISMISSED,
    FENCED,
    KILLED,
    NEXT_STATES,
    READY,
    RELEASED,
    RETIRING,
    STARTING,
    DropTasks,
    GiveUp,
    KillWorker,
    Progress,
    ReleaseSlots,
    RestartPolicy,
    StallWarning,
    WorkerLost,
    WorkerSnapshot,
    WorkerState,
    WorkerSupervisor,
)

WORKERS = 2


def task(number, level=0):
    rows = [2 * number, 2 * number + 1]
    return make_batch(rows, task=number, level=level) if level else read_stream(rows, task=number)


def seen(*tasks, **at):
    return WorkerSnapshot(tasks, Progress(**at))


IDLE = seen()


def made(*, workers=WORKERS, restarts=1, timeout=5.0, restart_late=False, killable=True):
    return WorkerSupervisor(
        worker_count=workers,
        killable=killable,
        policy=RestartPolicy(restarts, timeout, restart_late),
    )


def start(supervisor, ready=True):
    """Starts one worker more; its number."""
    number = supervisor.to_start()
    supervisor.started(number, f"the worker {number}")
    if ready:
        assert supervisor.worker_ready(number)
    return number


def dies(supervisor, ready, reason="exit code 3"):
    """A worker starts and dies; whether starting others is given up then."""
    lost, *rest = supervisor.died(start(supervisor, ready), reason, IDLE, closing=False)
    assert (lost.reason, lost.fenced, lost.late, lost.retry, lost.begun) == (reason, False, False, True, None)
    return rest


def late(supervisor, number, snapshot, doing="the kernel says D", now=100.0, seconds=6.0):
    """The worker made no progress for too long."""
    return supervisor.confirm_stall(now, Stall(number, seconds, True, snapshot.progress), snapshot, doing)


# --- the registry -----------------------------------------------------------------------------------------------------


def test_as_many_workers_are_started_as_there_should_be():
    """A killed one has its place until its end is seen; a fenced, dismissed or released one has none."""
    supervisor = made(restart_late=True)
    first, second = start(supervisor), start(supervisor, ready=False)
    assert supervisor.to_start() is None and supervisor.workers == {0: "the worker 0", 1: "the worker 1"}
    supervisor.channel_closed(first, 0.0)
    assert supervisor.to_start() is None and supervisor.is_active(first)
    supervisor.fence(first, IDLE)
    third = start(supervisor)
    assert (supervisor.workers.keys(), supervisor.fenced) == ({second, third}, {first: "the worker 0"})
    assert supervisor.worker(first) == "the worker 0" and not supervisor.is_active(first)
    supervisor.died(second, "exit code 0", IDLE, closing=False)
    assert supervisor.dismiss() == {third: "the worker 2"}
    assert supervisor.state(third) is DISMISSED and supervisor.workers == {}
    supervisor.forget(third)
    supervisor.forget(first)
    assert {supervisor.state(number) for number in range(3)} == {RELEASED} and supervisor.fenced == {}


def test_a_number_belongs_to_one_worker():
    """The one that was asked for, once."""
    supervisor = made()
    with pytest.raises(AssertionError, match="expected number 0, got 1"):
        supervisor.started(1, "a worker")
    with pytest.raises(AssertionError, match="expected a started one, got 0"):
        supervisor.state(0)
    start(supervisor)
    with pytest.raises(AssertionError, match="expected number 1, got 0"):
        supervisor.started(0, "another worker")


# --- every move -------------------------------------------------------------------------------------------------------


def in_state(state, killable):
    """A supervisor with one worker, number 0, in a state; public events brought it there."""
    supervisor = made(workers=1, killable=killable, restart_late=True)
    start(supervisor, ready=state in (READY, RETIRING))
    match state:
        case WorkerState.RETIRING:
            retires(supervisor)
        case WorkerState.KILLED:
            supervisor.channel_closed(0, 0.0)
        case WorkerState.FENCED if killable:
            supervisor.channel_closed(0, 0.0)
            supervisor.fence(0, IDLE)
        case WorkerState.FENCED:
            late(supervisor, 0, IDLE)
        case WorkerState.DISMISSED:
            supervisor.dismiss()
        case WorkerState.RELEASED:
            supervisor.forget(0)
    assert supervisor.state(0) is state
    return supervisor


def retires(supervisor):
    supervisor.resize(0)
    supervisor.retire()


BUSY = seen(task(7), task=7)
# Each move of the table, with the public events that make it: of processes, and of threads.
MOVES = {
    (STARTING, READY): [(any, lambda one: one.worker_ready(0))],
    (STARTING, KILLED): [
        (True, lambda one: one.channel_closed(0, 1.0)),
        (True, lambda one: late(one, 0, IDLE)),
    ],
    (STARTING, FENCED): [(False, lambda one: late(one, 0, IDLE))],
    (STARTING, DISMISSED): [(any, lambda one: one.dismiss())],
    (STARTING, RELEASED): [
        (True, lambda one: one.died(0, "exit code 3", IDLE, closing=False)),
        (False, lambda one: one.forget(0)),
    ],
    (READY, RETIRING): [(any, retires)],
    (RETIRING, KILLED): [
        (True, lambda one: one.channel_closed(0, 1.0)),
        (True, lambda one: late(one, 0, BUSY)),
    ],
    (RETIRING, FENCED): [(False, lambda one: late(one, 0, BUSY))],
    (RETIRING, DISMISSED): [(any, lambda one: one.retired(0)), (any, lambda one: one.dismiss())],
    (RETIRING, RELEASED): [(True, lambda one: one.died(0, "exit code 3", BUSY, closing=False))],
    (READY, KILLED): [(True, lambda one: one.channel_closed(0, 1.0)), (True, lambda one: late(one, 0, BUSY))],
    (READY, FENCED): [(False, lambda one: late(one, 0, BUSY))],
    (READY, DISMISSED): [(any, lambda one: one.dismiss())],
    (READY, RELEASED): [
        (True, lambda one: one.died(0, "exit code 3", BUSY, closing=False)),
        (True, lambda one: one.died(0, "exit code 3", BUSY, closing=True)),
    ],
    (KILLED, FENCED): [(True, lambda one: one.fence(*one.overdue(9.0), IDLE))],
    (KILLED, DISMISSED): [(True, lambda one: one.dismiss())],
    (KILLED, RELEASED): [(True, lambda one: one.died(0, "exit code -9", IDLE, closing=False))],
    (DISMISSED, RELEASED): [(any, lambda one: one.forget(0))],
    (FENCED, RELEASED): [
        (True, lambda one: one.died(0, "exit code -9", IDLE, closing=False)),
        (False, lambda one: one.stopped_writing(0)),
        (any, lambda one: one.forget(0)),
    ],
}


def test_the_table_has_these_moves_and_no_others():
    """Each of them has its events below."""
    assert {(old, new) for old, news in NEXT_STATES.items() for new in news} == {*MOVES}
    assert {*NEXT_STATES} == {*WorkerState}


@pytest.mark.parametrize(
    ("old", "new", "killable", "event"),
    [
        (*move, killable, event)
        for move, events in MOVES.items()
        for kind, event in events
        for killable in ((True, False) if kind is any else (kind,))
        if killable or move[0] is not KILLED
    ],
)
def test_every_move_of_the_table_is_made_by_an_event(old, new, killable, event):
    supervisor = in_state(old, killable)
    event(supervisor)
    assert supervisor.state(0) is new


@pytest.mark.parametrize(
    ("old", "new"), [(old, new) for old, new in product(WorkerState, WorkerState) if (old, new) not in MOVES]
)
def test_every_other_move_is_refused(old, new):
    """And leaves the worker as it was."""
    supervisor = in_state(old, killable=True)
    with pytest.raises(AssertionError, match=f"worker 0: no way from {old.value} to {new.value}"):
        supervisor._move(0, new)
    assert supervisor.state(0) is old


@pytest.mark.parametrize("state", [DISMISSED, FENCED, RELEASED])
def test_events_that_only_a_present_worker_has_are_refused(state):
    """They would count for nothing."""
    for event in (
        lambda one: one.worker_ready(0),
        lambda one: one.fence(0, IDLE),
        *([] if state is FENCED else [lambda one: one.channel_closed(0, 1.0)]),
        *([] if state is FENCED else [lambda one: one.died(0, "exit code 3", IDLE, closing=False)]),
    ):
        supervisor = in_state(state, killable=True)
        with pytest.raises(AssertionError, match="worker 0"):
            event(supervisor)
        assert supervisor.state(0) is state


def test_events_of_other_workers_that_change_nothing():
    """A dismissed one reports its last task; a killed or fenced one closes its channel, and is killed again."""
    for state in (STARTING, READY, DISMISSED, KILLED, RELEASED):
        supervisor = in_state(state, killable=True)
        assert supervisor.stopped_writing(0) is None and supervisor.state(0) is state
    for state in (KILLED, FENCED):
        supervisor = in_state(state, killable=True)
        assert supervisor.channel_closed(0, 9.0) == KillWorker(0) and supervisor.state(0) is state
    supervisor = in_state(RELEASED, killable=True)
    supervisor.forget(0)
    with pytest.raises(AssertionError, match="expected one that got ready"):
        in_state(STARTING, killable=True).task_finished(0)


# --- how often --------------------------------------------------------------------------------------------------------


def test_workers_that_die_before_they_are_ready_are_given_up_where_none_got_ready_between():
    """One for each worker and three more, in a row."""
    supervisor = made()
    for _ in range(2):
        assert [dies(supervisor, ready=False) for _ in range(WORKERS + 2)] == [[]] * (WORKERS + 2)
        dies(supervisor, ready=True)
    assert [dies(supervisor, ready=False) for _ in range(WORKERS + 2)] == [[]] * (WORKERS + 2)
    assert dies(supervisor, ready=False) == [GiveUp("failed starts", WORKERS + 3, "exit code 3")]


def test_workers_that_die_while_nothing_is_done_are_given_up():
    """Eight plus the restarts of each. A finished task begins a new count, of both kinds."""
    supervisor = made(workers=1)
    most = 8 + 2
    # Every second one dies before it is ready: that counts apart.
    assert not any(dies(supervisor, ready) for _ in range(most - 1) for ready in (True, False))
    number = start(supervisor)
    supervisor.task_finished(number)
    supervisor.died(number, "exit code 5", IDLE, closing=False)
    assert not any(dies(supervisor, ready=True) for _ in range(most - 2))
    assert dies(supervisor, ready=True, reason="exit code 5") == [GiveUp("fruitless", most, "exit code 5")]


def test_a_worker_that_goes_with_all_others_counts_for_nothing():
    """Its tasks are wanted no more."""
    supervisor = made()
    for number in range(50):
        assert supervisor.died(start(supervisor, number % 2), "exit code 0", BUSY, closing=True) == [
            DropTasks(number)
        ]
    assert dies(supervisor, ready=False) == dies(supervisor, ready=True) == []


# --- no progress ------------------------------------------------------------------------------------------------------


def test_a_worker_without_a_task_is_not_watched():
    """One that starts is, and one that has a task; not one that was killed."""
    supervisor = made(workers=4, timeout=None)
    numbers = [start(supervisor, ready=number > 0) for number in range(4)]
    supervisor.channel_closed(3, 0.0)
    snapshots = {0: IDLE, 1: IDLE, 2: BUSY, 3: BUSY}
    stalls = [stall for look in range(10) for stall in supervisor.look(look * 7.5, snapshots)]
    assert [stall.worker for stall in stalls] == [0, 2] and numbers == [0, 1, 2, 3]


def test_a_worker_that_made_progress_since_the_look_is_left_in_peace():
    """Also one that has nothing to do any more, or was killed."""
    supervisor = made(workers=3)
    first, second, third = (start(supervisor) for _ in range(3))
    stall = Stall(first, 6.0, True, BUSY.progress)
    assert supervisor.confirm_stall(9.0, stall, seen(task(7), task=7, beats=1), "runs") == []
    stall = Stall(second, 6.0, True, IDLE.progress)
    assert supervisor.confirm_stall(9.0, stall, IDLE, "runs") == []
    supervisor.channel_closed(third, 8.0)
    assert supervisor.confirm_stall(9.0, Stall(third, 6.0, True, BUSY.progress), BUSY, "runs") == []
    assert [supervisor.state(number) for number in range(3)] == [READY, READY, KILLED]


def test_a_stall_is_a_warning_until_it_takes_too_long():
    supervisor = made()
    number = start(supervisor)
    stall = Stall(number, 4.0, False, BUSY.progress)
    assert supervisor.confirm_stall(9.0, stall, BUSY, "runs") == [StallWarning(stall, True, BUSY)]
    assert supervisor.state(number) is READY


@pytest.mark.parametrize("restart_late", [False, True])
def test_a_late_process_is_killed_and_its_end_is_put_down_to_that(restart_late):
    """Its own exit code says nothing, and its first task is to blame where it began none."""
    supervisor = made(restart_late=restart_late)
    number = start(supervisor)
    snapshot = seen(task(7), task(8))
    warning, kill = late(supervisor, number, snapshot, "the kernel says S", now=100.0)
    assert isinstance(warning, StallWarning) and kill == KillWorker(number)
    assert supervisor.overdue(105.0) == []
    (lost,) = supervisor.died(number, "exit code -9", snapshot, closing=False)
    assert lost.reason == "no sign of life for 6 s (the kernel says S)"
    assert (lost.begun, lost.retry) == ((None, True) if restart_late else (snapshot.tasks[0], False))
    assert lost.late and not lost.fenced


def test_a_late_worker_elsewhere_is_killed_also_where_its_tasks_are_done_by_others():
    """It says what it does later than one here, so it has a little longer."""
    supervisor = made(timeout=4.0)
    number, withdrawn = supervisor.arrived("far"), seen(task=7, beats=3)
    now = 0.0
    killed = []
    while not killed:
        now += supervisor.interval
        for stall in supervisor.look(now, {number: withdrawn}):
            killed += supervisor.confirm_stall(now, stall, withdrawn, "")
    assert isinstance(killed[0], StallWarning) and killed[1:] == [KillWorker(number)]
    assert 0 <= now - supervisor.interval - (4.0 + module.NEWS_SECONDS) <= supervisor.interval


@pytest.mark.parametrize("restart_late", [False, True])
def test_a_process_that_doesnt_end_is_fenced_in_time(restart_late):
    """With the task that it is in; another has its place, and its slots come back when its end is seen."""
    supervisor = made(workers=1, restart_late=restart_late)
    number = start(supervisor)
    snapshot = seen(task(7), task(8), task=8, index=17)
    late(supervisor, number, snapshot, now=100.0)
    assert supervisor.overdue(105.0) == [] and supervisor.overdue(105.1) == [number]
    lost = supervisor.fence(number, snapshot)
    assert (lost.begun, lost.retry, lost.late, lost.fenced) == (
        snapshot.tasks[1],
        restart_late,
        True,
        True,
    )
    assert supervisor.overdue(200.0) == [] and start(supervisor) == 1
    assert supervisor.died(number, "exit code -9", IDLE, closing=False) == [ReleaseSlots(number)]


def test_a_process_that_lost_its_channel_and_doesnt_end_is_fenced_too():
    """It wasn't late: its tasks are done again whatever the policy is."""
    supervisor = made()
    number = start(supervisor)
    assert supervisor.channel_closed(number, 100.0) == KillWorker(number)
    assert supervisor.channel_closed(number, 104.0) == KillWorker(number)
    assert supervisor.overdue(105.1) == [number]  # counted from the first kill
    lost = supervisor.fence(number, BUSY)
    assert lost.reason == "a closed channel, and no end after it was killed"
    assert (lost.retry, lost.late, lost.fenced) == (True, False, True)


@pytest.mark.parametrize("level", [0, 1])
def test_a_late_thread_is_fenced_at_once(level):
    """A batch whose rows it may still write to isn't made again."""
    supervisor = made(killable=False, restart_late=True)
    number = start(supervisor)
    snapshot = seen(task(7, level), task=7)
    _, lost = late(supervisor, number, snapshot)
    assert isinstance(lost, WorkerLost) and lost.fenced and lost.retry == (level == 0)
    assert supervisor.stopped_writing(number) == ReleaseSlots(number)
    assert supervisor.stopped_writing(number) is None


def test_a_killed_process_that_gets_ready_is_given_nothing():
    """What it sent before arrives later. That it got ready counts, as it does for its death."""
    supervisor = made(workers=1, restart_late=True)
    for _ in range(WORKERS + 1):
        dies(supervisor, ready=False)
    number = start(supervisor, ready=False)
    late(supervisor, number, IDLE)
    assert not supervisor.worker_ready(number) and supervisor.state(number) is KILLED
    (lost,) = supervisor.died(number, "exit code -9", IDLE, closing=False)
    assert lost.late and supervisor._fruitless == 1 and supervisor._failed_starts == 0


@pytest.mark.parametrize("killable", [False, True])
@pytest.mark.parametrize("restart_late", [False, True])
def test_a_worker_that_doesnt_get_ready_is_an_error_unless_late_ones_are_replaced(restart_late, killable):
    """There is no task to put it down to."""
    supervisor = made(restart_late=restart_late, killable=killable)
    number = start(supervisor, ready=False)
    warning, decision = late(supervisor, number, IDLE, "the kernel says S", seconds=60.0)
    assert not warning.ready
    if not restart_late:
        assert decision == GiveUp("late start", 1, "no sign of life for 60 s (the kernel says S)")
    else:
        assert isinstance(decision, KillWorker if killable else WorkerLost)
    assert supervisor.state(number) is (STARTING if not restart_late else KILLED if killable else FENCED)


def test_only_workers_that_arent_ready_have_the_time_of_a_start(monkeypatch):
    """Of two that do nothing for twice the limit one is over it."""
    monkeypatch.setattr(module, "STALL_SECONDS", 8.0)
    supervisor = made(timeout=1.0)
    start(supervisor, ready=False), start(supervisor)
    snapshots = {0: IDLE, 1: BUSY}
    found = [stall for n in range(17) for stall in supervisor.look(n * supervisor.interval, snapshots)]
    assert {stall.worker for stall in found} == {1} and all(stall.too_long for stall in found)
    assert not supervisor.is_due(16.5 * supervisor.interval)
    assert supervisor.is_due(17 * supervisor.interval)
