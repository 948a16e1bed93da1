"""The door of a loader: where keepers of other hosts knock. It lets in those that know the secret and make equal bytes.

The caller waits for `fileno()` together with its other descriptors and calls `serve`, which never blocks. A connection
that is let in belongs to the caller from then on. Few may wait at a time, each for a limited time, and none costs more
than some kilobytes before it has proved that it knows the secret.
"""

import errno
import logging
import secrets
import selectors
import socket
from collections.abc import Callable, Mapping
from typing import Any

from loaderkit._base.system.dataclasses import dataclass, field
from loaderkit._base.system.limits import above_standard, naming_limits
from loaderkit._base.system.numerics import numerics
from loaderkit._runtime.start.first_messages import Parcel

from .connection import prepare
from .facts import host_facts, why_other_data, why_refused
from .handshake import NONCE_NBYTES, Session, Start, TrainerHandshake
from .outbox import Outbox

_MOST_WAITING = 64
_SECONDS = 10.0  # for a connection to say what its host is
_SET_UP_SECONDS = 60.0  # for its worker to be set up, and between two pieces of a program
_WARNING_SECONDS = 60.0  # from one warning of wrong secrets to the next
_DEAF_SECONDS = 1.0  # until a connection is accepted again, where there was no descriptor for one
_CHUNK = 1 << 16

_log = logging.getLogger("loaderkit")


@dataclass(frozen=True, slots=True)
class Offer:
    """What keepers are asked to do.

    Args:
        parcel: the program.
        description: of its source (_source/description.py).
        same_numerics: whether hosts are refused whose libraries compute other last bits.
        settings: for keepers, JSON values: the "level" of processors of their workers, seconds of "silence".
        numerics: gives the last bits that hosts are compared with.
    """

    parcel: Parcel
    description: Mapping[str, Any]
    same_numerics: bool = True
    settings: Mapping[str, Any] = field(default_factory=dict)
    numerics: Callable[[], Mapping[str, str]] = numerics


@dataclass(slots=True)
class _Guest:
    """A connection that isn't let in yet. until: when it is closed."""

    connection: socket.socket
    host: str
    handshake: TrainerHandshake
    until: float
    outbox: Outbox = field(default_factory=Outbox)


