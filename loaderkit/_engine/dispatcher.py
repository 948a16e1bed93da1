"""Who works on what. A state machine without I/O: events in, assignments out.

Each task has one of these places, and moves only so:

    to do ──assign──> out with one worker ──done──> over
      ^                        │
      └────────died────────────┘

A task carries the number of its attempt. What is said of an attempt that isn't the one now out is ignored: its worker
died or was given up, and what it still writes goes to memory that nobody reads (a slot is used again only once no
process can write there: `died` is told after the worker was reaped and its channel read to the end).

A task that was being worked on in MAX_DEATHS deaths is given up: the error takes its place in the stream. Only the
oldest task of a worker is suspected, for a worker goes through its tasks in order.

Closing a stream while tasks of it are out keeps the bytes they may touch until the last of them is over.

A stream that gets no memory for its next task is asked again when something was given back. Only where nobody works
and nothing comes back does the error reach its user, behind all that was made.
"""

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field, replace

from loaderkit.errors import WorkerError

from .assembly import Assembly
from .outputs import Outputs
from .pace import Pace
from .slots import Slots
from .task import Broken, Outcome, Ready, Report, Slot, Task, Trouble

MAX_DEATHS = 3

WorkerId = Hashable
StreamId = Hashable


@dataclass(frozen=True, slots=True)
class Assignment:
    """One attempt of a worker at a task."""

    worker: WorkerId
    stream: StreamId
    task: Task
    attempt: int


@dataclass(slots=True)
class _Out:
    """A task that is not over: to do again, or out. Its reserve is where the output goes, also what was asked for."""

    stream: StreamId
    task: Task
    attempt: int = 0
    deaths: int = 0


@dataclass(slots=True)
class _Closing:
    waiting: set[int]
    slots: list[Slot] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)


