"""The feeder's process: plans which chunks a loader needs next, and fetches them into the cache.

It ends with its trainer as a worker does: the kernel kills it when the trainer's thread that started it ends, and the
closing of its channel ends it. It may be killed at any moment: the workers then fetch chunks themselves.
"""

import os
import pickle
import socket
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from typing import Any

import numpy as np

from loaderkit._base.system.dataclasses import dataclass
from loaderkit._base.system.module_import import unpickling_program
from loaderkit._runtime.transport import wire
from loaderkit._storage.cache.chunk_feed import ChunkFeed
from loaderkit._storage.cache.joint_feed import JointChunkFeed

from .coming_chunks import ComingChunks, Int64Array, NextUses

# Kinds, after those of `transport/wire.py`. PREPARE is the same as a worker's.
FEED = 32  # a pickled ChunkFeed
BEGIN = 33  # a pickled Beginning: what was planned before is dropped
GIVEN = 34  # numbers: of which beginning, then how many records each of its feeds has given out
_RECEIVED = 1 << 20  # bytes read from the channel at once
# Bytes and chunks that a thread fetches together, and threads: while the last chunks of one come and are written, those
# of the other are in flight, as many as a range reader has.
_TOGETHER_BYTES, _TOGETHER, _THREADS = 32 << 20, 32, 2
# After a failed fetch, doubled each time: workers raise the error if it lasts.
_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 10.0
_LOOK_SECONDS = 1.0  # how often the room is asked for while it is full: other loaders may have ended


@dataclass(frozen=True, slots=True)
class Beginning:
    """A stream that begins: at a start, after a seek, in another epoch.

    number: of beginnings before it. feeds: as they are before the first record. next_uses: of the sampler, None where
    it doesn't say. records: of the source.
    """

    number: int
    feeds: Sequence[Any]
    next_uses: NextUses | None
    records: int


class FeederProcess:
    """What runs in the process: threads that fetch, and one that hears the trainer.

    Args:
        connection: to the trainer.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._changed = threading.Condition()
        self._feed: ChunkFeed | JointChunkFeed | None = None
        self._coming: ComingChunks | None = None
        self._number = -1  # of the stream's beginning
        self._starting = False  # while workers may read records without their chunks

    def listen(self) -> None:
        """Handles messages until the channel ends, and then ends the process."""
        received = bytearray()
        while data := self._connection.recv(_RECEIVED):
            received += data
            for kind, body in wire.split(received):
                with self._changed:
                    self._handle(kind, body)
                    self._changed.notify_all()

    def _handle(self, kind: int, body: bytes) -> None:
        if kind == wire.PREPARE:
            pickle.loads(body).apply()
        elif kind == FEED:
            with unpickling_program():
                self._feed = pickle.loads(body)
            self._feed.evict_by(self._next_use)
        elif kind == BEGIN:
            with unpickling_program():
                beginning: Beginning = pickle.loads(body)
            assert self._feed is not None
            self._number, self._starting = beginning.number, True
            self._coming = ComingChunks(
                beginning.feeds, self._feed, beginning.next_uses, most_ahead=beginning.records
            )
        elif kind == GIVEN:
            number, *given = wire.read_numbers(body)
            if number == self._number and self._coming is not None:
                self._coming.give(given)

    def _next_use(self, numbers: Int64Array) -> Int64Array:
        with self._changed:
            assert self._coming is not None
            return self._coming.next_use(numbers)

    def fetch(self) -> None:
        """Fetches chunks as they come due, without end; several threads do.

        A chunk that a worker fetches at the moment is asked for once more with the next ones, and isn't waited for.
        """
        pause = _PAUSE_SECONDS
        again = np.empty(0, np.int64)
        while True:
            try:
                keys = self._due()
                assert self._feed is not None
                left = self._feed.fetch(np.concatenate((again, keys)))
                again = left[np.isin(left, keys)]
                pause = _PAUSE_SECONDS
            except Exception:  # noqa: BLE001 - the worker that needs the chunk raises it
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _due(self) -> Int64Array:
        while True:
            with self._changed:
                while self._coming is None or self._feed is None:
                    self._changed.wait()
                rooms = self._feed.rooms()
                together = max(1, min(_TOGETHER, _TOGETHER_BYTES // self._feed.chunk_bytes))
                keys = self._coming.due(together, rooms)
                if keys.size:
                    return keys
                if self._starting:
                    # It is ahead by as much as there is room for: from now on a chunk that isn't there is fetched.
                    self._starting = False
                    self._feed.allow_direct_reads(0)
                self._changed.wait(_LOOK_SECONDS)


def start() -> None:
    """Runs a feeder until its channel ends, with the arguments of the command of `start/launch.py`.

    These are the descriptor of the feeder's end of the socket pair, and the pid of the process that started this one.
    """
    channel, trainer = map(int, sys.argv[1:])
    if os.getppid() != trainer:
        return  # the trainer has ended, and nothing tells of it any more
    os.set_inheritable(channel, False)
    process = FeederProcess(socket.socket(fileno=channel))
    for k in range(_THREADS):
        threading.Thread(target=process.fetch, name=f"loaderkit-fetch-{k}", daemon=True).start()
    code = 0
    try:
        process.listen()
    except ConnectionError:
        pass  # the trainer has ended
    except BaseException:  # noqa: BLE001 - prints it as the interpreter does, but doesn't wait for threads
        traceback.print_exc()
        code = 1
    sys.stderr.flush()
    os._exit(code)
