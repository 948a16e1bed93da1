"""The workers of a loader, and the pump: one thread that hears them, tells the engine, and does what it says.

The pump is a daemon and holds no iterator and no loader: they hold the pool, and ask for its end when they go, from
wherever the garbage collector finds them, by a flag and a byte in a pipe and nothing that could wait. Process workers
are started from the pump's thread, because the kernel ties a child's life to the *thread* that started it.

All state is under one lock. A consumer that waits does so on its condition; after it took an element it gives out the
next tasks itself, so that a busy consumer never waits for the pump to be scheduled. It is woken when there is something
for it and not before: who changes what `next` looks at calls `_wake_waiting` before letting go of the lock, or wakes
the pump, which does.
"""

import contextlib
import logging
import os
import selectors
import socket
import threading
import time
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence

from loaderkit._base.notes import repr_of
from loaderkit._engine.scheduler import Scheduler, SchedulerContext
from loaderkit._engine.stall_watch import Stall
from loaderkit._order.failure import Failure
from loaderkit._runtime.memory.arena import Arena
from loaderkit._runtime.start.first_messages import operations_now, packed
from loaderkit._runtime.transport.pickling import Packer
from loaderkit._runtime.worker.heartbeat import Progress
from loaderkit._runtime.worker.program import Program
from loaderkit._system.descriptors import above_standard
from loaderkit._system.limits import is_of_limits, naming_limits, with_limits
from loaderkit.errors import IteratorClosedError, WorkerError
from loaderkit.sources.naming import has_names

from .executor import Executor, NextResult, Stream
from .process_worker import ProcessWorker
from .record_names import RecordNames
from .restart_policy import RestartPolicy
from .supervisor import WorkerSupervisor
from .thread_worker import ThreadWorker
from .worker import (
    Event,
    ReplacementRequested,
    SetupFailed,
    SpaceRequested,
    TaskFinished,
    Worker,
    WorkerReady,
)

_log = logging.getLogger("loaderkit")
IDLE_SECONDS = 30.0  # workers without an iterator wait that long for the next one
# For all workers together to end by themselves, before those that are processes are killed.
_END_SECONDS = 0.2
_THREAD_END_SECONDS = 1.0
_START_SECONDS = 5.0  # for a thread that was started to run


