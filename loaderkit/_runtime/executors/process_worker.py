"""A worker in a process of its own, from the trainer's side: its start, its channel, its end."""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import replace

from loaderkit._base.system.platform import open_process, process_state
from loaderkit._base.system.resources import own_memory, processor_times
from loaderkit._engine.dispatcher import Assignment
from loaderkit._engine.progress import Progress
from loaderkit._engine.stats.counters import WorkerCounters
from loaderkit._engine.task import Discarded, Slot
from loaderkit._runtime.memory.arena import Arena
from loaderkit._runtime.start.bare_processes import BareProcesses
from loaderkit._runtime.start.first_messages import operations_now, pack_first_messages
from loaderkit._runtime.start.launch import how_it_ended, launched
from loaderkit._runtime.transport import wire
from loaderkit._runtime.transport.exceptions import unpack_exception
from loaderkit._runtime.transport.layout_numbers import LayoutNumbers
from loaderkit._runtime.transport.pickling import Packer
from loaderkit._runtime.worker.heartbeat import HeartbeatReader
from loaderkit._runtime.worker.meter import counters
from loaderkit._runtime.worker.program import Program

from .worker import (
    Event,
    NumericsKnown,
    ReplacementRequested,
    SetupFailed,
    Shared,
    SpaceRequested,
    Started,
    TaskFinished,
    TasksTraced,
    Worker,
    WorkerKind,
    WorkerReady,
)
from .worker_channel import WorkerChannel

_CHUNK = 1 << 20  # bytes read from a channel at once
_END_SECONDS = 0.2  # to end by themselves; then they are killed
_KILL_SECONDS = 2.0  # for a process that was killed to end


