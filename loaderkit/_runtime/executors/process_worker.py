"""A worker in a process of its own, from the trainer's side: its start, its channel, its end."""

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from loaderkit._engine.dispatcher import Assignment
from loaderkit._engine.task import Slot, Task
from loaderkit._runtime.memory.arena import Arena
from loaderkit._runtime.memory.batch_layout import BatchLayout
from loaderkit._runtime.start.launch import launched
from loaderkit._runtime.transport import wire
from loaderkit._runtime.transport.exceptions import unpack_exception
from loaderkit._runtime.transport.pickling import Packer
from loaderkit._runtime.worker.heartbeat import HeartbeatReader, Progress
from loaderkit._system.descriptors import above_standard
from loaderkit._system.limits import naming_limits
from loaderkit._system.platform import open_process, process_state

from .worker import Event, ReplacementRequested, SetupFailed, SpaceRequested, TaskFinished, WorkerReady

_CHUNK = 1 << 20  # bytes read from a channel at once
_MOST_LAYOUTS = 64  # that a worker remembers: batches may differ in shape one from the other, without end
_KILL_SECONDS = 2.0  # for a process that was killed to end


class ProcessWorker:
    """A child process behind a socket pair. Must be made in a thread that lives as long as the worker should.

    Args:
        packed: what it is told first, as `packed` made it.
        descriptors: those that this mentions.
        arena: the loader's memory.
        packer: for what the worker is told later.

    Raises OSError where the system starts no more processes.
    """

    def __init__(self, packed: bytes, descriptors: Sequence[int], arena: Arena, packer: Packer) -> None:
        self._heartbeat = HeartbeatReader()
        try:
            with naming_limits("a worker's channel"), above_standard():
                self.connection, theirs = socket.socketpair()
        except OSError:
            self._heartbeat.close()
            raise
        self.connection.setblocking(False)
        self.open = True
        self._packer = packer
        self._received = bytearray()
        self._unsent = bytearray()
        self._layouts: dict[BatchLayout, int] = {}
        try:
            with theirs:
                self.process = launched((theirs.fileno(), arena.fd, self._heartbeat.fd, *descriptors))
        except BaseException:
            self.connection.close()
            self._heartbeat.close()
            raise
        self.name = f"worker process {self.process.pid}"
        # Its channel's end would tell too, unless a process that the user's code forked there still holds it.
        self.watch = open_process(self.process.pid)
        try:
            self._send(packed)
        except BaseException:  # for want of memory
            self.kill()
            self.end(_KILL_SECONDS)
            raise

    # --- to the worker ------------------------------------------------------------------------------------------

    def give(self, assignment: Assignment, outputs: dict[int, Slot]) -> None:
        task = assignment.task
        message = b""
        for layout in (*(target.layout for target in task.targets), *(span.layout for span in task.inputs)):
            if isinstance(layout, BatchLayout) and layout not in self._layouts:
                message += self._named(layout, task)
        packed = wire.pack_task(task, assignment.attempt, assignment.suspect, self._layouts, outputs)
        # Sent with what else is given now: a message wakes the worker, which costs more than its bytes.
        self._unsent += message + wire.frame(wire.TASK, packed)

    def _named(self, layout: BatchLayout, task: Task) -> bytes:
        """Gives a layout a number, and tells the worker: of many, that of the oldest which this task doesn't need."""
        number = len(self._layouts)
        if number >= _MOST_LAYOUTS:
            needed = {target.layout for target in task.targets} | {span.layout for span in task.inputs}
            oldest = next((known for known in self._layouts if known not in needed), None)
            if oldest is not None:
                number = self._layouts.pop(oldest)
        self._layouts[layout] = number
        return wire.frame(wire.LAYOUT, self._packer.dumps((number, layout)))

    def recall(self, tasks: Sequence[tuple[int, int]]) -> None:
        self._send(wire.frame(wire.RECALL, wire.numbers(*chain.from_iterable(tasks))))

    def place(self, task: int, attempt: int, slot: Slot | None) -> None:
        if slot is None:
            self._send(wire.frame(wire.FORGET, wire.numbers(task, attempt)))
        else:
            self._send(wire.frame(wire.PLACE, wire.numbers(task, attempt, *wire.pack_slot(slot))))

    def suggest(self, indices: np.ndarray, keys: np.ndarray) -> None:
        self._send(wire.frame(wire.CANDIDATES, indices.tobytes() + keys.tobytes()))

    def _send(self, message: bytes) -> None:
        self._unsent += message
        self.flush()

    def flush(self) -> None:
        """Sends what the channel takes; a worker that has ended is found by reading from it."""
        while self._unsent:
            try:
                sent = self.connection.send(self._unsent)
            except BlockingIOError:
                return
            except OSError:
                sent = len(self._unsent)
            del self._unsent[:sent]

    @property
    def blocked(self) -> bool:
        """Whether something waits for the channel to take it."""
        return bool(self._unsent)

    # --- from the worker ----------------------------------------------------------------------------------------

    def read(self) -> list[Event]:
        """What it said; `open` is whether it may say more."""
        try:
            while received := self.connection.recv(_CHUNK):
                self._received += received
            self.open = False
        except BlockingIOError:
            pass  # all that was there is read
        except OSError:
            self.open = False
        return [_event(kind, body) for kind, body in wire.split(self._received)]

    def progress(self) -> Progress:
        return self._heartbeat.progress()

    def doing(self) -> tuple[str, str]:
        stacks = self._heartbeat.stacks(self.process.pid)
        return process_state(self.process.pid) + ("" if stacks else ", it doesn't answer"), stacks

    def dismiss(self) -> None:
        # Not only closed: a child that the user forked may hold another descriptor of it.
        with contextlib.suppress(OSError):  # the worker has gone already
            self.connection.shutdown(socket.SHUT_RDWR)

    def kill(self) -> None:
        """Ends it by force; doesn't wait."""
        if self.watch is None:
            self.process.kill()
            return
        with contextlib.suppress(ProcessLookupError):  # it has ended just now
            signal.pidfd_send_signal(
                self.watch, signal.SIGKILL
            )  # never another process that has got its number since

    def end(self, timeout: float) -> str:
        reaped = self.process.returncode is None and _reaped_by_somebody_else(self.process.pid)
        try:
            # Dismissed, it leaves as soon as its present task allows.
            self.process.wait(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):  # in the kernel, in a read that never ends
                self.process.wait(timeout=_KILL_SECONDS)
        self.connection.close()
        self._heartbeat.close()
        if self.watch is not None:
            os.close(self.watch)
            self.watch = None
        return "an exit code that somebody else took" if reaped else _how_it_ended(self.process.returncode)


def _reaped_by_somebody_else(pid: int) -> bool:
    # A handler of the user's that waits for any child, or SIGCHLD ignored.
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def _event(kind: int, body: bytes) -> Event:
    match kind:
        case wire.READY:
            return WorkerReady()
        case wire.ASK:
            return SpaceRequested(*wire.read_numbers(body))
        case wire.SEARCH:
            return ReplacementRequested(*wire.read_numbers(body))
        case wire.UNFIT:
            return SetupFailed(unpack_exception(body))
    task, attempt, report = wire.unpack_report(body)
    failure = report.failure
    if failure is not None:
        report = replace(report, failure=replace(failure, error=unpack_exception(failure.error)))
    return TaskFinished(task, attempt, report, None)


def _how_it_ended(code: int | None) -> str:
    if code is None:
        return "no end: it can't be killed"
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"exit code {code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"exit code {code}"
