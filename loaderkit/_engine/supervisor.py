"""The workers of a pool: which there are, the state of each, and what to do about it.

A state machine without I/O: events and times in, decisions out. The pump starts, kills and joins workers, and tells
the dispatcher and the log what this decides. No other object decides a worker's state; the dispatcher knows what is
out with those that are ready.
"""

from collections.abc import Hashable, Mapping, Sequence
from enum import Enum
from typing import Generic, Literal, TypeVar

from loaderkit._base.system.dataclasses import dataclass

from .progress import Progress
from .stall_watch import Stall, StallWatch
from .task import MakeBatch, Task


@dataclass(frozen=True, slots=True)
class WorkerSnapshot:
    """A worker at one moment: its assigned tasks, oldest first, and its progress."""

    tasks: Sequence[Task]
    progress: Progress

    @property
    def begun(self) -> Task | None:
        """The task that it works on; None if on none, or on one that was taken from it."""
        return next((task for task in self.tasks if task.id == self.progress.task), None)


@dataclass(frozen=True, slots=True)
class StallWarning:
    """Log that a worker made no progress.

    ready     whether it is ready for tasks
    snapshot  what it has, and where it is
    """

    stall: Stall
    ready: bool
    snapshot: WorkerSnapshot


@dataclass(frozen=True, slots=True)
class KillWorker:
    """Kill a process; don't wait for its end."""

    number: int


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """Tell the dispatcher that a worker is lost, by `take_back`, if `fenced` after `fence`; log it.

    fenced    it may still write; tell it to begin nothing more
    reason    what is known of why
    snapshot  what it had, and where it was
    begun     the task that its loss is put down to, None if none
    retry     whether that task may be done again
    late      whether it was ended because it took too long
    """

    number: int
    fenced: bool
    reason: str
    snapshot: WorkerSnapshot
    begun: Task | None
    retry: bool
    late: bool


@dataclass(frozen=True, slots=True)
class DropTasks:
    """Tell the dispatcher that a worker ended because the pool is being closed; don't log it."""

    number: int


@dataclass(frozen=True, slots=True)
class ReleaseSlots:
    """Tell the dispatcher that a fenced worker can't write any more."""

    number: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Start no more workers, and raise an error in every iterator.

    cause   "failed starts": `count` workers in a row died before any got ready, the last for this reason
            "fruitless": `count` ready workers in a row died and no task was finished, the last for this reason
            "late start": a worker didn't get ready in time
    """

    cause: Literal["failed starts", "fruitless", "late start"]
    count: int
    reason: str


Decision = StallWarning | KillWorker | WorkerLost | DropTasks | ReleaseSlots | GiveUp


W = TypeVar("W")

STALL_SECONDS = 60.0  # without progress, before that is logged; also the time that a start may take
NEWS_SECONDS = 2.5  # within which the progress of a worker elsewhere is heard of
# For a killed process to end. Fenced sooner, it holds memory that it would give back soon; later, its tasks wait.
FENCE_AFTER_SECONDS = 5.0
# Losses in a row that are accepted: fewer end a run for a short trouble of the machine, more delay an error that stays.
_FAILED_STARTS = 3  # of workers that aren't ready, plus one for each worker
_FRUITLESS_LOSSES = 8  # of ready workers while no task is finished, plus `restarts` + 1 for each worker


class WorkerState(Enum):
    """The state of one worker.

    STARTING   started, and not ready for tasks yet
    READY      the dispatcher gives it tasks
    RETIRING   it is one too many: it is given no further task, and dismissed when it is done with those that it has
    DISMISSED  it was asked to end, and may be finishing its task
    KILLED     it was killed, and its end hasn't been seen
    FENCED     it couldn't be ended and may still write to the memory of its tasks; another worker has its place
    RELEASED   it ended, finished its last task (a fenced thread), or was joined, whether or not it ended in time; it
               isn't listed any more
    """

    STARTING = "starting"
    READY = "ready"
    RETIRING = "retiring"
    DISMISSED = "dismissed"
    KILLED = "killed"
    FENCED = "fenced"
    RELEASED = "released"


STARTING, READY, RETIRING, DISMISSED, KILLED, FENCED, RELEASED = WorkerState


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How many lost and late workers a user accepts.

    restarts      workers that may be lost at the same records before that is an error
    timeout       seconds that a worker may go without progress, None for any number
    restart_late  whether a worker that takes longer is replaced; else that is an error
    """

    restarts: int
    timeout: float | None
    restart_late: bool


