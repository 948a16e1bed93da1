"""Rows of one process to another one's memory: our connections beside Ray's object store.

The sender answers each request with rows of 1 KB to 10 MB; the receiver has them in a slot that it allocated before.
"round trip us" is the median of one request after the other, "MB/s" the rate with four requests under way. Ours: a
message with its seal, the rows, their checksum, by `recv_into` into the slot. Ray: an actor on a second node of this
machine returns an array; `ray.get`, then a copy into the slot.
"""

import os
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from statistics import median
from typing import Any, Protocol

import numpy as np

from benchmarks.benchmark import Benchmark, Comparison, Metrics, Size, shortening, speedup
from benchmarks.contender import Contender
from loaderkit._runtime.remote.frames import KEY_NBYTES, ROWS, Opener, Sealer, checksum_named, fast_checksum
from loaderkit._runtime.remote.rows import RowsHeader
from loaderkit._runtime.transport.wire import TASK

SIZES = {"1 KB": 1_000, "64 KB": 64_000, "1 MB": 1_000_000, "10 MB": 10_000_000}
UNDER_WAY = 4
KEY = bytes(KEY_NBYTES)


class Sender(Protocol):
    """The other process, from the receiver's side."""

    def ask(self, nbytes: int) -> None:
        """Asks for so many bytes."""
        ...

    def receive(self, slot: memoryview) -> None:
        """Waits for the answer to the oldest request."""
        ...


class Messages:
    """Both sides of a connection, with what each message costs in a loader."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = connection
        self._sealer, self._opener = Sealer(KEY), Opener(KEY, 1 << 20)
        self._checksum = checksum_named(fast_checksum())

    def ask(self, nbytes: int) -> None:
        """As Sender."""
        self._connection.sendall(self._sealer.seal(TASK, nbytes.to_bytes(8, "little")))

    def receive(self, slot: memoryview) -> None:
        """As Sender."""
        header = RowsHeader.unpack(self._next())
        first = self._opener.take(header.sizes[0])
        slot[: len(first)] = first
        at = len(first)
        while at < header.sizes[0]:
            at += self._connection.recv_into(slot[at : header.sizes[0]])
        assert self._checksum(0, slot[: header.sizes[0]]) == header.checksum

    def answer(self) -> None:
        """Answers requests until the other side closes the connection."""
        rows = memoryview(np.random.default_rng(0).bytes(max(SIZES.values())))
        with suppress(ConnectionError):
            while True:
                asked = rows[: int.from_bytes(self._next(), "little")]
                header = RowsHeader(self._checksum(0, asked), 0, (len(asked),), (), b"")
                self._connection.sendall(self._sealer.seal(ROWS, header.pack()))
                self._connection.sendall(asked)

    def _next(self) -> bytes:
        while (message := self._opener.next()) is None:
            received = self._connection.recv(1 << 16)
            if not received:
                raise ConnectionError
            self._opener.received += received
        return message[1]


def answer(port: int) -> None:
    """What the other process does."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        Messages(connection).answer()


@contextmanager
def ours() -> Iterator[Sender]:
    """A process behind a connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        command = [
            sys.executable,
            "-c",
            f"from {__name__} import answer; answer({listener.getsockname()[1]})",
        ]
        with subprocess.Popen(command), listener.accept()[0] as connection:
            yield Messages(connection)


class RayActor:
    """An actor on another node than this process."""

    def __init__(self, ray: Any) -> None:
        class Rows:
            def __init__(self, most: int) -> None:
                self.rows = np.frombuffer(np.random.default_rng(0).bytes(most), np.uint8)

            def first(self, nbytes: int) -> np.ndarray:
                return self.rows[:nbytes]

        self._ray = ray
        self._actor = ray.remote(Rows).options(resources={"second": 1}).remote(max(SIZES.values()))
        self._asked: deque[Any] = deque()

    def ask(self, nbytes: int) -> None:
        """As Sender."""
        self._asked.append(self._actor.first.remote(nbytes))

    def receive(self, slot: memoryview) -> None:
        """As Sender."""
        rows = self._ray.get(self._asked.popleft())
        np.frombuffer(slot, np.uint8)[: len(rows)] = rows


@contextmanager
def rays() -> Iterator[Sender]:
    """Two nodes of Ray on this machine."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 256 << 20}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    try:
        cluster.add_node(**node, resources={"second": 1})
        ray.init(cluster.address, logging_level="ERROR")
        yield RayActor(ray)
    finally:
        ray.shutdown()
        cluster.shutdown()


def measure(contender: Contender, size: Size) -> Metrics:
    """Round trip and rate for each number of bytes."""
    metrics = {}
    slot = memoryview(bytearray(max(SIZES.values())))
    with ours() if contender.peer == "loaderkit" else rays() as sender:
        sender.ask(1)  # an actor may still be starting
        sender.receive(slot)
        for name, nbytes in SIZES.items():
            took, end = [], time.perf_counter() + size.seconds / 2
            while not took or time.perf_counter() < end:
                begin = time.perf_counter()
                sender.ask(nbytes)
                sender.receive(slot)
                took.append(time.perf_counter() - begin)
            metrics[f"{name}: round trip us"] = 1e6 * median(took)
            for _ in range(UNDER_WAY):
                sender.ask(nbytes)
            begin, received = time.perf_counter(), 0
            while not received or time.perf_counter() - begin < size.seconds / 2:
                sender.receive(slot)
                sender.ask(nbytes)
                received += nbytes
            metrics[f"{name}: MB/s"] = received / 1e6 / (time.perf_counter() - begin)
            for _ in range(UNDER_WAY):
                sender.receive(slot)
    return metrics


OURS, RAY = Contender("loaderkit's connections", "loaderkit"), Contender("Ray's object store", "ray")


def comparisons() -> Iterator[Comparison]:
    """Of each number of bytes."""
    for name in SIZES:
        yield speedup(OURS, RAY, metric=f"{name}: MB/s")
        yield shortening(OURS, RAY, metric=f"{name}: round trip us")


BENCHMARKS = (Benchmark("remote, rows", __doc__ or "", (OURS, RAY), measure, tuple(comparisons())),)
