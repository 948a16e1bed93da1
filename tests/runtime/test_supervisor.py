"""What becomes of workers that are lost, and when starting others is given up; nothing is started here."""

from dataclasses import replace

import numpy as np
import pytest

import loaderkit as lk
import loaderkit._runtime.executors.supervisor as casualties
from loaderkit._engine.stall_watch import Stall
from loaderkit._engine.task import Task
from loaderkit._runtime.executors.process_worker import ProcessWorker
from loaderkit._runtime.executors.record_names import RecordNames
from loaderkit._runtime.executors.restart_policy import RestartPolicy
from loaderkit._runtime.executors.supervisor import WorkerSupervisor
from loaderkit._runtime.worker.heartbeat import Progress

WORKERS = 2


class Books:
    """The dispatcher's side of it: which workers are ready and have which tasks; it notes what it is told."""

    def __init__(self):
        self.tasks = {}
        self.told = []

    @property
    def workers(self):
        return frozenset(self.tasks)

    def busy(self, worker):
        return self.tasks.get(worker, [])

    def died(self, worker, reason, **how):
        self.told.append(("died", worker, reason, how))
        self.tasks.pop(worker, None)

    def fence(self, worker, reason, **how):
        self.told.append(("set aside", worker, reason, how))
        self.tasks.pop(worker, None)

    def release(self, worker):
        self.told.append(("gone", worker))


class Process(ProcessWorker):
    """A worker process that was never started."""

    name = "worker process 9"

    def __init__(self):
        self.at = Progress()
        self.kills = self.dismissals = 0

    def progress(self):
        return self.at

    def kill(self):
        self.kills += 1

    def dismiss(self):
        self.dismissals += 1


def task(number):
    rows = np.array([2 * number, 2 * number + 1])
    return Task(number, 0, rows, rows, ())


@pytest.fixture
def books():
    return Books()


def made(books, crew, *, restarts=1, timeout=5.0, restart_late=False):
    patience = RestartPolicy(restarts, timeout, restart_late)
    return WorkerSupervisor(
        books, crew, patience, worker_count=WORKERS, kind="process", names=RecordNames(None)
    )


def test_workers_that_die_before_they_are_ready_are_given_up_where_none_got_ready_between(books):
    """One for each worker and three more, in a row."""
    lost = made(books, {})
    for _ in range(2):
        for number in range(WORKERS + 2):
            lost.died(number, Process(), "exit code 3", Progress(), missed=True)
            assert lost.hopeless is None
        lost.arrived()
    for number in range(WORKERS + 3):
        assert lost.hopeless is None
        lost.died(number, Process(), "exit code 3", Progress(), missed=True)
    assert isinstance(lost.hopeless, lk.WorkerError)
    assert "5 workers in a row died before they were ready, the last with exit code 3" in str(lost.hopeless)


def test_workers_that_die_while_nothing_is_done_are_given_up(books):
    """Eight beside the restarts of each. Whatever is done begins a new count, of both kinds."""
    lost = made(books, {})
    most = 8 + 2 * WORKERS

    def one_dies(number):
        books.tasks[number] = []
        lost.died(number, Process(), "exit code 5", Progress(), missed=True)

    for number in range(most - 1):
        one_dies(number)
    for _ in range(WORKERS + 2):
        lost.died(99, Process(), "exit code 3", Progress(), missed=True)
    lost.got_on()
    lost.died(99, Process(), "exit code 3", Progress(), missed=True)
    for number in range(most - 1):
        one_dies(number)
    assert lost.hopeless is None
    one_dies(0)
    assert f"{most} workers in a row died and nothing was done" in str(lost.hopeless)


def test_a_worker_that_goes_with_all_others_counts_for_nothing(books):
    """Its tasks are wanted no more."""
    lost = made(books, {})
    for number in range(50):
        lost.died(number, Process(), "exit code 0", Progress(), missed=False)
    assert lost.hopeless is None
    assert {told[:3] for told in books.told} == {("died", number, "dismissed") for number in range(50)}


