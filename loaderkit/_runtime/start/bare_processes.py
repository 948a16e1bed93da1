"""Worker processes that are started before there is a program for them: they import numpy and loaderkit, and wait.

The kernel ties a child's life to the thread that started it. So the thread that starts these becomes the pump of the
pool that takes them.
"""

import contextlib
import os
import socket
import subprocess
import threading
import weakref
from collections.abc import Callable, Sequence
from queue import SimpleQueue

from loaderkit._runtime.transport import wire

from .launch import check_start, launched

Launched = tuple[socket.socket, "subprocess.Popen[bytes]"]


class BareProcesses:
    """Processes for the workers of the next pool; those that none takes end with `end`, or with this object.

    Args:
        count: how many.
        level: of processors, as `launched` takes it.

    thread: starts them, and runs what `run` is given.

    Raises WorkerError where this process can't start worker processes. Where the system refuses some of them there are
    fewer: the pool says so when it starts them itself.
    """

    def __init__(self, count: int, level: str | None) -> None:
        check_start()
        self._pid = os.getpid()
        self._ready: list[Launched] = []
        self._order: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        arguments = (count, level, self._ready, self._order)
        self.thread = threading.Thread(target=_start, args=arguments, name="loaderkit-pump", daemon=True)
        self._end = weakref.finalize(self, self._order.put, None)
        self.thread.start()  # behind it, as a Ctrl-C may follow the start

    @property
    def usable(self) -> bool:
        """Whether this is the process that started them, and not a fork of it."""
        return os.getpid() == self._pid

    def take(self, descriptors: Sequence[int]) -> Launched | None:
        """One of them, which has been sent its descriptors; None where none is left."""
        while self._ready:
            connection, process = self._ready.pop()
            try:
                wire.send_descriptors(connection, descriptors)
                return connection, process
            except OSError:  # it has ended, or the system lets no more descriptors be under way
                _end(connection, process)
        return None

    def run(self, pump: Callable[[], None]) -> None:
        """Runs a pump in the thread that started them."""
        self._end.detach()
        self._order.put(pump)

    def end(self) -> None:
        """Ends them, unless a pump has them, and returns when they have ended."""
        if self._end.alive:
            self._order.put(None)
            self.thread.join()  # again where a Ctrl-C comes between
            self._end.detach()


def _start(
    count: int, level: str | None, ready: list[Launched], order: "SimpleQueue[Callable[[], None] | None]"
) -> None:
    with contextlib.suppress(Exception):
        ready.extend(launched((), level=level) for _ in range(count))  # those before an error stay
    pump = order.get()
    if pump is not None:
        pump()
    while ready:
        _end(*ready.pop())


def _end(connection: socket.socket, process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()
    connection.close()
