"""`lk.interop.ray.Workers`: a loader's workers on other hosts, which Ray starts there."""

import os
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from loaderkit._runtime.remote.connection import host_and_port
from loaderkit.errors import ClusterError

from .reservation import Reservation


@dataclass(frozen=True, slots=True)
class Workers(Reservation):
    """Workers of a `DataLoader` on the hosts of a Ray cluster, beside those here; they change no byte of its stream.

    Ray starts them, and again where they end; rows come over connections of their own, which each host opens to a port
    of this process. These prove that they know the loader's secret and are not encrypted. All users of the cluster can
    read that secret and run code as the user of its hosts, so use it on a private network with users that you trust.

    Args:
        count: how many, in all.
        per_host: how many have one host process in common, and in it the memory of the source: those of one request to
            Ray. With as many as a host has processors it is one process a host.
        num_cpus: processors that a worker takes; its libraries have one thread each.
        memory: bytes that a worker takes; None for no limit.
        resources: more that a worker takes, by the names of Ray.
        runtime_env: what the hosts lack, as Ray takes it: `{"pip": [...]}`, `{"py_modules": [...]}`.
        address: "auto" for the cluster that `ray start` has started here, or RAY_ADDRESS names; or "HOST:PORT".
        listen: "HOST:PORT" of the port here; None for a free one at the address by which Ray knows this host.
        advertise: "HOST" by which the others reach this one, where it is another.
        other_cpus: "refuse" leaves out hosts on which numpy, BLAS or OpenCV compute other last bits than here; "warn"
            takes them and logs a warning.

    ImportError naming the extra where Ray isn't installed, ValueError for an argument that means nothing, ClusterError
    where RAY_USE_TLS asks for encrypted connections.

    >>> Workers(64, per_host=16).count
    64
    """

    driver: ClassVar[str] = "loaderkit.interop.ray.fleet"  # the module of the process that talks to Ray

    count: int
    _: KW_ONLY
    per_host: int = 4
    listen: str | None = None
    advertise: str | None = None

    def __post_init__(self) -> None:
        Reservation.__post_init__(self)  # super() would look for the class before it had slots
        for name in ("count", "per_host"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise ValueError(f"{name}: expected an int of 1 or more, got {value!r:.80}")
        if self.listen is not None:
            try:
                host_and_port(self.listen)
            except ValueError as error:
                raise ValueError(f"listen: {error}") from None
        if self.advertise is not None and (not self.advertise or set("/[] ") & set(self.advertise)):
            raise ValueError(f"advertise: expected a host without a port, got {self.advertise!r:.80}")
        if os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true"):
            raise ClusterError(
                "RAY_USE_TLS asks for encrypted connections, and those of workers on other hosts aren't: their rows go "
                "in clear. Unset it for this process where the network is private, or load with workers here"
            )

    def settings(self) -> dict[str, Any]:
        """Of that process."""
        return {**Reservation.settings(self), "per_host": self.per_host}
