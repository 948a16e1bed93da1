"""Who works on what. A state machine without I/O: events in, assignments out.

Each task has one of these places, and moves only so:

    to do ──assign──> out with one worker ──done──> ended
      ^                        │                      ^
      └───died, fenced─────────┴─────given up─────────┘

A task carries the number of its attempt. What is said of an attempt that isn't the one now out is ignored: its worker
died or was fenced, and what it still writes goes to memory that nobody reads. `died` is told after the worker was
reaped and its channel read to the end: no process can write to its slots any more. Of a worker that may wake up and
write, a thread that is stuck or a process that can't be killed, `fence` is told: its slots are held until
`release` is told. What it may still write to a batch are the rows that belong there, so the task is done again in the
same slot; but nobody gets that slot, and the batch is copied out of it.

Only the task that a lost worker had begun is suspected (see in_flight.py). A suspect is given to a worker that has
nothing else, and alone. Nothing is given out before it.

Closing a stream while tasks of it are out keeps the bytes they may touch until the last of them is over.

A stream that gets no memory for its next task is asked again when something was given back. Only where nobody works
and nothing comes back does the error reach its user, behind all that was made.
"""

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field, replace

from loaderkit._order.failure import Failure

from .in_flight import InFlightTask
from .outputs import Outputs
from .pace import Pace
from .scheduler import NO_RECORDS, Records, Scheduler
from .slots import Slots
from .task import Outcome, Ready, Report, Slot, Task

WorkerId = Hashable
StreamId = Hashable


