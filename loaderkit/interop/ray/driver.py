"""The process that has tasks done by Ray."""

import hashlib
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from loaderkit._base.notes import text_of
from loaderkit._runtime.start.driver import ANSWER, LOST, Event, serve
from loaderkit.errors import ClusterError

from .joined import joined

_MEASURED_BYTES = 16 << 20  # that go to a host for its speed


class RayTasks:
    """Has tasks done by Ray; `serve` calls it.

    Args:
        settings: of `Tasks.settings`; with "nodes" task k is of host k alone, which is measured.
        program: goes to each host once.
    """

    def __init__(self, settings: dict[str, Any], program: bytes) -> None:
        self._ray = ray = joined(settings)
        nodes = [node for node in ray.nodes() if node["Alive"]] if settings.get("nodes") else []
        self._nodes: list[str] = [node["NodeID"] for node in nodes]
        self.ready = json.dumps([node["NodeManagerHostname"] for node in nodes]).encode()
        self._digest = hashlib.sha256(program).hexdigest()
        # A view of the object store where it arrives, not a copy for each process.
        self._program = ray.put(np.frombuffer(program, np.uint8))
        self._do, self._length = _functions()
        self._task = ray.remote(self._do).options(max_retries=0, **settings["options"])
        self._under_way: dict[Any, int] = {}  # tasks, by the object of the answer

    def begin(self, task: int) -> None:
        """Begins a task."""
        call = self._on_node(self._do, task) if self._nodes else self._task
        # In a list it isn't fetched by Ray, but by processes that don't have it.
        self._under_way[call.remote([self._program], self._digest, task)] = task

    def events(self, seconds: float) -> list[Event]:
        """Answers, and tasks that were lost."""
        if not self._ray.wait([*self._under_way], num_returns=1, timeout=seconds)[0]:
            return []
        ready, _ = self._ray.wait([*self._under_way], num_returns=len(self._under_way), timeout=0)
        return [self._event(answer, self._under_way.pop(answer)) for answer in ready]

    def _event(self, answer: Any, task: int) -> Event:
        try:
            body: bytes = self._ray.get(answer)
            if self._nodes:
                body = json.dumps({**json.loads(body), **self._speed(task)}).encode()
        except self._ray.exceptions.RayTaskError as error:
            if self._nodes:
                return Event(LOST, task, text_of(error.cause).encode())
            raise ClusterError(text_of(error.cause)) from error
        except Exception as error:  # noqa: BLE001 - Ray has many: of a worker, a host, memory
            told = (text_of(error).strip().splitlines() or [""])[0].rstrip(".")
            return Event(LOST, task, f"{type(error).__name__}: {told}".encode())
        return Event(ANSWER, task, body)

    def _on_node(self, function: Callable[..., Any], task: int) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as Affinity

        on_node = Affinity(self._nodes[task], soft=False)
        return self._ray.remote(function).options(num_cpus=0, max_retries=0, scheduling_strategy=on_node)

    def _speed(self, task: int) -> dict[str, float]:
        echo = self._on_node(self._length, task)
        self._ray.get(echo.remote(b""))
        begun = time.perf_counter()
        self._ray.get(echo.remote(b""))
        seconds = time.perf_counter() - begun
        sent = self._ray.put(np.zeros(_MEASURED_BYTES, np.uint8))
        begun = time.perf_counter()
        self._ray.get(echo.remote(sent))
        more = max(time.perf_counter() - begun - seconds, 1e-6)
        return {"round_trip_ms": 1000 * seconds, "mb_per_s": _MEASURED_BYTES / 1e6 / more}


def _functions() -> tuple[Callable[..., bytes], Callable[[Any], int]]:
    """What hosts run; made here, they go there by value, also where loaderkit is missing."""

    def loaderkit_task(program: list[Any], digest: str, task: int) -> bytes:
        import platform

        import ray

        try:
            from loaderkit.formats._writing.cluster_task import do
        except ImportError as error:
            raise ImportError(
                f"host {platform.node()} can't import loaderkit: {error}; install it there"
            ) from error
        return do(lambda: ray.get(program[0]).tobytes(), digest, task)

    def length(content: Any) -> int:
        return len(content)

    return loaderkit_task, length


def start() -> None:
    """Runs the process; the command of `start/launch.py` calls it."""
    serve(RayTasks)
