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
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol, Self

from loaderkit._runtime.transport import wire
from loaderkit.errors import ClusterError

from .launch import launched

# Kinds of messages: from the caller, and of events.
SETTINGS, _PROGRAM, _TASK = 1, 2, 3
ANSWER, LOST, READY, FAILED = 16, 17, 18, 19
_RECEIVED = 1 << 20  # bytes read from the channel at once
START_SECONDS = 60.0  # for a driver to find what it talks to: Ray's own wait for a wrong address is minutes
_END_SECONDS = 10.0  # for a driver whose channel was closed to end by itself
_LOOK_SECONDS = 0.1  # how long a driver waits for events before it looks for new tasks
_CALLER_SECONDS = 1  # from one look for the caller's process to the next
Inbox = queue.SimpleQueue[tuple[int, bytes]]  # messages of the caller: kind and body


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
        self._connection.settimeout(START_SECONDS)
        self._received = bytearray()
        self._events: list[Event] = []
        self._send(SETTINGS, pickle.dumps({**settings, "path": [*sys.path]}))
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
                told = f"the cluster gave no answer in {START_SECONDS:.0f} s; is its address right?"
                raise ClusterError(told) from None
            self._connection.settimeout(None)
            if not received:
                raise ClusterError(
                    f"the process that drives the cluster ended with exit code {self._process.wait()}: it was killed, "
                    "or has lost the cluster's head, as its output says. What is done stays: the same call goes on"
                )
            self._received += received
            self._events += [event_of(kind, body) for kind, body in wire.split(self._received)]
        event = self._events.pop(0)
        if event.kind == FAILED:
            raise ClusterError(event.body.decode())
        return event

    def _send(self, kind: int, body: bytes) -> None:
        # Where it has ended, `next` says so, behind what it has said before.
        with contextlib.suppress(ConnectionError):
            self._connection.sendall(wire.frame(kind, body))


def event_of(kind: int, body: bytes) -> Event:
    """What a message of a driver says."""
    (task,) = wire.read_numbers(body[:8])
    return Event(kind, task, body[8:])


def serve(make: Callable[[dict[str, Any], bytes], DriverTasks]) -> None:
    """Runs a driver's process with the arguments of the command of `launch.py`, until the caller ends it.

    Args:
        make: takes the settings and the program, and gives what has tasks done; a ClusterError of it is sent.
    """

    def drive(settings: dict[str, Any], inbox: Inbox, connection: socket.socket) -> None:
        tasks = make(settings, inbox.get()[1])
        tell(connection, Event(READY, -1, tasks.ready))
        # Begun, and without an event since. An attempt that was lost may answer yet, beside the next one.
        under_way: set[int] = set()
        while True:
            while not under_way or not inbox.empty():
                (task,) = wire.read_numbers(inbox.get()[1])
                tasks.begin(task)
                under_way.add(task)
            for event in tasks.events(_LOOK_SECONDS):
                under_way.discard(event.task)
                tell(connection, event)

    run(drive)


def run(drive: Callable[[dict[str, Any], Inbox, socket.socket], None]) -> None:
    """Runs a process that talks to a cluster, until the caller ends it.

    Args:
        drive: takes the settings, the messages behind them, and the channel for events; its error is sent.
    """
    channel, caller = map(int, sys.argv[1:])
    os.set_inheritable(channel, False)
    os.dup2(2, 1)  # what tasks print may not end up in the caller's output
    connection = socket.socket(fileno=channel)
    code = 0
    try:
        messages = _messages(connection, caller)
        settings = pickle.loads(next(messages)[1])
        sys.path[:] = settings.pop("path")
        inbox: Inbox = queue.SimpleQueue()

        def listen() -> None:
            for message in messages:
                inbox.put(message)
            os._exit(0)

        threading.Thread(target=listen, name="loaderkit-driver", daemon=True).start()
        drive(settings, inbox, connection)
    except (ConnectionError, StopIteration):
        pass  # the caller has ended
    except Exception as error:  # noqa: BLE001 - of the cluster's library it may be any
        told = str(error)
        if not isinstance(error, ClusterError):
            traceback.print_exc()
            told = f"the process that talks to the cluster raised {type(error).__name__}: {told}"
        with contextlib.suppress(ConnectionError):
            tell(connection, Event(FAILED, -1, told.encode(errors="replace")))
            time.sleep(_END_SECONDS)  # the caller closes it, and `listen` ends this process
    except BaseException:  # noqa: BLE001 - prints it as the interpreter does, but doesn't wait for threads
        traceback.print_exc()
        code = 1
    sys.stderr.flush()
    os._exit(code)


def _messages(connection: socket.socket, caller: int) -> Iterator[tuple[int, bytes]]:
    """Until the caller closes the channel or ends, whatever else still holds the other side of it."""
    received = bytearray()
    readable = select.poll()
    readable.register(connection, select.POLLIN)
    with contextlib.suppress(ConnectionError):
        while os.getppid() == caller:
            if readable.poll(1000 * _CALLER_SECONDS):
                data = connection.recv(_RECEIVED)
                if not data:
                    return
                received += data
                yield from wire.split(received)


def tell(connection: socket.socket, event: Event) -> None:
    """Sends an event to the caller."""
    connection.sendall(wire.frame(event.kind, wire.numbers(event.task) + event.body))