# Which state may follow which, and by which event. `_move` refuses any other.
NEXT_STATES: Mapping[WorkerState, frozenset[WorkerState]] = {
    # READY: it got ready. KILLED: it closed its channel, or was late (a process). FENCED: it was late (a thread).
    # DISMISSED: with all others. RELEASED: it died, or couldn't be started.
    STARTING: frozenset({READY, KILLED, FENCED, DISMISSED, RELEASED}),
    # As above. RETIRING: there are more than there should be.
    READY: frozenset({RETIRING, KILLED, FENCED, DISMISSED, RELEASED}),
    # As above. DISMISSED: it has no task, too.
    RETIRING: frozenset({KILLED, FENCED, DISMISSED, RELEASED}),
    # FENCED: it hasn't ended in FENCE_AFTER_SECONDS. DISMISSED: with all others. RELEASED: it died.
    KILLED: frozenset({FENCED, DISMISSED, RELEASED}),
    # RELEASED: it was joined.
    DISMISSED: frozenset({RELEASED}),
    # RELEASED: it died, finished its last task (a thread), or was joined.
    FENCED: frozenset({RELEASED}),
    RELEASED: frozenset(),
}
# The states of the pool's present workers: what they report counts. There should be `wanted` of them, without those
# that retire.
_STAYING = (STARTING, READY, KILLED)
_ACTIVE = (*_STAYING, RETIRING)


@dataclass(slots=True)
class _Entry(Generic[W]):
    worker: W
    state: WorkerState = STARTING
    was_ready: bool = False
    killed_at: float = 0.0
    late: str = ""  # why it was killed for being late
    elsewhere: bool = False  # on another machine: it came by itself, and its loss counts for nothing


