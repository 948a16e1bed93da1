"""The rows of a global batch that this JAX process loads: by its process index, or those that its devices hold."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding

from loaderkit._order.sharding import ShardBlocks, ShardOptions

from .store import store_of

TIMEOUT = 300.0  # seconds, as jax.distributed.initialize waits for processes


def announced_processes(environment: Mapping[str, str]) -> tuple[int, str] | None:
    """The number of processes that an environment variable announces, and its name; None for one or no variable.

    They are those by which `jax.distributed.initialize()` detects a cluster; no service is asked.

    >>> announced_processes({"OMPI_MCA_orte_hnp_uri": "1.0;tcp://10.0.0.1:9", "OMPI_COMM_WORLD_SIZE": "4"})
    (4, 'OMPI_COMM_WORLD_SIZE')
    >>> announced_processes({"SLURM_NTASKS": "4"})
    """
    for name, beside in (
        ("OMPI_COMM_WORLD_SIZE", ("OMPI_MCA_orte_hnp_uri",)),
        ("SLURM_NTASKS", ("SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_PROCID")),
    ):
        count = environment.get(name, "")
        if all(other in environment for other in beside) and count.isdigit() and int(count) > 1:
            return int(count), name
    for name in ("TPU_PROCESS_ADDRESSES", "TPU_WORKER_HOSTNAMES"):
        hosts = environment.get(name, "").split(",")
        if len(hosts) > 1:
            return len(hosts), name
    if "JAX_COORDINATOR_ADDRESS" in environment:
        return 2, "JAX_COORDINATOR_ADDRESS"  # at least two, or no coordinator would be needed
    return None


def check_initialized(processes: int) -> None:
    """Raises RuntimeError where JAX counts one process and the environment announces several.

    processes: `jax.process_count()`.

    >>> check_initialized(2)
    """
    initialized = processes > 1 or jax.distributed.is_initialized()
    found = None if initialized else announced_processes(os.environ)
    if found is not None:
        count, name = found
        raise RuntimeError(
            f"jax.process_count(): expected {count}{' or more' if 'COORD' in name else ''}, got 1: {name} announces a "
            "cluster, and each of its processes would load all data; call jax.distributed.initialize() before "
            "iterating, or use shard_options=lk.NoSharding() for independent processes"
        )


@dataclass(frozen=True, slots=True)
class RowBlocks:
    """The equal blocks into which a sharding divides the rows of a global array; block b has [b*N/H, (b+1)*N/H).

    The first entry of the spec gives their number H. The devices of a block don't depend on the number of rows N.

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


@dataclass(frozen=True)
class ShardByJaxProcess:
    """One shard for each JAX process: process i of n loads shard i of n. Resolved when iteration starts.

    For data parallelism over a mesh that has the processes in order; `ShardBySharding` is for any mesh. A program of
    several processes has to call `jax.distributed.initialize()` first.

    Args:
        drop_remainder: as in `ShardOptions`.
        timeout: seconds that a process waits for the others when they compare plans and agree on the last step.

    >>> ShardByJaxProcess().resolve()
    ShardOptions(shard_index=0, shard_count=1, drop_remainder=False)
    """

    drop_remainder: bool = False
    timeout: float = TIMEOUT

    def resolve(self) -> ShardOptions:
        """The shard of this process; RuntimeError where the environment announces a cluster that JAX doesn't know."""
        index, count = jax.process_index(), jax.process_count()
        check_initialized(count)
        store = store_of(range(count), index, self.timeout)
        return ShardOptions(index, count, self.drop_remainder, store)


@dataclass(frozen=True)
class ShardBySharding:
    """The rows that this process's devices hold of arrays with this sharding. Resolved when iteration starts.

    For any mesh: with processes in any order, several processes that hold the same rows, or rows that aren't adjacent.
    The last Batch needs a `global_batch_size`.

    Args:
        sharding: of the batch's arrays, or a Mesh. TypeError for another object.
        spec: with a Mesh, the PartitionSpec, whose first entry divides the rows; TypeError for another object.
        timeout: seconds that a process waits for the others when they compare plans and agree on the last step.

    >>> import jax
    >>> from jax.sharding import Mesh, PartitionSpec
    >>> mesh = Mesh(jax.devices()[:1], "data")
    >>> ShardBySharding(mesh, PartitionSpec("data")).resolve()
    ShardBlocks(blocks=(0,), shard_count=1, writers=(0,))
    """

    sharding: Sharding | Mesh
    spec: PartitionSpec | None = None
    timeout: float = TIMEOUT

    def __post_init__(self) -> None:
        if isinstance(self.sharding, Mesh):
            if not isinstance(self.spec, PartitionSpec):
                raise TypeError(
                    f"spec: expected the PartitionSpec of the batch's arrays on this mesh, such as "
                    f"PartitionSpec({self.sharding.axis_names[0]!r}), got {self.spec!r}"
                )
            object.__setattr__(self, "sharding", NamedSharding(self.sharding, self.spec))
            object.__setattr__(self, "spec", None)
        elif self.spec is not None:
            raise TypeError(f"spec: expected None beside a sharding, which has its own, got {self.spec!r}")
        check_sharding("sharding", self.sharding)

    def resolve(self) -> ShardBlocks:
        """The blocks of rows on this process's devices; ValueError where the sharding has no device of this process."""
        assert isinstance(self.sharding, Sharding)
        index = jax.process_index()
        check_initialized(jax.process_count())
        blocks = blocks_of(self.sharding)
        if index not in blocks.held:
            raise ValueError(
                f"sharding: expected a device of this process, {index}, got devices of processes "
                f"{', '.join(map(str, blocks.held))} only"
            )
        store = store_of(list(blocks.held), index, self.timeout)
        return ShardBlocks(blocks.held[index], blocks.count, blocks.writers, store)
