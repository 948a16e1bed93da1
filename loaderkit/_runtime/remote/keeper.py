"""A keeper: a process on another host, which has workers there as children and lends them to one trainer.

    python -m loaderkit._runtime.remote.keeper HOST:PORT --workers N

The loader's secret comes on the first line of its standard input, or in an environment variable, as hex digits; never
as an argument, which other users of the host can read.

Each worker has a connection of its own to the trainer. A connection's end is its worker's end, whatever the reason: no
task of a worker that the trainer has given up is still done. A worker's end is told by DOWN, and after a pause the
keeper dials again for another one. All children end with the keeper. It ends itself when the trainer refuses it, when
the trainer doesn't know the secret, and when there has been no trainer for some minutes.

One thread does all of it; the workers compute in processes of their own.
"""

import argparse
import contextlib
import json
import os
import secrets
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from loaderkit._base.notes import text_of
from loaderkit._base.system.limits import above_standard
from loaderkit._base.system.platform import open_process
from loaderkit._base.system.processor_level import checked_level
from loaderkit._base.system.shared_memory import anonymous_file, mapped
from loaderkit._engine.slots import Slots
from loaderkit._runtime.memory.arena import Arena
from loaderkit._runtime.start.launch import how_it_ended, launched
from loaderkit._runtime.transport import wire
from loaderkit._runtime.worker.heartbeat import HeartbeatReader

from . import frames
from .connection import SILENCE_SECONDS, Silence, host_and_port, prepare
from .facts import host_facts
from .frames import checksum_named
from .handshake import NONCE_NBYTES, KeeperHandshake, Session
from .outbox import Outbox
from .relay import Relay, ToTrainer

_PATIENCE_SECONDS = 300.0  # without a trainer
_LONGEST_PAUSE = 60.0  # seconds from a worker's end to the next one's start
_LOOK_SECONDS = 0.5  # from one look at the clock to the next
_SET_UP_SECONDS = 120.0  # without a word of a trainer that waits for a worker
_END_SECONDS = 0.1  # for a process that has closed its channel to end
_KILL_SECONDS = 2.0  # for a killed process to end
_CHUNK = 1 << 20

# Exit codes, others than Python's own.
LONELY, REFUSED, OTHER_SECRET = 11, 12, 13


class _Ended(Exception):  # noqa: N818 - it ends a keeper in an orderly way
    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


class _Program(NamedTuple):
    """What the workers run. descriptors: of the memory that its pickle refers to."""

    name: str
    packed: bytes
    descriptors: tuple[int, ...]

    @classmethod
    def of(cls, name: str, parts: Sequence[bytearray]) -> "_Program":
        descriptors = []
        for part in parts[1:]:
            descriptors.append(anonymous_file("source", len(part)))
            mapped(descriptors[-1], len(part))[:] = part
        return cls(name, bytes(parts[0]), tuple(descriptors))


