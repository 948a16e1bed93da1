"""The process that has keepers started by Ray: one task each, which ends with this process."""

import math
import time
from collections.abc import Callable
from typing import Any

from loaderkit._base.notes import text_of
from loaderkit._runtime.remote.fleet_process import serve, told_of_end
from loaderkit._runtime.remote.keeper import REFUSED
from loaderkit.errors import ClusterError

from .joined import joined

_LOOK_SECONDS = 5.0  # from one look whether the cluster is the same to the next
_NODE = "ray.io/node-id"  # a label that each node has


class RayKeepers:
    """Has keepers started by Ray; `serve` calls it.

    A host that the trainer refuses is left out as long as this process lives: what it lacks, or how it computes, won't
    change by itself.

    Args:
        settings: of `Workers.settings`, and the loader's secret.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self._ray = ray = joined(settings)
        self._secret, self._of_a_worker = settings["secret"], settings["options"]
        self._here = here = ray.get_runtime_context().get_node_id()
        self._look_at = 0.0
        self.host: str = next(node["NodeManagerAddress"] for node in ray.nodes() if node["NodeID"] == here)
        self._task = ray.remote(_function())
        self._running: list[Any] = []
        self._address = ""
        self._refused: set[str] = set()  # nodes

    def begin(self, address: str, workers: int) -> Any:
        """Begins a task; Ray runs it where there is room, and once there is."""
        self._address = address
        options = self._task.options(
            **reserved(self._of_a_worker, workers),
            max_retries=0,
            scheduling_strategy="SPREAD",
            label_selector={_NODE: f"!in({','.join(sorted(self._refused))})"} if self._refused else None,
        )
        self._running.append(options.remote(address, workers, self._secret))
        return self._running[-1]

    def end(self, keeper: Any) -> None:
        """Ends a task and what it has started, or takes it back."""
        self._running.remove(keeper)
        self._ray.cancel(keeper, force=True)

    def ended(self) -> list[tuple[Any, str]]:
        """Tasks that have ended, or were lost with their host."""
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + _LOOK_SECONDS
            if self._here not in [node["NodeID"] for node in self._ray.nodes()]:
                raise ClusterError(
                    "the cluster's head was started anew, and doesn't know what it was asked for"
                )
        if not self._running:
            return []
        ready, self._running = self._ray.wait(self._running, num_returns=len(self._running), timeout=0)
        return [(task, self._why(task)) for task in ready]

    def _why(self, task: Any) -> str:
        errors = self._ray.exceptions
        try:
            code, host, node = self._ray.get(task)
        except errors.RayTaskError as error:
            return text_of(error.cause)
        except errors.RuntimeEnvSetupError as error:
            return f"runtime_env: {text_of(error)}"
        except Exception:  # noqa: BLE001 - Ray has many: of a worker, a host, memory
            return ""
        if code == REFUSED:
            self._refused.add(node)
        return told_of_end(code, host, self._address)


def reserved(of_a_worker: dict[str, Any], workers: int) -> dict[str, Any]:
    """What so many take together; Ray takes parts of one, and else whole numbers.

    >>> reserved({"num_cpus": 0.4, "memory": None, "resources": {"disk": 0.25}}, 3)
    {'num_cpus': 2, 'memory': None, 'resources': {'disk': 0.75}}
    """

    def times(amount: float) -> float:
        return workers * amount if workers * amount < 1 else math.ceil(workers * amount)

    memory = of_a_worker["memory"]
    return {
        "num_cpus": times(of_a_worker["num_cpus"]),
        "memory": None if memory is None else workers * memory,
        "resources": {name: times(amount) for name, amount in of_a_worker["resources"].items()},
    }


def _function() -> Callable[[str, int, str], tuple[int, str, str]]:
    """What hosts run; made here, it goes there by value, also where loaderkit is missing."""

    def loaderkit_workers(address: str, workers: int, secret: str) -> tuple[int, str, str]:
        import platform

        import ray

        try:
            from loaderkit._runtime.remote.fleet_process import keep
        except ImportError as error:
            raise ImportError(
                f"host {platform.node()} can't import loaderkit: {error}; install it there"
            ) from error
        node = ray.get_runtime_context().get_node_id()
        return keep(address, workers, secret), platform.node(), node

    return loaderkit_workers


def start() -> None:
    """Runs the process; the command of `start/launch.py` calls it."""
    serve(RayKeepers)