class WorkerSupervisor(Generic[W]):
    """Decides what becomes of the workers of a pool; W is what the pool keeps of each, and isn't looked at.

    Workers of other machines arrive and are lost at any time, beside the `worker_count` of this one.

    Args:
        worker_count: how many there should be, until `resize`.
        killable: whether they can be killed: processes can, threads can't.
        policy: how many lost and late ones are accepted.

    >>> policy = RestartPolicy(restarts=1, timeout=None, restart_late=False)
    >>> supervisor = WorkerSupervisor[str](worker_count=1, killable=True, policy=policy)
    >>> supervisor.to_start()
    0
    >>> supervisor.started(0, "the first process")
    >>> supervisor.worker_ready(0), supervisor.state(0), supervisor.to_start()
    (True, <WorkerState.READY: 'ready'>, None)
    """

    def __init__(self, *, worker_count: int, killable: bool, policy: RestartPolicy) -> None:
        self.wanted = worker_count
        self._killable = killable
        self._policy = policy
        self._entries: dict[int, _Entry[W]] = {}  # all that aren't released
        self._next_number = 0
        self._may_retire = False  # since a `resize`, until all that were too many have gone
        self._failed_starts = 0  # in a row
        self._fruitless = 0  # ready workers lost since a task was finished
        self._watch = StallWatch(warn=STALL_SECONDS, limit=policy.timeout)
        self.interval = self._watch.interval  # seconds from one look to the next

    # --- the registry -------------------------------------------------------------------------------------------

    def state(self, number: int) -> WorkerState:
        """The state of a worker that was started at some time."""
        assert 0 <= number < self._next_number, f"worker: expected a started one, got {number}"
        entry = self._entries.get(number)
        return RELEASED if entry is None else entry.state

    def worker(self, number: int) -> W:
        """A worker that isn't released."""
        return self._entries[number].worker

    def is_active(self, number: int) -> bool:
        """Whether it is one of the pool's present workers; what others report is ignored."""
        return self.state(number) in _ACTIVE

    @property
    def workers(self) -> dict[int, W]:
        """The present workers by number: starting, ready, retiring, or killed and not ended yet."""
        return self._in_states(_ACTIVE)

    @property
    def fenced(self) -> dict[int, W]:
        """The fenced workers by number."""
        return self._in_states((FENCED,))

    def _in_states(self, states: Sequence[WorkerState]) -> dict[int, W]:
        return {number: entry.worker for number, entry in [*self._entries.items()] if entry.state in states}

    def _move(self, number: int, state: WorkerState) -> _Entry[W]:
        now = self.state(number)
        if state not in NEXT_STATES[now]:
            raise AssertionError(f"worker {number}: no way from {now.value} to {state.value}")
        entry = self._entries[number]
        entry.state = state
        if state is RELEASED:
            del self._entries[number]
        return entry

    # --- the life of a worker -----------------------------------------------------------------------------------

    def to_start(self) -> int | None:
        """The number of the worker to start next, None while there are enough."""
        return self._next_number if self._staying() < self.wanted else None

    def _staying(self) -> int:
        return sum(entry.state in _STAYING and not entry.elsewhere for entry in self._entries.values())

    def _ready_here(self) -> dict[int, W]:
        return {
            number: entry.worker
            for number, entry in self._entries.items()
            if entry.state is READY and not entry.elsewhere
        }

    def arrived(self, worker: W) -> int:
        """A worker of another machine is there, and ready; returns its number."""
        number = self._next_number
        self._entries[number] = _Entry(worker, READY, was_ready=True, elsewhere=True)
        self._next_number += 1
        return number

    @property
    def missing(self) -> int:
        """How many of the workers that there should be aren't ready."""
        return max(0, self.wanted - len(self._ready_here()))

    def resize(self, worker_count: int) -> None:
        """There should be another number of workers from now on: `to_start` and `retire` say what follows."""
        self.wanted, self._may_retire = worker_count, True

    def retire(self) -> dict[int, W]:
        """The workers that retire, by number: ready ones that are too many, from the newest on, are told so here.

        Give them no further task; dismiss each that has none, and call `retired`.
        """
        if not self._may_retire:
            return {}  # called often
        too_many = self._staying() - self.wanted
        if too_many > 0:
            for number in sorted(self._ready_here(), reverse=True)[:too_many]:
                self._move(number, RETIRING)
        retiring = self._in_states((RETIRING,))
        self._may_retire = bool(retiring) or self._staying() > self.wanted
        return retiring

    def retired(self, number: int) -> None:
        """One that retires has no task any more, and was asked to end. Join it, and `forget` it."""
        self._move(number, DISMISSED)

    def started(self, number: int, worker: W) -> None:
        """The worker of a number that `to_start` gave is there, or is started in a moment."""
        assert number == self._next_number, f"worker: expected number {self._next_number}, got {number}"
        self._entries[number] = _Entry(worker)
        self._next_number += 1

    def worker_ready(self, number: int) -> bool:
        """A present worker got ready. Returns whether it can be given tasks: not if it was killed meanwhile."""
        self._failed_starts = 0
        killed = self.state(number) is KILLED
        entry = self._entries[number] if killed else self._move(number, READY)
        entry.was_ready = True
        return not killed

    def task_finished(self, number: int) -> None:
        """A present worker finished a task: losses are counted anew."""
        assert self._entries[number].was_ready, f"worker {number}: expected one that got ready"
        if not self._entries[number].elsewhere:
            self._failed_starts = self._fruitless = 0

    def channel_closed(self, number: int, now: float) -> KillWorker:
        """A process reports nothing any more, and has not been seen to end."""
        if self.state(number) not in (KILLED, FENCED):
            self._move(number, KILLED).killed_at = now
        return KillWorker(number)

    def died(self, number: int, reason: str, snapshot: WorkerSnapshot, *, closing: bool) -> list[Decision]:
        """A process has ended.

        Args:
            number: of the worker.
            reason: what is known of why.
            snapshot: what it had, and where it was.
            closing: whether the pool is being closed: the worker went as all of them will.
        """
        if (release := self.stopped_writing(number)) is not None:
            return [release]  # a fenced worker: it was counted as lost when it was fenced
        assert self.is_active(number), (
            f"worker {number}: expected a present one, got {self.state(number).value}"
        )
        entry = self._move(number, RELEASED)
        if closing:
            return [DropTasks(number)]
        late = bool(entry.late)
        if entry.elsewhere:
            return [WorkerLost(number, False, entry.late or reason, snapshot, None, True, late)]
        lost = self._lost(number, entry.late or reason, snapshot, late=late, fenced=False)
        if entry.was_ready:
            self._fruitless += 1
        else:
            self._failed_starts += 1
        if self._failed_starts >= _FAILED_STARTS + self.wanted:
            return [lost, GiveUp("failed starts", self._failed_starts, reason)]
        if self._fruitless >= _FRUITLESS_LOSSES + (self._policy.restarts + 1) * self.wanted:
            return [lost, GiveUp("fruitless", self._fruitless, reason)]
        return [lost]

    def stopped_writing(self, number: int) -> ReleaseSlots | None:
        """A worker will write nothing more: that matters if it was fenced, and changes nothing else."""
        if self.state(number) is not FENCED:
            return None
        self._move(number, RELEASED)
        return ReleaseSlots(number)

    def dismiss(self) -> dict[int, W]:
        """Dismisses all present workers: returns them, by number. Ask them to end, join them, and `forget` each."""
        dismissed = self.workers
        for number in dismissed:
            self._move(number, DISMISSED)
        return dismissed

    def forget(self, number: int) -> None:
        """A worker was joined, whether or not it ended in time, or it couldn't be started."""
        if self.state(number) is not RELEASED:  # a fenced one may have ended meanwhile
            self._move(number, RELEASED)

    # --- workers without progress -------------------------------------------------------------------------------

    # `look` and `confirm_stall` are two calls, because `doing` is asked between them without the lock.

    def is_due(self, now: float) -> bool:
        """Whether it is time for the next look."""
        return self._watch.due(now)

    def look(self, now: float, snapshots: Mapping[int, WorkerSnapshot]) -> list[Stall]:
        """Which workers made no progress for too long, or so long that it is to be logged.

        Each is to be asked what it does, and then to be confirmed by `confirm_stall`.

        Args:
            now: seconds on a clock that all calls share.
            snapshots: what is seen of the present workers.
        """
        signs = {
            number: sign
            for number, snapshot in snapshots.items()
            if (sign := self._sign(number, snapshot)) is not None
        }
        starting = {number for number in signs if self.state(number) is STARTING}
        return self._watch.look(now, signs, starting)

    def _sign(self, number: int, snapshot: WorkerSnapshot) -> Hashable:
        """What changes when a worker makes progress, None if it has nothing to do or was killed."""
        state, at_work = self.state(number), bool(snapshot.tasks)
        if self._entries[number].elsewhere:  # also at what was withdrawn from it
            at_work = at_work or snapshot.progress.task is not None
        watched = state is STARTING or (state in (READY, RETIRING) and at_work)
        return snapshot.progress if watched else None

    def confirm_stall(self, now: float, stall: Stall, snapshot: WorkerSnapshot, doing: str) -> list[Decision]:
        """A worker that `look` named was asked what it does: what follows, nothing if it made progress meanwhile.

        Args:
            now: seconds on the same clock.
            stall: what `look` said.
            snapshot: what is seen of it now.
            doing: what it says that it does.
        """
        number = stall.worker
        if self._sign(number, snapshot) != stall.sign:
            return []
        elsewhere = self._entries[number].elsewhere
        if elsewhere and stall.too_long and stall.seconds < (self._policy.timeout or 0.0) + NEWS_SECONDS:
            return []  # its progress isn't known at once
        ready = self.state(number) is not STARTING
        warning = StallWarning(stall, ready, snapshot)
        if not stall.too_long:
            return [warning]
        reason = f"no sign of life for {stall.seconds:.3g} s ({doing})"
        if not ready and not self._policy.restart_late:
            return [warning, GiveUp("late start", 1, reason)]
        if not self._killable:
            self._move(number, FENCED)
            return [warning, self._lost(number, reason, snapshot, late=True, fenced=True)]
        entry = self._move(number, KILLED)
        entry.killed_at, entry.late = now, reason
        return [warning, KillWorker(number)]

    def overdue(self, now: float) -> list[int]:
        """The workers that were killed more than FENCE_AFTER_SECONDS ago and haven't ended: each is to be fenced."""
        return [
            number
            for number, entry in self._entries.items()
            if entry.state is KILLED and not entry.elsewhere and now - entry.killed_at > FENCE_AFTER_SECONDS
        ]

    def fence(self, number: int, snapshot: WorkerSnapshot) -> WorkerLost:
        """An overdue worker gets no more time: another is started in its place."""
        late = self._move(number, FENCED).late
        reason = late or "a closed channel, and no end after it was killed"
        return self._lost(number, reason, snapshot, late=bool(late), fenced=True)

    def _lost(
        self, number: int, reason: str, snapshot: WorkerSnapshot, *, late: bool, fenced: bool
    ) -> WorkerLost:
        begun = snapshot.begun
        retry = not late or self._policy.restart_late
        if begun is None and snapshot.tasks and not retry:
            # Late before it began its oldest task; with on_worker_timeout='raise' that task gets the error.
            begun = snapshot.tasks[0]
        if fenced and isinstance(begun, MakeBatch) and not self._killable:
            # Outputs of threads are plain objects: the stuck thread may still write to the rows that a second attempt
            # would read.
            retry = False
        return WorkerLost(number, fenced, reason, snapshot, begun, retry, late)