class ProcessWorker(WorkerChannel):
    """A child process behind a socket pair. Must be made in a thread that lives as long as the worker should.

    Args:
        packed: the first messages to it, as `packed` made them.
        descriptors: the file descriptors that these name.
        arena: the loader's memory.
        packer: of later messages.
        number: its place in the pool.
        level: of processors, as `launched` takes it.
        bare: has processes that were started already; None for none.

    pidfd is None where the system has none, or it has ended.

    Raises OSError if the system starts no more processes.
    """

    def __init__(
        self,
        packed: bytes,
        descriptors: Sequence[int],
        arena: Arena,
        packer: Packer,
        number: int,
        level: str | None,
        bare: BareProcesses | None,
    ) -> None:
        self.number = number
        self._heartbeat = HeartbeatReader()
        try:
            passed = (arena.fd, self._heartbeat.fd, *descriptors)
            taken = None if bare is None else bare.take(passed)
            self.connection, self.process = taken or launched(passed, level=level)
        except BaseException:
            self._heartbeat.close()
            raise
        self.open = True
        self._reaped = False  # by other code
        self._packer = packer
        self._received = bytearray()
        self._unsent = bytearray()
        self._layouts = LayoutNumbers()
        # For want of a processor: until it was ready, and from then on as it was last seen; None where that is unknown.
        self._delayed_start: int | None = None
        self._delayed: int | None = 0
        self.name = f"worker process {self.process.pid}"
        # The end of its channel isn't enough: a process that the user's code forked there may still hold it open.
        self.pidfd = open_process(self.process.pid)
        try:
            self._unsent += packed
            self.flush()
        except BaseException:  # a MemoryError
            self.kill()
            self.end(_KILL_SECONDS)
            raise

    # --- to the worker ------------------------------------------------------------------------------------------

    def give(self, assignment: Assignment, outputs: dict[int, Slot]) -> None:
        task = assignment.task
        message = b"".join(
            wire.frame(wire.LAYOUT, self._packer.dumps(told)) for told in self._layouts.tell(task)
        )
        packed = wire.pack_task(task, assignment.attempt, assignment.suspect, self._layouts, outputs)
        # Sent with the other tasks that are assigned now: waking the worker costs more than the bytes of a message.
        self._unsent += message + wire.frame(wire.TASK, packed)

    def grant_space(self, task: int, attempt: int, slot: Slot | None) -> None:
        if slot is None:
            self._send(wire.SPACE_REFUSED, wire.numbers(task, attempt))
        else:
            self._send(wire.SPACE_GRANTED, wire.numbers(task, attempt, *wire.pack_slot(slot)))

    def _framed(self, kind: int, body: bytes) -> bytes:
        return wire.frame(kind, body)

    # --- from the worker ----------------------------------------------------------------------------------------

    def read(self) -> list[Event]:
        try:
            while len(received := self.connection.recv(_CHUNK)) == _CHUNK:
                self._received += received
            self._received += received
            self.open = bool(received)  # the end comes alone, in a call of its own
        except BlockingIOError:
            pass  # all that arrived is read
        except OSError:
            self.open = False
        events = [event_of(kind, body) for kind, body in wire.split(self._received)]
        if any(isinstance(event, WorkerReady) for event in events):
            times = processor_times(self.process.pid)
            self._delayed, self._delayed_start = (None, None) if times is None else (0, times[1])
        return events

    def progress(self) -> Progress:
        return self._heartbeat.progress()

    def counters(self, names: Sequence[str]) -> WorkerCounters:
        task, alive = None, self.process.returncode is None
        if alive:
            with contextlib.suppress(OSError):  # it ends now
                task = self._heartbeat.progress().task
        pid = self.process.pid
        memory, times = (own_memory(pid), processor_times(pid)) if alive else (None, None)
        if times is not None and self._delayed_start is not None:
            self._delayed = max(self._delayed or 0, times[1] - self._delayed_start)
        counted = counters(self._heartbeat.cells, self.number, "process", names)
        return replace(counted, task=task, memory=memory, delayed=self._delayed)

    def doing(self) -> tuple[str, str]:
        stacks = self._heartbeat.stacks(self.process.pid)
        return process_state(self.process.pid) + ("" if stacks else ", it doesn't answer"), stacks

    def kill(self) -> None:
        if self.pidfd is None:
            self.process.kill()
            return
        with contextlib.suppress(ProcessLookupError):  # it has ended just now
            # Not by its pid, which another process may have by now.
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def has_ended(self, timeout: float) -> bool:
        """Whether the process has ended; waits so many seconds for it."""
        self._look_whether_reaped()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout)
        return self.process.returncode is not None

    def _look_whether_reaped(self) -> None:
        if self.process.returncode is None:
            self._reaped = _reaped_elsewhere(self.process.pid)

    def end(self, timeout: float) -> str:
        self._look_whether_reaped()
        try:
            # A dismissed process ends after its present task.
            self.process.wait(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            # It may be inside the kernel, in a read that never returns.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=_KILL_SECONDS)
        self.connection.close()
        self._heartbeat.close()
        if self.pidfd is not None:
            os.close(self.pidfd)
            self.pidfd = None
        return "an exit code that other code took" if self._reaped else how_it_ended(self.process.returncode)


def process_kind(program: Program, level: str | None, bare: BareProcesses | None) -> WorkerKind:
    """Workers in processes of their own, which run the program as it is now, as on processors of a level.

    bare: processes that were started for them; None for none.
    Raises TransportError where it can't be sent to them.
    """
    packer = Packer()
    packed, descriptors = pack_first_messages(program, packer, level)
    as_sent = operations_now(program)

    def start(shared: Shared, number: int, started: Started) -> Worker:
        worker = ProcessWorker(packed, descriptors, shared.arena, packer, number, level, bare)
        started(number, worker)
        return worker

    return WorkerKind(
        name="process",
        waits_on_descriptors=True,
        end_seconds=_END_SECONDS,
        start=start,
        runs=lambda other: as_sent == operations_now(other),
    )


def _reaped_elsewhere(pid: int) -> bool:
    # By a signal handler of the user's that waits for any child, or because SIGCHLD is ignored.
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def event_of(kind: int, body: bytes) -> Event:
    """What a message of a worker process reports."""
    match kind:
        case wire.WORKER_READY:
            return WorkerReady()
        case wire.NUMERICS:
            return NumericsKnown(json.loads(body))
        case wire.TASKS_TRACED:
            return TasksTraced(*wire.unpack_traced(body))
        case wire.SPACE_REQUESTED:
            return SpaceRequested(*wire.read_numbers(body))
        case wire.REPLACEMENT_REQUESTED:
            return ReplacementRequested(*wire.read_numbers(body))
        case wire.SETUP_FAILED:
            return SetupFailed(unpack_exception(body))
    task, attempt, result = wire.unpack_result(body)
    if not isinstance(result, Discarded) and result.failure is not None:
        error = unpack_exception(result.failure.error)
        result = result._replace(failure=replace(result.failure, error=error))
    return TaskFinished(task, attempt, result, None)
