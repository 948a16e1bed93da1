"""Thread or process workers for all iterators of one loader.

A pool has a pump (pump.py), a daemon thread that drives the workers. The pump holds no iterator and no loader: they
hold the pool, and when they go they ask for its end, from wherever the garbage collector finds them, by a flag and a
byte in a pipe, and by nothing that could wait.

All state is under one lock. A consumer that waits does so on its condition; after it took an element it assigns the
next tasks itself, so that a busy consumer never waits for the pump to be scheduled. It is woken when there is
something for it and not before: code that changes what `next` looks at calls `_wake_waiting` before it lets go of the
lock, or wakes the pump, which does.
"""

import contextlib
import itertools
import logging
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from loaderkit._base.notes import repr_of
from loaderkit._engine.scheduler import Scheduler, SchedulerContext
from loaderkit._engine.supervisor import WorkerSupervisor
from loaderkit._engine.task import inputs_of
from loaderkit._order.failure import Failure
from loaderkit._runtime.memory.arena import Arena
from loaderkit._runtime.worker.program import Program
from loaderkit._stats.counters import ENDED, PoolCounters, WorkerCounters
from loaderkit._system.descriptors import above_standard
from loaderkit._system.limits import is_of_limits, naming_limits, with_limits
from loaderkit.errors import IteratorClosedError, WorkerError
from loaderkit.sources.naming import has_names

from .executor import Executor, NextResult, Stream
from .process_worker import process_kind
from .pump import start_pump
from .record_names import RecordNames
from .restart_policy import RestartPolicy
from .thread_worker import thread_kind
from .worker import (
    DescriptorWorker,
    Event,
    NumericsKnown,
    ReplacementRequested,
    SetupFailed,
    SpaceRequested,
    TaskFinished,
    Worker,
    WorkerReady,
)
from .worker_log import WorkerLog

if TYPE_CHECKING:
    from loaderkit._runtime.feeder.feeder import Feeder

_log = logging.getLogger("loaderkit")