class _Child:
    """A worker process, from its keeper's side."""

    def __init__(self, program: _Program, arena: Arena, level: str | None) -> None:
        self.heartbeat = HeartbeatReader()
        try:
            descriptors = (arena.fd, self.heartbeat.fd, *program.descriptors)
            self.channel, self.process = launched(descriptors, level=level)
        except BaseException:
            self.heartbeat.close()
            raise
        # The end of its channel isn't enough: a process that the user's code forked there may still hold it open.
        self.pidfd = open_process(self.process.pid)
        self.received = bytearray()
        self.outbox = Outbox()
        self.outbox.put([wire.frame(wire.DESCRIBE) + program.packed])

    def end(self, timeout: float) -> str:
        """Waits so many seconds, kills it if it hasn't ended then, and says how it ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout)
        self.process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_KILL_SECONDS)
        self.channel.close()
        self.heartbeat.close()
        if self.pidfd is not None:
            os.close(self.pidfd)
        return how_it_ended(self.process.returncode)


class _Seat:
    """The place of one worker: its connection and its process, from the first dial to the end, again and again."""

    def __init__(self, keeper: "Keeper", number: int) -> None:
        self._keeper, self._number = keeper, number
        self._dial_at = 0.0
        self._pause = keeper.first_pause
        self.connection: socket.socket | None = None
        self._outbox = Outbox()
        self._handshake: KeeperHandshake | None = None
        self._session: Session | None = None
        self._child: _Child | None = None
        self._relay: Relay | None = None
        self._silence = Silence(0.0, SILENCE_SECONDS)
        self._closing = False  # as soon as all is sent

    def look(self, now: float) -> None:
        """What is due at a time."""
        if self.connection is None:
            if now >= self._dial_at and self._keeper.may_dial(self):
                self._dial(now)
        elif self._silence.is_over(now):
            self._leave()
        elif self._handshake is not None and self._handshake.proven:
            self._keeper.heard = now

    # --- the connection -----------------------------------------------------------------------------------------

    def _dial(self, now: float) -> None:
        keeper = self._keeper
        family, kind, protocol, _, address = keeper.address
        with above_standard():
            self.connection = socket.socket(family, kind, protocol)
        prepare(self.connection)
        self.connection.connect_ex(address)  # an error is found by the first send
        keeper.selector.register(self.connection, selectors.EVENT_READ, self._on_connection)
        self._silence = Silence(now, SILENCE_SECONDS)
        program = "" if keeper.program is None else keeper.program.name
        facts = {**host_facts(), "worker": self._number, "keeper": os.getpid()}
        self._handshake = KeeperHandshake(keeper.secret, secrets.token_bytes(NONCE_NBYTES), facts, program)
        self._go_on()

    def _on_connection(self, mask: int) -> None:
        if self.connection is None:
            return  # it was left in this round
        try:
            if mask & selectors.EVENT_WRITE:
                self._outbox.send(self.connection)
            if mask & selectors.EVENT_READ and not self._closing:
                self._hear(self.connection.recv(_CHUNK))
        except BlockingIOError:
            pass
        except OSError:
            self._leave()
        self._go_on()

    def _hear(self, received: bytes) -> None:
        assert self._handshake is not None
        if not received:
            self._leave()
        elif self._session is None:
            self._handshake.receive(received)
        else:
            self._session.opener.received += received
        self._silence.heard(time.monotonic())

    def _go_on(self) -> None:
        """Does what the bytes that came allow."""
        try:
            if self._handshake is not None:
                self._advance(self._handshake)
        except (OSError, ValueError):  # a FrameError among them
            self._leave()

    def _advance(self, handshake: KeeperHandshake) -> None:
        if self._session is None:
            if handshake.started and self._relay is None:
                self._start_child(handshake)
            if (first := handshake.take()) != b"":
                self._outbox.put([first])
            if handshake.stopped is not None:
                self._keeper.stopped(handshake)
                self._leave()
                return
            self._session = handshake.session
            if self._session is not None:
                silence = self._session.settings.get("silence", SILENCE_SECONDS)
                self._silence = Silence(time.monotonic(), silence)
        if self._session is not None:
            while not self._closing and (message := self._session.opener.next()) is not None:
                self._obey(*message)
        self._select()

    def _select(self) -> None:
        """Waits for what can be done next with connection and channel."""
        select = self._keeper.select
        if self.connection is not None:
            if self._closing and not self._outbox:
                self._leave()
                return
            select(self.connection, self._outbox, self._on_connection, reads=not self._closing)
        if self._child is not None and not self._closing:
            select(self._child.channel, self._child.outbox, self._on_channel)

    def _obey(self, kind: int, body: bytes) -> None:
        assert self._child is not None and self._relay is not None
        if kind == frames.PING:
            self._say(ToTrainer(frames.PONG, body + self._child.heartbeat.page()))
            return
        try:
            self._child.outbox.put([self._relay.to_worker(kind, body)])
        except MemoryError as error:
            self._child_ended(text_of(error))

    def _say(self, message: ToTrainer) -> None:
        assert self._session is not None
        sealed = self._session.sealer.seal(message.kind, message.body)
        self._outbox.put([sealed, *message.pieces], message.sent)

    def _leave(self) -> None:
        """Ends the connection, and with it the worker."""
        if self.connection is not None:
            self._keeper.forget(self.connection)
            self.connection.close()
            self.connection = None
        self._end_child(0.0)
        self._outbox, self._handshake, self._session, self._closing = Outbox(), None, None, False
        if self._relay is not None:
            self._relay.drop()
            self._relay = None
        self._dial_at = max(self._dial_at, time.monotonic() + self._keeper.first_pause)

    # --- the worker ---------------------------------------------------------------------------------------------

    def _start_child(self, handshake: KeeperHandshake) -> None:
        keeper = self._keeper
        if handshake.parts:
            keeper.take_program(_Program.of(handshake.started, handshake.parts))
            handshake.parts = []
        assert keeper.program is not None
        self._relay = Relay(keeper.arena, keeper.slots, checksum_named(handshake.settings["checksum"]))
        try:
            level = checked_level(handshake.settings.get("level"))
            self._child = child = _Child(keeper.program, keeper.arena, level)
        except (OSError, RuntimeError, ValueError) as error:
            handshake.answer(_told(f"a worker process can't be started: {text_of(error)}"))
            return
        self._silence = Silence(time.monotonic(), _SET_UP_SECONDS)
        keeper.selector.register(child.channel, selectors.EVENT_READ, self._on_channel)
        if child.pidfd is not None:
            keeper.selector.register(child.pidfd, selectors.EVENT_READ, self._on_end)

    def _on_channel(self, mask: int) -> None:
        child = self._child
        if child is None:
            return  # it ended in this round
        try:
            if mask & selectors.EVENT_WRITE:
                child.outbox.send(child.channel)
        except OSError:
            mask |= selectors.EVENT_READ  # which finds its end
        if mask & selectors.EVENT_READ and not self._read_channel(child):
            self._child_ended()
        self._go_on()

    def _on_end(self, mask: int) -> None:
        if self._child is not None:
            self._read_channel(self._child)  # results that it has sent count
            self._child_ended()
            self._go_on()

    def _read_channel(self, child: _Child) -> bool:
        """Handles what the worker has sent; whether more may come."""
        try:
            while received := child.channel.recv(_CHUNK):
                child.received += received
                if not all(self._handle(kind, body) for kind, body in wire.split(child.received)):
                    return False
        except BlockingIOError:
            return True
        except OSError:
            pass  # it has ended with messages unread
        return False

    def _handle(self, kind: int, body: bytes) -> bool:
        assert self._handshake is not None and self._relay is not None and self._child is not None
        if self._session is None:
            if kind == wire.WORKER_READY:
                self._handshake.answer(body)
            return kind == wire.WORKER_READY
        try:
            answer = self._relay.from_worker(kind, body)
        except (MemoryError, ValueError, KeyError):  # no memory here, or it can't go on and says so
            return False
        if isinstance(answer, bytes):
            self._child.outbox.put([answer])
        else:
            self._pause = self._keeper.first_pause
            self._say(answer)
        return True

    def _child_ended(self, why: str = "") -> None:
        """Tells the trainer how the worker ended; the connection ends when that is sent."""
        child = self._child
        assert child is not None
        page = child.heartbeat.page()
        how = self._end_child(0.0 if why else _END_SECONDS) + (why and f": {why}")
        self._pause, pause = min(2 * self._pause, _LONGEST_PAUSE), self._pause
        self._dial_at = time.monotonic() + pause
        if self._session is not None:
            self._say(ToTrainer(frames.PONG, bytes(8) + page))
            self._say(ToTrainer(frames.DOWN, how.encode()))
            self._closing = True
        elif self._handshake is None or self._handshake.answered:
            self._leave()
        else:
            self._handshake.answer(_told(f"it ended while it was set up, with {how}"))

    def _end_child(self, timeout: float) -> str:
        child, self._child = self._child, None
        if child is None:
            return ""
        self._keeper.forget(child.channel)
        if child.pidfd is not None:
            self._keeper.forget(child.pidfd)
        return child.end(timeout)


class Keeper:
    """What the process runs.

    Args:
        address: of the trainer, host and port.
        secret: of the loader.
        workers: how many.
        patience: seconds without a trainer after which it ends.
        first_pause: seconds from a worker's end to the next one's start; doubled while none does a task.
    """

    def __init__(
        self, address: tuple[str, int], secret: bytes, workers: int, *, patience: float, first_pause: float
    ) -> None:
        self.address: Any = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0]
        self.secret, self.first_pause = secret, first_pause
        self._patience = patience
        self.arena = Arena()
        self.slots = Slots(self.arena.extend)
        self.program: _Program | None = None
        self.selector = selectors.DefaultSelector()
        self.heard = time.monotonic()  # when a trainer was last there
        self._seats = [_Seat(self, number) for number in range(workers)]

    def run(self) -> None:
        """Until it ends, by an _Ended."""
        while True:
            now = time.monotonic()
            for seat in self._seats:
                seat.look(now)
            if now - self.heard > self._patience:
                raise _Ended(LONELY, f"no trainer answered for {self._patience:.0f} s")
            for key, mask in self.selector.select(min(_LOOK_SECONDS, self.first_pause)):
                key.data(mask)

    def may_dial(self, seat: _Seat) -> bool:
        """Whether a seat may dial: the first of them brings the program for all."""
        return self.program is not None or all(other.connection is None for other in self._seats)

    def take_program(self, program: _Program) -> None:
        """Replaces the program; children of the one before have descriptors of their own."""
        for descriptor in () if self.program is None else self.program.descriptors:
            os.close(descriptor)
        self.program = program

    def stopped(self, handshake: KeeperHandshake) -> None:
        """A handshake ended without a session."""
        stopped = handshake.stopped
        assert stopped is not None
        if stopped.refused:
            raise _Ended(REFUSED, f"the trainer refuses this host: {stopped}")
        if stopped.wrong_secret:
            raise _Ended(OTHER_SECRET, str(stopped))

    def select(self, connection: socket.socket, outbox: Outbox, call: Any, *, reads: bool = True) -> None:
        """Waits until a socket can be read, if it is to be, and if something is to be sent, written to."""
        events = (selectors.EVENT_READ if reads else 0) | (selectors.EVENT_WRITE if outbox else 0)
        if self.selector.get_key(connection).events != events:
            self.selector.modify(connection, events, call)

    def forget(self, registered: Any) -> None:
        """Waits for it no longer."""
        with contextlib.suppress(KeyError):
            self.selector.unregister(registered)


def _told(error: str) -> bytes:
    return json.dumps({"error": error}).encode()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a keeper; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m loaderkit._runtime.remote.keeper", description=__doc__)
    parser.add_argument("address", help="HOST:PORT of the trainer")
    parser.add_argument("--workers", type=int, default=1, help="how many")
    parser.add_argument("--secret-from", metavar="NAME", help="of an environment variable, instead of stdin")
    parser.add_argument("--patience", type=float, default=_PATIENCE_SECONDS, help="seconds without a trainer")
    parser.add_argument("--first-pause", type=float, default=1.0, help="seconds after a worker's end")
    options = parser.parse_args(arguments)
    told = os.environ.pop(options.secret_from, "") if options.secret_from else sys.stdin.readline()
    keeper = Keeper(
        host_and_port(options.address),
        bytes.fromhex(told.strip()),
        options.workers,
        patience=options.patience,
        first_pause=options.first_pause,
    )
    try:
        keeper.run()
    except _Ended as end:
        sys.stderr.write(f"loaderkit keeper: {end}\n")
        return end.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
