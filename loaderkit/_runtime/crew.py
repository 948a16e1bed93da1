"""The two kinds of workers as the pump sees them: something to give assignments to, that says what came of them."""

import queue
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import cloudpickle

from loaderkit._engine.dispatcher import Assignment
from loaderkit._engine.task import Report, Slot, Trouble
from loaderkit.errors import WorkerError
from loaderkit.transforms.program import Failure

from . import wire
from .arena import Arena
from .exceptions import unpack_exception
from .layout import BatchLayout
from .platform import worker_environment
from .work import Bench, Output, Program


@dataclass(frozen=True, slots=True)
class Arrived:
    """A worker can be given tasks."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A worker is through with a task; `output` is what it made, None where that lies in the arena."""

    task: int
    attempt: int
    report: Report
    output: Output | None


@dataclass(frozen=True, slots=True)
class Asked:
    """A worker needs room for an output."""

    task: int
    attempt: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Unfit:
    """A worker can't run the program at all."""

    error: Exception


Event = Arrived | Finished | Asked | Unfit


class Worker(Protocol):
    """One worker, of either kind."""

    def give(self, assignment: Assignment, outputs: dict[int, Slot]) -> None:
        """Hands it a task; `outputs` says where the inputs lie that are in the arena."""
        ...

    def place(self, task: int, attempt: int, slot: Slot | None) -> None:
        """Answers what it asked: room, or None to forget the output."""
        ...

    def end(self) -> str:
        """Ends it, by force if it doesn't go by itself, and says how it ended."""
        ...


