"""Where batches go: what `device_iterator` takes as its sharding, checked, and what it means for the processes.

target   a Sharding: an array of the global batch's rows, which all processes in it make together; or a Device of this
         process: an array of this process's rows alone
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding

from loaderkit._base.tree import flatten
from loaderkit._order.sharding import Shard, ShardOptions

from .blocks import RowBlocks, blocks_of

Target: TypeAlias = Sharding | jax.Device

_EXPECTED = "sharding: expected a jax.sharding.Sharding, a device of this process, or a tree of them"


def first_device() -> jax.Device:
    """Where JAX puts an array of this process that isn't told where: its first device, if not configured otherwise.

    >>> first_device() == jax.local_devices()[0]
    True
    """
    config: Any = jax.config
    chosen = config.jax_default_device  # a device, a platform's name, or None
    return chosen if isinstance(chosen, jax.Device) else jax.local_devices(backend=chosen)[0]


def checked_targets(given: Any) -> list[Target]:
    """The targets in a tree of them; TypeError or ValueError with what to write where it isn't one.

    >>> checked_targets(2)
    Traceback (most recent call last):
        ...
    TypeError: sharding: expected a jax.sharding.Sharding, a device of this process, or a tree of them, got 2; how many
    batches are on their way is prefetch=2
    """
    leaves = (
        [given] if isinstance(given, PartitionSpec) else flatten(given)[0]
    )  # a tuple in older versions of JAX
    if isinstance(given, list | tuple) and leaves and all(isinstance(leaf, jax.Device) for leaf in leaves):
        raise TypeError(
            f"{_EXPECTED}, got {len(leaves)} devices: to share the rows among them write "
            "NamedSharding(Mesh(devices, 'data'), PartitionSpec('data'))"
        )
    if not leaves:
        raise TypeError(f"{_EXPECTED}, got {given!r:.200}")
    for leaf in leaves:
        if not isinstance(leaf, Sharding | jax.Device):
            raise TypeError(f"{_EXPECTED}, got {given!r:.200}{_advice(leaf)}")
        if isinstance(leaf, jax.Device) and leaf not in leaf.client.local_devices():
            raise ValueError(
                f"sharding: {leaf} belongs to another process, and this is process {jax.process_index()}: use one of "
                "jax.local_devices(), or a sharding for devices of several processes"
            )
    return leaves


def _advice(leaf: Any) -> str:
    if isinstance(leaf, PartitionSpec):
        return ": a spec says no devices, write NamedSharding(mesh, spec)"
    if isinstance(leaf, Mesh):
        return f": write NamedSharding(mesh, PartitionSpec({leaf.axis_names[0]!r}))"
    if isinstance(leaf, int) and not isinstance(leaf, bool):
        return f"; how many batches are on their way is prefetch={leaf}"
    return ""


def shardings_in(targets: Sequence[Target]) -> list[Sharding]:
    """Those whose arrays hold rows of the global batch.

    >>> shardings_in([first_device()])
    []
    """
    return [target for target in targets if isinstance(target, Sharding)]


def processes_of(shardings: Sequence[Sharding]) -> list[int]:
    """The processes that make the arrays of these shardings together, ascending.

    >>> processes_of([jax.sharding.SingleDeviceSharding(jax.devices()[0])])
    [0]
    """
    devices: list[Any] = [device for sharding in shardings for device in sharding.device_set]
    return sorted({device.process_index for device in devices})


def row_target(targets: Sequence[Target]) -> Target:
    """Of an array with nothing but rows, beside arrays of these targets: of the global batch, if any of them is.

    >>> mesh = Mesh(jax.devices()[:1], "x")
    >>> row_target([first_device(), NamedSharding(mesh, PartitionSpec("x", None))]).spec == PartitionSpec("x")
    True
    """
    first = next(iter(shardings_in(targets)), None)
    if isinstance(first, NamedSharding):
        return NamedSharding(first.mesh, PartitionSpec(*first.spec[:1]))  # type: ignore[no-untyped-call]
    return targets[0] if first is None else first


def check_process_order(sharding: Sharding, shard: Shard) -> None:
    """Raises ValueError where shards in the order of processes aren't the rows of their devices.

    They are on some meshes only; every process sees which.

    >>> check_process_order(jax.sharding.SingleDeviceSharding(jax.devices()[0]), ShardOptions(0, 1))
    """
    count = shard.shard_count
    if shard != ShardOptions(jax.process_index(), jax.process_count(), shard.drop_remainder) or count == 1:
        return
    needed: RowBlocks = blocks_of(sharding)
    advice = "use shard_options=lk.ShardBySharding(sharding), which loads the rows of this mesh"
    owners = {
        process: {block * count // needed.count for block in own} for process, own in needed.held.items()
    }
    if needed.count % count == 0 and all(own == {process} for process, own in owners.items()):
        return
    seen: dict[tuple[int, ...], int] = {}
    for process, own in needed.held.items():
        if own in seen:
            raise ValueError(
                f"sharding: processes {seen[own]} and {process} hold the same rows of it, and the loader gives each "
                f"process rows of its own: {advice}"
            )
        seen[own] = process
    order = dict.fromkeys(needed.writers)
    raise ValueError(
        f"sharding: its rows visit the processes in the order {', '.join(map(str, order))}, and the loader gives them "
        f"out in the order of their numbers: {advice}"
    )
