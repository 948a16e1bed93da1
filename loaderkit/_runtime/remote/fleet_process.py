"""The process of a fleet: it has as many keepers on other hosts as the trainer wants, again where one has ended.

What starts them there, such as Ray, is the module's that calls `serve`. It is imported here and never by the trainer:
it may end the process that uses it. Keepers end with this process, and this process with the trainer.
"""

import os
import queue
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from loaderkit._base.system.dataclasses import dataclass, field
from loaderkit._base.system.platform import dying_with_parent_thread
from loaderkit._runtime.start.driver import LOST, READY, Event, Inbox, run, tell
from loaderkit._runtime.start.launch import PACKAGES, how_it_ended
from loaderkit._runtime.transport import wire

from .keeper import LONELY, REFUSED
from .pauses import Pauses

# Kinds of messages behind the settings.
ADDRESS = 2  # HOST:PORT, where keepers find the trainer
WANTED = 3  # how many workers there are to be in all
_LOOK_SECONDS = 0.5  # from one look at the keepers to the next
_RUN = "from loaderkit._runtime.remote.keeper import main; sys.exit(main())"


class Keepers(Protocol):
    """What starts keepers on other hosts. host: the name or address by which they find this one.

    They end with this process, however it ends.
    """

    host: str

    def begin(self, address: str, workers: int) -> Any:
        """Has a keeper started, now or when there is room for it; gives what the other methods call it."""
        ...

    def end(self, keeper: Any) -> None:
        """Ends a keeper, without waiting."""
        ...

    def ended(self) -> list[tuple[Any, str]]:
        """Keepers that have ended by themselves since the last call; with what the user is told of it, or ""."""
        ...


@dataclass(slots=True)
class _Place:
    """Of a keeper with so many workers. keeper: none while it isn't due."""

    workers: int
    keeper: Any = None
    pauses: Pauses = field(default_factory=Pauses)


class Places:
    """Which keepers there are to be.

    Args:
        keepers: what starts them.
        address: of the trainer.
        most: workers of one keeper.
    """

    def __init__(self, keepers: Keepers, address: str, most: int) -> None:
        self._keepers, self._address, self._most = keepers, address, most
        self._places: list[_Place] = []

    def resize(self, wanted: int) -> None:
        """So many workers in all from now on; of the keepers, the oldest stay that aren't too many."""
        present = sum(place.workers for place in self._places)
        while present > wanted:
            place = self._places.pop()
            present -= place.workers
            if place.keeper is not None:
                self._keepers.end(place.keeper)
        more = range(0, wanted - present, self._most)
        self._places += [_Place(min(self._most, wanted - present - first)) for first in more]

    def look(self, now: float) -> list[str]:
        """Starts what is due, and gives what the user is told of those that have ended."""
        told = []
        for keeper, why in self._keepers.ended():
            for place in self._places:
                if place.keeper is keeper:
                    place.keeper = None
                    place.pauses.ended(now)
            told += [why] if why else []
        for place in self._places:
            if place.keeper is None and now >= place.pauses.due:
                place.keeper = self._keepers.begin(self._address, place.workers)
                place.pauses.began(now)
        return told


def start_keeper(address: str, workers: int, secret: str) -> "subprocess.Popen[str]":
    """A keeper on this host, which ends with the calling thread."""
    code = f"{dying_with_parent_thread(os.getpid())} import sys; sys.path += {PACKAGES!r}; {_RUN}"
    command = [sys.executable, "-P", "-c", code, address, "--workers", str(workers)]
    keeper = subprocess.Popen(command, stdin=subprocess.PIPE, text=True)
    assert keeper.stdin is not None
    with suppress(BrokenPipeError), keeper.stdin:  # it has ended: its exit code tells
        keeper.stdin.write(f"{secret}\n")
    return keeper


def keep(address: str, workers: int, secret: str) -> int:
    """Runs a keeper on this host until it ends, and gives its exit code; both end with the parent of this process.

    Ray's worker processes outlive what started them as long as they do something.
    """
    parent = os.getppid()
    with start_keeper(address, workers, secret) as keeper:
        while keeper.poll() is None:
            if os.getppid() != parent:
                os._exit(1)
            time.sleep(_LOOK_SECONDS)
        return keeper.returncode


def told_of_end(code: int, host: str, address: str) -> str:
    """What the user is told of a keeper that has ended with this exit code; of a refusal the trainer tells."""
    if code == REFUSED:
        return ""
    if code == LONELY:
        return (
            f"host {host} gets no answer from this process at {address}. Allow connections to that port, and if hosts "
            "know this one by another address, give it: listen=, advertise="
        )
    return f"what starts workers on host {host} has ended with {how_it_ended(code)}; its output may say why"


def serve(make: Callable[[dict[str, Any]], Keepers]) -> None:
    """Runs the process with the arguments of the command of `start/launch.py`, until the trainer ends it.

    Args:
        make: takes the settings, the loader's "secret" among them, as hex digits; its ClusterError is sent.
    """

    def drive(settings: dict[str, Any], inbox: Inbox, connection: socket.socket) -> None:
        keepers = make(settings)
        tell(connection, Event(READY, -1, keepers.host.encode()))
        places = Places(keepers, inbox.get()[1].decode(), settings["per_host"])
        while True:
            with suppress(queue.Empty):
                places.resize(wire.read_numbers(inbox.get(timeout=_LOOK_SECONDS)[1])[0])
            for why in places.look(time.monotonic()):
                tell(connection, Event(LOST, -1, why.encode()))

    run(drive)