class ProcessWorker:
    """A child process behind a socket pair. Must be made in a thread that lives as long as the worker should.

    Args:
        packed: the pickled program.
        descriptors: those that its pickle mentions.
        arena: the loader's memory.
    """

    def __init__(self, packed: bytes, descriptors: list[int], arena: Arena) -> None:
        self.connection, theirs = socket.socketpair()
        self.connection.setblocking(False)
        self._received = bytearray()
        self._unsent: deque[memoryview] = deque()
        self._layouts: dict[BatchLayout, int] = {}
        code = (
            "import signal as s; s.signal(s.SIGINT, s.SIG_IGN); s.signal(s.SIGTERM, s.SIG_IGN);"
            f"import sys; sys.path[:] = {sys.path!r};"
            "from loaderkit._runtime.worker import start; start()"
        )
        with theirs:
            passed = (theirs.fileno(), arena.fd, *descriptors)
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    *_interpreter_flags(),
                    "-c",
                    code,
                    *map(str, (*passed[:2], _pid(), *descriptors)),
                ],
                stdin=subprocess.DEVNULL,
                pass_fds=passed,
                env=worker_environment(),
            )
        self._send(wire.frame(wire.PROGRAM, packed))

    # --- to the worker ------------------------------------------------------------------------------------------

    def give(self, assignment: Assignment, outputs: dict[int, Slot]) -> None:
        task = assignment.task
        message = b""
        for layout in (*(target.layout for target in task.targets), *(span.layout for span in task.inputs)):
            if isinstance(layout, BatchLayout) and layout not in self._layouts:
                number = self._layouts[layout] = len(self._layouts)
                message += wire.frame(wire.LAYOUT, cloudpickle.dumps((number, layout)))
        message += wire.frame(wire.TASK, wire.pack_task(task, assignment.attempt, self._layouts, outputs))
        self._send(message)

    def place(self, task: int, attempt: int, slot: Slot | None) -> None:
        if slot is None:
            self._send(wire.frame(wire.FORGET, wire.numbers(task, attempt)))
        else:
            self._send(wire.frame(wire.PLACE, wire.numbers(task, attempt, *wire.pack_slot(slot))))

    def _send(self, message: bytes) -> None:
        self._unsent.append(memoryview(message))
        self.flush()

    def flush(self) -> None:
        """Sends what the channel takes; a worker that has ended is found by reading from it."""
        while self._unsent:
            message = self._unsent[0]
            try:
                sent = self.connection.send(message)
            except BlockingIOError:
                return
            except OSError:
                self._unsent.clear()
                return
            if sent < len(message):
                self._unsent[0] = message[sent:]
            else:
                self._unsent.popleft()

    @property
    def blocked(self) -> bool:
        """Whether something waits for the channel to take it."""
        return bool(self._unsent)

    # --- from the worker ----------------------------------------------------------------------------------------

    def read(self) -> tuple[list[Event], bool]:
        """What it said, and whether it may say more."""
        open_ = True
        try:
            while received := self.connection.recv(1 << 20):
                self._received += received
                if len(received) < 1 << 20:
                    break
            else:
                open_ = False
        except BlockingIOError:
            pass  # all that was there is read
        except OSError:
            open_ = False
        return [_event(kind, body) for kind, body in wire.split(self._received)], open_

    def end(self) -> str:
        self.connection.close()
        try:
            # With its channel closed it leaves as soon as its present task allows.
            self.process.wait(timeout=0.2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        return _how_it_ended(self.process.returncode)


def _event(kind: int, body: bytes) -> Event:
    match kind:
        case wire.READY:
            return Arrived()
        case wire.ASK:
            return Asked(*wire.read_numbers(body))
        case wire.UNFIT:
            error = unpack_exception(body)
            return Unfit(error if isinstance(error, Exception) else WorkerError(repr(error)))
    task, attempt, report = wire.unpack_report(body)
    trouble = report.trouble
    if trouble is not None:
        assert isinstance(trouble.error, tuple)
        packed, label, indices = trouble.error
        error = unpack_exception(packed)
        assert isinstance(error, Exception)
        trouble = Trouble(Failure(error, label, indices), trouble.part)
        report = Report(report.parts, trouble, report.layout, report.nbytes, report.seconds)
    return Finished(task, attempt, report, None)


def _interpreter_flags() -> list[str]:
    flags = [f"-W{option}" for option in sys.warnoptions]
    if sys.flags.utf8_mode:
        flags.append("-Xutf8")
    return [*flags, "-I"] if sys.flags.isolated else flags


def _pid() -> int:
    import os

    return os.getpid()


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"exit code {code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"exit code {code}"


class ThreadWorker:
    """A thread of the trainer.

    Args:
        program: what it runs; its operations are shared with other threads, their generators aren't.
        arena: the loader's memory.
        objects: the outputs in this process.
        tell: takes (worker, event) from the thread.
        name: of the thread.
    """

    def __init__(
        self,
        program: Program,
        arena: Arena,
        objects: dict[int, Output],
        tell: Callable[["ThreadWorker", Event], None],
        name: str,
    ) -> None:
        self._program = program
        self._arena = arena
        self._objects = objects
        self._tell = tell
        self._tasks: queue.SimpleQueue[Assignment | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def give(self, assignment: Assignment, outputs: dict[int, Slot]) -> None:
        self._tasks.put(assignment)

    def place(self, task: int, attempt: int, slot: Slot | None) -> None:
        raise AssertionError("a thread's outputs need no room")

    def end(self) -> str:
        self._tasks.put(None)
        self._thread.join(timeout=1.0)
        return "ended"

    def token(self, slot: Slot) -> Any:
        """An object over the slot's bytes."""
        return self._arena.token(slot)

    def output(self, task: int) -> Output:
        """What an earlier task made."""
        return self._objects[task]

    def _run(self) -> None:
        try:
            bench = Bench(self._program, self)
        except Exception as error:  # noqa: BLE001 - whatever it is, the trainer must hear of it
            self._tell(self, Unfit(error))
            return
        self._tell(self, Arrived())
        while (assignment := self._tasks.get()) is not None:
            try:
                report, output = bench.do(assignment.task)
            except BaseException as error:  # noqa: BLE001 - sys.exit in a transform must not end the thread silently
                gone = WorkerError(f"a transform ended its worker: {error!r}")
                gone.__cause__ = error
                report, output = Report((), trouble=Trouble(Failure(gone, "the worker", ()), part=0)), []
            self._tell(self, Finished(assignment.task.id, assignment.attempt, report, output))
            del report, output, assignment
        bench.reader.close()