class Dispatcher:
    """Gives the tasks of all streams of a loader to its workers.

    Args:
        slots: the arena's allocator, None where there is no arena.
        outputs: what tasks made.
        pace: how long things take.
    """

    def __init__(self, *, slots: Slots | None, outputs: Outputs, pace: Pace) -> None:
        self._slots = slots
        self._outputs = outputs
        self._pace = pace
        self._streams: dict[StreamId, Assembly] = {}
        self._turn: deque[StreamId] = deque()
        self._no_memory: dict[StreamId, tuple[MemoryError, int]] = {}  # and what had been given back by then
        self._closing: dict[StreamId, _Closing] = {}
        self._workers: dict[WorkerId, dict[int, _Out]] = {}  # tasks out with each, oldest first
        self._again: deque[_Out] = deque()

    # --- streams ------------------------------------------------------------------------------------------------

    def open(self, stream: StreamId, assembly: Assembly) -> None:
        """A stream begins."""
        if stream in self._streams or stream in self._closing:
            raise ValueError(f"stream {stream!r} is open already")
        self._streams[stream] = assembly
        self._turn.append(stream)

    def close(self, stream: StreamId) -> None:
        """A stream isn't wanted any more; what it holds is given back when nobody can touch it."""
        assembly = self._streams.pop(stream)
        self._turn.remove(stream)
        self._no_memory.pop(stream, None)
        slots, outputs = assembly.owned()
        for out in [out for out in self._again if out.stream == stream]:
            self._again.remove(out)
            slots += [] if out.task.reserve is None else [out.task.reserve]
        waiting = {
            number
            for tasks in self._workers.values()
            for number, out in tasks.items()
            if out.stream == stream
        }
        self._closing[stream] = _Closing(waiting, slots, outputs)
        self._finish_closing(stream)

    def pop(self, stream: StreamId) -> Outcome | None:
        """The next thing to hand to the stream's user, None while it isn't there."""
        outcome = self._streams[stream].pop()
        if outcome is None and self._starves(stream) and not self._again and not any(self._workers.values()):
            return Broken(self._no_memory[stream][0])
        return outcome

    def _starves(self, stream: StreamId) -> bool:
        return stream in self._no_memory and self._no_memory[stream][1] == self._returns

    @property
    def _returns(self) -> int:
        return 0 if self._slots is None else self._slots.returns

    def taken(self, stream: StreamId, ready: Ready) -> None:
        """The user of a stream has the elements of an output that `pop` named."""
        self._streams[stream].taken(ready)

    # --- workers ------------------------------------------------------------------------------------------------

    def ready(self, worker: WorkerId) -> None:
        """A new worker can be given tasks."""
        if worker in self._workers:
            raise ValueError(f"worker {worker!r} is ready already")
        self._workers[worker] = {}

    def assign(self) -> Assignment | None:
        """The next task to give to somebody, and to whom; None while nobody has room or nothing is to be done."""
        worker = min(self._workers, key=lambda worker: len(self._workers[worker]), default=None)
        if worker is None or len(self._workers[worker]) >= self._pace.tasks_ahead():
            return None
        out = self._again.popleft() if self._again else self._next_out()
        if out is None:
            return None
        self._workers[worker][out.task.id] = out
        return Assignment(worker, out.stream, out.task, out.attempt)

    def _next_out(self) -> _Out | None:
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
                return _Out(stream, task)
        return None

    def done(self, worker: WorkerId, task: int, attempt: int, report: Report) -> bool:
        """A worker is through with a task. False if that attempt isn't the one that is out: nothing changed."""
        out = self._current(worker, task, attempt)
        if out is None:
            return False
        del self._workers[worker][task]
        self._over(out, report)
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
            del self._workers[worker][task]
            self._over(out, Report((), trouble=Trouble(error, part=0)))
            return None
        out.task = replace(out.task, reserve=room)
        return room

    def died(self, worker: WorkerId, reason: str, *, blame: bool = True) -> list[Task]:
        """A worker is gone for good: reaped, its channel read to the end. Returns the tasks it had.

        Args:
            worker, reason: who, and what is known of why.
            blame: whether its oldest task may have killed it.
        """
        tasks = self._workers.pop(worker, {})
        lost = list(tasks.values())
        for out in lost[:blame]:
            out.deaths += 1
        for out in reversed(lost):
            out.attempt += 1
            if out.stream in self._closing:
                self._over(out, Report(()))
            elif out.deaths >= MAX_DEATHS:
                self._over(out, Report((), trouble=Trouble(_killer(out, reason), part=0)))
            else:
                self._again.appendleft(out)
        return [out.task for out in lost]

    @property
    def workers(self) -> frozenset[WorkerId]:
        """Those who are ready."""
        return frozenset(self._workers)

    def busy(self, worker: WorkerId) -> list[Task]:
        """The tasks that are out with a worker, oldest first."""
        return [out.task for out in self._workers.get(worker, {}).values()]

    def stream_of(self, worker: WorkerId, task: int, attempt: int) -> StreamId | None:
        """Whose task that is; None if that attempt isn't the one that is out, or nobody wants it any more."""
        out = self._current(worker, task, attempt)
        return None if out is None or out.stream in self._closing else out.stream

    def _current(self, worker: WorkerId, task: int, attempt: int) -> _Out | None:
        out = self._workers.get(worker, {}).get(task)
        return out if out is not None and out.attempt == attempt else None

    def _over(self, out: _Out, report: Report) -> None:
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
            assembly = self._streams[out.stream]
            uses = assembly.done(out.task, report)
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


def _killer(out: _Out, reason: str) -> WorkerError:
    task = out.task
    what = f"indices {task.indices[0]}..{task.indices[-1]}" if len(task.indices) else "no record"
    if task.level == 0 and len(task.keys):
        what += f" (record keys {', '.join(map(str, task.keys[:8].tolist()))}{', …' if len(task.keys) > 8 else ''})"
    return WorkerError(
        f"{out.deaths} workers died at the same work, the last with {reason}; they had {what}. "
        "Read the record alone in a process of its own, source[record_key], and apply the operations to it."
    )
