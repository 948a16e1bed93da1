"""The rows of a batch that a sharding puts on the devices of each process.

A sharding divides the rows of a global array into equal *blocks*; the first entry of its spec gives their number H.
Block b holds the rows [b*N/H, (b+1)*N/H). The devices of a block don't depend on N.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jax.sharding import NamedSharding, Sharding


@dataclass(frozen=True, slots=True)
class RowBlocks:
    """The blocks into which a sharding divides rows.

    count: H. held: {process: its blocks, ascending} for the processes that have a device in the sharding.

    >>> import jax
    >>> blocks_of(jax.sharding.SingleDeviceSharding(jax.devices()[0]))
    RowBlocks(count=1, held={0: (0,)})
    """

    count: int
    held: dict[int, tuple[int, ...]]

    @property
    def writers(self) -> tuple[int, ...]:
        """The first process that holds each block."""
        return tuple(min(p for p, own in self.held.items() if block in own) for block in range(self.count))


def blocks_of(sharding: Sharding) -> RowBlocks:
    """The blocks of a sharding along its first axis, for an array of any shape."""
    devices = len(sharding.device_set)
    # Any spec can divide each axis of this shape: the number of parts of an axis divides the number of devices.
    rank = max(1, len(sharding.spec)) if isinstance(sharding, NamedSharding) else 1
    found: Mapping[Any, Any] = sharding.devices_indices_map((devices,) * rank)
    held: dict[int, set[int]] = {}
    count = 1
    for device, index in found.items():
        low, high, _ = index[0].indices(devices)
        count = devices // (high - low)
        held.setdefault(device.process_index, set()).add(low // (high - low))
    return RowBlocks(count, {process: tuple(sorted(held[process])) for process in sorted(held)})


def check_sharding(name: str, value: Any) -> Sharding:
    """Returns the value if it is a sharding of JAX, and raises TypeError otherwise.

    >>> check_sharding("sharding", 3)
    Traceback (most recent call last):
        ...
    TypeError: sharding: expected a jax.sharding.Sharding, such as NamedSharding(mesh, PartitionSpec('data')), got 3
    """
    if not isinstance(value, Sharding):
        raise TypeError(
            f"{name}: expected a jax.sharding.Sharding, such as NamedSharding(mesh, PartitionSpec('data')), "
            f"got {value!r}"
        )
    return value
