"""What waits to be sent through a socket that doesn't block, as buffers that aren't copied."""

import contextlib
import socket
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice

MOST_BUFFERS = 64  # of one system call; the systems take 1,024


class Outbox:
    """Buffers in order, and what is called when they are sent."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[memoryview, Callable[[], None] | None]] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, buffers: Sequence[bytes | memoryview], sent: Callable[[], None] | None = None) -> None:
        """Adds buffers, at least one that isn't empty. sent: is called when the system has copied the last of them."""
        views = [memoryview(buffer) for buffer in buffers if len(buffer)]
        self._waiting.extend((view, None) for view in views[:-1])
        self._waiting.append((views[-1], sent))

    def send(self, connection: socket.socket) -> None:
        """Sends what the connection takes now. OSError where it has ended."""
        with contextlib.suppress(BlockingIOError):
            while self._waiting:
                taken = connection.sendmsg([view for view, _ in islice(self._waiting, MOST_BUFFERS)])
                while taken:
                    view, sent = self._waiting.popleft()
                    if taken < len(view):
                        self._waiting.appendleft((view[taken:], sent))
                        break
                    taken -= len(view)
                    if sent is not None:
                        sent()
