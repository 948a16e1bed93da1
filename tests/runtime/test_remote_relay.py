"""Rows of other hosts come to the bytes where a local worker writes them, by one writer each. No process, no socket."""

import pickle
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderkit._base.structure import structure_of
from loaderkit._engine.dispatcher import Assignment
from loaderkit._engine.slots import Slots
from loaderkit._engine.stats.counters import TaskTrace
from loaderkit._engine.task import (
    Discarded,
    MakeBatch,
    ReadRows,
    ReadStream,
    RowsPart,
    RowsRead,
    Slot,
    StreamRead,
    Target,
    Task,
)
from loaderkit._runtime.executors.remote_worker import RemoteWorker
from loaderkit._runtime.executors.worker import TaskFinished, TasksTraced
from loaderkit._runtime.memory.arena import Arena
from loaderkit._runtime.memory.batch_layout import BatchLayout
from loaderkit._runtime.remote.frames import ROWS, FrameError, Opener, Sealer, checksum_named
from loaderkit._runtime.remote.handshake import MOST_AFTER, Session
from loaderkit._runtime.remote.relay import Relay, ToTrainer
from loaderkit._runtime.transport import wire
from loaderkit._runtime.transport.pickling import Packer
from loaderkit.transforms.stack import LeafSpec, RowSpec

DOWN, UP = b"d" * 32, b"u" * 32
MOST = 4096  # bytes of a message to the trainer
BYTES = RowSpec(structure_of(0), (LeafSpec((5,), np.dtype(np.uint8)),))


class Pipe:
    """A connection of which the test says what has arrived."""

    def __init__(self) -> None:
        self.sent, self.arrived = bytearray(), bytearray()

    def send(self, sent: bytes) -> int:
        self.sent += sent
        return len(sent)

    def recv(self, most: int) -> bytes:
        room = bytearray(most)
        return bytes(room[: self.recvmsg_into([memoryview(room)])[0]])

    def recvmsg_into(self, rooms: list[memoryview]) -> tuple[int, list[Any], int, None]:
        if not self.arrived:
            raise BlockingIOError
        count = 0
        for room in rooms:
            part = self.arrived[: len(room)]
            room[: len(part)] = part
            del self.arrived[: len(part)]
            count += len(part)
        return count, [], 0, None

    def close(self) -> None:
        """As a socket."""


class Host:
    """A keeper's arena, with relays of its workers; what a worker does is the test's."""

    def __init__(self) -> None:
        self.arena = Arena()
        self.slots = Slots(self.arena.extend)

    def token(self, slot: Slot) -> Any:
        return self.arena.token(slot)


class Link:
    """One worker from both sides: the trainer's RemoteWorker, and a relay on a host."""

    def __init__(self, host: Host, arena: Arena, is_current: Any, request_space: Any, checksum: str) -> None:
        self.host, self.pipe = host, Pipe()
        self._opener, self._sealer = Opener(DOWN, MOST_AFTER), Sealer(UP)
        session = Session(
            Sealer(DOWN), Opener(UP, MOST), {"host": "far", "worker": 0}, {}, {"checksum": checksum}
        )
        self.worker = RemoteWorker(self.pipe, session, arena, Packer(), is_current, request_space)  # type: ignore[arg-type]
        self.relay = Relay(host.arena, host.slots, checksum_named(checksum))
        self.tasks: list[tuple[Task, int]] = []  # that the worker has
        self.on_the_way = bytearray()
        self.recalled: list[int] = []
        self._layouts: dict[int, BatchLayout] = {}

    def take(self) -> None:
        """The worker hears what it was sent."""
        self.worker.flush()
        self._opener.received += self.pipe.sent
        self.pipe.sent.clear()
        while (message := self._opener.next()) is not None:
            ((kind, body),) = wire.split(bytearray(self.relay.to_worker(*message)))
            if kind == wire.LAYOUT:
                self._layouts.update([pickle.loads(body)])
            elif kind == wire.RECALL:
                self.recalled += wire.read_numbers(body)
            elif kind == wire.TASK:
                task, attempt, _, _ = wire.unpack_task(body, self._layouts)
                self.tasks.append((task, attempt))

    def tell(self, kind: int, body: bytes) -> bytes:
        """The worker says something; its answer, if that is one."""
        answer = self.relay.from_worker(kind, body)
        if isinstance(answer, bytes):
            return answer
        self.send(answer)
        return b""

    def send(self, message: ToTrainer) -> None:
        self.on_the_way += self._sealer.seal(message.kind, message.body) + b"".join(message.pieces)
        if message.sent is not None:
            message.sent()

    def arrive(self, count: int) -> list[TaskFinished]:
        """So many bytes come to the trainer, which takes them in one round."""
        self.pipe.arrived += self.on_the_way[:count]
        del self.on_the_way[:count]
        self.worker.receive()
        return self.worker.read()  # type: ignore[return-value]

    def arrive_all(self, size: int) -> list[TaskFinished]:
        events: list[TaskFinished] = []
        while self.worker.open and (self.on_the_way or self.pipe.arrived):
            events += self.arrive(size)
        return events


