"""Checks the `sharding` argument of `device_iterator`, also against the rows that each process loads.

target   a Sharding: an array of the global batch's rows, which all processes in it make together; or a Device of this
         process: an array of this process's rows only
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding

from loaderkit._base.tree import flatten
from loaderkit._order.sharding import Shard, ShardOptions

from .sharding import RowBlocks, blocks_of

Target: TypeAlias = Sharding | jax.Device

_EXPECTED = "sharding: expected a jax.sharding.Sharding, a device of this process, or a tree of them"


def first_device() -> jax.Device:
    """JAX's default device in this process: its first one, if not configured otherwise.

    >>> first_device() == jax.local_devices()[0]
    True
    """
    config: Any = jax.config
    chosen = config.jax_default_device  # a device, a platform's name, or None
    return chosen if isinstance(chosen, jax.Device) else jax.local_devices(backend=chosen)[0]


def checked_targets(tree: Any) -> list[Target]:
    """The targets in a tree of targets; TypeError or ValueError, with what to write, for anything else.

    >>> checked_targets(2)
    Traceback (most recent call last):
        ...
    TypeError: sharding: expected a jax.sharding.Sharding, a device of this process, or a tree of them, got 2; for
    the number of batches on their way write prefetch=2
    """
    # PartitionSpec is a tuple in older versions of JAX.
    leaves = [tree] if isinstance(tree, PartitionSpec) else flatten(tree)[0]
    if isinstance(tree, list | tuple) and leaves and all(isinstance(leaf, jax.Device) for leaf in leaves):
        raise TypeError(
            f"{_EXPECTED}, got {len(leaves)} devices; to share the rows among them write "
            "NamedSharding(Mesh(devices, 'data'), PartitionSpec('data'))"
        )
    if not leaves:
        raise TypeError(f"{_EXPECTED}, got {tree!r:.200}")
    for leaf in leaves:
        if not isinstance(leaf, Sharding | jax.Device):
            raise TypeError(f"{_EXPECTED}, got {tree!r:.200}{_advice(leaf)}")
        if isinstance(leaf, jax.Device) and leaf not in leaf.client.local_devices():
            raise ValueError(
                f"sharding: expected a device of this process, {jax.process_index()}, got {leaf}, which belongs to "
                "another process; use one of jax.local_devices(), or a sharding for devices of several processes"
            )
    return leaves


def _advice(leaf: Any) -> str:
    if isinstance(leaf, PartitionSpec):
        return "; a spec names no devices, write NamedSharding(mesh, spec)"
    if isinstance(leaf, Mesh):
        return f"; write NamedSharding(mesh, PartitionSpec({leaf.axis_names[0]!r}))"
    if isinstance(leaf, int) and not isinstance(leaf, bool):
        return f"; for the number of batches on their way write prefetch={leaf}"
    return ""


def shardings_in(targets: Sequence[Target]) -> list[Sharding]:
    """The targets that are shardings; their arrays have the rows of the global batch.

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
    """The target of an array with one axis, the rows: of the global batch if one of `targets` is a sharding.

    >>> mesh = Mesh(jax.devices()[:1], "x")
    >>> row_target([first_device(), NamedSharding(mesh, PartitionSpec("x", None))]).spec == PartitionSpec("x")
    True
    """
    first = next(iter(shardings_in(targets)), None)
    if isinstance(first, NamedSharding):
        return NamedSharding(first.mesh, PartitionSpec(*first.spec[:1]))  # type: ignore[no-untyped-call]
    return targets[0] if first is None else first


def check_process_order(sharding: Sharding, shard: Shard) -> None:
    """Raises ValueError where process i loads shard i and its devices hold the rows of another shard.

    Whether they do depends on the mesh, which every process knows, so all processes raise or none.

    >>> check_process_order(jax.sharding.SingleDeviceSharding(jax.devices()[0]), ShardOptions(0, 1))
    """
    count = shard.shard_count
    if shard != ShardOptions(jax.process_index(), jax.process_count(), shard.drop_remainder) or count == 1:
        return
    needed: RowBlocks = blocks_of(sharding)
    advice = "use shard_options=lk.ShardBySharding(sharding), which loads the rows of this mesh"
    shards_of_process = {
        process: {block * count // needed.count for block in own} for process, own in needed.held.items()
    }
    if needed.count % count == 0 and all(own == {process} for process, own in shards_of_process.items()):
        return
    seen: dict[tuple[int, ...], int] = {}
    for process, own in needed.held.items():
        if own in seen:
            raise ValueError(
                f"sharding: expected different rows in each process, as the loader loads them, got the same rows in "
                f"processes {seen[own]} and {process}; {advice}"
            )
        seen[own] = process
    order = dict.fromkeys(needed.writers)
    raise ValueError(
        f"sharding: expected its rows in the order of the process numbers, as the loader loads them, got the order "
        f"{', '.join(map(str, order))}; {advice}"
    )
