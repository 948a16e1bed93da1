"""A loader's feeder, from the trainer's side: its process, and what it is told of the loader's stream.

A thread of its own starts the process, because the kernel ties a child's life to the thread that started it, and sends
it how far the stream is a few times a second: the iterating thread counts, and waits for nothing.
"""

import contextlib
import logging
import os
import pickle
import signal
import socket
import subprocess
import threading
import weakref
from collections.abc import Sequence
from typing import Any

from loaderkit._base.notes import text_of
from loaderkit._base.system.module_import import module_of_program
from loaderkit._runtime.start.launch import launched
from loaderkit._runtime.start.preparation import Preparation
from loaderkit._runtime.transport import wire
from loaderkit._runtime.transport.pickling import Packer
from loaderkit._storage.cache.chunk_feed import ChunkFeed
from loaderkit._storage.cache.joint_feed import JointChunkFeed

from .coming_chunks import NextUses
from .main import BEGIN, FEED, GIVEN, Beginning

_MODULE = "loaderkit._runtime.feeder.main"
# How often the process is told how far the stream is: at 2 GB/s it is 100 MB, a part of any window.
_TELL_SECONDS = 0.05
# Bytes of the data that may be read twice, because a record's chunk wasn't there at a start or after a seek: one in so
# many, and at most a batch more. With one in 40, two batches of 6.4 MB of 100 KB records were read so, and the server
# sent 1.057 of 256 MB.
_DIRECT_PART = 64
# How much glibc keeps for the next chunks. By its own measure it gives most of it back to the system, which clears each
# page again: 100 page faults a MB became 30, and 1.8 ns of the feeder's CPU time a byte 1.55, for 16 MB (measured).
_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(256 << 20), "MALLOC_MMAP_THRESHOLD_": str(32 << 20)}
_KILL_SECONDS = 2.0  # for a process that was killed to end
_log = logging.getLogger("loaderkit")


class FollowedFeed:
    """A feed that counts the records that it has given.

    Args:
        feed: of steps or of records.
        counts: of all feeds of the stream.
        place: of this one among them.
    """

    def __init__(self, feed: Any, counts: list[int], place: int) -> None:
        self._feed, self._counts, self._place = feed, counts, place

    def next(self, most: int = 1) -> Any:
        """What the feed gives next."""
        got = self._feed.next(most)
        if got is not None:
            self._counts[self._place] += len(got[1] if isinstance(got, tuple) else got.keys)
        return got


class Feeder:
    """Fetches the chunks of a loader's coming records, in a child process, from the first stream on.

    It follows the stream that began last. Where it can't run, or was killed, workers fetch chunks themselves.

    Args:
        feed: of the data source.
        records: of the data source.
    """

    def __init__(self, feed: ChunkFeed | JointChunkFeed, records: int) -> None:
        self._feed, self._records = feed, records
        self._link = _Link(feed)
        # A finalizer may run anywhere, so it only sets a flag.
        weakref.finalize(self, self._link.stop).atexit = False
        self.stop, self.shut_down = self._link.stop, self._link.shut_down

    def follow(self, feeds: Sequence[Any], next_uses: NextUses | None) -> list[FollowedFeed]:
        """Begins to fetch what a new stream needs, and gives its feeds, which now tell how far it is.

        Args:
            feeds: of the stream, unused.
            next_uses: of the sampler; None where it doesn't say when a record is read next.
        """
        counts = [0] * len(feeds)
        self._link.begin(feeds, next_uses, self._records, counts)
        return [FollowedFeed(feed, counts, place) for place, feed in enumerate(feeds)]

    @property
    def pid(self) -> int | None:
        """Of the process; None before it runs."""
        return self._link.pid


class _Link:
    """The thread that has the process, and what it shares with the trainer's others. It doesn't refer to the Feeder."""

    def __init__(self, feed: ChunkFeed | JointChunkFeed) -> None:
        self._feed = feed
        self._trainer = os.getpid()
        self._packer = Packer()
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._unsent = bytearray()  # what the thread is to send first
        self._begun = 0
        self._counts: list[int] = []
        self.pid: int | None = None

    def begin(
        self, feeds: Sequence[Any], next_uses: NextUses | None, records: int, counts: list[int]
    ) -> None:
        if self._stopping or os.getpid() != self._trainer or module_of_program() is not None:
            return  # as for such a module a feeder would have a feeder, and so on without end
        self._feed.allow_direct_reads(self._feed.nbytes // _DIRECT_PART)
        runs = self._thread is not None and self._thread.is_alive()
        try:
            beginning = Beginning(self._begun, feeds, next_uses, records)
            message = b"" if runs else self._first_messages()
            message += wire.frame(BEGIN, self._packer.dumps(beginning))
        except Exception as error:  # noqa: BLE001 - the user's sampler may raise anything when it is pickled
            _log.info(
                "no feeder fetches chunks ahead, its process can't have the sampler: %s", text_of(error)
            )
            self._feed.allow_direct_reads(0)
            return
        with self._lock:
            if not runs:
                self._unsent.clear()  # of a process that was killed
            self._unsent += message
            self._counts = counts
            self._begun += 1
        if not runs:
            thread = threading.Thread(target=self._run, name="loaderkit-feeder", daemon=True)
            try:
                thread.start()
            except (RuntimeError, MemoryError):  # the system starts no more threads
                self._stopping = True
                return
            self._thread = thread
        self._wake.set()

    def _first_messages(self) -> bytes:
        self._packer = Packer()
        feed = wire.frame(FEED, self._packer.teach(self._feed))
        preparation = Preparation.of_this_process(self._packer.by_value)
        return wire.frame(wire.PREPARE, pickle.dumps(preparation)) + feed

    def stop(self) -> None:
        """Asks for its end; may be called from anywhere, the garbage collector included."""
        self._stopping = True
        self._wake.set()

    def shut_down(self) -> None:
        """Ends the process, and returns when it has ended."""
        self.stop()
        thread = self._thread
        if thread is not None and os.getpid() == self._trainer:
            thread.join()

    # --- in the thread ------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            connection, process = launched((), _MODULE, settings=_MEMORY)
        except Exception as error:  # noqa: BLE001 - nothing of the stream depends on it
            _log.warning("no feeder fetches chunks ahead, its process can't be started: %s", text_of(error))
            self._feed.allow_direct_reads(0)
            return
        self.pid = process.pid
        sent: list[int] = []
        try:
            while not self._stopping and process.poll() is None:
                sent = self._tell(connection, sent)
                self._wake.wait(_TELL_SECONDS)
                self._wake.clear()
        finally:
            connection.close()
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)  # it has nothing to put in order
            # It may be inside the kernel, in a write that never returns.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_KILL_SECONDS)
            with contextlib.suppress(OSError):
                self._feed.allow_direct_reads(0)

    def _tell(self, connection: socket.socket, sent: list[int]) -> list[int]:
        """Sends what the channel takes; gives what was said of the stream last."""
        with self._lock:
            said = [self._begun - 1, *self._counts]
            if said != sent and not self._unsent:
                self._unsent += wire.frame(GIVEN, wire.numbers(*said))
                sent = said
            with contextlib.suppress(OSError):  # full, or the process has ended: `poll` says it
                while self._unsent:
                    del self._unsent[: connection.send(self._unsent)]
        return sent
