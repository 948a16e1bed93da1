"""What a loader needs of a description of workers on other machines, such as `lk.interop.ray.Workers`."""

from typing import Any, Protocol


class RemoteWorkers(Protocol):
    """Workers on other hosts, such as `lk.interop.ray.Workers`.

    Attributes:
        count: how many, in all.
        driver: the module of the process that has them started, which calls `serve` of fleet_process.py.
        listen: HOST:PORT for the trainer's port; None for a free one at the address by which the cluster knows this
            host.
        advertise: the host that keepers connect to instead of that one.
        other_cpus: "refuse" for hosts on which libraries compute other bits than here, "warn" to take them.
    """

    @property
    def count(self) -> int: ...

    @property
    def driver(self) -> str: ...

    @property
    def listen(self) -> str | None: ...

    @property
    def advertise(self) -> str | None: ...

    @property
    def other_cpus(self) -> str: ...

    def settings(self) -> dict[str, Any]:
        """Of the driver: a dict of what pickle knows without the user's code; "per_host" are workers of a keeper."""
        ...
