"""How a keeper's connection becomes a worker's: both sides as machines, bytes in and bytes out, without a socket.

    keeper                                   trainer
    LKREMOTE1, loader id, nonce a       ->
                                        <-   nonce b, HMAC(secret, "trainer" id a b)
    HMAC(secret, "keeper" id a b)       ->
    FACTS                               ->
                                        <-   REFUSED, or START and PROGRAM ...
    DESCRIBED                           ->
                                        <-   REFUSED, or ACCEPTED

Each side proves that it knows the loader's secret before the other one does anything for it. From the keeper's proof on
all are sealed messages (frames.py), with a key for each direction, made of the secret and both nonces. The trainer
unpickles nothing here, and takes no message over `MOST_BEFORE`; the keeper takes a program.
"""

import hmac
import json
from collections.abc import Callable, Generator, Iterator, Sequence
from hashlib import blake2b
from typing import Any

from loaderkit._base.system.dataclasses import dataclass, field

from . import frames
from .frames import KEY_NBYTES, FrameError, Opener, Sealer

MAGIC = b"LKREMOTE1"
NONCE_NBYTES = 32
MOST_BEFORE = 4096  # bytes of a message to the trainer
MOST_AFTER = 64 << 20  # bytes of a message behind ACCEPTED: an exception of a user's may have 16 MB
_MOST_TO_KEEPER = 256 << 20
_PIECE = 1 << 20  # bytes of a PROGRAM
_ID = 16
_PROOF = 32


@dataclass(frozen=True, slots=True)
class Start:
    """What a trainer gives a keeper that it lets in.

    Args:
        name: of the program; a keeper that has it isn't sent it again.
        parts: the first messages to a worker, and the contents of the buffers that their pickle refers to.
        settings: further entries of the START, JSON values.
    """

    name: str
    parts: Sequence[bytes | memoryview]
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Session:
    """An accepted connection, for both sides.

    sealer, opener: of its messages. facts: of the keeper's host. answer: what its worker told of itself.
    settings: of the Start.
    """

    sealer: Sealer
    opener: Opener
    facts: dict[str, Any]
    answer: dict[str, Any]
    settings: dict[str, Any]


class Stopped(Exception):  # noqa: N818 - it is an outcome of a handshake
    """A handshake has come to an end without a session.

    wrong_secret: whether the other side doesn't know the secret. refused: whether the trainer said so.
    """

    def __init__(self, why: str, *, wrong_secret: bool = False, refused: bool = False) -> None:
        super().__init__(why)
        self.wrong_secret, self.refused = wrong_secret, refused


class _Handshake:
    """What both sides share. `_steps` runs up to where it needs bytes that haven't come."""

    def __init__(self, secret: bytes, most: int) -> None:
        self._secret, self._most = secret, most
        self._received = bytearray()
        self._to_send = bytearray()
        self._sealer, self._opener = Sealer(bytes(KEY_NBYTES)), Opener(bytes(KEY_NBYTES), 0)
        self.facts: dict[str, Any] = {}
        self.proven = False  # whether the other side knows the secret
        self.session: Session | None = None
        self.stopped: Stopped | None = None
        self._going = self._steps()
        self.receive(b"")

    def _steps(self) -> Iterator[None]:
        raise NotImplementedError

    def receive(self, received: bytes) -> None:
        """Takes bytes of the other side. Afterwards `session` or `stopped` may be there, and bytes to send."""
        if self.session is not None or self.stopped is not None:
            return
        (self._opener.received if self.proven else self._received).extend(received)
        try:
            next(self._going, None)
            if not self.proven and len(self._received) > MOST_BEFORE:
                raise Stopped("it sends more than a proof")
        except Stopped as stopped:
            self.stopped = stopped
        except Exception as error:  # noqa: BLE001 - whatever it sent, no more than its connection ends
            self.stopped = Stopped(f"it doesn't keep the protocol: {error!r}")

    def take(self) -> bytes:
        """The next bytes to send."""
        taken, self._to_send = bytes(self._to_send), bytearray()
        return taken

    def _exactly(self, count: int) -> Generator[None, None, bytes]:
        while len(self._received) < count:
            yield
        taken = bytes(self._received[:count])
        del self._received[:count]
        return taken

    def _message(self, expected: int) -> Generator[None, None, bytes]:
        """The body of the next message, which is of this kind, or a refusal."""
        while (found := self._opener.next()) is None:
            yield
        kind, body = found
        if kind == frames.REFUSED:
            raise Stopped(body.decode(errors="replace"), refused=True)
        if kind != expected:
            raise FrameError(f"a message of kind {kind}: expected {expected}")
        return body

    def _send(self, kind: int, body: bytes = b"") -> None:
        self._to_send += self._sealer.seal(kind, body)

    def _use_keys(self, nonces: bytes, *, down: bool) -> None:
        """From now on messages are sealed. down: whether this is the trainer."""
        keys = [_hmac(self._secret, label + nonces) for label in (b"down", b"up")]
        self._sealer, self._opener = Sealer(keys[not down]), Opener(keys[down], self._most)
        self._opener.received, self._received = self._received, bytearray()
        self.proven = True

    def _finish(self, answer: dict[str, Any], settings: dict[str, Any]) -> None:
        self._opener.most = MOST_AFTER
        self.session = Session(self._sealer, self._opener, self.facts, answer, settings)