@dataclass(frozen=True, slots=True)
class Assignment:
    """One attempt of a worker at a task; `suspect`: record by record, telling each before its read."""

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
    """Gives the tasks of all streams of a loader to its workers.

    Args:
        slots: the arena's allocator, None where there is no arena.
        outputs: what tasks made.
        pace: how long things take.
        max_restarts: workers that may be lost at the same records before that is an error.
    """

    def __init__(self, *, slots: Slots | None, outputs: Outputs, pace: Pace, max_restarts: int) -> None:
        self._slots = slots
        self._outputs = outputs
        self._pace = pace
        self._max_restarts = max_restarts
        self._streams: dict[StreamId, Scheduler] = {}
        self._turn: deque[StreamId] = deque()
        self._no_memory: dict[StreamId, tuple[MemoryError, int]] = {}  # and what had been given back by then
        self._closing: dict[StreamId, _ClosingStream] = {}
        self._workers: dict[WorkerId, dict[int, InFlightTask]] = {}  # tasks out with each, oldest first
        self._alone: set[WorkerId] = set()  # those that have a suspect
        # What may be written to by workers that can't be stopped.
        self._fenced_slots: dict[WorkerId, list[Slot]] = {}
        self._latest: WorkerId = None  # who was through with a task last
        self._again: deque[InFlightTask] = deque()

    # --- streams ------------------------------------------------------------------------------------------------

    def open(self, stream: StreamId, scheduler: Scheduler) -> None:
        """A stream begins."""
        if stream in self._streams or stream in self._closing:
            raise ValueError(f"stream {stream!r} is open already")
        self._streams[stream] = scheduler
        self._turn.append(stream)

    def close(self, stream: StreamId) -> dict[WorkerId, list[tuple[int, int]]]:
        """A stream isn't wanted any more; what it holds is given back when nobody can touch it.

        Returns its tasks that are out, (task, attempt) by worker: whoever hasn't begun one may say at once that it is
        done, with an empty report.
        """
        scheduler = self._streams.pop(stream)
        self._turn.remove(stream)
        self._no_memory.pop(stream, None)
        slots, outputs = scheduler.owned()
        for out in [out for out in self._again if out.stream == stream]:
            self._again.remove(out)
            slots += [] if out.task.reserve is None else [out.task.reserve]
        recalled = {
            worker: mine
            for worker, tasks in self._workers.items()
            if (mine := [(number, out.attempt) for number, out in tasks.items() if out.stream == stream])
        }
        waiting = {number for tasks in recalled.values() for number, _ in tasks}
        self._closing[stream] = _ClosingStream(waiting, slots, outputs)
        self._finish_closing(stream)
        return recalled

    def pop(self, stream: StreamId) -> Outcome | None:
        """The next thing to hand to the stream's user, None while it isn't there."""
        outcome = self._streams[stream].pop()
        if outcome is None and self._is_stuck(stream):
            return Failure(self._no_memory[stream][0])
        return outcome

    def due(self, stream: StreamId) -> bool:
        """Whether `pop` might give something; it surely gives nothing where this is False. Changes nothing."""
        return self._streams[stream].due() or self._is_stuck(stream)

    def _is_stuck(self, stream: StreamId) -> bool:
        return self._starves(stream) and not self._again and not any(self._workers.values())

    def _starves(self, stream: StreamId) -> bool:
        return stream in self._no_memory and self._no_memory[stream][1] == self._returns

    @property
    def _returns(self) -> int:
        return 0 if self._slots is None else self._slots.returns

    def delivered(self, stream: StreamId, ready: Ready) -> None:
        """The user of a stream has the elements of an output that `pop` named."""
        self._streams[stream].delivered(ready)

    # --- workers ------------------------------------------------------------------------------------------------

    def ready(self, worker: WorkerId) -> None:
        """A new worker can be given tasks."""
        if worker in self._workers:
            raise ValueError(f"worker {worker!r} is ready already")
        self._workers[worker] = {}

    def assign(self) -> Assignment | None:
        """The next task to give to somebody, and to whom; None while nobody has room or nothing is to be done."""
        free = (worker for worker in self._workers if worker not in self._alone)
        worker = min(free, key=self._load, default=None)
        if worker is None or not self._has_room(worker):
            return None
        if self._again and self._again[0].suspect and self._workers[worker]:
            return None  # until somebody is through with all that he has
        out = self._again.popleft() if self._again else self._next_out()
        if out is None:
            return None
        if out.suspect:
            self._alone.add(worker)
        elif out.task.level and self._moves(self._latest):
            worker = self._latest  # a batch waits for it: not behind somebody's slow record
        self._workers[worker][out.task.id] = out
        return Assignment(worker, out.stream, out.to_do(), out.attempt, out.suspect)

    def _moves(self, worker: WorkerId) -> bool:
        return worker in self._workers and worker not in self._alone and self._has_room(worker)

    def _load(self, worker: WorkerId) -> int:
        return len(self._workers[worker])

    def _has_room(self, worker: WorkerId) -> bool:
        return len(self._workers[worker]) < self._pace.tasks_ahead()

    def _next_out(self) -> InFlightTask | None:
        for _ in range(len(self._turn)):
            stream = self._turn[0]
            self._turn.rotate(-1)
            if self._starves(stream):
                continue
            try:
                task = self._streams[stream].next_task()
            except MemoryError as error:
                self._no_memory[stream] = (error, self._returns)
                continue
            self._no_memory.pop(stream, None)
            if task is not None:
                return InFlightTask(stream, task)
        return None

    def done(self, worker: WorkerId, task: int, attempt: int, report: Report) -> bool:
        """A worker is through with a task. False if that attempt isn't the one that is out: nothing changed."""
        out = self._current(worker, task, attempt)
        if out is None:
            return False
        self._take_from(worker, task)
        self._latest = worker
        self._end_task(out, out.completed(report))
        return True

    def asks(self, worker: WorkerId, task: int, attempt: int, nbytes: int) -> Slot | None:
        """A worker needs room for an output of that size. None: it may forget the output.

        That is so if its attempt isn't the one that is out, and if there is no room: then the task fails with it.
        """
        out = self._current(worker, task, attempt)
        if out is None or self._slots is None:
            return None
        if out.task.reserve is not None:
            self._slots.free(out.task.reserve)
            out.task = replace(out.task, reserve=None)
        try:
            room = self._slots.alloc(nbytes)
        except MemoryError as error:
            self._take_from(worker, task)
            self._end_task(out, Report((), Failure(error)))
            return None
        out.task = replace(out.task, reserve=room)
        return room

    def died(
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
        """A worker is gone for good: reaped, its channel read to the end. Returns the tasks it had, oldest first.

        Args:
            worker, reason: who, and what is known of why.
            begun: the task that it was in, None if in none.
            at: the index of the record that it had, if it was told to say so.
            instead: index and record key of what it read in the row of that one, which is bad.
            retry: whether the task that it was in may be done again.
            late: whether it was ended because it took too long.
        """
        lost = list(self._workers.pop(worker, {}).values())
        self._alone.discard(worker)
        for out in reversed(lost):
            out.attempt += 1
            again = out.task.id != begun or out.lose(
                reason, at, instead, max_restarts=self._max_restarts, retry=retry, late=late
            )
            if out.stream in self._closing:
                self._end_task(out, Report(()))
            elif again:
                self._again.appendleft(out)
            else:
                self._end_task(out, out.completed(Report(())))
        return [out.task for out in lost]

    def fence(
        self,
        worker: WorkerId,
        reason: str,
        *,
        begun: int | None,
        at: int | None,
        instead: tuple[int, int] | None = None,
        retry: bool,
        late: bool,
    ) -> list[Task]:
        """As `died`, for a worker that cannot be stopped: its slots are kept until `release` is called."""
        lost = self._workers.get(worker, {})
        self._fenced_slots[worker] = held = []
        for out in lost.values():
            task = out.task
            spans = [span.slot for span in task.inputs if span.slot is not None]
            held += [target.slot for target in task.targets if target.slot is not None] + spans
            if task.reserve is not None:
                held.append(task.reserve)
        for slot in held:
            assert self._slots is not None
            self._slots.hold(slot)
        for out in lost.values():
            if out.task.reserve is not None and self._slots is not None:
                self._slots.free(out.task.reserve)
                out.task = replace(out.task, reserve=None)
        return self.died(worker, reason, begun=begun, at=at, instead=instead, retry=retry, late=late)

    def release(self, worker: WorkerId) -> None:
        """A worker that was fenced can't write any more."""
        for slot in self._fenced_slots.pop(worker):
            assert self._slots is not None
            self._slots.let_go(slot)

    @property
    def workers(self) -> frozenset[WorkerId]:
        """Those who are ready."""
        return frozenset(self._workers)

    def busy(self, worker: WorkerId) -> list[Task]:
        """The tasks that are out with a worker, oldest first."""
        return [out.task for out in self._workers.get(worker, {}).values()]

    def replacement(self, worker: WorkerId, task: int, attempt: int, index: int, tried: int) -> Records:
        """What a worker may read instead of a bad record of its task, as `Scheduler.replacement` says.

        None where that attempt isn't the one that is out, and where the task's stream was closed.
        """
        out = self._current(worker, task, attempt)
        if out is None or out.stream in self._closing:
            return NO_RECORDS
        return self._streams[out.stream].replacement(index, tried)

    def _current(self, worker: WorkerId, task: int, attempt: int) -> InFlightTask | None:
        out = self._workers.get(worker, {}).get(task)
        return out if out is not None and out.attempt == attempt else None

    def _take_from(self, worker: WorkerId, task: int) -> None:
        del self._workers[worker][task]
        self._alone.discard(worker)  # a suspect is the only task that its worker has

    def _end_task(self, out: InFlightTask, report: Report) -> None:
        room = out.task.reserve
        if room is not None and self._slots is not None:
            if report.nbytes:
                room = self._slots.trim(room, report.nbytes)
            else:
                self._slots.free(room)
                room = None
        if out.stream in self._closing:
            self._outputs.arrived(out.task.id, room, uses=0)
            self._closing[out.stream].waiting.discard(out.task.id)
            self._finish_closing(out.stream)
        else:
            scheduler = self._streams[out.stream]
            uses = scheduler.done(out.task, report)
            self._outputs.arrived(out.task.id, room, uses=uses)

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
