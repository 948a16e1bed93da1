"""`lk.interop.ray.Tasks`: how the tasks of a map-reduce run on Ray."""

from dataclasses import dataclass
from typing import ClassVar

from .reservation import Reservation


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks(Reservation):
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
