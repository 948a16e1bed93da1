"""Thread or process workers for all iterators of one loader.

A pool has a pump (pump.py), a daemon thread that drives the workers. The pump holds no iterator and no loader: they
hold the pool, and when they go they ask for its end, from wherever the garbage collector finds them, by a flag and a
byte in a pipe, and by nothing that could wait.

All state is under one lock. A consumer that waits does so on its condition; after it took an element it assigns the
next tasks itself, so that a busy consumer never waits for the pump to be scheduled. It is woken when there is
something for it and not before: code that changes what `next` looks at calls `wake_waiting` before it lets go of the
lock, or wakes the pump, which does.
"""

import logging
import os
import time
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from loaderkit._base.notes import repr_of
from loaderkit._base.system.limits import is_of_limits, with_limits
from loaderkit._base.system.resources import available_memory
from loaderkit._engine.scheduler import Scheduler, SchedulerContext
from loaderkit._engine.stats.counters import PoolCounters, total
from loaderkit._engine.supervisor import RestartPolicy, WorkerSupervisor
from loaderkit._engine.task import inputs_of
from loaderkit._engine.worker_tuner import PERIOD_SECONDS, Figures, WorkerTuner
from loaderkit._order.facts import Failure
from loaderkit._runtime.memory.arena import Arena
from loaderkit._runtime.start.bare_processes import BareProcesses
from loaderkit._runtime.worker.program import Program
from loaderkit._source.naming import has_names
from loaderkit.errors import IteratorClosedError, WorkerError

from .executor import Executor, NextResult, Stream
from .pool_state import PoolState
from .process_worker import process_kind
from .pump import start_pump
from .thread_worker import thread_kind
from .worker import (
    Event,
    NumericsKnown,
    ReplacementRequested,
    SetupFailed,
    SpaceRequested,
    TaskFinished,
    TasksTraced,
    Worker,
    WorkerReady,
)
from .worker_channel import WorkerChannel
from .worker_log import RecordNames, WorkerLog

if TYPE_CHECKING:
    from loaderkit._runtime.feeder.feeder import Feeder
    from loaderkit._runtime.remote.recruiter import Recruiter

    from .remote_crew import RemoteCrew

_log = logging.getLogger("loaderkit")
# Times the memory of the largest worker that must be free for one more: workers grow, and the trainer too.
_ROOM = 4
_TUNE_SECONDS = PERIOD_SECONDS / 2  # from one look at what was counted to the next


