"""A trainer without its engine, for tests of workers on other hosts: a door, keepers as plain processes, a loop."""

import os
import selectors
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import loaderkit as lk
from loaderkit._engine.dispatcher import Assignment
from loaderkit._engine.slots import Slots
from loaderkit._engine.task import ReadRows, ReadStream, Slot, Target, Task, TaskResult
from loaderkit._runtime.executors.remote_worker import RemoteWorker
from loaderkit._runtime.executors.worker import NumericsKnown, ReplacementRequested, TaskFinished
from loaderkit._runtime.memory.arena import Arena
from loaderkit._runtime.memory.batch_layout import BatchLayout
from loaderkit._runtime.remote.door import Door, Offer
from loaderkit._runtime.remote.handshake import Session
from loaderkit._runtime.start.first_messages import pack_parcel
from loaderkit._runtime.transport.out_of_band import unpack
from loaderkit._runtime.transport.pickling import Packer
from loaderkit._runtime.worker.made_rows import spec_of
from loaderkit._runtime.worker.program import Program
from loaderkit._runtime.worker.reading import ReadOptions
from loaderkit._source.description import described

SECRET = b"s" * 32
AHEAD = 2


def program_of(source: Any, *operations: Any, **options: Any) -> Program:
    """What workers run; a seed for operations that draw."""
    options.setdefault("row_changing", False)
    return Program(source, operations, 7, ReadOptions(), **options)


class Trainer:
    """Gives tasks to the workers that arrive, again where one is lost, and keeps what they make.

    refused: what hosts were refused for. lost: how workers ended. numerics: how often they were told.
    """

    def __init__(self, secret: bytes = SECRET) -> None:
        self.arena = Arena()
        self.slots = Slots(self.arena.extend)
        self.door = Door(("127.0.0.1", 0), secret, on_arrival=self._arrive, on_refusal=self._refuse)
        self.refused: list[tuple[str, str]] = []
        self.lost: list[str] = []
        self.numerics = 0
        self.workers: dict[int, RemoteWorker] = {}
        self.keepers: list[subprocess.Popen[bytes]] = []
        self.ahead_of_time = 0.0  # of the workers' clock
        self._packer = Packer()
        self._started = 0
        self._selector = selectors.DefaultSelector()
        self._selector.register(self.door, selectors.EVENT_READ, None)
        self._queue: deque[tuple[Task, int]] = deque()  # tasks and attempts
        self._out: dict[int, tuple[int, int, Task]] = {}  # worker, attempt, task
        self._rooms: dict[int, Slot] = {}
        self.made: dict[int, tuple[TaskResult, Any]] = {}  # by task

    def __enter__(self) -> "Trainer":
        return self

    def __exit__(self, *_: object) -> None:
        self.dismiss()
        for keeper in self.keepers:
            keeper.kill()
            keeper.wait()
            if keeper.stderr is not None:
                keeper.stderr.close()
        self.door.close()
        self._selector.close()
        self.arena.close()

    def dismiss(self) -> None:
        """Ends all workers; their keepers dial again."""
        for number in [*self.workers]:
            self._end(number)

    def keeper(self, workers: int = 1, *options: str, secret: bytes = SECRET, **how: Any) -> Any:
        """A keeper on this host."""
        host, port = self.door.address
        command = [sys.executable, "-m", "loaderkit._runtime.remote.keeper", f"{host}:{port}"]
        command += ["--workers", str(workers), "--first-pause", "0.05", "--secret-from", "SECRET", *options]
        environment = {**os.environ, "SECRET": secret.hex()}
        self.keepers.append(subprocess.Popen(command, env=environment, **how))
        return self.keepers[-1]

    def offer(self, program: Program, **settings: Any) -> None:
        """What workers that arrive from now on run."""
        self._packer = Packer()
        parcel = pack_parcel(program, self._packer)
        self.door.offer(Offer(parcel, described(program.source), settings=settings))

    def _arrive(self, connection: socket.socket, session: Session) -> None:
        worker = RemoteWorker(
            connection, session, self.arena, self._packer, self._is_current, self._request_space
        )
        worker.number = self._started
        self._started += 1
        self.workers[worker.number] = worker
        self._selector.register(connection, selectors.EVENT_READ, worker)

    def _refuse(self, why: str, host: str) -> None:
        self.refused.append((why, host))

    def _is_current(self, worker: int, task: int, attempt: int) -> bool:
        return self._out.get(task, ())[:2] == (worker, attempt)

    def _request_space(self, worker: int, task: int, attempt: int, nbytes: int) -> Slot:
        self._rooms[task] = self.slots.alloc(nbytes)
        return self._rooms[task]

    def do(self, tasks: Sequence[Task], each_round: Callable[[], None] = lambda: None) -> None:
        """Until all are done; `made` has what was."""
        self._queue.extend((task, 0) for task in tasks)
        while self._queue or self._out:
            self._assign()
            self.round()
            each_round()

    def round(self) -> None:
        """Hears what there is, and looks at the clock."""
        for key, mask in self._selector.select(0.05):
            if key.data is None:
                self.door.serve(time.monotonic())
            elif mask & selectors.EVENT_READ and key.data.open:
                key.data.receive()
                self._hear(key.data)
        for worker in [*self.workers.values()]:
            worker.tick(time.monotonic() + self.ahead_of_time)
            worker.flush()
            if not worker.open:
                self._end(worker.number)

    def _assign(self) -> None:
        for number, worker in self.workers.items():
            has = sum(mine == number for mine, _, _ in self._out.values())
            while self._queue and has < AHEAD:
                task, attempt = self._queue.popleft()
                self._out[task.id] = (number, attempt, task)
                worker.give(Assignment(number, 0, task, attempt, False), {})
                has += 1

    def _hear(self, worker: RemoteWorker) -> None:
        for event in worker.read():
            match event:
                case TaskFinished(task, attempt, result):
                    if self._is_current(worker.number, task, attempt):
                        self._finish(self._out.pop(task)[2], result)  # type: ignore[arg-type]
                case ReplacementRequested(_, _, index, tried):
                    found = np.arange(index + tried + 1, index + tried + 2)
                    worker.send_candidates(found, found)
                case NumericsKnown():
                    self.numerics += 1
                case _:
                    raise AssertionError(event)

    def _finish(self, task: Task, result: TaskResult) -> None:
        output = None
        if result.nbytes:
            room = self._rooms.pop(task.id, None) or task.reserve
            assert room is not None
            output = unpack(memoryview(bytearray(memoryview(self.arena.token(room)).cast("B"))))
            self.slots.free(room)
        self.made[task.id] = result, output

    def _end(self, number: int) -> None:
        worker = self.workers.pop(number)
        self._selector.unregister(worker.connection)
        self.lost.append(worker.end(0.0))
        for mine, attempt, task in [*self._out.values()]:
            if mine == number:
                del self._out[task.id]
                self._queue.appendleft((task, attempt + 1))


