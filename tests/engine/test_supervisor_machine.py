"""Whatever the order of events, the supervisor agrees with a simple model of its workers.

The model has no table: it says of each event what becomes of that worker, and counts by going through all that
happened so far.
"""

from dataclasses import dataclass, field

import numpy as np
import pytest
from engine_values import make_batch, read_stream
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from loaderkit._engine.supervisor import (
    NEWS_SECONDS,
    DropTasks,
    GiveUp,
    KillWorker,
    ReleaseSlots,
    RestartPolicy,
    StallWarning,
    WorkerLost,
    WorkerSnapshot,
    WorkerState,
    WorkerSupervisor,
)
from loaderkit._engine.task import MakeBatch, Task

WARN, KILL = 60.0, 5.0  # seconds, as the supervisor has them
STAYING = ("starting", "ready", "killed")
PRESENT = (*STAYING, "retiring")


@dataclass(frozen=True)
class At:
    """Where a worker is."""

    task: int | None = None
    index: int | None = None
    instead: tuple[int, int] | None = None
    beats: int = 0


@dataclass
class Modelled:
    """A worker, as the model has it."""

    state: str = "starting"
    got_ready: bool = False
    tasks: list[Task] = field(default_factory=list)
    at: At = At()
    late: bool = False
    killed_at: float = 0.0
    quiet: float | None = None  # seconds without progress, None if it wasn't watched at the last look
    sign: At | None = None  # at the last look
    warned: bool = False
    elsewhere: bool = False

    @property
    def watched(self):
        at_work = bool(self.tasks) or (self.elsewhere and self.at.task is not None)
        return self.state == "starting" or (self.state in ("ready", "retiring") and at_work)