class TrainerHandshake(_Handshake):
    """The trainer's side.

    Args:
        secret: of the loader.
        nonce: `NONCE_NBYTES` random bytes, for this connection only.
        admit: gets the facts of a host, and gives a Start or why it is refused.
        judge: gets what its worker told of itself, and gives why it is refused, or None.
    """

    def __init__(
        self,
        secret: bytes,
        nonce: bytes,
        admit: Callable[[dict[str, Any]], Start | str],
        judge: Callable[[dict[str, Any]], str | None],
    ) -> None:
        self._nonce, self._admit, self._judge = nonce, admit, judge
        self._program: Iterator[bytes] = iter(())
        self.told_facts = False
        super().__init__(secret, MOST_BEFORE)

    def _steps(self) -> Iterator[None]:
        if (yield from self._exactly(len(MAGIC))) != MAGIC:
            raise Stopped("it isn't a keeper of this version")
        if (yield from self._exactly(_ID)) != loader_id(self._secret):
            raise Stopped("it is a keeper of another loader", wrong_secret=True)
        nonces = loader_id(self._secret) + (yield from self._exactly(NONCE_NBYTES)) + self._nonce
        self._to_send += self._nonce + _hmac(self._secret, b"trainer" + nonces)
        proof = yield from self._exactly(_PROOF)
        if not hmac.compare_digest(proof, _hmac(self._secret, b"keeper" + nonces)):
            raise Stopped("it has another secret", wrong_secret=True)
        self._use_keys(nonces, down=True)
        self.facts = _json_object((yield from self._message(frames.FACTS)))
        self.told_facts = True
        start = self._admit(self.facts)
        if isinstance(start, str):
            self._refuse(start)
            return
        self._send_start(start)
        answer = _json_object((yield from self._message(frames.DESCRIBED)))
        refused = self._judge(answer)
        if refused is not None:
            self._refuse(refused)
            return
        self._send(frames.ACCEPTED)
        self._finish(answer, start.settings)

    def _refuse(self, why: str) -> None:
        self._send(frames.REFUSED, why.encode(errors="replace"))
        self.stopped = Stopped(why, refused=True)

    def _send_start(self, start: Start) -> None:
        sizes = [len(part) for part in start.parts]
        told = {"name": start.name, "sizes": sizes, "settings": start.settings}
        self._send(frames.START, json.dumps(told).encode())
        if self.facts.get("program") != start.name:
            self._program = _pieces(start.parts)

    def take(self) -> bytes:
        """The next bytes to send; a program comes piece by piece."""
        if not self._to_send:
            for piece in self._program:
                self._send(frames.PROGRAM, piece)
                break
        return super().take()


class KeeperHandshake(_Handshake):
    """The keeper's side.

    Args:
        secret: of the loader.
        nonce: `NONCE_NBYTES` random bytes, for this connection only.
        facts: of this host, JSON values of less than `MOST_BEFORE` bytes.
        program: the name of the program that this keeper has, "" for none.

    When `started` is there, the keeper has `settings`, and the parts of the program in `parts` unless it has them; it
    starts a worker and calls `answer`.
    """

    def __init__(self, secret: bytes, nonce: bytes, facts: dict[str, Any], program: str) -> None:
        self._nonce = nonce
        self._own = {**facts, "program": program}
        self.started = ""  # the name of the program
        self.parts: list[bytearray] = []
        self.settings: dict[str, Any] = {}
        self._answer: bytes | None = None
        super().__init__(secret, _MOST_TO_KEEPER)

    def _steps(self) -> Iterator[None]:
        self._to_send += MAGIC + loader_id(self._secret) + self._nonce
        nonces = loader_id(self._secret) + self._nonce + (yield from self._exactly(NONCE_NBYTES))
        proof = yield from self._exactly(_PROOF)
        if not hmac.compare_digest(proof, _hmac(self._secret, b"trainer" + nonces)):
            raise Stopped("the trainer has another secret", wrong_secret=True)
        self._to_send += _hmac(self._secret, b"keeper" + nonces)
        self._use_keys(nonces, down=False)
        self.facts = self._own
        self._send(frames.FACTS, json.dumps(self._own).encode())
        told = _json_object((yield from self._message(frames.START)))
        self.settings = told["settings"]
        if told["name"] != self._own["program"]:
            for size in told["sizes"]:
                self.parts.append(bytearray())
                while len(self.parts[-1]) < size:
                    self.parts[-1] += yield from self._message(frames.PROGRAM)
        self.started = told["name"]
        while self._answer is None:
            yield
        self._send(frames.DESCRIBED, self._answer)
        yield from self._message(frames.ACCEPTED)
        self._finish(_json_object(self._answer), self.settings)

    @property
    def answered(self) -> bool:
        """Whether `answer` was called."""
        return self._answer is not None

    def answer(self, answer: bytes) -> None:
        """What the worker told of itself, as JSON of at most `MOST_BEFORE` bytes."""
        self._answer = answer
        self.receive(b"")


def loader_id(secret: bytes) -> bytes:
    """What names a loader to its keepers without its secret."""
    return blake2b(b"loader", key=secret, digest_size=_ID).digest()


def _hmac(secret: bytes, message: bytes) -> bytes:
    return hmac.digest(secret, message, "sha256")


def _pieces(parts: Sequence[bytes | memoryview]) -> Iterator[bytes]:
    for part in parts:
        for first in range(0, len(part), _PIECE):
            yield bytes(part[first : first + _PIECE])


def _json_object(body: bytes) -> dict[str, Any]:
    found = json.loads(body)
    if not isinstance(found, dict):
        raise FrameError(f"expected a JSON object, got {type(found).__name__}")
    return found
