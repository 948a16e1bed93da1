"""JAX's processes as shards."""

import dataclasses

from loaderkit.plan.sharding import ShardOptions


@dataclasses.dataclass(frozen=True)
class ShardByJaxProcess:
    """One shard for each JAX process: process i of n loads shard i of n. Known when iteration starts.

    drop_remainder: as in `ShardOptions`.

    >>> ShardByJaxProcess().resolve()
    ShardOptions(shard_index=0, shard_count=1, drop_remainder=False)
    """

    drop_remainder: bool = False

    def resolve(self) -> ShardOptions:
        """Ask JAX which process this is; ImportError where JAX isn't installed.

        In a program of several processes `jax.distributed.initialize()` comes first.
        """
        try:
            import jax
        except ImportError as error:
            raise ImportError(
                "ShardByJaxProcess needs jax, which isn't installed: `pip install jax`, or say the shard "
                "yourself with ShardOptions(shard_index, shard_count), or NoSharding() for a single process"
            ) from error
        return ShardOptions(jax.process_index(), jax.process_count(), self.drop_remainder)
