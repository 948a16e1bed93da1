"""Workers that die, that don't get on and that can't be ended: what becomes of their tasks, and what is said of it.

A worker is in the pool until it is lost. One that takes too long is killed and stays there, as *late*, until it has
ended; where it doesn't end it is set *aside*: somebody else is hired in its place, and where it may write is nobody's
until it is gone. All of it happens under the pool's lock.
"""

import logging
import time

from loaderkit._engine.dispatcher import Dispatcher
from loaderkit._engine.stall_watch import Stall, StallWatch
from loaderkit._engine.task import Task
from loaderkit._runtime.worker.heartbeat import Progress
from loaderkit._system.limits import inherited_limits
from loaderkit.errors import WorkerError, WorkerTimeoutError

from .process_worker import ProcessWorker
from .record_names import RecordNames
from .restart_policy import RestartPolicy
from .worker import Worker

_log = logging.getLogger("loaderkit")
STALL_SECONDS = 60.0  # at the same work, before that is logged; and for a start to take
KILL_SECONDS = 5.0  # for a worker that was killed to end, before it is fenced
_FAILED_STARTS = 3  # beside one for each worker: that die before they are ready, while none gets ready
_FRUITLESS = 8  # beside the restarts of each: that die while nobody gets anything done
_NAMED = 8  # record keys that a message names


class WorkerSupervisor:
    """What a pool does about workers that are lost.

    Args:
        dispatcher: whose tasks they have.
        workers: those that are there, by number; shared with the pool.
        policy: how many lost and late ones are accepted.
        worker_count: how many there should be.
        kind: "process" or "thread".
        names: of the records that they have.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        workers: dict[int, Worker],
        policy: RestartPolicy,
        *,
        worker_count: int,
        kind: str,
        names: RecordNames,
    ) -> None:
        self._dispatcher = dispatcher
        self._workers = workers
        self._policy = policy
        self._worker_count = worker_count
        self._kind = kind
        self._names = names
        self._watch = StallWatch(warn=STALL_SECONDS, limit=policy.timeout)
        self.interval = self._watch.interval  # seconds from one look to the next
        self.time_to_look = self._watch.due
        self.fenced: dict[int, Worker] = {}  # those that couldn't be ended, and may still write
        self._late: dict[int, tuple[str, float]] = {}  # of the pool, those that were killed: why, and when
        self._failed_starts = 0
        self._fruitless = 0  # workers lost since something was done
        self.hopeless: Exception | None = None  # why nobody should be hired any more

    def arrived(self) -> None:
        """Somebody got ready."""
        self._failed_starts = 0

    def got_on(self) -> None:
        """Somebody was through with a task."""
        self._failed_starts = self._fruitless = 0

    def clear(self) -> None:
        """All were dismissed."""
        self.fenced.clear()
        self._late.clear()

    def died(self, number: int, worker: Worker, reason: str, place: Progress, *, missed: bool) -> None:
        """A process has ended, and isn't in the pool any more.

        Args:
            number, worker: who.
            reason: what is known of its end.
            place: where it was.
            missed: whether anybody still waits for what it had; else it went as all of them will.
        """
        why, _ = self._late.pop(number, ("", 0.0))
        if not missed:
            self._dispatcher.died(number, "dismissed")
            return
        if number in self._dispatcher.workers:
            self._fruitless += 1
        else:
            self._failed_starts += 1
        self._strike(number, worker, why or reason, place, late=bool(why), fenced=False)
        if self._failed_starts >= _FAILED_STARTS + self._worker_count:
            self.hopeless = WorkerError(
                f"{self._failed_starts} workers in a row died before they were ready, the last with {reason}; "
                f"what they wrote to stderr says why. Their limits are this process's: {inherited_limits()}"
            )
        elif self._fruitless >= _FRUITLESS + (self._policy.restarts + 1) * self._worker_count:
            self.hopeless = WorkerError(
                f"{self._fruitless} workers in a row died and nothing was done meanwhile, the last with {reason}; "
                "what they wrote to stderr may say why"
            )

    def release(self, number: int) -> bool:
        """A worker can't write any more; whether it had been fenced."""
        if self.fenced.pop(number, None) is None:
            return False
        self._dispatcher.release(number)
        return True

    def look(self, now: float) -> list[tuple[Stall, Worker, Progress]]:
        """Those of the pool that don't get on and of whom that is to be said, each with its sign of life."""
        signs = {}
        for number, worker in self._workers.items():
            if (sign := self.sign(number, worker)) is not None:
                signs[number] = sign
        stalls = self._watch.look(now, signs, starting=signs.keys() - self._dispatcher.workers)
        return [(stall, self._workers[stall.worker], signs[stall.worker]) for stall in stalls]

    def sign(self, number: int, worker: Worker) -> Progress | None:
        """What changes when a worker gets on, None where it has nothing to do or was killed."""
        if number in self._late or number not in self._workers:
            return None
        if number in self._dispatcher.workers and not self._dispatcher.busy(number):
            return None
        return worker.progress()

    def stalled(self, stall: Stall, worker: Worker, state: str, stack: str) -> None:
        """A worker doesn't get on: that is logged, and ended where it takes too long.

        Args:
            stall: who, and for how long.
            worker, state, stack: what is known of it.
        """
        number = stall.worker
        tasks, place = self._dispatcher.busy(number), worker.progress()
        begun = next((task for task in tasks if task.id == place.task), None)
        ready = number in self._dispatcher.workers
        where = "it isn't ready yet"
        if ready:
            where = (
                f"it is at {_at(begun, place, self._names)}"
                if begun
                else f"it has {_tasks(tasks)}, and has begun none"
            )
        _log.warning(
            "%s hasn't got on for %.3g s%s; %s; %s%s",
            worker.name,
            stall.seconds,
            ", and takes too long" if stall.too_long else "",
            where,
            state,
            f"; its Python stack:\n{stack}" if stack else "",
        )
        if not stall.too_long:
            return
        reason = f"no sign of life for {stall.seconds:.3g} s ({state})"
        if not ready and not self._policy.restart_late:
            self.hopeless = WorkerTimeoutError(f"{worker.name} didn't get ready: {reason}")
        elif isinstance(worker, ProcessWorker):
            self._late[number] = reason, time.monotonic()
            worker.kill()
        else:
            self._fence(number, reason)

    def fence_overdue(self) -> None:
        """Sets those aside that were killed some time ago and haven't ended."""
        for number, (reason, since) in list(self._late.items()):
            if time.monotonic() - since > KILL_SECONDS:
                self._fence(number, reason)

    def _fence(self, number: int, reason: str) -> None:
        self._late.pop(number, None)
        worker = self._workers.pop(number)
        self.fenced[number] = worker
        worker.dismiss()  # a thread then begins nothing more
        self._strike(number, worker, reason, worker.progress(), late=True, fenced=True)

    def _strike(
        self, number: int, worker: Worker, reason: str, place: Progress, *, late: bool, fenced: bool
    ) -> None:
        """Takes a lost worker's tasks from it, and says so."""
        tasks = self._dispatcher.busy(number)
        begun = next((task for task in tasks if task.id == place.task), None)
        retry = not late or self._policy.restart_late
        if late and begun is None and tasks and not retry:
            begun = tasks[0]  # it never came to it, and that is the error
        if fenced and begun is not None and begun.level and self._kind == "thread":
            retry = False  # its rows may be written to, now or later: nobody could start from them
        tell = self._dispatcher.fence if fenced else self._dispatcher.died
        tell(
            number,
            reason,
            begun=None if begun is None else begun.id,
            at=place.index,
            instead=place.instead,
            retry=retry,
            late=late,
        )
        _log.warning(
            "%s %s with %s; %s",
            worker.name,
            "was set aside" if fenced else "was killed" if late else "died",
            reason,
            _had(tasks, begun, place, self._names, retry=retry),
        )