@contextmanager
def hosts() -> Iterator[tuple[Host, Host]]:
    """The trainer's memory, and another host's."""
    ours, theirs = Host(), Host()
    try:
        yield ours, theirs
    finally:
        ours.arena.close()
        theirs.arena.close()


leaf_specs = st.builds(
    LeafSpec,
    st.lists(st.integers(0, 3), max_size=2).map(tuple),
    st.sampled_from(["u1", "<f8", ">i2", "M8[s]", "S3", "?", "c8"]).map(np.dtype),
)


@given(
    leaves=st.lists(leaf_specs, min_size=1, max_size=4).map(tuple),
    batch=st.integers(1, 6),
    cuts=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    verify=st.booleans(),
    checksum=st.sampled_from(["crc32", "crc32c"]),
    size=st.integers(1, 400),
    seed=st.integers(0, 9),
)
def test_rows_lie_where_a_local_worker_writes_them(
    leaves: Any, batch: int, cuts: list[int], verify: bool, checksum: str, size: int, seed: int
) -> None:
    """Byte by byte, with their seals: of any rows, cut into any tasks, however their bytes come in."""
    layout = BatchLayout(RowSpec(structure_of(0), leaves), verify)
    rng, total = np.random.default_rng(seed), 3 * batch
    rows = [rng.integers(0, 256, (total, n), np.uint8) for n in layout.row_nbytes]
    with hosts() as (ours, theirs):
        link = Link(theirs, ours.arena, lambda *_: True, None, checksum)
        local = [np.zeros(layout.nbytes(batch), np.uint8) for _ in range(3)]
        remote = [ours.slots.alloc(layout.nbytes(batch)) for _ in range(3)]
        lo, number, done = 0, 0, []
        while lo < total:
            hi, targets, first = min(lo + cuts[number % len(cuts)], total), [], lo
            while first < hi:
                of, at = divmod(first, batch)
                count = min(hi - first, batch - at)
                targets.append(Target(count, batch, at, remote[of], count == batch, layout))
                write(layout, local[of], batch, at, [column[first : first + count] for column in rows])
                first += count
            keys = np.arange(lo, hi)
            task = ReadRows(number, keys, keys, tuple(targets))
            link.worker.give(Assignment(0, 0, task, 1, False), {})
            link.take()
            ((here, attempt),) = link.tasks
            link.tasks.clear()
            assert isinstance(here, ReadRows) and attempt == 1
            for target in here.targets:
                assert target.slot is not None
                write(layout, theirs.token(target.slot), target.batch, target.first, [
                    column[lo : lo + target.rows] for column in rows
                ])  # fmt: skip
                lo += target.rows
            result = RowsRead(tuple(RowsPart(0, in_place=True) for _ in targets))
            link.tell(wire.TASK_FINISHED, wire.pack_result(number, 1, result, Packer()))
            done += link.arrive_all(size)
            number += 1
        assert [event.task for event in done] == [*range(number)] and theirs.slots.used == 0
        for slot, wanted in zip(remote, local, strict=True):
            found = np.frombuffer(ours.token(slot), np.uint8)[: len(wanted)]
            assert found.tolist() == wanted.tolist()