class SupervisorMachine(RuleBasedStateMachine):
    @initialize(
        workers=st.integers(1, 3),
        killable=st.booleans(),
        restarts=st.integers(0, 2),
        timeout=st.sampled_from([8.0, None, 120.0, 8.0]),
        restart_late=st.booleans(),
    )
    def begin(self, workers, killable, restarts, timeout, restart_late):
        self.worker_count, self.killable, self.restarts = workers, killable, restarts
        self.timeout, self.restart_late = timeout, restart_late
        self.supervisor = WorkerSupervisor[str](
            worker_count=workers,
            killable=killable,
            policy=RestartPolicy(restarts, timeout, restart_late),
        )
        self.workers: dict[int, Modelled] = {}  # all that were ever started
        self.history: list[str] = []  # "ready", "done", "died starting", "died ready"
        self.now = 1000.0
        self.last_look: float | None = None
        self.next_task = 0

    # --- the model ------------------------------------------------------------------------------------------------

    def those(self, *states):
        return [number for number, worker in self.workers.items() if worker.state in states]

    @property
    def staying(self):
        """Of this machine."""
        return [number for number in self.those(*STAYING) if not self.workers[number].elsewhere]

    def in_a_row(self, what, broken_by):
        """How often something happened since something else did."""
        count = 0
        for event in self.history:
            count = 0 if event in broken_by else count + (event == what)
        return count

    def snapshot(self, number):
        worker = self.workers[number]
        return WorkerSnapshot([*worker.tasks], worker.at)

    def check_lost(self, lost, number, *, fenced):
        worker = self.workers[number]
        assert isinstance(lost, WorkerLost) and (lost.number, lost.fenced) == (number, fenced)
        assert lost.late == worker.late and ("no sign of life" in lost.reason) == worker.late
        begun = next((task for task in worker.tasks if task.id == worker.at.task), None)
        if worker.elsewhere:
            assert (lost.begun, lost.retry) == (None, True)
        elif not worker.late or self.restart_late:
            assert lost.begun is begun
            assert lost.retry == (not (fenced and isinstance(begun, MakeBatch) and not self.killable))
        else:
            assert lost.begun is (begun if begun is not None or not worker.tasks else worker.tasks[0])
            assert not lost.retry

    # --- the life of a worker -------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.staying) < self.worker_count)
    @rule(fails=st.sampled_from([False, False, False, True]), ready=st.booleans(), tasks=st.integers(0, 2))
    def start(self, fails, ready, tasks):
        number = len(self.workers)
        assert self.supervisor.to_start() == number
        self.supervisor.started(number, f"worker {number}")
        self.workers[number] = Modelled()
        if fails:
            self.supervisor.forget(number)
            self.workers[number].state = "released"
        elif ready:
            self.get_ready(number)
            for _ in range(tasks):
                self.give_task(number, level=0, begun=tasks == 2)

    @precondition(lambda self: self.killable)  # not beside threads
    @rule(tasks=st.integers(0, 2))
    def arrives(self, tasks):
        """A worker of another machine; it is ready."""
        number = self.supervisor.arrived(f"worker {len(self.workers)}")
        assert number == len(self.workers)
        self.workers[number] = Modelled("ready", got_ready=True, elsewhere=True)
        for _ in range(tasks):
            self.give_task(number, level=0, begun=tasks == 2)

    def get_ready(self, number):
        worker = self.workers[number]
        assert self.supervisor.worker_ready(number) == (worker.state == "starting")
        worker.state = "ready" if worker.state == "starting" else "killed"
        worker.got_ready = True
        self.history.append("ready")

    @precondition(lambda self: any(not self.workers[n].got_ready for n in self.those("starting", "killed")))
    @rule(data=st.data())
    def becomes_ready(self, data):
        waiting = [n for n in self.those("starting", "killed") if not self.workers[n].got_ready]
        self.get_ready(data.draw(st.sampled_from(waiting)))

    @precondition(lambda self: self.those("ready"))
    @rule(data=st.data(), level=st.integers(0, 1), begun=st.booleans())
    def takes_a_task(self, data, level, begun):
        self.give_task(data.draw(st.sampled_from(self.those("ready"))), level, begun)

    def give_task(self, number, level, begun):
        worker = self.workers[number]
        rows, number_of_task = range(2 * self.next_task, 2 * self.next_task + 2), self.next_task
        worker.tasks.append(
            make_batch(rows, task=number_of_task) if level else read_stream(rows, task=number_of_task)
        )
        self.next_task += 1
        if begun and worker.at.task is None:
            worker.at = At(worker.tasks[0].id, beats=worker.at.beats + 1)

    @precondition(
        lambda self: any(self.workers[number].tasks for number in self.those("ready", "retiring", "killed"))
    )
    @rule(data=st.data())
    def finishes_a_task(self, data):
        working = [
            number for number in self.those("ready", "retiring", "killed") if self.workers[number].tasks
        ]
        number = data.draw(st.sampled_from(working))
        worker = self.workers[number]
        del worker.tasks[0]
        worker.at = At(beats=worker.at.beats + 1)
        self.supervisor.task_finished(number)
        if not worker.elsewhere:
            self.history.append("done")

    @precondition(lambda self: self.killable and self.those(*PRESENT, "fenced"))
    @rule(data=st.data())
    def closes_its_channel(self, data):
        number = data.draw(st.sampled_from(self.those(*PRESENT, "fenced")))
        worker = self.workers[number]
        assert self.supervisor.channel_closed(number, self.now) == KillWorker(number)
        if worker.state in ("starting", "ready", "retiring"):
            worker.state, worker.killed_at = "killed", self.now

    @precondition(lambda self: self.killable and self.those(*PRESENT, "fenced"))
    @rule(data=st.data(), closing=st.sampled_from([False, False, False, True]))
    def dies(self, data, closing):
        self.let_die(data.draw(st.sampled_from(self.those(*PRESENT, "fenced"))), closing)

    def let_die(self, number, closing):
        worker = self.workers[number]
        decisions = self.supervisor.died(number, "exit code 9", self.snapshot(number), closing=closing)
        was, worker.state = worker.state, "released"
        if was == "fenced":
            assert decisions == [ReleaseSlots(number)]
        elif closing:
            assert decisions == [DropTasks(number)]
        else:
            lost, *given_up = decisions
            self.check_lost(lost, number, fenced=False)
            if worker.elsewhere:
                assert given_up == []
                return
            self.history.append("died ready" if worker.got_ready else "died starting")
            starts = self.in_a_row("died starting", ("ready", "done"))
            fruitless = self.in_a_row("died ready", ("done",))
            if starts >= 3 + self.worker_count:
                assert given_up == [GiveUp("failed starts", starts, "exit code 9")]
            elif fruitless >= 8 + (self.restarts + 1) * self.worker_count:
                assert given_up == [GiveUp("fruitless", fruitless, "exit code 9")]
            else:
                assert given_up == []

    @precondition(lambda self: self.killable and len(self.staying) < self.worker_count)
    @rule(times=st.sampled_from([2, 12]), ready=st.booleans())
    def die_in_a_row(self, times, ready):
        """Whatever is started dies."""
        for _ in range(times):
            self.start(fails=False, ready=ready, tasks=0)
            self.let_die(len(self.workers) - 1, closing=False)

    @precondition(lambda self: not self.killable and self.workers)
    @rule(data=st.data())
    def reports_from_its_thread(self, data):
        """A fenced one finished its last task; of a dismissed one it makes no difference."""
        number = data.draw(st.sampled_from(sorted(self.workers)))
        fenced = self.workers[number].state == "fenced"
        assert self.supervisor.stopped_writing(number) == (ReleaseSlots(number) if fenced else None)
        if fenced:
            self.workers[number].state = "released"

    @rule(count=st.integers(1, 4))
    def another_number_of_workers(self, count):
        self.worker_count = count
        self.supervisor.resize(count)

    @rule()
    def too_many_retire(self):
        for number in self.those("ready")[::-1]:
            if len(self.staying) > self.worker_count and not self.workers[number].elsewhere:
                self.workers[number].state = "retiring"
        assert self.supervisor.retire() == {n: f"worker {n}" for n in self.those("retiring")}

    @precondition(lambda self: any(not self.workers[n].tasks for n in self.those("retiring")))
    @rule(data=st.data())
    def is_done_and_leaves(self, data):
        idle = [number for number in self.those("retiring") if not self.workers[number].tasks]
        number = data.draw(st.sampled_from(idle))
        self.supervisor.retired(number)
        self.workers[number].state = "dismissed"

    # --- time -----------------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.5, 2.5, 5.0, 6.0]))
    def time_passes(self, seconds):
        """A killed worker has so much of it to end."""
        self.now += seconds
        self.fence_overdue()

    @precondition(lambda self: self.workers)
    @rule(data=st.data())
    def makes_progress(self, data):
        worker = self.workers[data.draw(st.sampled_from(sorted(self.workers)))]
        worker.at = At(worker.at.task, beats=worker.at.beats + 1)

    @rule(intervals=st.integers(1, 3))
    def looks(self, intervals):
        for _ in range(intervals):
            self.one_look(goes_on=False)

    @precondition(lambda self: any(worker.watched for worker in self.workers.values()))
    @rule(goes_on=st.sampled_from([False, False, True]), ends=st.booleans())
    def nothing_moves(self, goes_on, ends):
        """Until the first stall: the stuck workers may go on when they are asked what they do, or end when killed."""
        for _ in range(int(2 * WARN / self.supervisor.interval)):
            if self.one_look(goes_on=goes_on):
                break
        for number in self.those("killed"):
            if ends and self.workers[number].late:
                self.let_die(number, closing=False)

    def one_look(self, *, goes_on):
        self.now += self.supervisor.interval
        stalls = self.look()
        for stall in stalls:
            if goes_on:
                worker = self.workers[stall.worker]
                worker.at = At(worker.at.task, beats=worker.at.beats + 1)
            self.confirm(stall)
        self.fence_overdue()
        return bool(stalls)

    def look(self):
        interval = min(WARN, self.timeout or WARN) / 8
        passed = 0.0 if self.last_look is None else min(self.now - self.last_look, 2 * interval)
        self.last_look = self.now
        expected = []
        for number in self.those(*PRESENT):
            worker = self.workers[number]
            if not worker.watched:
                worker.quiet = None
                continue
            if worker.quiet is None or worker.sign != worker.at:
                worker.quiet, worker.sign, worker.warned = 0.0, worker.at, False
                continue
            worker.quiet += passed
            limit = np.inf if self.timeout is None else self.timeout
            too_long = worker.quiet >= (max(limit, WARN) if worker.state == "starting" else limit)
            if too_long or (worker.quiet >= WARN and not worker.warned):
                worker.warned = True
                expected.append((number, worker.quiet, too_long, worker.at))
        stalls = self.supervisor.look(self.now, {n: self.snapshot(n) for n in self.those(*PRESENT)})
        assert [(stall.worker, stall.seconds, stall.too_long, stall.sign) for stall in stalls] == [
            (number, pytest.approx(quiet), too_long, at) for number, quiet, too_long, at in expected
        ]
        return stalls

    def confirm(self, stall):
        number = stall.worker
        worker, snapshot = self.workers[number], self.snapshot(number)
        decisions = self.supervisor.confirm_stall(self.now, stall, snapshot, "it waits")
        early = worker.elsewhere and stall.too_long and stall.seconds < self.timeout + NEWS_SECONDS
        if worker.at != stall.sign or early:
            assert decisions == []
            return
        warning, *rest = decisions
        assert warning == StallWarning(stall, worker.state != "starting", snapshot)
        if not stall.too_long:
            assert rest == []
        elif worker.state == "starting" and not self.restart_late:
            (given_up,) = rest
            assert given_up.cause == "late start" and given_up.reason.endswith("s (it waits)")
        elif self.killable:
            assert rest == [KillWorker(number)]
            worker.state, worker.late, worker.killed_at = "killed", True, self.now
        else:
            worker.state, worker.late = "fenced", True
            (lost,) = rest
            self.check_lost(lost, number, fenced=True)

    def fence_overdue(self):
        here = [number for number in self.those("killed") if not self.workers[number].elsewhere]
        expected = [n for n in here if self.now - self.workers[n].killed_at > KILL]
        assert self.supervisor.overdue(self.now) == expected
        for number in expected:
            lost = self.supervisor.fence(number, self.snapshot(number))
            self.workers[number].state = "fenced"
            self.check_lost(lost, number, fenced=True)

    # --- the end --------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.workers) > 3)
    @rule()
    def dismiss(self):
        leaving = self.those(*PRESENT)
        assert self.supervisor.dismiss() == {number: f"worker {number}" for number in leaving}
        for number in leaving:
            self.workers[number].state = "dismissed"

    @precondition(lambda self: self.those("dismissed", "fenced", "released"))
    @rule(data=st.data())
    def joined(self, data):
        number = data.draw(st.sampled_from(self.those("dismissed", "fenced", "released")))
        self.supervisor.forget(number)
        self.workers[number].state = "released"

    @invariant()
    def states_agree(self):
        if not hasattr(self, "supervisor"):
            return
        for number, worker in self.workers.items():
            assert self.supervisor.state(number) is WorkerState(worker.state)
            assert self.supervisor.is_active(number) == (worker.state in PRESENT)
            if worker.state != "released":
                assert self.supervisor.worker(number) == f"worker {number}"
        assert [*self.supervisor.workers] == self.those(*PRESENT)
        assert [*self.supervisor.fenced] == self.those("fenced")
        wanted = len(self.staying) < self.worker_count
        assert self.supervisor.to_start() == (len(self.workers) if wanted else None)


TestSupervisor = SupervisorMachine.TestCase
# Counts and times need several events in a row to be reached.
TestSupervisor.settings = settings(
    max_examples=max(150, settings.default.max_examples),
    stateful_step_count=max(40, settings.default.stateful_step_count),
)
