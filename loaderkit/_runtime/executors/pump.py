"""The pump: the thread of a pool that starts the workers, hears them, tells the engine, and ends them.

What it shares with the pool is a `PoolState`, whose file has the rules of the lock.

Process workers are started from this thread, because the kernel ties a child's life to the *thread* that started it.
"""

import contextlib
import selectors
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from loaderkit._base.system.limits import above_standard, naming_limits, with_limits
from loaderkit._engine.stall_watch import Stall
from loaderkit._engine.supervisor import (
    RELEASED,
    Decision,
    DropTasks,
    GiveUp,
    KillWorker,
    ReleaseSlots,
    StallWarning,
    WorkerLost,
    WorkerSnapshot,
)
from loaderkit._runtime.start.launch import check_import
from loaderkit.errors import WorkerError

from .worker import Shared, Worker
from .worker_channel import WorkerChannel
from .worker_log import error_of

if TYPE_CHECKING:
    from .remote_crew import RemoteCrew
    from .worker_pool import WorkerPool

# How long workers without an iterator wait for the next one: a longer time keeps processes and their memory, a
# shorter one makes the next iterator of the loader wait for their start.
IDLE_SECONDS = 30.0
# For the pump's thread to run, where an interrupt fell into its start: it runs at once or not at all.
_START_SECONDS = 5.0
# From one look whether a process has ended to the next, where nothing but a look tells.
_LOOK_SECONDS = 1.0
_CREW_SECONDS = 0.5  # from one look at workers of other machines to the next
_DOOR: Any = object()  # data of the descriptor by which workers of other machines come


def start_pump(pool: "WorkerPool") -> None:
    """Starts the pump of a pool, under its lock.

    Whatever the system may refuse is asked for here, where the error reaches a caller and no stream waits yet.
    """
    state = pool.state
    if state.kind.waits_on_descriptors:
        check_import()
    with naming_limits("the selector of the loader's pump"), above_standard():
        selector = selectors.DefaultSelector()
        try:
            selector.register(state.woken, selectors.EVENT_READ, None)
        except OSError:
            selector.close()
            raise
    pool.poisoned = True  # until it is known whether the thread runs
    pump = Pump(pool, selector)
    state.ended = pump.ended
    bare, pool.bare = pool.bare, None
    try:
        if bare is not None:
            state.thread = bare.thread
            bare.run(pump.run)
        else:
            state.thread = threading.Thread(target=pump.run, name="loaderkit-pump", daemon=True)
            state.thread.start()
    except BaseException as error:
        refused = isinstance(error, Exception)
        if refused or not pump.begun.wait(_START_SECONDS):  # an interrupt may come before it runs, or after
            state.thread = None
            selector.close()
        if not refused:
            raise  # interrupted: the pump may run; the pool stays poisoned, so that it isn't used again
        pool.poisoned = False  # refused: nothing runs
        raise WorkerError(f"the loader's pump, a thread, can't be started: {with_limits(error)}") from error
    pool.poisoned = False


