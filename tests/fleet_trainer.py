"""A trainer that only lets workers in: a fleet, its door, and the loop that serves both."""

import contextlib
import os
import select
import selectors
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any

from loaderkit._runtime.remote.door import Door, Offer
from loaderkit._runtime.remote.fleet import Fleet
from loaderkit._runtime.remote.handshake import Session
from loaderkit._runtime.start.first_messages import pack_parcel
from loaderkit._runtime.transport.pickling import Packer
from loaderkit._runtime.worker.program import Program
from loaderkit._runtime.worker.reading import ReadOptions
from loaderkit._source.description import described

SECRET = b"s" * 32
PATIENCE_S = 120.0


class FleetTrainer:
    """Serves a fleet and its door.

    arrived: the keeper's pid of each worker that was let in, by its connection. told: troubles. refused: hosts with the
    reason. asked: where the door was to be opened. later: seconds by which the clock is ahead.
    """

    def __init__(self, workers: Any, source: Any = range(4)) -> None:
        self.arrived: dict[socket.socket, int] = {}
        self.told: list[str] = []
        self.refused: list[str] = []
        self.asked: list[tuple[str, int]] = []
        self.later = 0.0
        self._source = source
        self.door: Door | None = None
        self.selector = selectors.DefaultSelector()
        self.fleet = Fleet(workers, SECRET, open_door=self._open, on_trouble=self.told.append)
        self.selector.register(self.fleet, selectors.EVENT_READ)

    def __enter__(self) -> "FleetTrainer":
        return self

    def __exit__(self, *_: object) -> None:
        self.fleet.close()
        for connection in self.arrived:
            connection.close()
        if self.door is not None:
            self.door.close()
        self.selector.close()

    def _open(self, host: str, port: int) -> tuple[str, int]:
        self.asked.append((host, port))
        if self.door is None:
            self.door = Door(
                (host, port),
                SECRET,
                on_arrival=self._arrive,
                on_refusal=lambda why, host: self.refused.append(f"{host}: {why}"),
            )
            program = Program(self._source, (), 7, ReadOptions(), row_changing=True)
            self.door.offer(Offer(pack_parcel(program, Packer()), described(program.source)))
            self.selector.register(self.door, selectors.EVENT_READ)
        return self.door.address

    def _arrive(self, connection: socket.socket, session: Session) -> None:
        self.arrived[connection] = session.facts["keeper"]

    def until(self, condition: Callable[[], Any]) -> None:
        """Serves both until then; workers whose connection has ended are forgotten."""
        limit = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < limit, (self.told, self.refused)
            self.selector.select(0.05)
            now = time.monotonic() + self.later
            self.fleet.serve(now)
            if self.door is not None:
                self.door.serve(now)
            for connection in [*self.arrived]:
                with contextlib.suppress(BlockingIOError):
                    if _has_ended(connection):
                        connection.close()
                        del self.arrived[connection]

    @property
    def keepers(self) -> set[int]:
        """The pids of those whose workers are here."""
        return {*self.arrived.values()}


def _has_ended(connection: socket.socket) -> bool:
    """Whether the other side is gone; BlockingIOError where it has nothing to say."""
    try:
        return not connection.recv(1 << 16)
    except ConnectionError:
        return True


def ended(pidfds: Sequence[int]) -> bool:
    """Whether these processes end soon; their descriptors are closed."""
    found = [bool(select.select([pidfd], [], [], PATIENCE_S)[0]) for pidfd in pidfds]
    for pidfd in pidfds:
        os.close(pidfd)
    return all(found)