def write(layout: BatchLayout, token: Any, rows: int, first: int, columns: list[np.ndarray]) -> None:
    """As a worker does: rows, and their seal."""
    count = len(columns[0])
    for leaf, column in zip(layout.leaves(token, rows), columns, strict=True):
        place = leaf[first : first + count]
        place[...] = np.frombuffer(column.tobytes(), leaf.dtype).reshape(place.shape)
    layout.seal(token, rows, first, first + count)


class Losses:
    """Two workers elsewhere, which are given tasks, answer late, are lost at any byte, and have tasks withdrawn.

    Each attempt writes bytes of its own. What a finished task made stays as its finishing attempt made it.
    """

    def __init__(self, ours: Host, theirs: Host, rng: random.Random) -> None:
        self.ours, self.theirs, self.rng = ours, theirs, rng
        self.out: dict[int, tuple[int, int]] = {}  # worker and attempt that are current
        self.tasks: dict[int, Task] = {}
        self.rooms: dict[int, Slot] = {}
        self.done: dict[int, int] = {}  # the attempt that ended it
        self.links = [self.link(number) for number in range(2)]

    def link(self, number: int) -> Link:
        link = Link(self.theirs, self.ours.arena, self.is_current, self.request_space, "crc32")
        link.worker.number = number
        return link

    def is_current(self, worker: int, task: int, attempt: int) -> bool:
        return self.out.get(task) == (worker, attempt)

    def request_space(self, worker: int, task: int, attempt: int, nbytes: int) -> Slot:
        if task in self.rooms:
            self.ours.slots.free(self.rooms[task])
        self.rooms[task] = self.ours.slots.alloc(nbytes)
        return self.rooms[task]

    def step(self) -> None:
        """Anything that may happen next."""
        worker = self.rng.randrange(2)
        event = self.rng.choice([self.add, self.finish, self.arrive, self.arrive, self.lose, self.withdraw])
        event(worker)
        for number, attempt in self.done.items():
            task = self.tasks[number]
            if isinstance(task, ReadRows):
                slot = task.targets[0].slot
                assert slot is not None
                found = bytes(memoryview(self.ours.token(slot)).cast("B")[5:20])
            else:
                found = bytes(memoryview(self.ours.token(self.rooms[number])).cast("B")[:15])
            assert found == made_by(number, attempt)

    def add(self, worker: int) -> None:
        """One task more: of rows in a batch with another task's, or of an output."""
        number, keys = len(self.tasks), np.arange(3)
        if self.rng.random() < 0.5:
            layout = BatchLayout(BYTES)
            target = Target(3, 4, 1, self.ours.slots.alloc(layout.nbytes(4)), False, layout)
            self.tasks[number] = ReadRows(number, keys, keys, (target,))
        else:
            self.tasks[number] = ReadStream(number, keys, keys)
        self.give(number, worker, 0)

    def give(self, number: int, worker: int, attempt: int) -> None:
        self.out[number] = worker, attempt
        link = self.links[worker]
        link.worker.give(Assignment(worker, 0, self.tasks[number], attempt, False), {})
        link.take()

    def finish(self, worker: int) -> None:
        """The worker does all that it has."""
        link = self.links[worker]
        while link.tasks:
            task, attempt = link.tasks.pop(0)
            made = made_by(task.id, attempt)
            result: Any = RowsRead((RowsPart(0, in_place=True),))
            if isinstance(task, ReadRows):
                (target,) = task.targets
                assert target.slot is not None and (target.first, target.batch) == (0, 3)
                memoryview(self.theirs.token(target.slot)).cast("B")[:15] = made
            else:
                granted = link.tell(wire.SPACE_REQUESTED, wire.numbers(task.id, attempt, 15))
                ((_, body),) = wire.split(bytearray(granted))
                memoryview(self.theirs.token(Slot(*wire.read_numbers(body)[2:]))).cast("B")[:15] = made
                result = StreamRead(1, nbytes=15)
            link.tell(wire.TASK_FINISHED, wire.pack_result(task.id, attempt, result, Packer()))

    def arrive(self, worker: int) -> None:
        """Some bytes of its answers."""
        link = self.links[worker]
        for event in link.arrive(self.rng.choice([20, 100, 200, 1000])):
            assert link.worker.open
            if self.out.get(event.task) == (worker, event.attempt):
                del self.out[event.task]
                self.done[event.task] = event.attempt

    def lose(self, worker: int) -> None:
        """What is on the way is lost with it."""
        link = self.links[worker]
        link.worker.end(0.0)
        link.relay.drop()
        link.pipe.arrived += link.on_the_way
        link.worker.receive()
        assert link.worker.read() == []
        self.links[worker] = self.link(worker)
        for number, (mine, attempt) in [*self.out.items()]:
            if mine == worker:
                self.give(number, 1 - worker, attempt + 1)

    def withdraw(self, worker: int) -> None:
        """A task of which no header has come, as the pump does with a late one."""
        for number, (mine, attempt) in [*self.out.items()]:
            if mine == worker and (number, attempt) in self.links[worker].worker._given:
                self.give(number, 1 - worker, attempt + 1)
                return


