"""The rows of a batch that a sharding puts on the devices of each process.

A sharding cuts the rows of a global array in equal *blocks*, as many as the first entry of its spec says; block b of
H holds the rows [b*N/H, (b+1)*N/H). Which block lies where doesn't depend on N.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jax.sharding import NamedSharding, Sharding


@dataclass(frozen=True, slots=True)
class RowBlocks:
    """How a sharding cuts rows.

    count: H. held: the blocks of each process that has a device in it, ascending, by process.

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
    """The blocks of a sharding of any array, by its first axis."""
    devices = len(sharding.device_set)
    # Whatever the spec, each axis of this shape can be cut: the parts of an axis divide the number of devices.
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
    """The value, if it is a sharding of JAX's; TypeError with what to write otherwise.

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
