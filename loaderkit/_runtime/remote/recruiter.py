"""Finds workers of other machines for the pools of one loader: the secret, the port and the fleet outlive each pool.

One pool at a time has what is found; the latest that asked. Keepers whose pool has ended dial again, and come to the
next. A fork of the trainer has none: it shares the port and the fleet's channel, and leaves both alone.
"""

import contextlib
import os
import secrets
import selectors
import socket
import threading
from collections.abc import Iterator

from loaderkit._base.system.dataclasses import dataclass, field
from loaderkit._base.system.limits import above_standard, naming_limits

from .door import Door, Offer
from .fleet import Fleet
from .handshake import Session
from .remote_workers import RemoteWorkers


@dataclass(slots=True)
class News:
    """What came since the last call.

    arrivals: connections that were let in, and their sessions. refusals: why, and the host's name. troubles: what a
    user should know of.
    """

    arrivals: list[tuple[socket.socket, Session]] = field(default_factory=list)
    refusals: list[tuple[str, str]] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)


class Recruiter:
    """What a loader has of other machines.

    Args:
        wanted: which workers, and how many at most.

    All but `close` is called by pumps.
    """

    def __init__(self, wanted: RemoteWorkers) -> None:
        self.wanted = wanted
        self._trainer = os.getpid()
        self._lock = threading.Lock()
        self._secret = secrets.token_bytes(32)
        self._owner: object = None
        self._offer: Offer | None = None
        self._door: Door | None = None
        self._fleet: Fleet | None = None
        self._selector: selectors.DefaultSelector | None = None
        self._news = News()
        self.had_any = False  # a worker was let in, once
        self._asked_to_close = self._closed = False

    def attach(self, owner: object, offer: Offer, workers: int) -> int | None:
        """Keepers come to this owner from now on, in place of the one before.

        Returns a descriptor that is readable when `serve` has something to do; None where the loader was closed.

        Args:
            owner: has what `serve` gives.
            offer: what they are asked to do.
            workers: how many are wanted.
        """
        with self._held():
            if self._closed:
                return None
            if self._selector is None:
                with naming_limits("the selector for workers on other machines"), above_standard():
                    self._selector = selectors.DefaultSelector()
            if self._fleet is None:  # the system may have refused the one and given the other
                fleet = Fleet(
                    self.wanted, self._secret, open_door=self._open_door, on_trouble=self._on_trouble
                )
                self._selector.register(fleet, selectors.EVENT_READ, None)
                self._fleet = fleet
            self._fleet.resize(workers)
            self._owner, self._offer, self._news = owner, offer, News()
            if self._door is not None:
                self._door.offer(offer)
            return self._selector.fileno()

    @property
    def closed(self) -> bool:
        """Whether the loader has ended, or this is a fork of its process."""
        return self._asked_to_close or os.getpid() != self._trainer

    def resize(self, owner: object, workers: int) -> None:
        """Another number of workers is wanted from now on."""
        if self.closed:
            return
        with self._held():
            if self._owner is owner and self._fleet is not None:
                self._fleet.resize(workers)

    def serve(self, owner: object, now: float) -> News | None:
        """What came; to be called each second, too. None where another owner has it now, or the loader was closed."""
        with self._held():
            if self._owner is not owner or self._closed:
                return None
            assert self._fleet is not None
            self._fleet.serve(now)
            if self._door is not None:
                self._door.serve(now)
            news, self._news = self._news, News()
            return news

    def detach(self, owner: object) -> None:
        """The owner needs no workers any more."""
        if self.closed:
            return
        with self._held():
            if self._owner is owner:
                self._owner = self._offer = None
                if self._door is not None:
                    self._door.offer(None)

    def close(self) -> None:
        """Ends fleet and keepers; may be called from anywhere, the garbage collector included."""
        self._asked_to_close = True
        if os.getpid() != self._trainer:
            return
        if not self._lock.acquire(blocking=False):
            return  # who has the lock looks when it has let go
        try:
            if not self._closed:
                self._closed = True
                for each in (self._fleet, self._door, self._selector):
                    if each is not None:
                        each.close()
        finally:
            self._lock.release()

    @contextlib.contextmanager
    def _held(self) -> Iterator[None]:
        try:
            with self._lock:
                yield
        finally:
            if self._asked_to_close:
                self.close()

    # --- called in `serve` --------------------------------------------------------------------------------------

    def _open_door(self, host: str, port: int) -> tuple[str, int]:
        if self._door is None:
            assert self._selector is not None
            self._door = Door(
                (host, port), self._secret, on_arrival=self._on_arrival, on_refusal=self._on_refusal
            )
            self._selector.register(self._door, selectors.EVENT_READ, None)
            self._door.offer(self._offer)
        return self._door.address

    def _on_arrival(self, connection: socket.socket, session: Session) -> None:
        self.had_any = True
        self._news.arrivals.append((connection, session))

    def _on_refusal(self, why: str, host: str) -> None:
        self._news.refusals.append((why, host))

    def _on_trouble(self, text: str) -> None:
        self._news.troubles.append(text)
