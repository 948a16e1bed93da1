"""What all executors share: the engine, the outputs in this process, and the delivery of elements.

An executor serves all iterators of one loader, each by a `Stream`. In `InlineExecutor` the calling thread does the
work; `WorkerPool` drives threads or processes.
"""

import abc
import itertools
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from loaderkit._base.system.dataclasses import dataclass
from loaderkit._base.system.numerics import numerics
from loaderkit._base.tree import unflatten
from loaderkit._engine.dispatcher import Dispatcher
from loaderkit._engine.outputs import Outputs
from loaderkit._engine.pace import Pace
from loaderkit._engine.scheduler import AHEAD_NBYTES, Scheduler, SchedulerContext
from loaderkit._engine.slots import Slots
from loaderkit._engine.stats.counters import PoolCounters, TaskTrace, WorkerCounters
from loaderkit._engine.stats.timeline import Timeline
from loaderkit._engine.task import End, Ready
from loaderkit._order.facts import Facts, Failure
from loaderkit._runtime.memory.arena import Arena
from loaderkit._runtime.memory.batch_layout import BatchLayout
from loaderkit._runtime.transport.out_of_band import unpack
from loaderkit._runtime.worker.program import Program
from loaderkit._runtime.worker.reading import read_ahead_limits
from loaderkit._runtime.worker.task_runner import Output
from loaderkit._source.naming import kind_of, namer_of
from loaderkit._source.optional import column_reader, many_reader
from loaderkit.errors import ChecksumError, IteratorClosedError

if TYPE_CHECKING:
    from loaderkit._runtime.feeder.feeder import Feeder

# Batches are delivered in bulk where the user may hold this many times AHEAD_NBYTES: each bulk then fits in memory with
# room for those that the user still holds.
_BULK_MEMORY = 4
# Of the memory for batches, workers on other machines may have as much under way: with more of them, they idle.
_ELSEWHERE_MEMORY = 4
_numbers = itertools.count(1)  # of executors


class Delivery(NamedTuple):
    """Elements to hand to the user next, in order, and what is known of them."""

    values: Sequence[Any]
    facts: Facts


NextResult = Delivery | Failure | End


class PoisonedError(Exception):
    """An interrupt fell into a move of the engine; it can't be used any more."""


@dataclass(slots=True)
class Blocked:
    """For how long the user of a stream was blocked, in nanoseconds, and the share of it that the user calls a loss."""

    nanoseconds: int = 0
    lost: float = 1.0


class Stream:
    """One open stream of an executor: it is closed with `close`, or soon after the last reference to it is gone.

    Args:
        executor: runs it.
        number: of the stream there.
        blocked: what the executor counts of it.

    next: gives the next elements, one at least, the failure in their place, or the end; waits for it. Raises
        PoisonedError where the executor can't go on: the stream is opened again, in another, at the position.
    blocked: what is known of the time in which `next` waited, or worked itself.
    """

    def __init__(self, executor: "Executor", number: int, blocked: Blocked) -> None:
        self._executor, self._number = executor, number
        self.next: Callable[[], NextResult] = partial(executor.next, number)
        self.blocked = blocked
        # A finalizer may run anywhere, so it only puts the number in a queue.
        self._end = weakref.finalize(self, executor.abandon, number)
        self._end.atexit = False

    def close(self) -> None:
        """Ends it; what is being made for it is discarded when it is finished."""
        if self._end.detach() is not None:
            self._executor.close(self._number)


