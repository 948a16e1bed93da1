"""The rows of a global batch that this JAX process loads: by its process index, or those that its devices hold."""

from __future__ import annotations

from dataclasses import dataclass

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding

from loaderkit._order.sharding import ShardBlocks, ShardOptions

from .announced import check_initialized
from .blocks import blocks_of, check_sharding
from .store import store_of

TIMEOUT = 300.0  # seconds, as jax.distributed.initialize waits for processes


@dataclass(frozen=True)
class ShardByJaxProcess:
    """One shard for each JAX process: process i of n loads shard i of n. Resolved when iteration starts.

    For data parallelism over a mesh that has the processes in order; `ShardBySharding` is for any mesh. A program of
    several processes has to call `jax.distributed.initialize()` first.

    drop_remainder: as in `ShardOptions`. timeout: seconds that a process waits for the others when they compare plans
    and agree on the last step.

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

    sharding: of the batch's arrays, or a Mesh. spec: with a Mesh, the PartitionSpec; its first entry divides the
    rows. timeout: seconds that a process waits for the others when they compare plans and agree on the last step.
    TypeError for other types.

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
