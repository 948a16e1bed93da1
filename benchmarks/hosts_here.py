"""Workers of "other" hosts that are processes of this one, without Ray; their connections may be delayed.

Ray starts workers and carries no rows, so what a loader gains by them and loses to the network is measured without it.
"""

import asyncio
import os
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from loaderkit._runtime.remote.connection import address_text, host_and_port
from loaderkit._runtime.remote.fleet_process import serve, start_keeper

ROOT = Path(__file__).resolve().parents[1]
HOST = "127.0.0.1"
CHUNK = 1 << 18  # bytes that are delayed together


@dataclass(frozen=True, slots=True)
class WorkersHere:
    """As `lk.interop.ray.Workers`; a worker a keeper.

    Args:
        count: workers.
        delay_s: of each byte, in both directions, in seconds; None without the relay that delays, 0 with it alone.
    """

    driver: ClassVar[str] = "benchmarks.hosts_here"
    listen: ClassVar[None] = None
    advertise: ClassVar[None] = None
    other_cpus: ClassVar[str] = "refuse"

    count: int
    delay_s: float | None = None

    def settings(self) -> dict[str, Any]:
        """Of the driver's process."""
        return {"per_host": 1, "delay_s": self.delay_s}


class KeepersHere:
    """Has keepers started as processes; `serve` calls it."""

    host = HOST

    def __init__(self, settings: dict[str, Any]) -> None:
        self._secret, self._delay_s = settings["secret"], settings["delay_s"]
        self._relay = ""
        self._running: list[subprocess.Popen[str]] = []

    def begin(self, address: str, workers: int) -> Any:
        """Starts one, behind the relay if there is one."""
        if self._delay_s is not None:
            self._relay = self._relay or delayed(address, self._delay_s)
            address = self._relay
        self._running.append(start_keeper(address, workers, self._secret))
        return self._running[-1]

    def end(self, keeper: Any) -> None:
        """Kills it."""
        self._running.remove(keeper)
        keeper.kill()
        keeper.wait()

    def ended(self) -> list[tuple[Any, str]]:
        """Those that were killed."""
        ended = [keeper for keeper in self._running if keeper.poll() is not None]
        self._running = [keeper for keeper in self._running if keeper not in ended]
        return [(keeper, "") for keeper in ended]


def delayed(address: str, seconds: float) -> str:
    """Another address for `address`, by which each byte takes so much longer, in either direction."""
    host, port = host_and_port(address)
    loop = asyncio.new_event_loop()
    listening: list[str] = []
    ready = threading.Event()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def deliver() -> None:
            while True:
                due, chunk = await waiting.get()
                await asyncio.sleep(due - loop.time())
                if not chunk:
                    writer.close()
                    return
                writer.write(chunk)
                await writer.drain()

        async def collect() -> None:
            chunk = b"-"
            while chunk:
                try:
                    chunk = await reader.read(CHUNK)
                except ConnectionError:
                    chunk = b""
                waiting.put_nowait((loop.time() + seconds, chunk))

        await asyncio.gather(collect(), deliver(), return_exceptions=True)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection(host, port, limit=CHUNK)
        await asyncio.gather(carry(reader, there[1]), carry(there[0], writer))

    async def listen() -> None:
        server = await asyncio.start_server(connected, HOST, 0, limit=CHUNK)
        listening.append(address_text(*server.sockets[0].getsockname()))
        ready.set()
        await server.serve_forever()

    threading.Thread(target=lambda: loop.run_until_complete(listen()), name="relay", daemon=True).start()
    ready.wait()
    return listening[0]


def findable() -> None:
    """Lets the driver's process find this module."""
    found = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(ROOT) not in found:
        os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, found)])


def start() -> None:
    """Runs the driver's process."""
    serve(KeepersHere)
