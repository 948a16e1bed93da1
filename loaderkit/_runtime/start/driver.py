"""A driver: a child process that has tasks done elsewhere, so that its end, and that of what it talks to, is an error.

The caller sends it a program and numbers of tasks. It answers with an event for each attempt of a task, in any order.
It ends with the caller, as a worker does: the kernel kills it, and the closing of its channel ends it.
"""

import contextlib
import os
import pickle
import queue
import select
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol, Self

from loaderkit._runtime.transport import wire
from loaderkit.errors import ClusterError

from .launch import launched

# Kinds of messages: from the caller, and of events.
_SETTINGS, _PROGRAM, _TASK = 1, 2, 3
ANSWER, LOST, READY, FAILED = 16, 17, 18, 19
_RECEIVED = 1 << 20  # bytes read from the channel at once
_START_SECONDS = 60.0  # for a driver to find what it talks to: Ray's own wait for a wrong address is minutes
_END_SECONDS = 10.0  # for a driver whose channel was closed to end by itself
_LOOK_SECONDS = 0.1  # how long a driver waits for events before it looks for new tasks


class Event(NamedTuple):
    """What a driver says.

    READY once, with the body that it has for that; of a task ANSWER with the answer, or LOST with the cause as text;
    FAILED with the text of an error that ends the driver.
    """

    kind: int
    task: int
    body: bytes


class DriverTasks(Protocol):
    """What has tasks done, in the driver's process. ready: is sent before the first event."""

    ready: bytes

    def begin(self, task: int) -> None:
        """Begins a task, which may be done."""
        ...

    def events(self, seconds: float) -> list[Event]:
        """Events since the last call; it waits for one at most so long."""
        ...


class Driver:
    """The caller's side of a driver; a context manager that ends it.

    Args:
        module: has the `start` that calls `serve`.
        settings: of the driver, as the module takes them; a pickle that needs no code of the user's.
        program: what each task runs, as the module takes it.

    ClusterError where the driver has ended, or says that it can't go on.
    """

    def __init__(self, module: str, settings: Mapping[str, Any], program: bytes) -> None:
        self._connection, self._process = launched((), module)
        self._connection.settimeout(_START_SECONDS)
        self._received = bytearray()
        self._events: list[Event] = []
        self._send(_SETTINGS, pickle.dumps({**settings, "path": [*sys.path]}))
        self._send(_PROGRAM, program)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._connection.close()
        try:
            self._process.wait(_END_SECONDS)
        except BaseException as error:
            self._process.kill()
            self._process.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise  # a second Ctrl-C

    def begin(self, task: int) -> None:
        """Has a task done; again, where it was lost."""
        self._send(_TASK, wire.numbers(task))

    def next(self) -> Event:
        """Waits for the next event."""
        while not self._events:
            received = b""
            try:
                received = self._connection.recv(_RECEIVED)
            except ConnectionError:
                pass
            except TimeoutError:
                told = f"the cluster gave no answer in {_START_SECONDS:.0f} s; is its address right?"
                raise ClusterError(told) from None
            self._connection.settimeout(None)
            if not received:
                raise ClusterError(
                    f"the process that drives the cluster ended with exit code {self._process.wait()}: it was killed, "
                    "or has lost the cluster's head, as its output says. What is done stays: the same call goes on"
                )
            self._received += received
            self._events += [_event(kind, body) for kind, body in wire.split(self._received)]
        event = self._events.pop(0)
        if event.kind == FAILED:
            raise ClusterError(event.body.decode())
        return event

    def _send(self, kind: int, body: bytes) -> None:
        # Where it has ended, `next` says so, behind what it has said before.
        with contextlib.suppress(ConnectionError):
            self._connection.sendall(wire.frame(kind, body))


def _event(kind: int, body: bytes) -> Event:
    (task,) = wire.read_numbers(body[:8])
    return Event(kind, task, body[8:])


def serve(make: Callable[[dict[str, Any], bytes], DriverTasks]) -> None:
    """Runs a driver's process with the arguments of the command of `launch.py`, until the caller ends it.

    Args:
        make: takes the settings and the program, and gives what has tasks done; a ClusterError of it is sent.
    """
    channel, caller = map(int, sys.argv[1:])
    if os.getppid() != caller:
        return  # it has ended, and nothing tells of it any more
    os.set_inheritable(channel, False)
    os.dup2(2, 1)  # what tasks print may not end up in the caller's output
    connection = socket.socket(fileno=channel)
    code = 0
    try:
        _serve(make, connection)
    except (ConnectionError, StopIteration):
        pass  # the caller has ended
    except ClusterError as error:
        with contextlib.suppress(ConnectionError):
            _tell(connection, Event(FAILED, -1, str(error).encode()))
            select.select([connection], [], [], _END_SECONDS)  # the caller closes it
    except BaseException:  # noqa: BLE001 - prints it as the interpreter does, but doesn't wait for threads
        traceback.print_exc()
        code = 1
    sys.stderr.flush()
    os._exit(code)


def _serve(make: Callable[[dict[str, Any], bytes], DriverTasks], connection: socket.socket) -> None:
    messages = _messages(connection)
    settings = pickle.loads(next(messages)[1])
    sys.path[:] = settings.pop("path")
    program = next(messages)[1]
    begun: queue.SimpleQueue[int] = queue.SimpleQueue()

    def listen() -> None:
        for _, body in messages:
            begun.put(wire.read_numbers(body)[0])
        os._exit(0)

    threading.Thread(target=listen, name="loaderkit-driver", daemon=True).start()
    tasks = make(settings, program)
    _tell(connection, Event(READY, -1, tasks.ready))
    under_way = 0
    while True:
        while under_way == 0 or not begun.empty():
            tasks.begin(begun.get())
            under_way += 1
        for event in tasks.events(_LOOK_SECONDS):
            under_way -= event.kind in (ANSWER, LOST)
            _tell(connection, event)


def _messages(connection: socket.socket) -> Iterator[tuple[int, bytes]]:
    received = bytearray()
    with contextlib.suppress(ConnectionError):
        while data := connection.recv(_RECEIVED):
            received += data
            yield from wire.split(received)


def _tell(connection: socket.socket, event: Event) -> None:
    connection.sendall(wire.frame(event.kind, wire.numbers(event.task) + event.body))