class Pump:
    """What the thread of a pool runs.

    Args:
        pool: its workers are driven.
        selector: has the pool's wake-up socket registered, with None; closed when the thread ends.

    `begun` is set when the thread runs, `ended` when it has done all that it will do.
    """

    def __init__(self, pool: "WorkerPool", selector: selectors.BaseSelector) -> None:
        self._pool = pool
        self._state = state = pool.state
        self._selector = selector
        self._supervisor = state.supervisor
        self._dispatcher = state.dispatcher
        # Seconds from one look at the workers to the next.
        self._interval = min(self._supervisor.interval, pool.tune_interval or self._supervisor.interval)
        self._crew = pool.crew
        self._door: int | None = None  # the descriptor by which workers of other machines come
        self._serve_at = 0.0
        self._heard_at = 0  # nanoseconds: when the present round's wait ended
        self._lost_door = False  # another pool of the loader has it, or the loader was closed
        self._idle_until = time.monotonic() + IDLE_SECONDS  # without a stream it ends then
        self._blocked: set[WorkerChannel] = set()  # those that are to be told more than their channels take
        self._retired: dict[int, Worker] = {}  # dismissed by themselves; they end soon
        self._dismissed: Mapping[int, Worker] = {}  # and those that were fenced by then: joined last
        self.begun = threading.Event()
        self.ended = threading.Event()

    def run(self) -> None:
        """The thread's whole life. An error reaches the iterators, as none of them may wait forever."""
        pool, state = self._pool, self._state
        self.begun.set()
        try:
            while self._round():
                pass
            self._end()
        except BaseException as error:  # noqa: BLE001 - as above
            with pool.lock:
                state.stopping = True
                pool.fail(error)
                if self._crew is not None:
                    self._crew.end(state)
                state.changed.notify_all()
                state.close()
        finally:
            self.ended.set()
            if pool.closed:  # looked at behind the flag, as `stop` sets its own before it looks at this one
                pool.release_recruiter()

    def _round(self) -> bool:
        """One round; whether another one follows. If not, the workers were dismissed, under the same lock."""
        pool, state = self._pool, self._state
        timeout = self._interval
        if not state.streams:  # without the lock, as pool_state.py says
            timeout = max(0.0, self._idle_until - time.monotonic())
        try:
            self._handle_events(min(timeout, _CREW_SECONDS) if self._door is not None else timeout)
            self._look_after_workers()
            pool.tune()
            if pool.timeline is not None:
                pool.timeline.add("pump", "round", self._heard_at, time.perf_counter_ns())
        except BaseException as error:  # noqa: BLE001 - a failure must fail every blocked next()
            with pool.lock:
                pool.fail(error)
        with pool.lock:
            if state.failed or pool.poisoned:
                state.stopping = True  # the iterators get nothing from these workers any more
            if state.streams or state.in_use:
                self._idle_until = time.monotonic() + IDLE_SECONDS
            if not state.stopping and time.monotonic() < self._idle_until:
                return True
            self._dismiss_workers()
            return False

    # --- one round ----------------------------------------------------------------------------------------------

    def _handle_events(self, timeout: float) -> None:
        """Waits for events for so many seconds, and handles them."""
        pool, state = self._pool, self._state
        ready = self._selector.select(timeout)
        self._heard_at = time.perf_counter_ns()
        if self._crew is not None:
            self._hear_elsewhere(self._crew, ready)
        with pool.lock:
            if pool.poisoned:
                return
            for key, mask in ready:
                if key.data is None:
                    with contextlib.suppress(BlockingIOError):
                        state.woken.recv(4096)
                # Else it is the door, or it ended in this round.
                elif key.data is not _DOOR and self._supervisor.state(key.data.number) is not RELEASED:
                    self._on_ready(key, mask)
            self._look_after_crew()
            pool.close_abandoned()
            if state.streams and not state.stopping:
                self.start_workers()
                pool.assign_tasks()
                self._retire_workers()
            self._select_for_writing()
            if ready:
                pool.wake_waiting()
            else:
                self._look_for_ends()
                state.changed.notify_all()  # now and then they look for themselves

    def _hear_elsewhere(self, crew: "RemoteCrew", ready: Sequence[tuple[selectors.SelectorKey, int]]) -> None:
        """Receives rows of other machines, and lets workers of theirs in. Without the lock: both take long."""
        knocked, now = False, time.monotonic()
        for key, mask in ready:
            knocked = knocked or key.data is _DOOR
            if mask & selectors.EVENT_READ and isinstance(key.data, WorkerChannel):
                key.data.receive()
        if self._lost_door or not (knocked or now >= self._serve_at):
            return
        self._serve_at = now + _CREW_SECONDS
        if self._door is None:
            self._door = crew.begin()
            if self._door is not None:
                self._selector.register(self._door, selectors.EVENT_READ, _DOOR)
        elif not crew.serve(now):
            self._selector.unregister(self._door)
            self._lost_door = True

    def _look_after_crew(self) -> None:
        """Under the lock: workers of other machines that have come, and those that are gone or too slow."""
        crew, pool, state = self._crew, self._pool, self._state
        if crew is None or state.stopping or state.failed:
            return
        if self._lost_door:
            crew.let_go()  # the other pool needs them
        for worker in crew.hire(state):
            pool.hired(worker)
            self._watch(worker)
        for worker in crew.look(state, time.monotonic()):
            self._on_exit(worker.number, worker)

    def _on_ready(self, key: selectors.SelectorKey, mask: int) -> None:
        worker: WorkerChannel = key.data
        number = worker.number
        if mask & selectors.EVENT_WRITE:
            worker.flush()
        if not mask & selectors.EVENT_READ:
            return
        self._hear(number, worker)
        heard = key.fd == worker.pidfd
        if heard or (
            worker.pidfd is None and not worker.open and worker.has_ended(self._state.kind.end_seconds)
        ):
            self._on_exit(number, worker)
        elif not worker.open:
            # Nothing more is heard of it. Killed without waiting, under the lock; its exit is an event of its own.
            self._selector.unregister(worker.connection)
            self._carry_out(worker, [self._supervisor.channel_closed(number, time.monotonic())])

    def _hear(self, number: int, worker: WorkerChannel) -> None:
        for event in worker.read():
            if self._supervisor.is_active(number):
                self._pool.handle_event(number, event)

    def _look_for_ends(self) -> None:
        """Without pidfds: ends of processes that lost their channel before, or share it with a child of theirs."""
        for number, worker in [*self._watched(), *self._watched(fenced=True)]:
            if worker.pidfd is None and worker.has_ended(0.0):
                self._hear(number, worker)
                self._on_exit(number, worker)

    def _on_exit(self, number: int, worker: WorkerChannel) -> None:
        """A worker behind a channel has ended, and that was read to the end."""
        self._unwatch(worker)
        snapshot = self._snapshot(number, worker)
        self._state.keep_counters(worker)
        reason = worker.end(self._state.kind.end_seconds)
        closing = self._state.stopping or self._state.failed or self._is_one_too_many(number)
        self._carry_out(worker, self._supervisor.died(number, reason, snapshot, closing=closing))
        if self._crew is not None:
            self._crew.left(self._state, number)

    def _is_one_too_many(self, number: int) -> bool:
        crew = self._crew
        return crew is not None and number in crew.workers and len(crew.workers) > crew.wanted

    def start_workers(self) -> None:
        """Starts as many workers as there should be, under the lock."""
        pool, state = self._pool, self._state
        kind = state.kind
        while not state.failed and (number := self._supervisor.to_start()) is not None:
            state.take_place(number)
            shared = Shared(state.arena, state.objects, pool.on_told)
            try:
                worker = kind.start(shared, number, self._supervisor.started)
            except (OSError, RuntimeError, MemoryError) as error:
                if number in self._supervisor.workers:  # else it was refused before it was one
                    self._supervisor.forget(number)
                state.give_up(WorkerError(f"a worker {kind.name} can't be started: {with_limits(error)}"))
                return
            state.worker_log.hired(worker.name, number)
            pool.hired(worker)
            if kind.waits_on_descriptors:
                self._watch(cast(WorkerChannel, worker))

    def _retire_workers(self) -> None:
        """Of workers that are too many: each ends when it is done with its tasks."""
        for number, worker in self._supervisor.retire().items():
            self._dispatcher.retire(number)
            if not self._dispatcher.busy(number):
                if self._state.kind.waits_on_descriptors:
                    self._unwatch(cast(WorkerChannel, worker))
                worker.dismiss()
                self._dispatcher.take_back(number, "dismissed")  # none: it is forgotten there
                self._state.keep_counters(worker)
                self._supervisor.retired(number)
                self._retired[number] = worker
        for number in [number for number, worker in self._retired.items() if worker.has_ended(0.0)]:
            self._retired.pop(number).end(0.0)
            self._supervisor.forget(number)

    def _watch(self, worker: WorkerChannel) -> None:
        self._selector.register(worker.connection, selectors.EVENT_READ, worker)
        worker.on_blocked = self._blocked.add
        if worker.blocked:
            self._blocked.add(worker)
        if worker.pidfd is not None:
            self._selector.register(worker.pidfd, selectors.EVENT_READ, worker)
        elif not worker.elsewhere:
            self._interval = min(self._interval, _LOOK_SECONDS)

    def _unwatch(self, worker: WorkerChannel) -> None:
        worker.on_blocked = None
        self._blocked.discard(worker)
        for watched in (worker.connection, worker.pidfd):
            if watched is not None:
                with contextlib.suppress(KeyError):  # it closed its channel before
                    self._selector.unregister(watched)

    def _watched(self, *, fenced: bool = False) -> list[tuple[int, WorkerChannel]]:
        """The workers whose descriptors are waited for, by number."""
        if not self._state.kind.waits_on_descriptors:
            return []
        workers = self._supervisor.fenced if fenced else self._supervisor.workers
        return cast("list[tuple[int, WorkerChannel]]", [*workers.items()])

    def _select_for_writing(self) -> None:
        for worker in [*self._blocked]:
            if worker.open:
                events = selectors.EVENT_READ | (selectors.EVENT_WRITE if worker.blocked else 0)
                self._selector.modify(worker.connection, events, worker)
            if not worker.open or not worker.blocked:
                self._blocked.discard(worker)

    # --- workers that are lost or make no progress --------------------------------------------------------------

    def _look_after_workers(self) -> None:
        """Now and then: a worker without progress is logged, and ended when it takes too long."""
        now = time.monotonic()
        if not self._supervisor.is_due(now):
            return
        with self._pool.lock:
            workers = self._supervisor.workers
            snapshots = {number: self._snapshot(number, worker) for number, worker in workers.items()}
            stalls = self._supervisor.look(now, snapshots)
        # Asked without the lock: an answer may take a second.
        self._handle_stalls(
            [(stall, workers[stall.worker], *workers[stall.worker].doing()) for stall in stalls]
        )

    def _handle_stalls(self, stalls: Sequence[tuple[Stall, Worker, str, str]]) -> None:
        """What follows from a look; a stall comes with its worker, what that does, and its Python stack."""
        pool, state = self._pool, self._state
        with pool.lock:
            if pool.poisoned or state.stopping:
                return
            now = time.monotonic()
            for stall, worker, doing, stack in stalls:
                snapshot = self._snapshot(stall.worker, worker)
                decisions = self._supervisor.confirm_stall(now, stall, snapshot, doing)
                self._carry_out(worker, decisions, doing, stack)
            for number in self._supervisor.overdue(now):
                worker = self._supervisor.worker(number)
                self._carry_out(worker, [self._supervisor.fence(number, self._snapshot(number, worker))])
            pool.assign_tasks()
            pool.wake_waiting()

    def _snapshot(self, number: int, worker: Worker) -> WorkerSnapshot:
        return WorkerSnapshot(self._dispatcher.busy(number), worker.progress())

    def _carry_out(
        self, worker: Worker, decisions: Sequence[Decision], doing: str = "", stack: str = ""
    ) -> None:
        for decision in decisions:
            match decision:
                case StallWarning():
                    self._pool.mark(worker.name, "no progress", seconds=decision.stall.seconds)
                    self._state.worker_log.stall(worker.name, decision, doing, stack)
                case KillWorker():
                    cast(WorkerChannel, worker).kill()  # no other is
                case WorkerLost():
                    self._lose(worker, decision)
                case DropTasks(number):
                    self._dispatcher.take_back(number, "dismissed")
                case ReleaseSlots(number):
                    self._dispatcher.release(number)
                case GiveUp():
                    self._state.give_up(error_of(decision, worker.name))

    def _lose(self, worker: Worker, lost: WorkerLost) -> None:
        self._state.lost += 1
        self._pool.mark(worker.name, "lost", reason=lost.reason, tasks=len(lost.snapshot.tasks))
        if lost.fenced:
            worker.dismiss()  # a thread then begins nothing more
            self._dispatcher.fence(lost.number)
        self._dispatcher.take_back(
            lost.number,
            lost.reason,
            begun=None if lost.begun is None else lost.begun.id,
            at=lost.snapshot.progress.index,
            instead=lost.snapshot.progress.instead,
            retry=lost.retry,
            late=lost.late,
        )
        elsewhere = isinstance(worker, WorkerChannel) and worker.elsewhere
        self._state.worker_log.loss(worker.name, lost, replaced=not elsewhere)

    # --- the end ------------------------------------------------------------------------------------------------

    def _dismiss_workers(self) -> None:
        pool, state = self._pool, self._state
        state.worker_log.dismissed()
        dismissed = self._supervisor.dismiss()
        if self._crew is not None:
            self._crew.end(state)
        for number, worker in dismissed.items():
            worker.dismiss()
            if not pool.poisoned:
                self._dispatcher.take_back(number, "dismissed")
        # Only a pool that stops has fenced workers here: else it is in use until they are released.
        self._dismissed = {**dismissed, **self._supervisor.fenced}
        if not state.stopping:
            state.thread = None  # a stream that is opened from now on starts another
        state.changed.notify_all()

    def _end(self) -> None:
        pool, state = self._pool, self._state
        try:
            self._join_workers()  # without the lock: a thread may be about to report its last task
        finally:
            self._selector.close()
            with pool.lock:
                for number, worker in self._dismissed.items():
                    state.keep_counters(worker)
                    self._supervisor.forget(number)
                for number in self._retired:
                    self._supervisor.forget(number)
                self._dismissed, self._retired = {}, {}
                if state.stopping and state.thread in (None, threading.current_thread()):
                    state.close()  # else a next pump was started since, and does it

    def _join_workers(self) -> None:
        deadline = time.monotonic() + self._state.kind.end_seconds
        for worker in (*self._dismissed.values(), *self._retired.values()):
            worker.end(max(0.0, deadline - time.monotonic()))