def test_who_has_nothing_to_do_gives_no_sign_and_needs_none(books):
    """A worker that starts does, and one that has a task; not one that was killed, or isn't in the crew."""
    crew = {number: Process() for number in range(4)}
    lost = made(books, crew)
    books.tasks = {1: [], 2: [task(7)], 3: [task(8)]}
    lost.stalled(Stall(3, 6.0, True), crew[3], "the kernel says D", "")
    assert [lost.sign(number, worker) for number, worker in crew.items()] == [
        Progress(),
        None,
        Progress(),
        None,
    ]
    assert lost.sign(9, Process()) is None


def test_a_worker_that_takes_too_long_is_killed_and_its_end_is_put_down_to_that(books, caplog):
    """Once; its own exit code says nothing, and its first task is to blame where it began none."""
    crew = {1: Process()}
    lost = made(books, crew)
    books.tasks = {1: [task(7), task(8)]}
    lost.stalled(Stall(1, 6.0, True), crew[1], "the kernel says S", "")
    assert crew[1].kills == 1 and not books.told
    lost.fence_overdue()  # it was killed a moment ago
    assert not books.told and not lost.fenced
    lost.died(1, crew.pop(1), "exit code -9", Progress(), missed=True)
    ((what, worker, reason, how),) = books.told
    assert (what, worker) == ("died", 1) and reason == "no sign of life for 6 s (the kernel says S)"
    assert (how["begun"], how["retry"], how["late"]) == (7, False, True)
    assert "was killed with no sign of life" in caplog.text


@pytest.mark.parametrize("restart_late", [False, True])
def test_one_that_doesnt_end_is_set_aside_in_time(books, monkeypatch, restart_late):
    """With the task that it is in; the crew has room for another, and it is gone when its end is seen."""
    crew = {1: Process()}
    lost = made(books, crew, restart_late=restart_late)
    books.tasks = {1: [task(7), task(8)]}
    crew[1].at = replace(crew[1].at, task=8, index=17)
    lost.stalled(Stall(1, 6.0, True), crew[1], "the kernel says D", "")
    monkeypatch.setattr(casualties, "KILL_SECONDS", -1.0)
    worker = crew[1]
    lost.fence_overdue()
    assert (crew, [*lost.fenced], worker.dismissals) == ({}, [1], 1)
    ((what, _, _, how),) = books.told
    assert what == "set aside" and (how["begun"], how["at"]) == (8, 17)
    assert (how["retry"], how["late"]) == (restart_late, True)
    lost.fence_overdue()
    assert len(books.told) == 1
    assert lost.release(1) and not lost.release(1)
    assert books.told[1:] == [("gone", 1)]


@pytest.mark.parametrize("restart_late", [False, True])
def test_one_that_doesnt_get_ready_is_an_error_unless_late_ones_are_replaced(books, restart_late):
    """There is no task to put it down to."""
    crew = {1: Process()}
    lost = made(books, crew, restart_late=restart_late)
    lost.stalled(Stall(1, 60.0, True), crew[1], "the kernel says S", "")
    assert crew[1].kills == restart_late
    if restart_late:
        assert lost.hopeless is None
    else:
        assert isinstance(lost.hopeless, lk.WorkerTimeoutError) and "didn't get ready" in str(lost.hopeless)


def test_only_workers_that_arent_ready_have_the_time_of_a_start(books, monkeypatch):
    """Of two that do nothing for twice the limit one is over it."""
    monkeypatch.setattr(casualties, "STALL_SECONDS", 8.0)
    crew = {1: Process(), 2: Process()}
    lost = made(books, crew, timeout=1.0)
    books.tasks = {2: [task(7)]}
    found = [found for n in range(16) for found in lost.look(n * lost.interval)]
    assert {stall.worker for stall, _, _ in found} == {2}
    assert all(stall.too_long and worker is crew[2] for stall, worker, _ in found)