class Batches:
    """Batches whose rows are read in place by several tasks.

    Args:
        trainer: in whose arena they lie.
        rows: all of them, as a worker makes them.
        batch: rows of one.
        cuts: rows of each task, again and again.
    """

    def __init__(
        self, trainer: Any, rows: Sequence[Any], batch: int, cuts: Sequence[int], verify: bool = False
    ) -> None:
        spec = spec_of([*rows[:2]])
        assert spec is not None
        self.layout = BatchLayout(spec, verify)
        self._trainer, self._batch = trainer, batch
        self.slots = [trainer.slots.alloc(self.layout.nbytes(batch)) for _ in range(len(rows) // batch)]
        self.tasks: list[ReadRows] = []
        lo = 0
        while lo < batch * len(self.slots):
            hi = min(lo + cuts[len(self.tasks) % len(cuts)], batch * len(self.slots))
            self.tasks.append(self._task(lo, hi))
            lo = hi

    def _task(self, lo: int, hi: int) -> ReadRows:
        keys, targets, size = np.arange(lo, hi), [], self._batch
        while lo < hi:
            number, first = divmod(lo, size)
            rows = min(hi - lo, size - first)
            slot = self.slots[number]
            targets.append(Target(rows, size, first, slot, rows == size, self.layout))
            lo += rows
        return ReadRows(len(self.tasks), keys, keys, tuple(targets))

    def read(self) -> list[Any]:
        """The batches, checked and copied; their slots are free again."""
        found = []
        for slot in self.slots:
            token = self._trainer.arena.token(slot)
            self.layout.check(token, self._batch, 0, self._batch)
            copied = bytearray(memoryview(token).cast("B"))
            found.append(self.layout.batch(copied, self._batch))
            self._trainer.slots.free(slot)
        return found


def streams(count: int, each: int, reserve: Slot | None = None) -> list[ReadStream]:
    """Tasks that read so many records, `each` a task, in order."""
    return [
        ReadStream(
            number,
            keys := np.arange(lo, min(lo + each, count)),
            keys,
            (0,) if not lo else (),
            reserve=reserve,
        )
        for number, lo in enumerate(range(0, count, each))
    ]


def alone(source: Any, *operations: Any, **options: Any) -> list[Any]:
    """What a loader without workers makes of it, in order."""
    options.setdefault("sampler", lk.SequentialSampler(len(source)))
    loader = lk.DataLoader(data_source=source, operations=operations, worker_count=0, **options)
    return [*loader]
