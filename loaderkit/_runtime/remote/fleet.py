"""The fleet of a loader: a child process has keepers started on other hosts, and this is the trainer's side of it.

The caller waits for `fileno()` together with its other descriptors and calls `serve`, which never blocks. The process
may end at any time, and its keepers with it: another is started after a while, the user is warned once, and the trainer
goes on with the workers that it has. It ends with the trainer, and not with the thread that started it.
"""

import math
import os
import pickle
import selectors
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress

from loaderkit._base.notes import text_of
from loaderkit._base.system.dataclasses import dataclass, field
from loaderkit._base.system.limits import above_standard, naming_limits
from loaderkit._runtime.start.driver import FAILED, READY, SETTINGS, START_SECONDS, event_of
from loaderkit._runtime.start.launch import how_it_ended, launched
from loaderkit._runtime.transport import wire
from loaderkit.errors import ClusterError, WorkerError

from .connection import address_text, host_and_port
from .fleet_process import ADDRESS, WANTED
from .outbox import Outbox
from .pauses import Pauses
from .remote_workers import RemoteWorkers

_ANY_HOST = ("0.0.0.0", "::")  # what a user may write
_END_SECONDS = 2.0  # for a killed process to end
_IDLE_SECONDS = 60.0  # from one `serve` to the next: the caller's stream was closed
_CHUNK = 1 << 16


@dataclass(slots=True)
class _FleetProcess:
    """The process. until: when it is late with its first event. wanted: how many workers it was told."""

    connection: socket.socket
    process: "subprocess.Popen[bytes]"
    until: float
    wanted: int = 0
    received: bytearray = field(default_factory=bytearray)
    outbox: Outbox = field(default_factory=Outbox)

    def end(self) -> str:
        self.connection.close()
        self.process.kill()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_END_SECONDS)
        return how_it_ended(self.process.returncode)


class Fleet:
    """Has workers started on other hosts, from the first `serve` on.

    Args:
        workers: which.
        secret: of the loader.
        open_door: gets the host and the port to listen at, 0 for any, and gives those of the Door that it opens there,
            or has open there since the last call. Its OSError is told, and it is called again.
        on_trouble: is called in `serve` with what the user should know, each text once.
    """

    def __init__(
        self,
        workers: RemoteWorkers,
        secret: bytes,
        *,
        open_door: Callable[[str, int], tuple[str, int]],
        on_trouble: Callable[[str], None],
    ) -> None:
        self._workers, self._secret, self._wanted = workers, secret, workers.count
        self._open_door, self._on_trouble = open_door, on_trouble
        self._trainer = os.getpid()
        self._served = -math.inf
        self._told: set[str] = set()
        self._child: _FleetProcess | None = None
        self._pauses = Pauses()
        with naming_limits("the process for workers on other hosts"), above_standard():
            self._selector = selectors.DefaultSelector()

    def fileno(self) -> int:
        """A descriptor that is readable when `serve` has something to do at once."""
        return self._selector.fileno()

    def resize(self, workers: int) -> None:
        """So many workers are wanted in all from the next `serve` on."""
        self._wanted = workers

    def serve(self, now: float) -> None:
        """Does what can be done without waiting; also to be called each few seconds. now: on a monotonic clock."""
        try:
            if self._child is None and now >= self._pauses.due:
                self._child = self._start(now)
            if self._child is not None:
                self._go_on(self._child, now)
        except (ClusterError, WorkerError, OSError) as error:
            self._end()
            self._pauses.ended(now)
            self._tell(f"{text_of(error).rstrip('.')}. It is tried again; meanwhile the workers here do all")
        self._served = now

    def close(self) -> None:
        """Ends the process and with it all keepers; a fork of the trainer only leaves them."""
        if os.getpid() == self._trainer:
            self._end()
        self._selector.close()

    def _end(self) -> str:
        """Ends the process, and says how it has ended."""
        child, self._child = self._child, None
        if child is None:
            return ""
        self._selector.unregister(child.connection)  # a fork may have it open
        return child.end()

    def _tell(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._on_trouble(text)

    def _start(self, now: float) -> _FleetProcess:
        self._pauses.began(now)
        child = _FleetProcess(
            *launched((), self._workers.driver, ends_with_thread=False), now + START_SECONDS
        )
        self._selector.register(child.connection, selectors.EVENT_READ)
        settings = {**self._workers.settings(), "secret": self._secret.hex(), "path": [*sys.path]}
        child.outbox.put([wire.frame(SETTINGS, pickle.dumps(settings))])
        return child

    def _go_on(self, child: _FleetProcess, now: float) -> None:
        if self._hear(child, now):
            raise ClusterError(
                f"the process that talks to the cluster ended with {self._end()}: it was killed, or has lost the "
                "cluster's head, as its output says"
            )
        if now >= child.until:
            raise ClusterError(f"the cluster gave no answer in {START_SECONDS:.0f} s; is its address right?")
        if child.until == math.inf and child.wanted != self._wanted:
            child.wanted = self._wanted
            child.outbox.put([wire.frame(WANTED, wire.numbers(child.wanted))])
        child.outbox.send(child.connection)
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if child.outbox else 0)
        self._selector.modify(child.connection, events)

    def _hear(self, child: _FleetProcess, now: float) -> bool:
        """Handles what the process has said; whether it has ended."""
        received = b"-"
        try:
            while received:
                received = child.connection.recv(_CHUNK)
                child.received += received
        except BlockingIOError:
            pass
        except ConnectionError:
            received = b""
        for event in (event_of(*message) for message in wire.split(child.received)):
            text = event.body.decode()
            if event.kind == FAILED:
                raise ClusterError(text)
            if event.kind == READY:
                child.until = math.inf
                child.outbox.put([wire.frame(ADDRESS, self._address(text).encode())])
            elif now - self._served < _IDLE_SECONDS:  # else the door was closed to keepers meanwhile
                self._tell(text)
        return not received

    def _address(self, host: str) -> str:
        """Where keepers find the door of this host."""
        listen = self._workers.listen
        address = (host, 0) if listen is None else host_and_port(listen)
        try:
            opened, port = self._open_door(*address)
        except OSError as error:
            told = f"this process can't listen at {address_text(*address)}: {text_of(error)}"
            raise ClusterError(f"{told}. listen= says another HOST:PORT") from error
        return address_text(self._workers.advertise or (host if opened in _ANY_HOST else opened), port)
