"""A worker process: does the tasks from its channel, one after the other, until the channel closes.

It is started by our own small command and not by multiprocessing: the user's script isn't run again, so it needs no
main guard, and the environment is set before the first import. It always ends with its trainer: the kernel kills it
when the trainer's thread that started it ends, a watching thread ends it when the trainer's process ends, and so does
the closing of the channel. Signals that a terminal or a scheduler sends to the whole process group are ignored here;
the trainer handles them.
"""

import contextlib
import importlib
import json
import os
import pickle
import select
import socket
import sys
import threading
import time
import traceback
from collections import deque
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from loaderkit._base.notes import annotate, text_of
from loaderkit._base.system.file_identity import check_files
from loaderkit._base.system.heap import keep_freed_memory
from loaderkit._base.system.limits import is_of_limits, with_limits
from loaderkit._base.system.module_import import unpickling_program
from loaderkit._base.system.numerics import numerics
from loaderkit._base.system.platform import open_process
from loaderkit._base.system.shared_memory import receiving
from loaderkit._engine.stats.counters import STARTING, STARVING, TELLING, WAITING, WORKING
from loaderkit._engine.task import (
    Discarded,
    MakeBatch,
    ReadRows,
    ReadStream,
    RowsRead,
    Slot,
    Task,
    TaskResult,
)
from loaderkit._order.facts import Failure
from loaderkit._runtime.memory.arena import ArenaView
from loaderkit._runtime.memory.batch_layout import BatchLayout
from loaderkit._runtime.transport import wire
from loaderkit._runtime.transport.exceptions import pack_exception, shortened
from loaderkit._runtime.transport.out_of_band import OutOfBandPickle, unpack
from loaderkit._runtime.transport.pickling import Packer, all_classes
from loaderkit.errors import LoaderkitError, TransportError, WorkerError

from .heartbeat import Heartbeat
from .meter import Meter
from .program import Program
from .task_runner import Output, TaskRunner

_ON_IMPORTS = (
    "a worker process imports the modules that operations use by their names, with the trainer's sys.path; modules "
    "that only the trainer's sys.modules has are sent by value, and import hooks of the program aren't installed"
)
_MOST_TEXT = 2_000  # characters of an error inside another one
_MOST_TOLD = 600  # characters of one for another machine, whose message has at most 4 KB


def main(channel: int, trainer: int, *descriptors: int) -> None:
    """Runs a worker until its channel ends.

    Args:
        channel: descriptor of the worker's end of the socket pair.
        trainer: pid of the process that started this one.
        descriptors: of the loader's memory, of the heartbeat's page, and those that the program's pickle refers to, in
            order. None where they come through the channel.
    """
    watched = open_process(trainer)
    if os.getppid() != trainer:
        return  # the trainer ended before its end could be watched
    connection = socket.socket(fileno=channel)
    for descriptor in (channel, *descriptors):
        os.set_inheritable(descriptor, False)  # not for programs that the user's code starts
    code = 0
    try:
        if watched is not None:
            threading.Thread(target=_end_with, args=(watched,), name="loaderkit-watch", daemon=True).start()
        arena, heartbeat, *others = descriptors or wire.received_descriptors(connection)
        _Worker(connection, ArenaView(arena), Heartbeat(heartbeat), others).run()
    except ConnectionError:
        pass  # the trainer has ended, or closed the channel
    except (OSError, RuntimeError, MemoryError) as error:
        # Errors of user code don't arrive here. An error of a limit is reported: it would fail other workers too.
        if not is_of_limits(error):
            traceback.print_exc()
            code = 1
        elif not _reported(error, connection):
            code = 1
    except SystemExit as wish:  # of the user's code
        code = wish.code if isinstance(wish.code, int) else int(wish.code is not None)
    except BaseException:  # noqa: BLE001 - prints it as the interpreter does, but doesn't wait for threads
        traceback.print_exc()
        code = 1
    _leave(code)


def _reported(error: Exception, connection: socket.socket) -> bool:
    """Sends the trainer an error that would fail any other worker too; returns whether it was sent."""
    try:
        why = error
        if not isinstance(error, LoaderkitError):
            why = WorkerError(f"a worker can't go on: {with_limits(error)}")
        connection.sendall(wire.frame(wire.SETUP_FAILED, pack_exception(why, Packer())))
    except ConnectionError:
        pass  # the trainer has ended, or closed the channel
    except (OSError, MemoryError):
        traceback.print_exc()
        return False
    return True


