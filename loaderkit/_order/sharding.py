"""Which part of the global batch one process loads, said as "number h of H", or as several of H equal blocks.

A sharding is anything with `resolve() -> Shard`: it is asked when iteration starts and never earlier, because the
number of processes may not be known when a script builds its loader.
"""

from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

from loaderkit._base.integers import as_int

from .store import Store


@runtime_checkable
class Sharding(Protocol):
    """What `shard_options` takes: something that can say which shard this process is."""

    def resolve(self) -> "Shard":
        """The shard of this process, asked when iteration starts."""


@dataclass(frozen=True)
class ShardOptions:
    """Shard `shard_index` of `shard_count`: of each global batch of N rows, the rows [h*N/H, (h+1)*N/H).

    shard_index: int in [0, shard_count). shard_count: int >= 1. drop_remainder: whether a last, partial batch
    gives each shard the same number of rows and drops the rest, instead of one row more to the first shards.
    store: where the processes agree on the last step, needed only for Filter or FlatMap with remainder="pad".
    A number of the wrong type is a TypeError, one out of range a ValueError.

    >>> ShardOptions(shard_index=1, shard_count=4)
    ShardOptions(shard_index=1, shard_count=4, drop_remainder=False)
    """

    shard_index: int
    shard_count: int
    drop_remainder: bool = False
    store: Store | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        count = as_int(
            "shard_count",
            self.shard_count,
            low=1,
            high=None,
            advice="give the number of processes that load together",
        )
        index = as_int(
            "shard_index",
            self.shard_index,
            low=0,
            high=count,
            advice=f"shards are numbered from 0, so of {count} the last is {count - 1}",
        )
        if not isinstance(self.drop_remainder, bool):
            raise TypeError(
                f"drop_remainder must be a bool, got {self.drop_remainder!r} of type"
                f" {type(self.drop_remainder).__name__}: give True or False"
            )
        object.__setattr__(self, "shard_count", count)
        object.__setattr__(self, "shard_index", index)

    @property
    def blocks(self) -> tuple[int, ...]:
        """The blocks of the shard, among `shard_count` equal ones: its own.

        >>> ShardOptions(1, 4).blocks
        (1,)
        """
        return (self.shard_index,)

    @property
    def writers(self) -> tuple[int, ...]:
        """The process that writes what a state says of each block: shard h is process h.

        >>> ShardOptions(1, 2).writers
        (0, 1)
        """
        return tuple(range(self.shard_count))

    def resolve(self) -> "ShardOptions":
        """The shard itself, as a plain ShardOptions.

        >>> NoSharding().resolve()
        ShardOptions(shard_index=0, shard_count=1, drop_remainder=False)
        """
        return ShardOptions(self.shard_index, self.shard_count, self.drop_remainder, self.store)


@dataclass(frozen=True)
class NoSharding(ShardOptions):
    """One process loads everything: shard 0 of 1.

    >>> NoSharding()
    NoSharding(shard_index=0, shard_count=1, drop_remainder=False)
    """

    shard_index: int = field(default=0, init=False)
    shard_count: int = field(default=1, init=False)
    drop_remainder: bool = field(default=False, init=False)
    store: None = field(default=None, init=False, compare=False, repr=False)


@dataclass(frozen=True)
class ShardBlocks:
    """Some of `shard_count` equal blocks: of each global batch of N rows, [b*N/H, (b+1)*N/H) for each block b.

    blocks: ascending ints in [0, shard_count), one or more; several shards may hold the same. writers: for each of all
    blocks, the process that writes what a state says of it. store: as in `ShardOptions`. ValueError for anything else.
    Every step gives every block as many rows as another.

    >>> ShardBlocks(blocks=(0, 3), shard_count=4, writers=(0, 1, 1, 0)).drop_remainder
    False
    """

    blocks: tuple[int, ...]
    shard_count: int
    writers: tuple[int, ...]
    store: Store | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.blocks or list(self.blocks) != sorted({*self.blocks} & {*range(self.shard_count)}):
            raise ValueError(
                f"blocks: expected some of 0 to {self.shard_count - 1}, ascending, got {self.blocks}"
            )
        if len(self.writers) != self.shard_count:
            raise ValueError(
                f"writers: expected one for each of {self.shard_count} blocks, got {self.writers}"
            )

    @property
    def drop_remainder(self) -> bool:
        """Nothing is dropped; where a last step can't give equal parts, `shard_spans` raises.

        >>> ShardBlocks(blocks=(1,), shard_count=2, writers=(0, 0)).drop_remainder
        False
        """
        return False


Shard: TypeAlias = ShardOptions | ShardBlocks
