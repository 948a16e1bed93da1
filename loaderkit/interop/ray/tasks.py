"""`lk.interop.ray.Tasks`: how the tasks of a map-reduce run on Ray."""

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from loaderkit._base.extras import missing_library

_ADVICE = "'auto' for the cluster of this machine, or HOST:PORT of its head"


@dataclass(frozen=True, slots=True)
class Tasks:
    """Has the shards of `lk.offline.map_shards` made by Ray, a task a shard.

    Ray runs in a process of its own, never in this one. All users of the cluster can run code as the user of its hosts,
    so use it on a private network with users that you trust.

    Args:
        num_cpus: processors that a task takes; its libraries have one thread each.
        memory: bytes that a task takes; None for no limit.
        resources: more that a task takes, by the names of Ray.
        runtime_env: what the hosts lack, as Ray takes it: `{"pip": [...]}`, `{"py_modules": [...]}`.
        address: "auto" for the cluster that `ray start` has started here, or RAY_ADDRESS names; or "HOST:PORT".
        other_cpus: "refuse" raises ClusterError where numpy, BLAS or OpenCV compute other last bits on a host than
            here; "warn" takes its shards and logs a warning.

    ImportError naming the extra where Ray isn't installed, ValueError for an argument that means nothing.

    >>> Tasks(num_cpus=2).other_cpus
    'refuse'
    """

    driver: ClassVar[str] = "loaderkit.interop.ray.driver"  # the module of the process that talks to Ray

    num_cpus: float = 1
    memory: int | None = None
    resources: Mapping[str, float] | None = None
    runtime_env: Mapping[str, Any] | None = None
    address: str = "auto"
    other_cpus: str = "refuse"

    def __post_init__(self) -> None:
        if importlib.util.find_spec("ray") is None:
            raise missing_library("lk.interop.ray.Tasks needs", "ray", "ray")
        if not self.num_cpus >= 0:
            raise ValueError(f"num_cpus: expected 0 or more, got {self.num_cpus!r:.80}")
        if self.other_cpus not in ("refuse", "warn"):
            raise ValueError(f"other_cpus: expected 'refuse' or 'warn', got {self.other_cpus!r:.80}")
        if "://" in self.address or self.address in ("", "local"):
            raise ValueError(f"address: expected {_ADVICE}, got {self.address!r:.80}")

    def settings(self) -> dict[str, Any]:
        """Of that process."""
        return {
            "address": self.address,
            "runtime_env": dict(self.runtime_env or {}),
            "options": {
                "num_cpus": self.num_cpus,
                "memory": self.memory,
                "resources": dict(self.resources or {}),
            },
        }
