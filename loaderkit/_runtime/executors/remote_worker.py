"""A worker on another host, from the trainer's side: one accepted connection to its keeper.

Its rows go from the socket into the slots, without a copy: `receive`, which is called without the pool's lock, writes
where `read`, called under it, has said after a result's header. At that moment the result's attempt is the current one;
of another attempt the bytes are dropped. That is enough: a worker's tasks are taken back by the pump only, which also
calls `receive`, and a closing stream keeps the slots of the tasks that are out. So no such worker is ever fenced.

A message that isn't what it should be, or rows without their checksum, end the connection: the tasks are done again.
"""

import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from loaderkit._base.system.dataclasses import dataclass, replace
from loaderkit._engine.dispatcher import Assignment
from loaderkit._engine.elsewhere_pace import ElsewherePace
from loaderkit._engine.progress import Progress
from loaderkit._engine.stats.counters import TaskTrace, WorkerCounters
from loaderkit._engine.task import Discarded, RowsRead, Slot, Target, Task, targets_of
from loaderkit._runtime.memory.arena import Arena
from loaderkit._runtime.memory.batch_layout import BatchLayout, pieces, write_seal
from loaderkit._runtime.remote import frames
from loaderkit._runtime.remote.connection import PINGS, SILENCE_SECONDS, Silence
from loaderkit._runtime.remote.frames import Checksum, FrameError, checksum_named
from loaderkit._runtime.remote.handshake import Session
from loaderkit._runtime.remote.outbox import MOST_BUFFERS
from loaderkit._runtime.remote.relay import pack_layout
from loaderkit._runtime.remote.rows import RowsHeader
from loaderkit._runtime.transport import wire
from loaderkit._runtime.transport.layout_numbers import LayoutNumbers
from loaderkit._runtime.transport.pickling import Packer
from loaderkit._runtime.worker.heartbeat import PAGE_NBYTES, cells_of, progress_of
from loaderkit._runtime.worker.meter import counters

from .process_worker import event_of
from .worker import Event, TaskFinished, TasksTraced
from .worker_channel import WorkerChannel

_MOST_RECEIVED = 4 << 20  # bytes a call: other workers are heard, too
_NOT_BEHIND = 1 << 62  # nanoseconds: until a message says less
_CHUNK = 1 << 16  # bytes of messages; what of them is rows is copied once

IsCurrent = Callable[[int, int, int], bool]
RequestSpace = Callable[[int, int, int, int], Slot | None]


@dataclass(slots=True)
class _TaskOut:
    """A task that the worker has. at: when it was given. withdrawn: whether it is done by another one."""

    task: Task
    at: float
    withdrawn: bool = False


