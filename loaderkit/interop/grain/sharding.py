"""Which part of the records a process loads, as Grain's samplers and its DataLoader are told."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from loaderkit._base.numbers import at_least

from ._installed import is_of_grain

__all__ = ["NoSharding", "ShardByJaxProcess", "ShardOptions", "even_split"]


@dataclass(frozen=True)
class ShardOptions:
    """Shard `shard_index` of `shard_count`.

    Args:
        shard_index: int in [0, shard_count).
        shard_count: int >= 1.
        drop_remainder: whether an IndexSampler gives all shards the same number of records.

    Raises TypeError for what is no integer, ValueError for a number out of range.

    >>> ShardOptions(1, 4)
    ShardOptions(shard_index=1, shard_count=4, drop_remainder=False)
    """

    shard_index: int
    shard_count: int
    drop_remainder: bool = False

    def __post_init__(self) -> None:
        count = at_least("shard_count", self.shard_count, 1)
        if at_least("shard_index", self.shard_index, 0) >= count:
            raise ValueError(
                f"shard_index: expected 0 to {count - 1} (shard_count - 1), got {self.shard_index}"
            )


class NoSharding(ShardOptions):
    """One process loads everything.

    >>> NoSharding()
    NoSharding(shard_index=0, shard_count=1, drop_remainder=False)
    """

    def __init__(self) -> None:
        super().__init__(0, 1, drop_remainder=False)


class ShardByJaxProcess(ShardOptions):
    """JAX process i of n loads shard i of n; without JAX the only one.

    Args:
        drop_remainder: whether an IndexSampler gives all shards the same number of records.

    >>> ShardByJaxProcess().shard_count
    1
    """

    def __init__(self, drop_remainder: bool = False) -> None:
        index, count = 0, 1
        # Imported here, as Grain does: on a cluster that JAX finds by itself, a script may not have imported it yet.
        with suppress(ImportError):
            import jax

            index, count = jax.process_index(), jax.process_count()
        super().__init__(index, count, drop_remainder)


def even_split(num_examples: int, options: ShardOptions) -> tuple[int, int]:
    """The range [start, stop) of records that belong to a shard: consecutive ones, the first shards get one more.

    Args:
        num_examples: records of all shards.
        options: which shard.

    >>> even_split(8, ShardOptions(1, 3)), even_split(8, ShardOptions(1, 3, drop_remainder=True))
    ((3, 6), (2, 4))
    """
    each, left = divmod(num_examples, options.shard_count)
    more = 0 if options.drop_remainder else left
    start = each * options.shard_index + min(options.shard_index, more)
    stop = each * (options.shard_index + 1) + min(options.shard_index + 1, more)
    return start, stop


def as_shard_options(options: Any) -> ShardOptions | None:
    """Ours, or Grain's own as ours; None for anything else.

    >>> as_shard_options(NoSharding()), as_shard_options("all")
    (NoSharding(shard_index=0, shard_count=1, drop_remainder=False), None)
    """
    if isinstance(options, ShardOptions):
        return options
    if not is_of_grain(options, "ShardOptions"):
        return None
    return ShardOptions(options.shard_index, options.shard_count, options.drop_remainder)
