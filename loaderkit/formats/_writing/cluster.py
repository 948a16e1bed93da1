"""Where the shards of a set may be made besides this machine."""

from collections.abc import Mapping
from typing import Any, Protocol

from loaderkit._base.system.dataclasses import dataclass


class Cluster(Protocol):
    """Hosts that do tasks, such as `lk.interop.ray.Tasks`.

    Attributes:
        driver: the module of the process that talks to them, as `Driver` takes it.
        other_cpus: "refuse" for hosts on which libraries compute other bits than here, "warn" to take them.
    """

    @property
    def driver(self) -> str: ...

    @property
    def other_cpus(self) -> str: ...

    def settings(self) -> dict[str, Any]:
        """Of the driver: a dict of what pickle knows without the user's code."""
        ...


@dataclass(frozen=True, slots=True)
class ClusterWork:
    """What goes to a cluster.

    cluster: the hosts. source: of the records. functions: the user's, by the names of the arguments. libraries: their
    versions here, by name; "python" among them.
    """

    cluster: Cluster
    source: Any
    functions: Mapping[str, Any]
    libraries: Mapping[str, str]


def check_cluster(cluster: Any) -> None:
    """TypeError for an argument that is no cluster."""
    if cluster is not None and not all(
        hasattr(cluster, name) for name in ("driver", "other_cpus", "settings")
    ):
        raise TypeError(f"cluster: expected lk.interop.ray.Tasks(...) or None, got {cluster!r:.80}")
