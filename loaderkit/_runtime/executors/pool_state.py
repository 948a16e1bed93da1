"""What a pool and its pump share, and the rules of its lock.

Everything here is read and changed under `lock`, which is the executor's, with these exceptions:

- `kind` and the objects themselves (supervisor, dispatcher, arena, log) are set once, and named without it.
- `stopping` only ever becomes True; `WorkerPool.stop` sets it without the lock, since a finalizer may run anywhere,
  and wakes the pump, which looks at it under the lock.
- `wake` never waits and may be called from anywhere.
- The pump looks at `streams` without it to choose how long to wait: a stream that is opened or closed meanwhile wakes
  it.

A consumer waits on `changed`, whose lock is the same. What takes long is done by the pump without the lock: waiting for
events, receiving rows of other machines and letting their workers in, asking a worker what it does, joining workers.
"""

import contextlib
import itertools
import socket
import threading
from collections.abc import Sequence

from loaderkit._base.system.dataclasses import dataclass, field, replace
from loaderkit._base.system.limits import above_standard, naming_limits
from loaderkit._engine.dispatcher import Dispatcher
from loaderkit._engine.pace import Pace
from loaderkit._engine.stats.counters import ENDED, WorkerCounters
from loaderkit._engine.supervisor import WorkerSupervisor
from loaderkit._runtime.memory.arena import Arena
from loaderkit._runtime.worker.task_runner import Output

from .worker import Worker, WorkerKind
from .worker_log import WorkerLog


@dataclass(eq=False)
class PoolState:
    """The state of a pool, apart from what every executor has.

    Args:
        lock: the executor's.
        kind: of its workers.
        supervisor, dispatcher, pace, arena, worker_log: its own.
        objects: the outputs in this process, by task.
        streams: the numbers of the open ones.
        names: of the operations, for counters.

    Raises OSError where the system gives no further channel.
    """

    lock: threading.RLock
    kind: WorkerKind
    supervisor: WorkerSupervisor[Worker]
    dispatcher: Dispatcher
    pace: Pace
    arena: Arena
    worker_log: WorkerLog
    objects: dict[int, Output]
    streams: set[int]
    names: Sequence[str]
    stopping: bool = False
    failed: bool = False
    error: Exception | None = None  # why it failed, as long as a stream is open
    thread: threading.Thread | None = None  # the pump's
    # Of that thread: it has done all it will do.
    ended: threading.Event = field(default_factory=threading.Event)
    lost: int = 0  # workers

    def __post_init__(self) -> None:
        self.changed = threading.Condition(self.lock)
        # By number, of the workers that haven't ended: a replacement has the place of the one that it replaces.
        self._places: dict[int, int] = {}
        self._ended_counters = WorkerCounters(kind=self.kind.name, cpu=0)
        self._ended_by_place: list[WorkerCounters] = []
        with naming_limits("the channel that wakes the loader's pump"), above_standard():
            self._wake_up, self.woken = socket.socketpair()
        self._wake_up.setblocking(False)
        self.woken.setblocking(False)

    def wake(self) -> None:
        """Makes the pump look around; never waits."""
        with contextlib.suppress(BlockingIOError, OSError):  # full: it will look anyway; closed: it has ended
            self._wake_up.send(b"\0")

    def give_up(self, error: Exception) -> None:
        """No further worker is started, and every iterator raises the error."""
        self.error, self.failed = error, True

    @property
    def in_use(self) -> bool:
        """Whether a stream is open, or a worker has a task of one that was closed: it may still write to its slots."""
        workers = self.supervisor.workers
        return bool(self.streams or self.supervisor.fenced) or any(map(self.dispatcher.busy, workers))

    def take_place(self, number: int) -> None:
        """Gives a worker that is about to start the first place without a present worker."""
        taken = {self._places[other] for other in self.supervisor.workers if other in self._places}
        self._places[number] = place = next(place for place in itertools.count() if place not in taken)
        if place == len(self._ended_by_place):
            self._ended_by_place.append(WorkerCounters(place, self.kind.name, cpu=0))

    def keep_counters(self, worker: Worker) -> None:
        """Adds what a worker did to that of all that have ended."""
        counted = replace(worker.counters(self.names), task=None, phase=ENDED, memory=None)
        self._ended_counters = self._ended_counters.plus(counted)
        place = self._places.pop(counted.number)
        self._ended_by_place[place] = self._ended_by_place[place].plus(replace(counted, number=place))

    def counters(self) -> tuple[list[WorkerCounters], WorkerCounters, list[WorkerCounters]]:
        """Of the present workers, of those that have ended together, and of each place."""
        present = {**self.supervisor.workers, **self.supervisor.fenced}
        workers = [present[number].counters(self.names) for number in sorted(present)]
        places = [*self._ended_by_place]
        for worker in workers:  # one that is fenced has the place of its replacement, which comes behind it
            place = self._places[worker.number]
            places[place] = replace(worker, number=place).plus(places[place])
        return workers, self._ended_counters, places

    def close(self) -> None:
        """Gives back what the system gave: nothing runs here any more."""
        self._wake_up.close()
        self.woken.close()
        self.objects.clear()
        self.arena.close()