@given(st.randoms(use_true_random=False))
def test_what_is_done_stays_whatever_comes_late(rng: random.Random) -> None:
    """A slot has one writer: the attempt that was current when its header came."""
    with hosts() as (ours, theirs):
        losses = Losses(ours, theirs, random.Random(rng.getrandbits(32)))
        for _ in range(90):
            losses.step()
        for link in losses.links:
            link.relay.drop()
        assert theirs.slots.used == 0


def made_by(task: int, attempt: int) -> bytes:
    return bytes((37 * task + 11 * attempt + k) % 256 for k in range(15))


def finished(link: Link, layout: BatchLayout, slot: Slot) -> bytes:
    """The bytes of one result of three rows."""
    keys = np.arange(3)
    task = ReadRows(0, keys, keys, (Target(3, 3, 0, slot, True, layout),))
    link.worker.give(Assignment(0, 0, task, 0, False), {})
    link.take()
    result = RowsRead((RowsPart(0, in_place=True),))
    link.tell(wire.TASK_FINISHED, wire.pack_result(0, 0, result, Packer()))
    sent, link.on_the_way = bytes(link.on_the_way), bytearray()
    return sent


@given(data=st.data())
def test_a_result_with_a_changed_bit_ends_the_connection(data: st.DataObject) -> None:
    """In its message, or in the rows behind it, once as many bytes have come as it says; nothing is told of it."""
    with hosts() as (ours, theirs):
        link = Link(theirs, ours.arena, lambda *_: True, None, "crc32")
        layout = BatchLayout(BYTES)
        sent = bytearray(finished(link, layout, ours.slots.alloc(layout.nbytes(3))))
        sent[data.draw(st.integers(0, len(sent) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        link.on_the_way += sent + bytes(MOST)
        assert link.arrive_all(data.draw(st.integers(1, 200))) == [] and not link.worker.open


def test_other_lengths_than_the_tasks_end_the_connection() -> None:
    """A keeper can't write beyond the rows that it was given, whatever it announces."""
    with hosts() as (ours, theirs):
        for wrong in ("sizes", "task"):
            link = Link(theirs, ours.arena, lambda *_: True, None, "crc32")
            layout = BatchLayout(BYTES)
            slot = ours.slots.alloc(layout.nbytes(3))
            finished(link, layout, slot)
            relay = Link(theirs, ours.arena, lambda *_: True, None, "crc32")
            more = BatchLayout(RowSpec(structure_of(0), (LeafSpec((6,), np.dtype(np.uint8)),)))
            relay.on_the_way += finished(relay, more, slot)
            if wrong == "task":
                link.worker._given.clear()
            link.on_the_way += relay.on_the_way
            assert link.arrive_all(500) == [] and not link.worker.open
            assert "protocol" in link.worker.end(0.0)


@given(
    kind=st.sampled_from([ROWS, wire.NUMERICS, wire.TASKS_TRACED, wire.REPLACEMENT_REQUESTED, 0]),
    body=st.binary(max_size=90),
)
def test_any_body_of_a_keeper_ends_at_most_its_connection(kind: int, body: bytes) -> None:
    """No exception reaches the pump."""
    with hosts() as (ours, theirs):
        link = Link(theirs, ours.arena, lambda *_: True, None, "crc32")
        link.send(ToTrainer(kind, body))
        link.arrive_all(500)
        link.worker.end(0.0)


def test_tasks_of_another_host_are_told_on_our_clock() -> None:
    """As they ended, at the latest now; their keeper passes on that they are to be told."""
    with hosts() as (ours, theirs):
        link, zero = Link(theirs, ours.arena, lambda *_: True, None, "crc32"), 10**18
        trace, begun = TaskTrace(3, zero - 900, zero - 100, 4, 4, 5, 6, (7, 8)), time.perf_counter_ns()
        link.tell(wire.TASKS_TRACED, wire.pack_traced(zero, [trace]))
        (event,) = link.arrive_all(500)
        assert isinstance(event, TasksTraced)
        (task,) = event.tasks
        assert begun - 100 <= task.end <= time.perf_counter_ns()
        assert task._replace(begin=trace.begin, end=trace.end) == trace and task.end - task.begin == 800
        relay = Relay(theirs.arena, theirs.slots, checksum_named("crc32"))
        assert relay.to_worker(wire.TRACE, wire.numbers(1)) == wire.frame(wire.TRACE, wire.numbers(1))


def test_a_recalled_task_is_told_as_discarded_and_leaves_nothing_at_its_host() -> None:
    """As of a local worker that hasn't begun it."""
    with hosts() as (ours, theirs):
        link, layout = Link(theirs, ours.arena, lambda *_: True, None, "crc32"), BatchLayout(BYTES)
        slot, keys = ours.slots.alloc(layout.nbytes(3)), np.arange(3)
        task = ReadRows(5, keys, keys, (Target(3, 3, 0, slot, True, layout),), ours.slots.alloc(99))
        link.worker.give(Assignment(0, 0, task, 2, False), {})
        link.worker.recall([(5, 2)])
        link.take()
        assert link.recalled == [5, 2] and theirs.slots.used
        link.tell(wire.TASK_FINISHED, wire.pack_result(5, 2, Discarded(), Packer()))
        assert link.arrive_all(500) == [TaskFinished(5, 2, Discarded(), None)] and not theirs.slots.used


def test_a_keeper_makes_no_batch_and_knows_no_slot_without_layout() -> None:
    """Rows that lie at the trainer can't be read there."""
    with hosts() as (_, theirs):
        relay, none = Relay(theirs.arena, theirs.slots, checksum_named("crc32")), np.empty(0, np.int64)
        rows = Target(1, 1, 0, Slot(0, 64, 0, 64), True, None)
        for task in (MakeBatch(0, 1, none, (), ()), ReadRows(0, none, none, (rows,))):
            with pytest.raises(FrameError):
                relay.to_worker(wire.TASK, wire.pack_task(task, 0, False, {}, {}))