class Executor(abc.ABC):
    """Runs the tasks of a loader's streams.

    Args:
        program: what is run.
        task_rows: rows of a task, None to adapt.
        feeder: of the loader; it ends with the executor. None where the source has no cache.
        workers: how many there are; 0 where the calling thread works.
        arena: where batches lie, None where they are plain arrays.
        reserves: whether outputs of tasks lie in the arena too.
        max_memory: bytes that the user may hold in the arena before batches are copied out of it.
        max_restarts: workers that may be lost at the same records before that is an error.
    """

    def __init__(
        self,
        program: Program,
        *,
        task_rows: int | None,
        feeder: "Feeder | None" = None,
        workers: int = 0,
        arena: Arena | None = None,
        reserves: bool = False,
        max_memory: int | None = None,
        max_restarts: int = 0,
    ) -> None:
        self.program = program
        # Of worker processes that have done a task, and as "cpu" the level of processors that they compute as.
        self.numerics: dict[str, str] = {}
        self._feeder = feeder
        self.record_name = namer_of(program.source)  # for messages, as the next
        self.source_name = kind_of(program.source)
        self.timeline: Timeline | None = None  # that is recorded now
        self._traced_names: Sequence[
            str
        ] = ()  # of the operations, made once: they take longer than a task's record
        self.lock = threading.RLock()
        self._arena = arena
        self._max_memory = max_memory
        self._outputs = Outputs()
        self._pace = _pace_of(program, workers=workers, task_rows=task_rows)
        self._slots = None if arena is None else Slots(arena.extend)
        self._dispatcher = Dispatcher(
            slots=self._slots,
            outputs=self._outputs,
            pace=self._pace,
            max_restarts=max_restarts,
            most_elsewhere=None if max_memory is None else max_memory // _ELSEWHERE_MEMORY,
        )
        self._context = SchedulerContext(
            slots=self._slots,
            reserves=reserves,
            # Otherwise each batch is checked, or copied for lack of memory, when it is delivered.
            bulk=not program.verify and (max_memory is None or max_memory >= _BULK_MEMORY * AHEAD_NBYTES),
            outputs=self._outputs,
            pace=self._pace,
            new_id=itertools.count().__next__,
            follow=None if feeder is None else feeder.follow,
        )
        self._objects: dict[int, Output] = {}  # outputs in this process: made here, or opened from the arena
        self._leased: set[int] = set()  # tasks whose output lies in a slot that a lease frees
        # True during every ordinary move of the engine, between two states. It means "broken" only for a new call that
        # finds it so under the lock: an interrupt left it true, and this executor isn't used again. Its iterators go on
        # with another, from their positions.
        self.poisoned = False
        # It was closed, or this is a fork of its process. A plain flag, read without the lock.
        self.closed = False
        self._streams: set[int] = set()
        self._blocked: dict[int, Blocked] = {}  # by stream
        self._blocked_for_loss = 0.0  # nanoseconds of all streams, also of those that were closed
        self._copied = 0  # bytes of batches that were copied out of the arena
        # Memory or outputs were freed since tasks were assigned last: there may be room for more.
        self._has_freed = False
        self._abandoned: deque[int] = deque()  # streams whose last reference is gone
        self._new_stream = itertools.count().__next__
        self._number = next(_numbers)

    def open(self, make: Callable[[SchedulerContext], Scheduler]) -> Stream:
        """Begins a stream.

        Args:
            make: makes its scheduler.
        """
        with self.lock:
            self._check_not_poisoned()
            scheduler = make(self._context)
            self.poisoned = True
            self.close_abandoned()
            number = self._new_stream()
            self._dispatcher.open(number, scheduler)
            self._streams.add(number)
            self._blocked[number] = blocked = Blocked()
            # Still poisoned: an interrupt here would leave it open for good.
            stream = Stream(self, number, blocked)
            self.poisoned = False
            return stream

    def known_numerics(self) -> dict[str, str]:
        """As `numerics`, of what operations run with, as far as that is loaded."""
        return self.numerics if "cpu" in self.numerics else self.numerics | numerics()

    def close(self, stream: int) -> None:
        """Ends a stream; running tasks of it are discarded when they finish."""
        with self.lock:
            if not self.poisoned:
                self.poisoned = True
                self._close(stream)
                self.poisoned = False

    def _close(self, stream: int) -> None:
        if stream in self._streams:
            self._streams.discard(stream)
            self._blocked.pop(stream, None)
            self._recall(self._dispatcher.close(stream))
            self._free_released()

    def _recall(self, tasks: Mapping[Hashable, Sequence[tuple[int, int]]]) -> None:  # noqa: B027 - nothing inline
        """Cancels queued tasks, (task, attempt) by worker; running ones are discarded when they finish."""

    def _check_not_poisoned(self) -> None:
        if self.poisoned:
            self.check()  # a closed executor isn't replaced by another
            raise PoisonedError

    def abandon(self, stream: int) -> None:
        """Closes a stream soon; may be called from anywhere, the garbage collector included."""
        self._abandoned.append(stream)
        self.wake()

    @property
    def usable(self) -> bool:
        """Whether streams can be opened; if not, and it isn't closed, iterators go on with another executor."""
        return not self.poisoned

    @property
    def in_use(self) -> bool:
        """Whether a stream is open."""
        return bool(self._streams)

    def runs(self, program: Program) -> bool:
        """Whether this executor runs that program, with its source and its operations as they are now."""
        return program.source is self.program.source

    def trace(self, timeline: Timeline | None) -> None:
        """Records what workers do from now on, or no more."""
        with self.lock:
            self.timeline, self._traced_names = timeline, self.program.operation_names
            self._trace_workers(timeline is not None)

    @abc.abstractmethod
    def _trace_workers(self, on: bool) -> None:
        """Has the workers tell of their tasks, or no more."""

    def add_tasks(self, track: str, tasks: Sequence[TaskTrace]) -> None:
        """A worker has done tasks; recorded where a timeline is."""
        if self.timeline is not None:
            for task in tasks:
                self.timeline.add_task(track, task, self._traced_names)

    def mark(self, track: str, name: str, **details: Any) -> None:
        """Something happened just now; recorded where a timeline is."""
        if self.timeline is not None:
            self.timeline.add(track, name, time.perf_counter_ns(), **details)

    @abc.abstractmethod
    def shut_down(self) -> None:
        """Ends everything that runs here, and returns when it has ended."""

    def wake(self) -> None:  # noqa: B027 - nothing inline
        """Makes a pump look at what changed; never waits."""

    def close_abandoned(self) -> None:
        while self._abandoned:
            self._close(self._abandoned.popleft())

    def check(self) -> None:
        """Raises IteratorClosedError after a close: elements that were taken before aren't delivered any more."""
        if self.closed:
            raise IteratorClosedError("the loader was closed")

    @abc.abstractmethod
    def statistics(self) -> PoolCounters:
        """What the workers did so far, and what they do now; also after the end."""

    def _count_blocked(self, stream: int, nanoseconds: int) -> None:
        blocked = self._blocked.get(stream)
        if blocked is not None:  # else it was closed meanwhile
            blocked.nanoseconds += nanoseconds
            self._blocked_for_loss += nanoseconds * blocked.lost

    def _pool_counters(
        self,
        workers: Iterable[WorkerCounters],
        ended: WorkerCounters,
        places: Iterable[WorkerCounters],
        *,
        wanted: int = 0,
        lost: int = 0,
    ) -> PoolCounters:
        arena, slots = self._arena, self._slots
        return PoolCounters(
            tuple(workers),
            ended,
            wanted=wanted,
            lost=lost,
            repeated=self._dispatcher.repeated,
            mapped=0 if arena is None else arena.nbytes,
            used=0 if slots is None else slots.used,
            leased=0 if arena is None else arena.leased,
            copied=self._copied,
            tasks_waiting=self._dispatcher.waiting,
            places=tuple(places),
            executor=self._number,
        )

    @abc.abstractmethod
    def next(self, stream: int) -> NextResult:
        """What `Stream.next` gives, for the stream of a number."""

    def _check_open(self, stream: int) -> None:
        self._check_not_poisoned()
        if stream not in self._streams:
            raise IteratorClosedError(
                "the iterator was closed while another thread waited for its next element"
            )

    def _pop(self, stream: int) -> NextResult | None:
        """What is ready to be delivered, None while nothing is. A failure is given again at the next call."""
        match self._dispatcher.pop(stream):
            case Ready() as ready:
                values = (
                    self._take_elements(stream, ready) if ready.slot is None else self._take_batches(ready)
                )
                return values if isinstance(values, Failure) else Delivery(values, ready.facts)
            case outcome:
                return outcome

    def _take_batches(self, ready: Ready) -> list[Any] | Failure:
        self._has_freed = True
        try:
            return [self._batch(each) for each in (ready, *ready.following)]
        except ChecksumError as error:
            assert not ready.following  # with `verify` each comes alone
            return Failure(error, "the check of a batch (verify=True)")

    def _batch(self, ready: Ready) -> Any:
        assert self._arena is not None and self._slots is not None and ready.slot is not None
        assert isinstance(ready.layout, BatchLayout)
        if ready.layout.verify:
            try:
                ready.layout.check(self._arena.token(ready.slot), ready.rows, 0, ready.rows)
            except ChecksumError:
                self._slots.free(ready.slot)
                raise
        # A fenced worker may still write to a held slot: the batch is copied out of it.
        if self._has_room(ready.slot.nbytes) and not self._slots.held(ready.slot):
            return ready.layout.batch(self._arena.lease(ready.slot), ready.rows)
        try:
            leaves = ready.layout.leaves(self._arena.token(ready.slot), ready.rows)
            self._copied += ready.slot.nbytes
            return unflatten(ready.layout.spec.structure, [leaf.copy() for leaf in leaves])
        finally:
            self._slots.free(ready.slot)

    def _take_elements(self, stream: int, ready: Ready) -> list[Any] | Failure:
        output = self._objects.get(ready.task)
        if output is None:
            try:
                output = self._objects[ready.task] = self._open_output(ready.task)
            except Exception as error:  # noqa: BLE001 - the user's classes are rebuilt here
                self._dispatcher.delivered(stream, ready)
                return Failure(error, "the element, unpickled in the trainer")
        part = output[ready.part]
        assert isinstance(part, list)
        here = slice(ready.first, ready.first + ready.size)
        values = part[here]
        part[here] = [None] * len(values)
        self._dispatcher.delivered(stream, ready)
        self._free_released()
        return values

    def _open_output(self, task: int) -> Output:
        slot = self._outputs.slot(task)
        assert self._arena is not None and self._slots is not None and slot is not None
        output: Output
        if self._has_room(slot.nbytes):
            self._leased.add(task)  # from here on, a failure included
            output = unpack(memoryview(self._arena.lease(slot)).cast("B"))
        else:
            self._copied += slot.nbytes
            output = unpack(memoryview(bytearray(memoryview(self._arena.token(slot)).cast("B"))))
        return output

    def _has_room(self, nbytes: int) -> bool:
        assert self._arena is not None
        return self._max_memory is None or self._arena.leased + nbytes <= self._max_memory

    def _free_released(self) -> None:
        """Deletes outputs whose uses are over, and frees slots whose leases have expired."""
        for task, slot in self._outputs.take_released():
            self._has_freed = True
            self._objects.pop(task, None)
            if task in self._leased:
                self._leased.discard(task)
            elif slot is not None:
                assert self._slots is not None
                self._slots.free(slot)
        if self._arena is not None and self._slots is not None:
            for slot in self._arena.expired():
                self._slots.free(slot)


def _pace_of(program: Program, *, workers: int, task_rows: int | None) -> Pace:
    limits = read_ahead_limits(program.source, program.read_options)
    in_bulk = many_reader(program.source) is not None
    reads = calls = 0
    if limits is not None and in_bulk:
        reads, calls = limits.records, limits.threads
    elif limits is not None:
        reads = 2 * min(limits.threads, limits.records)
    in_bulk = in_bulk or column_reader(program.source) is not None
    return Pace(workers=workers, task_rows=task_rows, reads=reads, calls=calls, in_bulk=in_bulk)