class RemoteWorker(WorkerChannel):
    """A connection to a keeper that was let in. It is ready from the start.

    Args:
        connection, session: as a Door gave them.
        arena: the loader's memory.
        packer: of layouts; it knows the classes of the parcel.
        is_current: of the dispatcher: whether an attempt is the current one, by worker, task and attempt.
        request_space: of the dispatcher: a slot for an output, by worker, task, attempt and bytes.

    Outside of `receive` all is called under the pool's lock. number: its place in the pool, which the pool sets.
    pidfd: None. open: whether more may come. pace: how long it takes for tasks.
    Dismissed, its keeper ends the worker, whatever it does, as the connection ends.
    """

    pidfd = None
    elsewhere = True

    def __init__(
        self,
        connection: socket.socket,
        session: Session,
        arena: Arena,
        packer: Packer,
        is_current: IsCurrent,
        request_space: RequestSpace,
    ) -> None:
        self.connection = connection
        self.number = -1
        self.open = True
        self.pace = ElsewherePace()
        self.name = "worker " + "/".join(
            str(session.facts.get(name)) for name in ("host", "keeper", "worker")
        )
        self._sealer, self._opener = session.sealer, session.opener
        self._checksum = checksum_named(session.settings["checksum"])
        self._arena, self._packer = arena, packer
        self._is_current, self._request_space = is_current, request_space
        self._layouts = LayoutNumbers()
        self._given: dict[tuple[int, int], _TaskOut] = {}  # by task and attempt, oldest first
        self._payload: _Payload | None = None
        self._unsent = bytearray()
        self._page = bytes(PAGE_NBYTES)
        self._how = ""  # it ended
        self._heard = time.monotonic()
        self._most_silence = session.settings.get("silence", SILENCE_SECONDS)
        self._silence = Silence(self._heard, self._most_silence)
        self._ping_at = 0.0
        self._behind: int = _NOT_BEHIND

    # --- to the worker ------------------------------------------------------------------------------------------

    def give(self, assignment: Assignment, outputs: dict[int, Slot]) -> None:
        task, attempt = assignment.task, assignment.attempt
        self._given[task.id, attempt] = _TaskOut(task, time.monotonic())
        for told in self._layouts.tell(task):
            number, layout = told
            body = pack_layout(number, layout.row_nbytes, layout.verify, self._packer.dumps(told))
            self._unsent += self._sealer.seal(wire.LAYOUT, body)
        packed = wire.pack_task(task, attempt, assignment.suspect, self._layouts, outputs)
        self._unsent += self._sealer.seal(wire.TASK, packed)

    def grant_space(self, task: int, attempt: int, slot: Slot | None) -> None:
        raise NotImplementedError("a worker on another host asks its keeper for space")

    def tasks_ahead(self) -> int:
        """How many tasks it may have."""
        overdue = any(given.withdrawn for given in self._given.values())
        return 0 if overdue else self.pace.tasks_ahead()

    def withdraw(self, now: float) -> list[tuple[int, int]]:
        """The tasks, with their attempts, for which it takes too long; it may forget them. now: as for `tick`."""
        late = []
        for key, given in self._given.items():
            if not given.withdrawn and self.pace.is_late(now - given.at):
                given.withdrawn = True
                late.append(key)
        if late:
            self.recall(late)
        return late

    def tick(self, now: float) -> None:
        """Asks whether it is there, if that is due; to be called twice a second. now: on `time.monotonic`."""
        if self._silence.is_over(now):
            self._lose("nothing was heard of it")
        elif now >= self._ping_at:
            self._ping_at = now + self._most_silence / PINGS
            self._send(frames.PING, wire.numbers(time.monotonic_ns()))

    def _framed(self, kind: int, body: bytes) -> bytes:
        return self._sealer.seal(kind, body)

    # --- from the worker ----------------------------------------------------------------------------------------

    def receive(self) -> None:
        """Receives what has come, up to 4 MB. The only method that is called without the pool's lock."""
        left = _MOST_RECEIVED
        try:
            while left > 0 and self.open:
                if self._payload is None:
                    received = self.connection.recv(_CHUNK)
                    self._opener.received += received
                    self._took(len(received))
                    return  # they are read first: they say where the next bytes go
                if not self._payload.left:
                    return
                count = self.connection.recvmsg_into(self._payload.rooms(left))[0]
                self._payload.took(count)
                self._took(count)
                left -= count
        except BlockingIOError:
            pass
        except OSError as error:
            self._lose(str(error))

    def _took(self, count: int) -> None:
        if not count:
            self._lose("the connection was closed there")
            return
        self._heard = time.monotonic()
        self._silence.heard(self._heard)

    def read(self) -> list[Event]:
        """The events that arrived; `open` says whether more may come."""
        events: list[Event] = []
        try:
            while self._advance(events):
                pass
        except Exception as error:  # noqa: BLE001 - whatever arrived, only this worker is lost
            self._lose(f"it doesn't keep the protocol: {error!r}")
        return events

    def _advance(self, events: list[Event]) -> bool:
        """Handles what is there next; whether there was anything."""
        if self._payload is not None:
            return self._finish(self._payload, events)
        message = self._opener.next()
        if message is None:
            return False
        kind, body = message
        match kind:
            case frames.ROWS:
                self._payload = self._begin(RowsHeader.unpack(body))
            case frames.PONG:
                if len(body) != 8 + PAGE_NBYTES:
                    raise FrameError("a page of another size")
                begun, self._page = wire.read_numbers(body[:8])[0], body[8:]
                if begun:  # a PONG comes behind rows: the least says how long the way is
                    passed = (time.monotonic_ns() - begun) / 1e9
                    self.pace.rtt = min(passed, self.pace.rtt or passed)
            case frames.DOWN:
                self._lose(body.decode(errors="replace"))
            case wire.TASKS_TRACED:
                sent, tasks = wire.unpack_traced(body)
                events.append(TasksTraced(sent, self._on_our_clock(sent, tasks)))
            case wire.NUMERICS | wire.REPLACEMENT_REQUESTED:
                events.append(event_of(kind, body))
            case _:
                raise FrameError(f"a message of kind {kind}")
        return True

    def _on_our_clock(self, sent: int, tasks: Sequence[TaskTrace]) -> list[TaskTrace]:
        """Tasks of the other host's clock, which is taken to be behind by the least that a message seemed to need."""
        self._behind = min(self._behind, time.perf_counter_ns() - sent)
        return [task._replace(begin=task.begin + self._behind, end=task.end + self._behind) for task in tasks]

    def _finish(self, payload: "_Payload", events: list[Event]) -> bool:
        payload.fill(self._opener.take(payload.left))
        if payload.left:
            return False
        self._payload = None
        if payload.checksum != payload.expected:
            raise FrameError("rows without their checksum")
        result = payload.event.result
        if not isinstance(result, Discarded):
            receiving = time.monotonic() - payload.begun
            self.pace.saw(working=result.seconds, receiving=receiving, answered=payload.answered)
        if not payload.dropped:
            events.append(payload.event)
        return True

    def _begin(self, header: RowsHeader) -> "_Payload":
        """Where the bytes behind a header go."""
        event = event_of(wire.TASK_FINISHED, header.result)
        assert isinstance(event, TaskFinished)
        task_id, attempt, result, _ = event
        given = self._given.pop((task_id, attempt))
        task = given.task
        parts = result.parts if isinstance(result, RowsRead) else ()
        nbytes = 0 if isinstance(result, Discarded) else result.nbytes
        both = [
            (target, _layout_of(target))
            for target, part in zip(targets_of(task), parts, strict=False)  # a failure ends it early
            if part.in_place
        ]
        sizes = tuple(size * target.rows for target, layout in both for size in layout.row_nbytes)
        sealed = [(target, layout) for target, layout in both if layout.verify]
        if (sizes, nbytes, len(sealed)) != (header.sizes, header.nbytes, len(header.seals)):
            raise FrameError(f"rows of {header.sizes} bytes: expected {sizes}, and {nbytes} of output")
        rooms: list[memoryview] | None = None
        if self._is_current(self.number, task_id, attempt):
            rooms = []
            for target, layout in both:
                last = target.first + target.rows
                rooms += pieces(layout.row_nbytes, self._token(target.slot), target.batch, target.first, last)
            for (target, layout), seal in zip(sealed, header.seals, strict=True):
                write_seal(layout.row_nbytes, self._token(target.slot), target.batch, target.first, seal)
            if nbytes:
                room = task.reserve
                if room is None or room.nbytes < nbytes:
                    room = self._request_space(self.number, task_id, attempt, nbytes)
                if room is None:
                    rooms = None  # the output isn't needed any more, or there is no memory for it
                else:
                    rooms.append(memoryview(self._token(room)).cast("B")[:nbytes])
        return _Payload(sum(sizes) + nbytes, rooms, self._checksum, header.checksum, event, given.at)

    def _token(self, slot: Slot | None) -> Any:
        assert slot is not None
        return self._arena.token(slot)

    def _lose(self, how: str) -> None:
        """Nothing more is heard of it, and no slot written. how: the first reason counts."""
        self._how = self._how or how
        self.open, self._payload = False, None

    def progress(self) -> Progress:
        return progress_of(self._page)

    def counters(self, names: Sequence[str]) -> WorkerCounters:
        task = self.progress().task if self.open else None
        return replace(counters(cells_of(self._page), self.number, "remote", names), task=task)

    def doing(self) -> tuple[str, str]:
        return f"its host was last heard of {time.monotonic() - self._heard:.1f} s ago", ""

    def kill(self) -> None:
        """As `dismiss`: nothing of it is heard any more."""
        self.dismiss()
        self._lose("it was given up")

    def has_ended(self, timeout: float) -> bool:
        """Whether it has ended for the trainer, which doesn't wait for the other host."""
        return not self.open

    def end(self, timeout: float) -> str:
        self._lose("its connection was closed")
        self.connection.close()
        return self._how