class WorkerPool(Executor):
    """Thread or process workers for all iterators of one loader.

    Args:
        program: what is run.
        workers: how many; with `tuned` at most.
        tuned: whether their number follows what the pool counts.
        kind: "process" or "thread".
        level: of processors, as which processes compute; None for the present one.
        restart_policy: how many lost and late workers are accepted.
        max_memory, task_rows, feeder: as Executor says.
        recruiter: finds workers of other machines, beside those of this one; None for none.
        bare: processes that were started for its workers, and their thread for its pump; None for none.
    """

    def __init__(
        self,
        program: Program,
        *,
        workers: int,
        tuned: bool = False,
        kind: str,
        level: str | None = None,
        restart_policy: RestartPolicy,
        max_memory: int | None,
        task_rows: int | None,
        feeder: "Feeder | None" = None,
        recruiter: "Recruiter | None" = None,
        bare: BareProcesses | None = None,
    ) -> None:
        # Before anything is opened that would have to be closed again.
        own_kind = process_kind(program, level, bare) if kind == "process" else thread_kind(program)
        self._most = workers
        self.bare = bare
        self.crew: RemoteCrew | None = None
        if recruiter is not None:
            from . import remote_crew  # other pools don't need it

            own = weakref.proxy(self)  # the crew keeps no pool alive
            self.crew = remote_crew.RemoteCrew(recruiter, program, level, lambda: own.numerics)
        self._tuner = None
        self._tune_at = 0.0
        if tuned:
            self._tuner = WorkerTuner(workers + (0 if recruiter is None else recruiter.wanted.count))
            workers = self._tuner.workers
            if self.crew is not None:
                self.crew.wanted = 0
        arena = Arena()
        super().__init__(
            program,
            workers=workers,
            arena=arena,
            reserves=own_kind.waits_on_descriptors,
            max_memory=max_memory,
            max_restarts=restart_policy.restarts,
            task_rows=task_rows,
            feeder=feeder,
        )
        if level is not None:
            self.numerics["cpu"] = level
        self._pid = os.getpid()
        self._waited_for: set[int] = set()  # streams with a consumer that waits and wasn't woken since
        self._supervisor = WorkerSupervisor[Worker](
            worker_count=workers, killable=own_kind.waits_on_descriptors, policy=restart_policy
        )
        try:
            self.state = PoolState(
                self.lock,
                kind=own_kind,
                supervisor=self._supervisor,
                dispatcher=self._dispatcher,
                pace=self._pace,
                arena=arena,
                worker_log=WorkerLog(RecordNames(self.record_name if has_names(program.source) else None)),
                objects=self._objects,
                streams=self._streams,
                names=program.operation_names,
            )
        except OSError:
            arena.close()
            raise
        _pools.add(self)

    # --- for iterators ------------------------------------------------------------------------------------------

    def open(self, make: Callable[[SchedulerContext], Scheduler]) -> Stream:
        self._check_process()
        state = self.state
        with self.lock:
            if state.stopping:
                raise IteratorClosedError("the loader was closed, and its workers have ended")
            self._check_not_poisoned()
            if state.thread is None:  # first: without it no stream could be given an element
                start_pump(self)
            stream = super().open(make)
            self.poisoned = True
            self.assign_tasks()
            self.poisoned = False
            self.wake()  # workers may have to be started
            return stream

    def close(self, stream: int) -> None:
        if os.getpid() == self._pid:  # in a forked child the lock may be held by a thread that isn't there
            super().close(stream)
            if not self._streams:
                self.state.error = None  # its traceback would keep alive whatever the user's frames hold
            self.wake()  # also where an interrupt poisoned the executor: the pump ends the workers then

    def _recall(self, tasks: Mapping[Hashable, Sequence[tuple[int, int]]]) -> None:
        for number, mine in tasks.items():
            self._supervisor.worker(number).recall(mine)  # type: ignore[arg-type]  # the numbers that we gave

    def abandon(self, stream: int) -> None:
        if os.getpid() == self._pid:
            super().abandon(stream)

    def next(self, stream: int) -> NextResult:
        self._check_process()
        state = self.state
        with self.lock:
            while True:
                if state.error is not None:
                    return Failure(state.error)
                if state.stopping and not state.failed:
                    raise IteratorClosedError("the loader was closed, and its workers have ended")
                self._check_open(stream)
                self.poisoned = True
                self._free_released()  # slots of batches that the user has released may be the missing memory
                result = self._pop(stream)
                if self._has_freed or result is None:
                    self.assign_tasks()
                if result is None:  # assigning may have found that there is no further task
                    result = self._pop(stream)
                self.poisoned = False
                if result is not None:
                    return result
                self._waited_for.add(stream)
                begun = time.perf_counter_ns()
                try:
                    state.changed.wait()
                finally:
                    self._count_blocked(stream, time.perf_counter_ns() - begun)

    def hired(self, worker: Worker) -> None:
        """A worker is there that hasn't done anything yet."""
        self.mark(worker.name, "hired", number=worker.number)
        if self.timeline is not None:
            worker.trace(True)

    def _trace_workers(self, on: bool) -> None:
        for worker in self._supervisor.workers.values():
            worker.trace(on)
        self.wake()  # a channel may be full

    def check(self) -> None:
        self._check_process()
        super().check()

    def wake(self) -> None:
        self.state.wake()

    def resize(self, workers: int) -> None:
        """Another number of workers from now on, here as far as there may be so many, and on other machines.

        One that is too many ends when its tasks are done.
        """
        with self.lock:
            here = workers if self.crew is None else min(workers, self._most)
            self._supervisor.resize(here)
            self._pace.resize(here)
        if self.crew is not None:
            self.crew.resize(workers - here)
        self.wake()

    @property
    def wanted(self) -> int:
        """How many workers there should be, those of other machines included."""
        return self._supervisor.wanted + (0 if self.crew is None else self.crew.wanted)

    @property
    def tune_interval(self) -> float | None:
        """Seconds from one call of `tune` to the next, None where the number of workers is fixed."""
        return None if self._tuner is None else _TUNE_SECONDS

    def tune(self) -> None:
        """Asks for another number of workers, if it is time, and what was counted says so."""
        now = time.monotonic()
        if self._tuner is None or now < self._tune_at:
            return
        self._tune_at = now + _TUNE_SECONDS
        free = available_memory()  # read from files: without the lock
        with self.lock:
            # More of them would be on other machines, which have processors and memory of their own.
            elsewhere = self.crew is not None and self.wanted >= self._most
            workers, ended, _ = self.state.counters()
            work = total([*workers, ended])
            largest = max((worker.memory or 0 for worker in workers), default=0)
            choice = self._tuner.look(
                Figures(
                    at=now,
                    blocked=self._blocked_for_loss / 1e9,
                    busy=(work.working + work.telling) / 1e9,
                    delayed=None if elsewhere or work.delayed is None else work.delayed / 1e9,
                    records=work.records,
                    tasks=work.tasks,
                    starting=self._supervisor.missing + (0 if self.crew is None else self.crew.missing(now)),
                    room=None if elsewhere or free is None or not largest else free // (_ROOM * largest),
                )
            )
            if choice is not None:
                self.state.worker_log.resized(self.wanted, choice)
                self.resize(choice.workers)

    @property
    def usable(self) -> bool:
        state = self.state
        return super().usable and not state.failed and not state.stopping and os.getpid() == self._pid

    def runs(self, program: Program) -> bool:
        return super().runs(program) and self.state.kind.runs(program)

    def stop(self) -> None:
        """Asks for the end of pump and workers; may be called from anywhere, the garbage collector included."""
        state = self.state
        if os.getpid() == self._pid:
            self.closed = state.stopping = True
            if self._feeder is not None:
                self._feeder.stop()
            self.wake()
            if state.thread is None:  # not started, or ended after an idle time
                state.close()
            if state.thread is None or state.ended.is_set():
                self.release_recruiter()

    def release_recruiter(self) -> None:
        """The loader ends: it needs no workers of other machines any more."""
        if self.crew is not None:
            self.crew.recruiter.close()

    def shut_down(self) -> None:
        """Ends pump and workers, and returns when they have ended."""
        if os.getpid() != self._pid:
            return
        self.stop()
        thread, ended = self.state.thread, self.state.ended
        if thread is not None:
            ended.wait()  # may be interrupted and called again; a join that was interrupted takes the thread for ended
            thread.join()
        elif self.bare is not None:
            self.bare.end()
        if self._feeder is not None:
            self._feeder.shut_down()
        self.release_recruiter()

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise IteratorClosedError(
                "this iterator belongs to the process that this one was forked from; make one here: iter(loader)"
            )

    # --- for consumers, worker threads and the pump, under the lock ---------------------------------------------

    def wake_waiting(self) -> None:
        """Wakes the waiting consumers if there is something for one of them: each that wakes delays the workers."""
        state = self.state
        ended = state.error is not None or state.stopping or self.poisoned
        if ended or any(
            stream not in self._streams or self._dispatcher.due(stream) for stream in self._waited_for
        ):
            self._waited_for.clear()
            state.changed.notify_all()

    def assign_tasks(self) -> None:
        state = self.state
        self._free_released()
        self._has_freed = False
        assigned: set[Worker] = set()
        while not state.failed and (assignment := self._dispatcher.assign()) is not None:
            worker = self._supervisor.worker(assignment.worker)  # type: ignore[arg-type]  # the numbers that we gave
            outputs = {}
            for span in inputs_of(assignment.task):
                where = None if span.slot is not None else self._outputs.slot(span.task)
                if where is not None:
                    outputs[span.task] = where
            worker.give(assignment, outputs)
            assigned.add(worker)
        if state.kind.waits_on_descriptors:
            for worker in cast("set[WorkerChannel]", assigned):
                worker.flush()
                if worker.blocked:
                    self.wake()

    def handle_event(self, number: int, event: Event) -> None:
        """What one of the present workers reports."""
        worker = self._supervisor.worker(number)
        match event:
            case WorkerReady():
                self.mark(worker.name, "ready")
                if self._supervisor.worker_ready(number):
                    self._dispatcher.ready(number)
            case TasksTraced(_, tasks):
                self.add_tasks(worker.name, tasks)
            case NumericsKnown(digests):
                if self.crew is None or number not in self.crew.workers:  # others were compared as they came
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
                self.state.give_up(error)

    def on_told(self, worker: Worker, event: Event) -> None:
        # In the worker's own thread: it has its next task at once, without waiting for the pump to be scheduled.
        number = worker.number
        with self.lock:
            if self.poisoned:
                return
            try:
                if self._supervisor.is_active(number):
                    self.handle_event(number, event)
                elif isinstance(event, ReplacementRequested):
                    return  # fenced: it goes on without an answer, and may still write
                elif self._supervisor.stopped_writing(number) is None:
                    return  # dismissed
                else:  # fenced: this was its last task
                    self.state.keep_counters(worker)
                    self._dispatcher.release(number)
                self.assign_tasks()
                self.wake_waiting()
            except BaseException as error:  # noqa: BLE001 - a failure must fail every blocked next()
                self.fail(error)
                self.state.changed.notify_all()

    def fail(self, error: BaseException) -> None:
        of_limits = is_of_limits(error)
        what = with_limits(error) if of_limits else f"its engine failed: {repr_of(error)}"
        self.state.give_up(WorkerError(f"the loader can't go on: {what}"))
        self.poisoned = True
        self.wake()
        if not of_limits:  # else the error says all that there is to say
            _log.error("the engine failed", exc_info=error)

    def statistics(self) -> PoolCounters:
        if os.getpid() != self._pid:  # the lock may be held by a thread that isn't there
            return PoolCounters(())
        with self.lock:
            counters = self.state.counters()
            elsewhere = 0 if self.crew is None else len(self.crew.workers)
            wanted = self._supervisor.wanted + elsewhere
            return self._pool_counters(*counters, wanted=wanted, lost=self.state.lost)


_pools: weakref.WeakSet[WorkerPool] = weakref.WeakSet()  # of this process, for its forks


def _shut_in_child() -> None:
    for pool in _pools:
        pool.closed = True


os.register_at_fork(after_in_child=_shut_in_child)


def living_pools() -> list[WorkerPool]:
    """All pools of this process that something still refers to."""
    return list(_pools)
