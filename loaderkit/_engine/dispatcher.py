"""Which worker does which task. A state machine without I/O: events in, assignments out.

Each task is in one of these states, and moves only so. It is to do where a scheduler has it, or `_to_redo`:

    to do ──assign──> out with one worker ──done──> ended
      ^                        │                      ^
      └──take_back, fence──────┴─────given up─────────┘

A task carries the number of its attempt. What is reported of an attempt other than the current one is ignored: the
task was taken back from its worker, and what that still writes goes to memory that is never read. `take_back` is called
where the caller knows that: the worker ended, or its pool or the call that it worked in ends. A worker that may still
write while the streams go on, a thread that is stuck or a process that can't be killed, is fenced: its slots are held
until `release` is called. What it may still write to a batch are the rows that belong there, so the task is done again
in the same slot; but the slot isn't allocated again until then, and the batch is copied out of it.

Memory comes back by several calls: `Slots.free` gives a slot back; `Slots.let_go` ends a hold, which delays that;
`release` ends all holds of one fenced worker; `Outputs.drop` counts one use of an output less, and `Outputs.forget`
ends all its uses.

Only the task that a lost worker had begun is suspected (see in_flight.py). A suspect is assigned to an idle worker, and
alone. Nothing is assigned to a worker of this machine before it.

Workers elsewhere, on other machines, only read records: what needs earlier outputs, and suspects, are done here. Their
losses say nothing of a record, and count for nothing; but a task that may have been the reason is done here.

Closing a stream while tasks of it are out keeps the bytes that they may touch until the last of them is done.

A stream that gets no memory for its next task is asked again when something was freed. Only where no worker has a task
and nothing can be freed does the error reach the stream's user, after everything that was made.
"""

from collections import deque
from collections.abc import Callable, Hashable
from typing import NamedTuple

from loaderkit._base.system.dataclasses import dataclass, field
from loaderkit._order.facts import Failure

from .free_workers import FreeWorkers
from .in_flight import InFlightTask
from .outputs import Outputs
from .pace import Pace
from .scheduler import NO_RECORDS, Records, Scheduler
from .slots import Slots
from .task import Discarded, Outcome, Ready, Slot, Task, TaskResult, failed, inputs_of, targets_of

WorkerId = Hashable
StreamId = Hashable


class Assignment(NamedTuple):
    """One attempt of a worker at a task. `suspect`: it works record by record, and announces each before its read."""

    worker: WorkerId
    stream: StreamId
    task: Task
    attempt: int
    suspect: bool = False


@dataclass(slots=True)
class _ClosingStream:
    waiting: set[int]
    slots: list[Slot] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)