class _Payload:
    """The bytes behind a header, as far as they have come.

    Args:
        nbytes: how many there are.
        rooms: where they go; None: nowhere, and no result is told.
        extend: the checksum of bytes and those before.
        expected: which it must be.
        event: what is told when all are there.
        given: when the task was.
    """

    def __init__(
        self,
        nbytes: int,
        rooms: list[memoryview] | None,
        extend: Checksum,
        expected: int,
        event: TaskFinished,
        given: float,
    ) -> None:
        self.left, self.checksum, self.expected, self.event = nbytes, 0, expected, event
        self.begun = time.monotonic()
        self.answered = self.begun - given
        self.dropped = dropped = rooms is None and nbytes > 0
        self._extend = extend
        self._rooms = deque(room for room in rooms or () if len(room))
        self._scratch = memoryview(bytearray(min(nbytes, _CHUNK) if dropped else 0))

    def rooms(self, most: int) -> list[memoryview]:
        """Where the next bytes go, at most so many."""
        if not self._rooms:
            return [self._scratch[: min(most, self.left)]]
        found = []
        for room in self._rooms:
            found.append(room[:most])
            most -= len(found[-1])
            if most <= 0 or len(found) == MOST_BUFFERS:
                break
        return found

    def took(self, count: int) -> None:
        """So many bytes are there."""
        self.left -= count
        while count:
            room = self._rooms.popleft() if self._rooms else self._scratch
            taken = room[:count]
            self.checksum = self._extend(self.checksum, taken)
            count -= len(taken)
            if self._scratch.nbytes == 0 and len(taken) < len(room):
                self._rooms.appendleft(room[len(taken) :])

    def fill(self, received: bytes) -> None:
        """Takes bytes that came with a message."""
        if len(received) == self.left and len(self._rooms) == 1:  # of small rows there are many
            room = self._rooms[0]
            room[:] = received
            self.left, self.checksum = 0, self._extend(self.checksum, room)
            return
        at = 0
        while at < len(received):
            room = self.rooms(len(received) - at)[0]
            room[:] = received[at : at + len(room)]
            at += len(room)
            self.took(len(room))


def _layout_of(target: Target) -> BatchLayout:
    if target.slot is None or not isinstance(target.layout, BatchLayout):
        raise FrameError("rows in place of a target without a slot")
    return target.layout