def _leave(code: int) -> NoReturn:
    # Without waiting for threads of the user's libraries.
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # closed, or replaced by an object of the user's
            stream.flush()
    os._exit(code & 0xFF)


def _end_with(watched: int) -> None:
    select.select([watched], [], [])
    os._exit(1)


class _Worker:
    def __init__(
        self, connection: socket.socket, arena: ArenaView, heartbeat: Heartbeat, descriptors: list[int]
    ) -> None:
        self._connection = connection
        self._arena = arena
        self._heartbeat = heartbeat
        self._meter = Meter(heartbeat.cells)
        self._descriptors = descriptors
        self._received = bytearray()
        # Not begun: task, attempt, whether it is suspect, slots of its inputs. MakeBatch tasks come first.
        self._tasks: deque[tuple[Task, int, bool, dict[int, Slot]]] = deque()
        self._layouts: dict[int, BatchLayout] = {}
        self._places: dict[int, Slot] = {}  # slots of the present task's inputs, by the task that made them
        self._opened: dict[int, Output] = {}
        # Task, attempt, output and result, while the worker waits for a slot for the output.
        self._unplaced: tuple[int, int, OutOfBandPickle, TaskResult] | None = None
        self._packer = Packer()
        self._present: tuple[int, int] = (-1, 0)  # task and attempt worked on
        # (2, n) int64: indices and record keys of requested candidates.
        self._candidates: np.ndarray | None = None
        self._runner: TaskRunner | None = None
        self._verify = False
        self._told_numerics = False
        self._describes = False  # whether the trainer is on another machine

    def run(self) -> None:
        while self._take(wait=not self._tasks):
            # All messages are read before a task begins, so that reads of later tasks start early.
            while self._take(wait=False, once=True):
                continue
            if self._tasks:
                self._work(*self._tasks.popleft())
            while self._unplaced is not None:  # the task isn't done before its output has a slot
                self._take(wait=True)
            self._heartbeat.rest()

    # --- messages -----------------------------------------------------------------------------------------------

    def _take(self, *, wait: bool, once: bool = False) -> bool:
        """Reads and handles messages; returns True, and with `once` whether there were any. Ends with the channel.

        wait: until there is a message.
        """
        try:
            received = self._awaited() if wait else self._connection.recv(1 << 20, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return not once
        if not received:
            _leave(0)
        self._received += received
        for kind, body in wire.split(self._received):
            self._handle(kind, body)
        return True

    def _awaited(self) -> bytes:
        phase = STARTING
        if self._runner is not None:
            # An answer of the trainer is waited for in the middle of a task, and behind one.
            phase = WAITING if self._meter.phase == WORKING or self._unplaced is not None else STARVING
        before = self._meter.phase
        self._meter.enter(phase)
        received = self._connection.recv(1 << 20)
        if self._runner is not None:
            self._meter.enter(WORKING if before == WORKING else TELLING)
        return received

    def _handle(self, kind: int, body: bytes) -> None:
        match kind:
            case wire.TASK:
                self._queue(body)
            case wire.LAYOUT:
                number, layout = pickle.loads(body)
                # May replace a layout of that number: tasks that arrived before have theirs already.
                self._layouts[number] = layout
            case wire.SPACE_GRANTED:
                task_id, attempt, *slot = wire.read_numbers(body)
                self._store(task_id, attempt, Slot(*slot))
            case wire.SPACE_REFUSED:
                if self._unplaced is not None and [*self._unplaced[:2]] == wire.read_numbers(body):
                    self._unplaced = None
            case wire.RECALL:
                values = iter(wire.read_numbers(body))
                self._drop({*zip(values, values, strict=True)})
            case wire.CANDIDATES:
                self._candidates = np.frombuffer(body, np.int64).reshape(2, -1)
            case wire.PREPARE:
                pickle.loads(body).apply()
            case wire.TRACE:
                self._meter.trace(bool(wire.read_numbers(body)[0]))
            case wire.DESCRIBE:
                self._describes = True
            case wire.PROGRAM:
                self._set_up(body)

    def _queue(self, body: bytes) -> None:
        task, attempt, suspect, places = wire.unpack_task(body, self._layouts)
        if isinstance(task, MakeBatch):
            batches = sum(isinstance(other, MakeBatch) for other, *_ in self._tasks)
            self._tasks.insert(batches, (task, attempt, suspect, places))
            return
        self._tasks.append((task, attempt, suspect, places))
        # Not for a suspect task, which reports each record before its read.
        if self._runner is not None and not suspect:
            if self._heartbeat.resting:
                self._heartbeat.begin(task.id)
            self._runner.reader.begin(task.id, task.keys)

    def _drop(self, recalled: set[tuple[int, int]]) -> None:
        mine, self._tasks = self._tasks, deque()
        for waiting in mine:
            task, attempt, *_ = waiting
            if (task.id, attempt) not in recalled:
                self._tasks.append(waiting)
                continue
            if self._runner is not None:
                self._runner.reader.forget(task.id)
            self._done(task.id, attempt, Discarded())

    def _send(self, kind: int, body: bytes = b"") -> None:
        self._connection.sendall(wire.frame(kind, body))

    def _set_up(self, body: bytes) -> None:
        try:
            with receiving(self._descriptors), unpickling_program():
                program: Program = pickle.loads(body)
            check_files(program.files)
            program.arithmetic.apply()  # imports may have changed it
            keep_freed_memory()
            self._packer = Packer(all_classes())
            self._verify = program.verify
            self._runner = TaskRunner(program, self, self._meter)
            self._runner.reader.tell_of_waits(self._heartbeat.go_on)
            told = _described(program.source) if self._describes else b""
        except BaseException as error:  # noqa: BLE001 - any error is sent to the trainer
            if self._describes:  # which unpickles nothing of a host before it accepts it
                text = "".join(traceback.format_exception_only(error)).strip()
                text = text.encode("ascii", "backslashreplace").decode()
                self._send(wire.WORKER_READY, json.dumps({"error": shortened(text, _MOST_TOLD)}).encode())
                return
            if isinstance(error, ImportError):
                annotate(error, _ON_IMPORTS)
            self._send(wire.SETUP_FAILED, pack_exception(error, self._packer))
            return
        self._send(wire.WORKER_READY, told)

    # --- memory -------------------------------------------------------------------------------------------------

    def token(self, slot: Slot) -> Any:
        """An object over the slot's bytes."""
        return self._arena.token(slot)

    def output(self, task: int, *, private: bool) -> Output:
        """The output of an earlier task, read from the arena. private: from a copy of it."""
        if task not in self._opened:
            room = memoryview(self._arena.token(self._places[task])).cast("B")
            self._opened[task] = unpack(memoryview(bytearray(room)) if private else room)
        return self._opened[task]

    def candidates(self, index: int, tried: int) -> tuple[np.ndarray, np.ndarray]:
        """The next candidates in place of a bad record of the present task, for which the worker asks the trainer."""
        self._heartbeat.go_on()
        self._send(wire.REPLACEMENT_REQUESTED, wire.numbers(*self._present, index, tried))
        while self._candidates is None:
            self._take(wait=True)
        self._heartbeat.go_on()  # so that the wait for the trainer doesn't count as a stall
        (indices, keys), self._candidates = self._candidates, None
        return indices, keys

    # --- work ---------------------------------------------------------------------------------------------------

    def _work(self, task: Task, attempt: int, suspect: bool, places: dict[int, Slot]) -> None:
        assert self._runner is not None
        self._heartbeat.begin(task.id)
        self._places, self._present = places, (task.id, attempt)
        result, output = self._runner.do(task, self._heartbeat.at if suspect else None)
        self._opened.clear()
        self._finish(task, attempt, result, output)

    def _finish(self, task: Task, attempt: int, result: TaskResult, output: Output) -> None:
        if not any(len(part) if isinstance(part, list) else part.size for part in output):
            self._done(task.id, attempt, result)
            return
        begun = time.perf_counter()
        try:
            packed = OutOfBandPickle(output, self._packer, verify=self._verify)
        except Exception as error:  # noqa: BLE001 - the user's reduce may raise anything
            result, output = without_unpicklable(task, result, output, error, self._packer)
            self._finish(task, attempt, result, output)
            return
        result = result._replace(nbytes=packed.nbytes, seconds=result.seconds + time.perf_counter() - begun)
        if task.reserve is not None and packed.nbytes <= task.reserve.nbytes:
            self._done(task.id, attempt, self._written(packed, task.reserve, result))
        else:
            self._unplaced = (task.id, attempt, packed, result)
            self._send(wire.SPACE_REQUESTED, wire.numbers(task.id, attempt, packed.nbytes))

    def _store(self, task: int, attempt: int, slot: Slot) -> None:
        assert self._unplaced is not None and self._unplaced[:2] == (task, attempt)
        _, _, packed, result = self._unplaced
        self._unplaced = None
        self._done(task, attempt, self._written(packed, slot, result))

    def _written(self, packed: OutOfBandPickle, slot: Slot, result: TaskResult) -> TaskResult:
        begun = time.perf_counter()  # counted too: a large output may take longer to write than to make
        packed.write(memoryview(self._arena.token(slot)).cast("B"))
        return result._replace(seconds=result.seconds + time.perf_counter() - begun)

    def _done(self, task: int, attempt: int, result: TaskResult | Discarded) -> None:
        if not isinstance(result, Discarded) and result.failure is not None:
            packed = pack_exception(result.failure.error, self._packer)
            result = result._replace(failure=replace(result.failure, error=packed))
        if not self._told_numerics and not isinstance(result, Discarded):
            self._told_numerics = (
                True  # before the first result: a state behind it has what was loaded for it
            )
            self._send(wire.NUMERICS, json.dumps(numerics()).encode())
        finished = wire.frame(wire.TASK_FINISHED, wire.pack_result(task, attempt, result, self._packer))
        if self._meter.traced:
            traced = wire.pack_traced(time.perf_counter_ns(), self._meter.take_traced())
            finished = wire.frame(wire.TASKS_TRACED, traced) + finished  # one call: the trainer wakes once
        self._connection.sendall(finished)


def _described(source: Any) -> bytes:
    from loaderkit._source.description import described, missing_file  # only workers elsewhere need them

    with contextlib.suppress(ImportError):  # an operation may load it later, as the trainer's workers have
        importlib.import_module("cv2")
    told = {"numerics": numerics(), "missing": missing_file(source)}
    return json.dumps(described(source) | told).encode()


def without_unpicklable(
    task: Task, result: TaskResult, output: Output, error: Exception, packer: Packer
) -> tuple[TaskResult, Output]:
    """The result and output cut before the first element that can't be pickled, which is the result's failure."""
    for number, part in enumerate(output):
        values = part if isinstance(part, list) else part.rows(0, part.size)
        for row, value in enumerate(values):
            try:
                OutOfBandPickle(value, packer)
            except Exception as unpicklable:  # noqa: BLE001 - the user's reduce may raise anything
                refused = TransportError(
                    f"an element of type {type(value).__qualname__} can't be sent by the worker: "
                    f"{shortened(text_of(unpicklable), _MOST_TEXT)}"
                )
                refused.__cause__ = unpicklable
                failure = Failure(refused, "the element", (_index_of(task, result, number, row),))
                return _cut(task, result, output, number, values[:row], failure)
    raise error  # each element can be pickled and all together can't


def _cut(
    task: Task, result: TaskResult, output: Output, number: int, good: list[Any], failure: Failure
) -> tuple[TaskResult, Output]:
    """What is left before an element of part `number`: elements are good, rows of an unfinished batch are dropped."""
    if isinstance(result, RowsRead):
        assert isinstance(task, ReadRows)
        parts, made = result.parts[:number], output[:number]
        if good and task.targets[number].whole:
            parts, made = (*parts, result.parts[number]._replace(size=len(good))), [*made, good]
        return result._replace(parts=parts, failure=failure, failed_target=number), made
    good = good if isinstance(task, ReadStream) else []
    begins, ends = (None if each is None else each[: len(good)] for each in (result.begins, result.ends))
    return result._replace(size=len(good), begins=begins, ends=ends, failure=failure), [good]


def _index_of(task: Task, result: TaskResult, number: int, row: int) -> int:
    """The index of the record that a row of part `number` is of, or begins with."""
    if not isinstance(task, ReadRows):
        if not isinstance(result, RowsRead) and result.begins is not None:
            return int(result.begins[row, 0])
        return int(task.indices[min(row, len(task.indices) - 1)])
    before = sum(target.rows for target in task.targets[:number])
    rows = sum(target.rows for target in task.targets)
    target = task.targets[number]
    row *= target.batch if target.whole else 1
    group = max(1, -(-len(task.indices) // rows))
    return int(task.indices[min((before + row) * group, len(task.indices) - 1)])


def start() -> None:
    """Runs a worker with the descriptors in `sys.argv`; the command of `start/launch.py` calls it."""
    main(*(int(argument) for argument in sys.argv[1:]))