class Dispatcher:
    """Assigns the tasks of all streams of a loader to its workers.

    Args:
        slots: the arena's allocator, None where there is no arena.
        outputs: what tasks made.
        pace: how long things take.
        max_restarts: workers that may be lost at the same records before that is an error.
        most_elsewhere: bytes of slots that workers elsewhere are to write, after which they get no further task; None
            for any number.
    """

    def __init__(
        self,
        *,
        slots: Slots | None,
        outputs: Outputs,
        pace: Pace,
        max_restarts: int,
        most_elsewhere: int | None = None,
    ) -> None:
        self._slots = slots
        self._outputs = outputs
        self._pace = pace
        self._max_restarts = max_restarts
        self._most_elsewhere = most_elsewhere
        self._streams: dict[StreamId, Scheduler] = {}
        self._turn: deque[StreamId] = deque()
        self._no_memory: dict[StreamId, tuple[MemoryError, int]] = {}  # and `_times_freed` by then
        self._closing: dict[StreamId, _ClosingStream] = {}
        self._workers: dict[WorkerId, dict[int, InFlightTask]] = {}  # the tasks of each, oldest first
        # All of them but those that have a suspect or are retired; and those elsewhere that may have no more tasks.
        self._free, self._free_elsewhere = FreeWorkers(), FreeWorkers()
        self._elsewhere: dict[WorkerId, Callable[[], int]] = {}  # and how many tasks each may have
        self._nbytes_elsewhere = 0  # of slots that are to be written from there
        self._retired: set[WorkerId] = set()
        # What workers that can't be stopped may write to: held until `release`.
        self._fenced_slots: dict[WorkerId, list[Slot]] = {}
        self._latest: WorkerId = None  # the worker that finished a task last
        self._to_redo: deque[InFlightTask] = deque()
        self.repeated = 0  # tasks that were queued again, as their worker was lost

    # --- streams ------------------------------------------------------------------------------------------------

    def open(self, stream: StreamId, scheduler: Scheduler) -> None:
        """A stream begins."""
        if stream in self._streams or stream in self._closing:
            raise ValueError(f"stream {stream!r} is open already")
        self._streams[stream] = scheduler
        self._turn.append(stream)

    def close(self, stream: StreamId) -> dict[WorkerId, list[tuple[int, int]]]:
        """Ends a stream; what it holds is freed once no worker can touch it.

        Returns its tasks that are out, (task, attempt) by worker: a worker that hasn't begun one may report it done at
        once, as `Discarded`.
        """
        scheduler = self._streams.pop(stream)
        self._turn.remove(stream)
        self._no_memory.pop(stream, None)
        slots, outputs = scheduler.owned()
        for queued in [queued for queued in self._to_redo if queued.stream == stream]:
            self._to_redo.remove(queued)
            slots += [] if queued.task.reserve is None else [queued.task.reserve]
        recalled = {
            worker: mine
            for worker, tasks in self._workers.items()
            if (mine := [(task, out.attempt) for task, out in tasks.items() if out.stream == stream])
        }
        waiting = {task for tasks in recalled.values() for task, _ in tasks}
        self._closing[stream] = _ClosingStream(waiting, slots, outputs)
        self._finish_closing(stream)
        return recalled

    def pop(self, stream: StreamId) -> Outcome | None:
        """What to hand to the stream's user next, None while it isn't there."""
        outcome = self._streams[stream].pop()
        if outcome is None and self._is_stuck(stream):
            return Failure(self._no_memory[stream][0])
        return outcome

    def due(self, stream: StreamId) -> bool:
        """Whether `pop` might return something; it returns None where this is False. Changes nothing."""
        return self._streams[stream].due() or self._is_stuck(stream)

    def _is_stuck(self, stream: StreamId) -> bool:
        return self._starves(stream) and not self._to_redo and not any(self._workers.values())

    def _starves(self, stream: StreamId) -> bool:
        return stream in self._no_memory and self._no_memory[stream][1] == self._times_freed

    @property
    def _times_freed(self) -> int:
        return 0 if self._slots is None else self._slots.returns

    def delivered(self, stream: StreamId, ready: Ready) -> None:
        """The elements of an output that `pop` named were handed to the stream's user."""
        self._streams[stream].delivered(ready)

    # --- workers ------------------------------------------------------------------------------------------------

    def ready(self, worker: WorkerId, *, elsewhere: Callable[[], int] | None = None) -> None:
        """A new worker can be assigned tasks.

        Args:
            worker: which.
            elsewhere: of a worker on another machine: how many tasks it may have.
        """
        if worker in self._workers:
            raise ValueError(f"worker {worker!r} is ready already")
        self._workers[worker] = {}
        if elsewhere is not None:
            self._elsewhere[worker] = elsewhere
        self._put(worker)

    def _put(self, worker: WorkerId) -> None:
        self._free_of(worker).put(worker, len(self._workers[worker]))

    def look_again(self, worker: WorkerId) -> None:
        """A worker elsewhere may have another number of tasks than when it was assigned one or finished one last."""
        self._put(worker)

    def _free_of(self, worker: WorkerId) -> FreeWorkers:
        return self._free_elsewhere if worker in self._elsewhere else self._free

    def retire(self, worker: WorkerId) -> None:
        """A worker is given no further task; it may end as soon as it is done with those that it has."""
        self._retired.add(worker)
        self._free.remove(worker)

    def assign(self) -> Assignment | None:
        """The next task, and the worker that is to do it; None while no worker has room or there is no task."""
        here = self._with_room(self._free)
        there = self._with_room(self._free_elsewhere) if self._elsewhere else None
        if self._to_redo:
            again = self._assigned_again(here, there)
            if again is not None:
                return again
            here = None  # until one is idle, if it isn't already
        if here is None and there is None:
            return None
        for _ in range(len(self._turn)):
            stream = self._turn[0]
            self._turn.rotate(-1)
            if self._starves(stream):
                continue
            try:
                next_task = self._streams[stream].next_task()
            except MemoryError as error:
                self._no_memory[stream] = (error, self._times_freed)
                continue
            self._no_memory.pop(stream, None)
            if next_task is not None:
                in_flight = InFlightTask(stream, next_task)
                worker = self._worker_for(in_flight, here, there)
                if worker is not None:
                    return self._assigned(worker, in_flight)
                self._to_redo.append(in_flight)  # until a worker of this machine has room
        return None

    def _assigned_again(self, here: WorkerId, there: WorkerId) -> Assignment | None:
        """The oldest task that is to be done again, if one of these workers may have it; a suspect only an idle one."""
        if here is not None and not (self._to_redo[0].suspect and self._workers[here]):
            return self._assigned(here, self._to_redo.popleft())
        queued = (
            None if there is None else next((each for each in self._to_redo if not each.stays_here), None)
        )
        if queued is None:
            return None
        self._to_redo.remove(queued)
        return self._assigned(there, queued)

    def _worker_for(self, in_flight: InFlightTask, here: WorkerId, there: WorkerId) -> WorkerId:
        """Which worker gets a new task: of this machine, elsewhere, or None of both for now."""
        if not in_flight.stays_here:
            return there if here is None or (there is not None and self._has_fewer(there, here)) else here
        if here is not None and self._latest in self._free and self._has_room(self._latest):
            return self._latest  # the user waits for a batch: it isn't queued behind a slow record
        return here

    def _with_room(self, free: FreeWorkers) -> WorkerId:
        """The worker with the fewest tasks, None where none has room."""
        worker = free.least()
        while worker in self._elsewhere and len(self._workers[worker]) >= self._elsewhere[worker]():
            free.remove(worker)  # others may have room for more
            worker = free.least()
        return worker if worker is not None and self._has_room(worker) else None

    def _has_fewer(self, worker: WorkerId, other: WorkerId) -> bool:
        return len(self._workers[worker]) < len(self._workers[other])

    def _assigned(self, worker: WorkerId, in_flight: InFlightTask) -> Assignment:
        self._workers[worker][in_flight.task.id] = in_flight
        if worker in self._elsewhere:
            in_flight.nbytes_elsewhere = _nbytes_of(in_flight.task)
            self._nbytes_elsewhere += in_flight.nbytes_elsewhere
        if in_flight.suspect:
            self._free.remove(worker)
        else:
            self._put(worker)
        return Assignment(worker, in_flight.stream, in_flight.to_do(), in_flight.attempt, in_flight.suspect)

    def _has_room(self, worker: WorkerId) -> bool:
        if worker not in self._elsewhere:
            return len(self._workers[worker]) < self._pace.tasks_ahead()
        return not self.elsewhere_is_full

    @property
    def elsewhere_is_full(self) -> bool:
        """Whether workers elsewhere get no further task for want of memory for what they make."""
        return self._most_elsewhere is not None and self._nbytes_elsewhere >= self._most_elsewhere

    def done(self, worker: WorkerId, task: int, attempt: int, result: TaskResult | Discarded) -> bool:
        """A worker has finished a task. False if that attempt isn't the current one: nothing changed."""
        in_flight = self._current(worker, task, attempt)
        if in_flight is None:
            return False
        self._take_from(worker, task)
        self._latest = worker
        match result:
            case Discarded():
                assert in_flight.stream in self._closing  # only tasks of closed streams are recalled
                self._discard(in_flight)
            case _:
                self._end_task(in_flight, result if in_flight.error is None else in_flight.completed(result))
        return True

    def request_space(self, worker: WorkerId, task: int, attempt: int, nbytes: int) -> Slot | None:
        """A worker needs room for an output of that size. None: it may forget the output.

        That is so if its attempt isn't the current one, and if there is no room: then the task fails with the error.
        """
        in_flight = self._current(worker, task, attempt)
        if in_flight is None or self._slots is None:
            return None
        if in_flight.task.reserve is not None:
            self._slots.free(in_flight.task.reserve)
            in_flight.task = in_flight.task._replace(reserve=None)
        try:
            room = self._slots.alloc(nbytes)
        except MemoryError as error:
            self._take_from(worker, task)
            self._end_task(in_flight, failed(in_flight.task, Failure(error)))
            return None
        in_flight.task = in_flight.task._replace(reserve=room)
        return room

    def take_back(
        self,
        worker: WorkerId,
        reason: str,
        *,
        begun: int | None = None,
        at: int | None = None,
        instead: tuple[int, int] | None = None,
        retry: bool = True,
        late: bool = False,
    ) -> list[Task]:
        """A worker's tasks are queued again, or end; returns them, oldest first. It is given none any more.

        The caller knows that nothing the worker still writes will be read.

        Args:
            worker: which.
            reason: what is known of why.
            begun: the task that it was working on, None if on none.
            at: the index of the record that it had, if it worked record by record.
            instead: (index, key) of the replacement that it was reading, None for the record itself.
            retry: whether the task that it was working on may be done again.
            late: whether it is lost because it took too long.
        """
        lost = list(self._workers.pop(worker, {}).values())
        self._free_of(worker).remove(worker)
        elsewhere = self._elsewhere.pop(worker, None) is not None
        self._retired.discard(worker)
        for in_flight in reversed(lost):
            in_flight.attempt += 1
            redo = True
            if elsewhere:
                self._nbytes_elsewhere -= in_flight.nbytes_elsewhere
                if reason != "dismissed":
                    in_flight.lose_elsewhere(at_work=in_flight is lost[0])
            elif in_flight.task.id == begun:
                redo = in_flight.lose(
                    reason, at, instead, max_restarts=self._max_restarts, retry=retry, late=late
                )
            if in_flight.stream in self._closing:
                self._discard(in_flight)
            elif redo:
                self.repeated += reason != "dismissed"
                if elsewhere:
                    self._redo_in_order(in_flight)
                else:
                    self._to_redo.appendleft(in_flight)
            else:
                self._end_task(in_flight, in_flight.given_up())
        return [in_flight.task for in_flight in lost]

    def withdraw(self, worker: WorkerId, task: int, attempt: int) -> bool:
        """A worker elsewhere takes too long for a task that is waited for: it is done here. False if it isn't out."""
        in_flight = self._current(worker, task, attempt)
        if in_flight is None or in_flight.stream in self._closing:
            return False
        self._take_from(worker, task)
        in_flight.attempt += 1
        in_flight.local = True
        self._redo_in_order(in_flight)
        return True

    def _redo_in_order(self, in_flight: InFlightTask) -> None:
        """Before those that are waited for later; behind suspects."""
        queued = enumerate(self._to_redo)
        later = (place for place, each in queued if not each.suspect and each.task.id > in_flight.task.id)
        self._to_redo.insert(next(later, len(self._to_redo)), in_flight)

    def fence(self, worker: WorkerId) -> None:
        """Holds the slots of a worker that cannot be stopped until `release` is called; `take_back` its tasks then."""
        lost = self._workers.get(worker, {})
        self._fenced_slots[worker] = held = []
        for in_flight in lost.values():
            task = in_flight.task
            slots = [target.slot for target in targets_of(task)] + [span.slot for span in inputs_of(task)]
            held += [slot for slot in (*slots, task.reserve) if slot is not None]
        for slot in held:
            assert self._slots is not None
            self._slots.hold(slot)
        for in_flight in lost.values():
            if in_flight.task.reserve is not None and self._slots is not None:
                self._slots.free(in_flight.task.reserve)
                in_flight.task = in_flight.task._replace(reserve=None)

    def release(self, worker: WorkerId) -> None:
        """A worker that was fenced can't write any more."""
        for slot in self._fenced_slots.pop(worker):
            assert self._slots is not None
            self._slots.let_go(slot)

    def busy(self, worker: WorkerId) -> list[Task]:
        """The tasks that a worker has, oldest first."""
        return [in_flight.task for in_flight in self._workers.get(worker, {}).values()]

    @property
    def waiting(self) -> int:
        """Tasks that workers have and that aren't done."""
        return sum(map(len, [*self._workers.values()]))

    def replacement(self, worker: WorkerId, task: int, attempt: int, index: int, tried: int) -> Records:
        """What a worker may read instead of a bad record of its task, as `Scheduler.replacement` says.

        No records where that attempt isn't the current one, and where the task's stream was closed.
        """
        in_flight = self._current(worker, task, attempt)
        if in_flight is None or in_flight.stream in self._closing:
            return NO_RECORDS
        return self._streams[in_flight.stream].replacement(index, tried)

    def is_current(self, worker: WorkerId, task: int, attempt: int) -> bool:
        """Whether a worker has that attempt of a task."""
        return self._current(worker, task, attempt) is not None

    def _current(self, worker: WorkerId, task: int, attempt: int) -> InFlightTask | None:
        in_flight = self._workers.get(worker, {}).get(task)
        return in_flight if in_flight is not None and in_flight.attempt == attempt else None

    def _take_from(self, worker: WorkerId, task: int) -> None:
        in_flight = self._workers[worker].pop(task)
        if worker in self._elsewhere:
            self._nbytes_elsewhere -= in_flight.nbytes_elsewhere
        if worker not in self._retired:  # one that had a suspect, which is its only task, is free again
            self._put(worker)

    def _end_task(self, in_flight: InFlightTask, result: TaskResult) -> None:
        task, stream = in_flight.task, in_flight.stream
        if stream in self._closing:
            self._discard(in_flight)
            return
        room = task.reserve
        if room is not None and self._slots is not None:
            if result.nbytes:
                room = self._slots.trim(room, result.nbytes)
            else:
                self._slots.free(room)
                room = None
        uses = self._streams[stream].done(task, result)
        self._outputs.arrived(task.id, room, uses=uses)

    def _discard(self, in_flight: InFlightTask) -> None:
        """Ends a task of a stream that is closing; its output isn't used."""
        task, stream = in_flight.task, in_flight.stream
        if task.reserve is not None and self._slots is not None:
            self._slots.free(task.reserve)
        self._outputs.arrived(task.id, None, uses=0)
        self._closing[stream].waiting.discard(task.id)
        self._finish_closing(stream)

    def _finish_closing(self, stream: StreamId) -> None:
        closing = self._closing[stream]
        if closing.waiting:
            return
        del self._closing[stream]
        for slot in closing.slots:
            assert self._slots is not None
            self._slots.free(slot)
        for task in closing.outputs:
            self._outputs.forget(task)


def _nbytes_of(task: Task) -> int:
    """Bytes of the slots, as far as they are this task's."""
    reserve = 0 if task.reserve is None else task.reserve.nbytes
    shares = (
        target.slot.nbytes * target.rows // target.batch
        for target in targets_of(task)
        if target.slot is not None
    )
    return reserve + sum(shares)