class Door:
    """Listens from its start on; lets keepers in while there is an offer.

    Args:
        address: host and port to listen at; 0 for any free port. OSError where that can't be.
        secret: of the loader, 32 bytes.
        on_arrival: is called in `serve` with a connection that was let in, and its session.
        on_refusal: is called in `serve` with the reason and the host's name.

    address: where keepers reach it.
    """

    def __init__(
        self,
        address: tuple[str, int],
        secret: bytes,
        *,
        on_arrival: Callable[[socket.socket, Session], None],
        on_refusal: Callable[[str, str], None],
    ) -> None:
        self._secret = secret
        self._on_arrival, self._on_refusal = on_arrival, on_refusal
        self._offer: Offer | None = None
        self._guests: dict[socket.socket, _Guest] = {}
        self._warn_at = 0.0
        self._deaf_until = 0.0  # for want of descriptors
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        with naming_limits("the port for workers on other hosts"), above_standard():
            self._listener = socket.create_server(address, family=family, backlog=2 * _MOST_WAITING)
            self._listener.setblocking(False)
            self._selector = selectors.DefaultSelector()
        self.address: tuple[str, int] = self._listener.getsockname()[:2]

    def fileno(self) -> int:
        """A descriptor that is readable when `serve` has something to do at once."""
        return self._selector.fileno()

    def offer(self, offer: Offer | None) -> None:
        """Lets keepers in from now on, or with None no longer; those at the door are sent away."""
        for guest in [*self._guests.values()]:
            self._dismiss(guest)
        self._offer = offer
        self._listen()

    def close(self) -> None:
        """Closes all that isn't let in."""
        self.offer(None)
        self._selector.close()
        self._listener.close()

    def serve(self, now: float) -> None:
        """Does what can be done without waiting; also to be called each few seconds. now: on a monotonic clock."""
        for key, mask in self._selector.select(0):
            if key.data is None:
                self._admit(now)
            elif key.data.connection in self._guests:
                self._serve(key.data, mask, now)
        for guest in [guest for guest in self._guests.values() if now >= guest.until]:
            self._dismiss(guest)
            if guest.handshake.told_facts:
                why = f"its worker wasn't set up in {_SET_UP_SECONDS:.0f} s"
                self._on_refusal(why, str(guest.handshake.facts.get("host", guest.host)))
        if self._deaf_until and now >= self._deaf_until:
            self._deaf_until = 0.0
            self._listen()

    def _listen(self) -> None:
        listens = self._offer is not None and len(self._guests) < _MOST_WAITING and not self._deaf_until
        if listens and self._listener not in self._selector.get_map():
            self._selector.register(self._listener, selectors.EVENT_READ, None)
        elif not listens and self._listener in self._selector.get_map():
            self._selector.unregister(self._listener)

    def _admit(self, now: float) -> None:
        try:
            with above_standard():
                connection, address = self._listener.accept()
        except OSError as error:
            # It stays there to be accepted, and would wake the caller again and again.
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                self._deaf_until = now + _DEAF_SECONDS
                self._listen()
            return  # else it has left again
        try:
            prepare(connection)
        except OSError:  # it has left again
            connection.close()
            return
        nonce = secrets.token_bytes(NONCE_NBYTES)
        handshake = TrainerHandshake(self._secret, nonce, self._welcome, self._judge)
        guest = _Guest(connection, str(address[0]), handshake, now + _SECONDS)
        self._guests[connection] = guest
        self._selector.register(connection, selectors.EVENT_READ, guest)
        self._listen()

    def _welcome(self, facts: dict[str, Any]) -> Start | str:
        assert self._offer is not None
        ours = host_facts()
        refused = why_refused(ours, facts)
        if refused is not None:
            return refused
        checksum = ours["checksum"] if ours["checksum"] == facts["checksum"] else "crc32"
        parcel = self._offer.parcel
        return Start(parcel.name, parcel.parts, {**self._offer.settings, "checksum": checksum})

    def _judge(self, answer: dict[str, Any]) -> str | None:
        assert self._offer is not None
        ours = {**self._offer.description, "numerics": self._offer.numerics()}
        return why_other_data(ours, answer, numerics=self._offer.same_numerics)

    def _serve(self, guest: _Guest, mask: int, now: float) -> None:
        handshake = guest.handshake
        try:
            if mask & selectors.EVENT_READ:
                received = guest.connection.recv(_CHUNK)
                if not received:
                    raise ConnectionError("it was closed there")
                handshake.receive(received)
            guest.outbox.send(guest.connection)
            while not guest.outbox and (piece := handshake.take()):
                guest.outbox.put([piece])
                guest.outbox.send(guest.connection)
        except BlockingIOError:
            return  # there was nothing to read after all
        except OSError:
            self._dismiss(guest)
            return
        if handshake.told_facts:
            guest.until = now + _SET_UP_SECONDS
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if guest.outbox else 0)
        self._selector.modify(guest.connection, events, guest)
        if not guest.outbox:
            self._settle(guest, now)

    def _settle(self, guest: _Guest, now: float) -> None:
        """What follows where all is sent: it is let in, sent away, or stays."""
        handshake, stopped = guest.handshake, guest.handshake.stopped
        if handshake.session is not None:
            self._forget(guest)
            self._on_arrival(guest.connection, handshake.session)
        elif stopped is not None:
            self._dismiss(guest)
            if stopped.refused:
                self._on_refusal(str(stopped), str(handshake.facts.get("host", guest.host)))
            elif stopped.wrong_secret and now >= self._warn_at:
                self._warn_at = now + _WARNING_SECONDS
                _log.warning(
                    "workers on other hosts: a connection from %s was closed: %s", guest.host, stopped
                )

    def _forget(self, guest: _Guest) -> None:
        del self._guests[guest.connection]
        self._selector.unregister(guest.connection)
        self._listen()

    def _dismiss(self, guest: _Guest) -> None:
        self._forget(guest)
        guest.connection.close()
