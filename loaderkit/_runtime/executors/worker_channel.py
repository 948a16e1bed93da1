"""The trainer's side of a worker's channel, whatever its messages look like on the way."""

import contextlib
import socket
from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np

from loaderkit._runtime.transport import wire

from .worker import Event, Worker


class WorkerChannel(Worker):
    """A worker behind a socket, and what it is told. A subclass says how a message of a kind is framed.

    connection: the socket, which doesn't block. open: whether more may come through it.
    pidfd: can be read when the worker has ended; None where nothing but `has_ended` tells.
    elsewhere: whether it is on another machine.
    on_blocked: called where a message has to wait because the channel is full.
    """

    connection: socket.socket
    pidfd: int | None
    open: bool
    elsewhere = False
    on_blocked: Callable[["WorkerChannel"], None] | None = None
    _unsent: bytearray

    def receive(self) -> None:
        """Receives what `read` will tell of, where that takes long; the only method that needs no lock."""

    def read(self) -> list[Event]:
        """The events that arrived; `open` says whether more may come."""
        raise NotImplementedError

    def kill(self) -> None:
        """Ends it whatever it does; doesn't wait."""
        raise NotImplementedError

    def _framed(self, kind: int, body: bytes) -> bytes:
        raise NotImplementedError

    def recall(self, tasks: Sequence[tuple[int, int]]) -> None:
        self._send(wire.RECALL, wire.numbers(*chain.from_iterable(tasks)))

    def send_candidates(self, indices: np.ndarray, keys: np.ndarray) -> None:
        self._send(wire.CANDIDATES, indices.tobytes() + keys.tobytes())

    def trace(self, on: bool) -> None:
        self._send(wire.TRACE, wire.numbers(on))

    def dismiss(self) -> None:
        # Closing isn't enough: a child that the user forked may hold another descriptor of it.
        with contextlib.suppress(OSError):  # the worker has ended already
            self.connection.shutdown(socket.SHUT_RDWR)

    def _send(self, kind: int, body: bytes) -> None:
        self._unsent += self._framed(kind, body)
        self.flush()

    def flush(self) -> None:
        """Sends what the channel takes. An error is ignored here: reading from the channel finds it too."""
        while self._unsent:
            try:
                sent = self.connection.send(self._unsent)
            except BlockingIOError:
                if self.on_blocked is not None:
                    self.on_blocked(self)
                return
            except OSError:
                sent = len(self._unsent)
            del self._unsent[:sent]

    @property
    def blocked(self) -> bool:
        """Whether a message is waiting because the channel is full."""
        return bool(self._unsent)
