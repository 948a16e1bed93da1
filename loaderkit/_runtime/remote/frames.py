"""The messages of a connection between a trainer and a keeper, each numbered and sealed.

    uint8 kind | uint32 length of the body | 16 bytes of seal | the body

The seal is a keyed BLAKE2b of the message's number on its side of the connection, its head and its body: a message that
was changed, left out, repeated or made by another process is a FrameError, after which nothing is read. No byte of a
body is looked at before its seal. Bytes between two messages are read by `take`: the rows behind a ROWS, whose checksum
it has.
"""

import struct
from collections.abc import Callable
from hashlib import blake2b
from typing import Any
from zlib import crc32

import numpy as np

from loaderkit._codecs.checksums import extended_crc32c, has_fast_crc32c

# TASK, LAYOUT, RECALL, CANDIDATES, NUMERICS and REPLACEMENT_REQUESTED have the numbers of transport/wire.py, and all
# but LAYOUT the bodies.
# From the trainer.
START = 64  # as JSON: what the keeper needs to begin
PROGRAM = 65  # the next bytes of the program
REFUSED = 66  # why, as text
ACCEPTED = 67  # tasks follow
PING = 68  # any bytes
# From the keeper.
FACTS = 80  # of its host, as JSON
DESCRIBED = 81  # as JSON: what its worker set up, or why it couldn't
ROWS = 82  # what rows.py says: a result; its rows and its output follow the message
PONG = 83  # the bytes of the PING, then the page of the worker's heartbeat
DOWN = 84  # the worker has ended: how, as text

KEY_NBYTES = 32
_HEAD = struct.Struct("<BI")
_NUMBER = struct.Struct("<Q")
_SEAL = 16
HEAD_NBYTES = _HEAD.size + _SEAL


class FrameError(ValueError):
    """What arrived isn't what the other side sends next."""


class Sealer:
    """Makes the messages of one side.

    Args:
        key: of this direction, `KEY_NBYTES` bytes.
    """

    def __init__(self, key: bytes) -> None:
        self._key, self._number = key, 0

    def seal(self, kind: int, body: bytes = b"") -> bytes:
        """The next message."""
        head = _HEAD.pack(kind, len(body))
        seal = _seal_of(self._key, self._number, head, body)
        self._number += 1
        return b"".join((head, seal, body))


class Opener:
    """Reads the messages of the other side.

    Args:
        key: of that direction.
        most: bytes of a body; a longer one is a FrameError before it is received.

    received: bytes that aren't read yet.

    >>> opener = Opener(b"k" * KEY_NBYTES, most=100)
    >>> opener.received += Sealer(b"k" * KEY_NBYTES).seal(PING, b"now") + b"rows"
    >>> opener.next() == (PING, b"now"), opener.take(4)
    (True, b'rows')
    """

    def __init__(self, key: bytes, most: int) -> None:
        self._key, self._number = key, 0
        self.most = most
        self.received = bytearray()

    def next(self) -> tuple[int, bytes] | None:
        """Kind and body of the next message; None while it isn't whole. FrameError where it is none."""
        received = self.received
        if len(received) < HEAD_NBYTES:
            return None
        kind, length = _HEAD.unpack_from(received)
        if length > self.most:
            raise FrameError(f"a message of {length:,} bytes: expected at most {self.most:,}")
        end = HEAD_NBYTES + length
        if len(received) < end:
            return None
        body = bytes(received[HEAD_NBYTES:end])
        seal = _seal_of(self._key, self._number, bytes(received[: _HEAD.size]), body)
        if seal != received[_HEAD.size : HEAD_NBYTES]:
            raise FrameError(f"message {self._number} doesn't have its seal")
        self._number += 1
        del received[:end]
        return kind, body

    def take(self, most: int) -> bytes:
        """Up to so many of the bytes behind the last message."""
        taken = bytes(self.received[:most])
        del self.received[:most]
        return taken


def _seal_of(key: bytes, number: int, head: bytes, body: bytes) -> bytes:
    # Not compared in constant time: a connection ends with its first wrong seal, and each has keys of its own.
    seal = blake2b(_NUMBER.pack(number) + head, key=key, digest_size=_SEAL)
    seal.update(body)
    return seal.digest()


Checksum = Callable[[int, memoryview], int]


def fast_checksum() -> str:
    """The name of the checksum of rows that this host computes best."""
    return "crc32c" if has_fast_crc32c() else "crc32"


def checksum_named(name: str) -> Checksum:
    """The function that continues a checksum with the bytes that follow; KeyError for another name than those two."""
    if name == "crc32":
        return lambda before, part: crc32(part, before)
    extend: Any = {"crc32c": extended_crc32c}[name]()
    # The library takes no memoryview that can be written to.
    return lambda before, part: int(extend(before, np.frombuffer(part, np.uint8))) if part else before