class WorkerPool(Executor):
    """Thread or process workers for all iterators of one loader.

    Args:
        program: what is run.
        workers: how many.
        kind: "process" or "thread".
        restart_policy: how many lost and late workers are accepted.
        max_memory, task_rows, feeder: as Executor says.
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
        feeder: "Feeder | None" = None,
    ) -> None:
        # Before anything is opened that would have to be closed again.
        self._kind = process_kind(program) if kind == "process" else thread_kind(program)
        arena = Arena()
        super().__init__(
            program,
            workers=workers,
            arena=arena,
            reserves=self._kind.waits_on_descriptors,
            max_memory=max_memory,
            max_restarts=restart_policy.restarts,
            task_rows=task_rows,
            feeder=feeder,
        )
        self._shared_arena = arena
        self._pid = os.getpid()
        self._changed = threading.Condition(self.lock)
        self._waited_for: set[int] = set()  # streams with a consumer that waits and wasn't woken since
        self._supervisor = WorkerSupervisor[Worker](
            worker_count=workers,
            killable=self._kind.killable,
            restarts=restart_policy.restarts,
            timeout=restart_policy.timeout,
            restart_late=restart_policy.restart_late,
        )
        self._worker_log = WorkerLog(RecordNames(self.record_name if has_names(program.source) else None))
        self._ended_counters = WorkerCounters(kind=kind, cpu=0)
        self._places: dict[
            int, int
        ] = {}  # of the workers that haven't ended, by number: a replacement has the same
        self._ended_by_place = [WorkerCounters(place, kind, cpu=0) for place in range(workers)]
        self._failed = False
        self._error: Exception | None = None  # why it failed, as long as a stream is open
        self._stopping = False
        self._thread: threading.Thread | None = None  # the pump's
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
            if self._thread is None:  # first: without it no stream could be given an element
                start_pump(self)
            stream = super().open(make)
            self.poisoned = True
            self._assign_tasks()
            self.poisoned = False
            self.wake()  # workers may have to be started
            return stream

    def close(self, stream: int) -> None:
        if os.getpid() == self._pid:  # in a forked child the lock may be held by a thread that isn't there
            super().close(stream)
            if not self._streams:
                self._error = None  # its traceback would keep alive whatever the user's frames hold
            self.wake()  # also where an interrupt poisoned the executor: the pump ends the workers then

    def _recall(self, tasks: Mapping[Hashable, Sequence[tuple[int, int]]]) -> None:
        for number, mine in tasks.items():
            self._supervisor.worker(number).recall(mine)  # type: ignore[arg-type]  # the numbers that we gave

    def abandon(self, stream: int) -> None:
        if os.getpid() == self._pid:
            super().abandon(stream)

    def next(self, stream: int) -> NextResult:
        self._check_process()
        with self.lock:
            while True:
                if self._error is not None:
                    return Failure(self._error)
                if self._stopping and not self._failed:
                    raise IteratorClosedError("the loader was closed, and its workers have ended")
                self._check_open(stream)
                self.poisoned = True
                self._free_released()  # slots of batches that the user has released may be the missing memory
                result = self._pop(stream)
                if self._has_freed or result is None:
                    self._assign_tasks()
                if result is None:  # assigning may have found that there is no further task
                    result = self._pop(stream)
                self.poisoned = False
                if result is not None:
                    return result
                self._waited_for.add(stream)
                begun = time.perf_counter_ns()
                try:
                    self._changed.wait()
                finally:
                    self._count_blocked(stream, time.perf_counter_ns() - begun)

    def check(self) -> None:
        self._check_process()
        super().check()

    def wake(self) -> None:
        """Makes the pump look around; never waits."""
        with contextlib.suppress(BlockingIOError, OSError):  # full: it will look anyway; closed: it has ended
            self._wake_up.send(b"\0")

    @property
    def usable(self) -> bool:
        return super().usable and not self._failed and not self._stopping and os.getpid() == self._pid

    def runs(self, program: Program) -> bool:
        return self._kind.runs(program)

    def stop(self) -> None:
        """Asks for the end of pump and workers; may be called from anywhere, the garbage collector included."""
        if os.getpid() == self._pid:
            self.closed = self._stopping = True
            if self._feeder is not None:
                self._feeder.stop()
            self.wake()
            if self._thread is None:  # not started, or ended after an idle time
                self._close_resources()

    def shut_down(self) -> None:
        """Ends pump and workers, and returns when they have ended."""
        if os.getpid() != self._pid:
            return
        self.stop()
        thread, ended = self._thread, self._ended
        if thread is not None:
            ended.wait()  # may be interrupted and called again; a join that was interrupted takes the thread for ended
            thread.join()
        if self._feeder is not None:
            self._feeder.shut_down()

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise IteratorClosedError(
                "this iterator belongs to the process that this one was forked from; make one here: iter(loader)"
            )

    # --- for consumers, worker threads and the pump, under the lock ---------------------------------------------

    def _wake_waiting(self) -> None:
        """Wakes the waiting consumers if there is something for one of them: each that wakes delays the workers."""
        ended = self._error is not None or self._stopping or self.poisoned
        if ended or any(
            stream not in self._streams or self._dispatcher.due(stream) for stream in self._waited_for
        ):
            self._waited_for.clear()
            self._changed.notify_all()

    def _assign_tasks(self) -> None:
        self._free_released()
        self._has_freed = False
        assigned: set[Worker] = set()
        while not self._failed and (assignment := self._dispatcher.assign()) is not None:
            worker = self._supervisor.worker(assignment.worker)  # type: ignore[arg-type]  # the numbers that we gave
            outputs = {}
            for span in inputs_of(assignment.task):
                where = None if span.slot is not None else self._outputs.slot(span.task)
                if where is not None:
                    outputs[span.task] = where
            worker.give(assignment, outputs)
            assigned.add(worker)
        if self._kind.waits_on_descriptors:
            for worker in cast("set[DescriptorWorker]", assigned):
                worker.flush()
                if worker.blocked:
                    self.wake()

    def _handle_event(self, number: int, event: Event) -> None:
        """What one of the present workers reports."""
        worker = self._supervisor.worker(number)
        match event:
            case WorkerReady():
                if self._supervisor.worker_ready(number):
                    self._dispatcher.ready(number)
            case NumericsKnown(digests):
                self.numerics = digests | self.numerics
            case SpaceRequested(task, attempt, nbytes):
                slot = self._dispatcher.request_space(number, task, attempt, nbytes)
                worker.grant_space(task, attempt, slot)
            case ReplacementRequested(task, attempt, index, tried):
                worker.send_candidates(*self._dispatcher.replacement(number, task, attempt, index, tried))
            case TaskFinished(task, attempt, result, output):
                self._supervisor.task_finished(number)
                if output is not None:
                    self._objects[task] = output
                self._dispatcher.done(number, task, attempt, result)
            case SetupFailed(error):
                self._give_up(error)

    def _on_told(self, worker: Worker, event: Event) -> None:
        # In the worker's own thread: it has its next task at once, without waiting for the pump to be scheduled.
        number = worker.number
        with self.lock:
            if self.poisoned:
                return
            try:
                if self._supervisor.is_active(number):
                    self._handle_event(number, event)
                elif isinstance(event, ReplacementRequested):
                    return  # fenced: it goes on without an answer, and may still write
                elif self._supervisor.stopped_writing(number) is None:
                    return  # dismissed
                else:  # fenced: this was its last task
                    self._keep_counters(worker)
                    self._dispatcher.release(number)
                self._assign_tasks()
                self._wake_waiting()
            except BaseException as error:  # noqa: BLE001 - a failure must fail every blocked next()
                self._fail(error)
                self._changed.notify_all()

    def _give_up(self, error: Exception) -> None:
        self._error, self._failed = error, True

    def _fail(self, error: BaseException) -> None:
        of_limits = is_of_limits(error)
        what = with_limits(error) if of_limits else f"its engine failed: {repr_of(error)}"
        self._give_up(WorkerError(f"the loader can't go on: {what}"))
        self.poisoned = True
        self.wake()
        if not of_limits:  # else the error says all that there is to say
            _log.error("the engine failed", exc_info=error)

    def statistics(self) -> PoolCounters:
        if os.getpid() != self._pid:  # the lock may be held by a thread that isn't there
            return PoolCounters(())
        names = self.program.operation_names
        with self.lock:
            present = {**self._supervisor.workers, **self._supervisor.fenced}
            workers = [present[number].counters(names) for number in sorted(present)]
            places = [*self._ended_by_place]
            for (
                worker
            ) in workers:  # one that is fenced has the place of its replacement, which comes behind it
                place = self._places[worker.number]
                places[place] = replace(worker, number=place).plus(places[place])
            return self._pool_counters(workers, self._ended_counters, places)

    def _take_place(self, number: int) -> None:
        """Gives a worker that is about to start the first place without a present worker, under the lock."""
        taken = {self._places[other] for other in self._supervisor.workers if other in self._places}
        self._places[number] = next(place for place in itertools.count() if place not in taken)

    def _keep_counters(self, worker: Worker) -> None:
        """Adds what a worker did to that of all that have ended, under the lock."""
        counted = worker.counters(self.program.operation_names)
        counted = replace(counted, task=None, phase=ENDED, memory=None)
        self._ended_counters = self._ended_counters.plus(counted)
        place = self._places.pop(counted.number)
        self._ended_by_place[place] = self._ended_by_place[place].plus(replace(counted, number=place))

    def _in_use(self) -> bool:
        # Also by a task of a stream that was closed: its slots are kept from others as long as it may write there.
        supervisor = self._supervisor
        return bool(self._streams or supervisor.fenced) or any(map(self._dispatcher.busy, supervisor.workers))

    def _close_resources(self) -> None:
        self._wake_up.close()
        self._woken.close()
        self._objects.clear()
        self._shared_arena.close()


_pools: weakref.WeakSet[WorkerPool] = weakref.WeakSet()  # of this process, for its forks


def _shut_in_child() -> None:
    for pool in _pools:
        pool.closed = True


os.register_at_fork(after_in_child=_shut_in_child)


def living_pools() -> list[WorkerPool]:
    """All pools of this process that something still refers to."""
    return list(_pools)