class WorkerPool(Executor):
    """Thread or process workers for all iterators of one loader.

    Args:
        program: what is run.
        workers: how many.
        kind: "process" or "thread".
        restart_policy: how many lost and late workers are accepted.
        max_memory, task_rows: as Executor says.
    """

    def __init__(
        self,
        program: Program,
        *,
        workers: int,
        kind: str,
        restart_policy: RestartPolicy,
        max_memory: int | None,
        task_rows: int | None,
    ) -> None:
        self._packer = Packer()
        # Before anything is opened that would have to be closed again.
        self._packed, self._descriptors = packed(program, self._packer) if kind == "process" else (b"", [])
        self._as_sent = operations_now(program) if kind == "process" else b""
        arena = Arena()
        super().__init__(
            program,
            workers=workers,
            arena=arena,
            reserves=kind == "process",
            max_memory=max_memory,
            max_restarts=restart_policy.restarts,
            task_rows=task_rows,
        )
        self._shared_arena = arena
        self._worker_count = workers
        self._kind = kind
        self._pid = os.getpid()
        self._changed = threading.Condition(self.lock)
        self._waited_for: set[int] = set()  # streams that somebody waits for who wasn't woken since
        self._workers: dict[int, Worker] = {}
        self._supervisor = WorkerSupervisor(
            self._dispatcher,
            self._workers,
            restart_policy,
            worker_count=workers,
            kind=kind,
            names=RecordNames(self.record_name if has_names(program.source) else None),
        )
        self._numbers = 0
        self._failed = False
        self._unfit: Exception | None = None  # why, as long as somebody may ask
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()  # of that thread: it has done all that it will do
        try:
            with naming_limits("the channel that wakes the loader's pump"), above_standard():
                self._wake_up, self._woken = socket.socketpair()
        except OSError:
            arena.close()
            raise
        self._wake_up.setblocking(False)
        self._woken.setblocking(False)
        _pools.add(self)

    # --- for iterators ------------------------------------------------------------------------------------------

    def open(self, make: Callable[[SchedulerContext], Scheduler]) -> Stream:
        self._check_process()
        with self.lock:
            if self._stopping:
                raise IteratorClosedError("the loader was closed, and its workers have ended")
            self._check_not_poisoned()
            if self._thread is None:  # first: without it there is nothing that a stream could be given
                self._start_pump()
            stream = super().open(make)
            self.poisoned = True
            self._give_out()
            self.poisoned = False
            self.wake()  # workers may have to be hired
            return stream

    def _start_pump(self) -> None:
        # Whatever the system may refuse is asked for here, where the error reaches a caller and nothing waits yet.
        with naming_limits("the selector of the loader's pump"), above_standard():
            selector = selectors.DefaultSelector()
            try:
                selector.register(self._woken, selectors.EVENT_READ, None)
            except OSError:
                selector.close()
                raise
        self.poisoned = True
        begun, self._ended = threading.Event(), threading.Event()
        thread = threading.Thread(
            target=_pump, args=(self, selector, begun, self._ended), name="loaderkit-pump", daemon=True
        )
        try:
            self._thread = thread
            thread.start()
        except BaseException as error:
            refused = isinstance(error, Exception)
            if refused or not begun.wait(_START_SECONDS):  # an interrupt may come before it runs, or after
                self._thread = None
                selector.close()
            if not refused:
                raise
            self.poisoned = False
            raise WorkerError(
                f"the loader's pump, a thread, can't be started: {with_limits(error)}"
            ) from error
        self.poisoned = False

    def close(self, stream: int) -> None:
        if os.getpid() == self._pid:  # in a forked child the lock may be held by a thread that isn't there
            super().close(stream)
            if not self._streams:
                self._unfit = None  # its traceback would keep alive whatever the user's frames hold
            self.wake()  # also where an interrupt poisoned the executor: the pump ends the workers then

    def _recall(self, tasks: Mapping[Hashable, Sequence[tuple[int, int]]]) -> None:
        for worker, mine in tasks.items():
            self._workers[worker].recall(mine)  # type: ignore[index]  # the numbers that we gave

    def abandon(self, stream: int) -> None:
        if os.getpid() == self._pid:
            super().abandon(stream)

    def next(self, stream: int) -> NextResult:
        self._check_process()
        with self.lock:
            while True:
                if self._unfit is not None:
                    return Failure(self._unfit)
                if self._stopping and not self._failed:
                    raise IteratorClosedError("the loader was closed, and its workers have ended")
                self._check_open(stream)
                self.poisoned = True
                self._let_go()  # what the user let go of may be the memory that is missing
                step = self._pop(stream)
                if self._moved or step is None:
                    self._give_out()
                if step is None:  # giving out may have found that there is nothing more to give
                    step = self._pop(stream)
                self.poisoned = False
                if step is not None:
                    return step
                self._waited_for.add(stream)
                self._changed.wait()

    def check(self) -> None:
        self._check_process()
        super().check()

    def wake(self) -> None:
        """Makes the pump look around; never waits."""
        with contextlib.suppress(BlockingIOError, OSError):  # full: it will look anyway; closed: it is over
            self._wake_up.send(b"\0")

    @property
    def usable(self) -> bool:
        return super().usable and not self._failed and not self._stopping and os.getpid() == self._pid

    @property
    def worn_out(self) -> bool:
        return super().worn_out or self._failed

    def runs(self, program: Program) -> bool:
        return self._kind == "thread" or self._as_sent == operations_now(program)

    def stop(self) -> None:
        """Asks for the end of pump and workers; may be called from anywhere, the garbage collector included."""
        if os.getpid() == self._pid:
            self.shut = self._stopping = True
            self.wake()
            if self._thread is None:  # not started, or ended after an idle time
                self._release()

    def shut_down(self) -> None:
        """Ends pump and workers, and returns when they are gone."""
        if os.getpid() != self._pid:
            return
        self.stop()
        thread, ended = self._thread, self._ended
        if thread is not None:
            ended.wait()  # may be interrupted and called again; a join that was interrupted takes the thread for ended
            thread.join()

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise IteratorClosedError(
                "this iterator belongs to the process that this one was forked from; make one here: iter(loader)"
            )

    # --- the pump, under the lock -------------------------------------------------------------------------------

    def _wake_waiting(self) -> None:
        """Wakes those who wait, if there is something for one of them: each that wakes is in the workers' way."""
        over = self._unfit is not None or self._stopping or self.poisoned
        if over or any(map(self._is_due, self._waited_for)):
            self._waited_for.clear()
            self._changed.notify_all()

    def _is_due(self, stream: int) -> bool:
        return stream not in self._streams or self._dispatcher.due(stream)

    def _give_out(self) -> None:
        self._let_go()
        self._moved = False
        given: set[Worker] = set()
        while not self._failed and (assignment := self._dispatcher.assign()) is not None:
            worker = self._workers[assignment.worker]  # type: ignore[index]  # the numbers that we gave
            outputs = {}
            for span in assignment.task.inputs:
                where = None if span.slot is not None else self._outputs.slot(span.task)
                if where is not None:
                    outputs[span.task] = where
            worker.give(assignment, outputs)
            given.add(worker)
        for worker in given:
            if isinstance(worker, ProcessWorker):
                worker.flush()
                if worker.blocked:
                    self.wake()

    def _hear(self, number: int, event: Event) -> None:
        worker = self._workers[number]
        match event:
            case WorkerReady():
                self._supervisor.arrived()
                self._dispatcher.ready(number)
            case SpaceRequested(task, attempt, nbytes):
                slot = self._dispatcher.asks(number, task, attempt, nbytes)
                worker.place(task, attempt, slot)
            case ReplacementRequested(task, attempt, index, tried):
                worker.suggest(*self._dispatcher.replacement(number, task, attempt, index, tried))
            case TaskFinished(task, attempt, report, output):
                self._supervisor.got_on()
                if output is not None:
                    self._objects[task] = output
                self._dispatcher.done(number, task, attempt, report)
            case SetupFailed(error):
                self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self._unfit, self._failed = error, True

    def _lose(self, selector: selectors.BaseSelector, number: int) -> None:
        """A process has ended."""
        worker = self._workers.pop(number, None) or self._supervisor.fenced[number]
        assert isinstance(worker, ProcessWorker)
        for what in (worker.connection, worker.watch):
            with contextlib.suppress(KeyError):  # it closed its channel before
                selector.unregister(what)  # type: ignore[arg-type]  # a watch that isn't there isn't registered
        place = worker.progress()
        reason = worker.end(_END_SECONDS)
        if not self._supervisor.release(number):
            self._supervisor.died(number, worker, reason, place, missed=not (self._stopping or self._failed))
            self._give_up_where_hopeless()

    def _give_up_where_hopeless(self) -> None:
        # Not kept: its traceback will hold whatever the user's frames do.
        error, self._supervisor.hopeless = self._supervisor.hopeless, None
        if error is not None:
            self._give_up(error)

    def _hire(self, selector: selectors.BaseSelector) -> None:
        while len(self._workers) < self._worker_count and not self._failed:
            number = self._numbers
            self._numbers += 1
            if self._kind == "thread":
                self._workers[number] = thread = ThreadWorker(
                    self.program, self._shared_arena, self._objects, self._told, number
                )
                try:
                    thread.start()
                except (RuntimeError, MemoryError) as error:
                    del self._workers[number]
                    self._give_up(WorkerError(f"a worker thread can't be started: {with_limits(error)}"))
                    return
                continue
            try:
                worker = ProcessWorker(self._packed, self._descriptors, self._shared_arena, self._packer)
            except (OSError, MemoryError) as error:
                self._give_up(WorkerError(f"a worker process can't be started: {with_limits(error)}"))
                return
            self._workers[number] = worker
            selector.register(worker.connection, selectors.EVENT_READ, number)
            if worker.watch is not None:
                selector.register(worker.watch, selectors.EVENT_READ, number)

    def _told(self, worker: ThreadWorker, event: Event) -> None:
        # In the worker's own thread: it has its next task at once, without waiting for the pump to be scheduled.
        with self.lock:
            if self.poisoned:
                return
            try:
                if self._workers.get(worker.number) is worker:
                    self._hear(worker.number, event)
                elif isinstance(event, ReplacementRequested):
                    return  # fenced: it goes on without an answer, and may still write
                elif not self._supervisor.release(worker.number):
                    return  # dismissed; else it is through with what it was in, and begins nothing more
                self._give_out()
                self._wake_waiting()
            except BaseException as error:  # noqa: BLE001 - whoever waits must not wait for ever
                self._fail(error)
                self._changed.notify_all()

    def _fail(self, error: BaseException) -> None:
        of_limits = is_of_limits(error)
        what = with_limits(error) if of_limits else f"its engine failed: {repr_of(error)}"
        self._give_up(WorkerError(f"the loader can't go on: {what}"))
        self.poisoned = True
        self.wake()
        if not of_limits:  # else the error says all that there is to say
            _log.error("the engine failed", exc_info=error)

    def _turn(self, selector: selectors.BaseSelector, timeout: float | None) -> bool:
        """One turn of the pump; whether anything happened."""
        ready = selector.select(timeout)
        with self.lock:
            if self.poisoned:
                return True
            for key, mask in ready:
                if key.data is None:
                    with contextlib.suppress(BlockingIOError):
                        self._woken.recv(4096)
                elif key.data in self._workers or key.data in self._supervisor.fenced:
                    # Else it was lost in this very turn.
                    self._attend(selector, key, mask)
            self._sweep()
            if self._streams and not self._stopping:
                self._hire(selector)
                self._give_out()
            for number, worker in self._workers.items():
                if isinstance(worker, ProcessWorker) and worker.open:
                    events = selectors.EVENT_READ | (selectors.EVENT_WRITE if worker.blocked else 0)
                    if selector.get_key(worker.connection).events != events:
                        selector.modify(worker.connection, events, number)
            if ready:
                self._wake_waiting()
            else:
                self._changed.notify_all()  # now and then they look for themselves
        return bool(ready)

    def _attend(self, selector: selectors.BaseSelector, key: selectors.SelectorKey, mask: int) -> None:
        number: int = key.data
        worker = self._workers.get(number) or self._supervisor.fenced[number]
        assert isinstance(worker, ProcessWorker)
        if mask & selectors.EVENT_WRITE:
            worker.flush()
        if not mask & selectors.EVENT_READ:
            return
        for event in worker.read():
            if number in self._workers:
                self._hear(number, event)
        if key.fd == worker.watch or (worker.watch is None and not worker.open):
            self._lose(selector, number)
        elif not worker.open:
            # Whatever it does now, nobody hears of it. Its end is waited for where nobody is kept waiting.
            selector.unregister(worker.connection)
            worker.kill()

    # --- workers that don't get on ------------------------------------------------------------------------------

    def _look_after(self) -> None:
        """Now and then: who doesn't get on is logged, and dealt with when it takes too long."""
        now = time.monotonic()
        if self._supervisor.time_to_look(now):
            with self.lock:
                stalled = self._supervisor.look(now)
            # What a worker is doing is asked without the lock: the answer may take a while.
            self._deal_with([(stall, worker, sign, *worker.doing()) for stall, worker, sign in stalled])

    def _deal_with(self, stalled: list[tuple[Stall, Worker, Progress, str, str]]) -> None:
        with self.lock:
            if self.poisoned or self._stopping:
                return
            for stall, worker, sign, state, stack in stalled:
                if self._supervisor.sign(stall.worker, worker) == sign:  # else it has just got on
                    self._supervisor.stalled(stall, worker, state, stack)
            self._supervisor.fence_overdue()
            self._give_up_where_hopeless()
            self._give_out()
            self._wake_waiting()

    def _run(self, selector: selectors.BaseSelector) -> None:
        while True:
            idle = not self._streams
            try:
                happened = self._turn(selector, IDLE_SECONDS if idle else self._supervisor.interval)
                self._look_after()
            except BaseException as error:  # noqa: BLE001 - whoever waits must not wait for ever
                self._fail(error)
                happened = True
            with self.lock:
                if self._failed or self.poisoned:
                    self._stopping = True  # nobody will get anything from these workers any more
                if not self._stopping and (happened or not idle or self._in_use()):
                    continue
                workers = self._dismissed()
            try:
                self._see_off(workers)  # not under the lock: a thread may be about to tell of its last task
            finally:
                selector.close()
                with self.lock:
                    if self._stopping and self._thread in (None, threading.current_thread()):
                        self._release()  # else a next pump was started since, and does it
            return

    def _in_use(self) -> bool:
        # Also by a task of a stream that was closed: as long as it writes, its slots are nobody else's.
        return bool(self._streams or self._supervisor.fenced) or any(
            map(self._dispatcher.busy, self._workers)
        )

    def _dismissed(self) -> list[Worker]:
        workers = [*self._workers.values()]
        for number, worker in self._workers.items():
            worker.dismiss()
            if not self.poisoned:
                self._dispatcher.died(number, "dismissed")
        workers += self._supervisor.fenced.values()
        self._workers.clear()
        self._supervisor.clear()
        if not self._stopping:
            self._thread = None  # a stream that is opened from now on starts another
        self._changed.notify_all()
        return workers

    def _see_off(self, workers: list[Worker]) -> None:
        deadline = time.monotonic() + (_END_SECONDS if self._kind == "process" else _THREAD_END_SECONDS)
        for worker in workers:
            worker.end(max(0.0, deadline - time.monotonic()))

    def _release(self) -> None:
        self._wake_up.close()
        self._woken.close()
        self._objects.clear()
        self._shared_arena.close()


_pools: weakref.WeakSet[WorkerPool] = weakref.WeakSet()  # of this process, for its forks


def _shut_in_child() -> None:
    for pool in _pools:
        pool.shut = True


os.register_at_fork(after_in_child=_shut_in_child)


def _pump(
    pool: WorkerPool, selector: selectors.BaseSelector, begun: threading.Event, ended: threading.Event
) -> None:
    begun.set()
    try:
        pool._run(selector)
    except BaseException as error:  # noqa: BLE001 - as in a turn: a caller that waits must not wait for ever
        with pool.lock:
            pool._stopping = True
            pool._fail(error)
            pool._changed.notify_all()
            pool._release()
    finally:
        ended.set()


def living_pools() -> list[WorkerPool]:
    """All pools of this process that something still refers to."""
    return list(_pools)