def _had(tasks: list[Task], begun: Task | None, place: Progress, names: RecordNames, *, retry: bool) -> str:
    if not tasks:
        return "it had nothing to do"
    again = [task for task in tasks if retry or task is not begun]
    indices = [index for task in again for index in task.indices.tolist()]
    had = f"indices {min(indices)} to {max(indices)}, {_tasks(again)}, are done again; " if indices else ""
    return had + (f"it was at {_at(begun, place, names)}" if begun is not None else "it was in none of them")


def _tasks(tasks: list[Task]) -> str:
    return f"{len(tasks)} task{'s' if len(tasks) > 1 else ''}"


def _at(begun: Task, place: Progress, names: RecordNames) -> str:
    """Which records a task has, for people to read."""
    where = begun.indices.tolist()
    keys = begun.keys.tolist()
    if place.index is not None and keys:
        own = keys[where.index(place.index)]
        if place.instead is None:
            return f"index {place.index} (record_key {names.keyed([own])[0]})"
        index, other = place.instead
        key, own = names.keyed([other, own])
        return f"index {index} (record_key {key}), read instead of index {place.index} (record_key {own}), which is bad"
    what = "a batch of" if begun.level else "one of"
    named = (
        f" (record keys {', '.join(names.keyed(keys[:_NAMED]))}{', …' if len(keys) > _NAMED else ''})"
        if keys
        else ""
    )
    return f"{what} the indices {where[0]}..{where[-1]}{named}"
