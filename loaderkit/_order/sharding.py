"""Which part of the global batch one process loads: shard h of H, or several of H equal blocks.

A sharding is any object with `resolve() -> Shard`. The loader calls it when iteration starts and never earlier, because
the number of processes may not be known when a script builds its loader.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from reprlib import repr as _short
from typing import Protocol, TypeAlias, runtime_checkable

from loaderkit._base.hints import refusing_foreign_arguments
from loaderkit._base.numbers import at_least, true_or_false

from .store import Store


@runtime_checkable
class Sharding(Protocol):
    """What `shard_options` takes: an object that knows which shard this process is."""

    def resolve(self) -> Shard:
        """The shard of this process; called when iteration starts."""


@refusing_foreign_arguments
@dataclass(frozen=True)
class ShardOptions:
    """Shard `shard_index` of `shard_count`: of each global batch of N rows, the rows [h*N/H, (h+1)*N/H).

    Args:
        shard_index: int in [0, shard_count).
        shard_count: int >= 1.
        drop_remainder: True gives each shard the same number of rows of a last, partial batch and drops the rest;
            False gives the first shards one row more.
        store: where the processes agree on the last step, needed only for Filter or FlatMap with remainder="pad".

    A number of the wrong type is a TypeError, a number out of range a ValueError.

    >>> ShardOptions(shard_index=1, shard_count=4)
    ShardOptions(shard_index=1, shard_count=4, drop_remainder=False)
    """

    shard_index: int
    shard_count: int
    drop_remainder: bool = False
    store: Store | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        count = at_least(
            "shard_count", self.shard_count, 1, advice="give the number of processes that load together"
        )
        index = at_least("shard_index", self.shard_index, 0, below=count, advice="shards are numbered from 0")
        true_or_false("drop_remainder", self.drop_remainder)
        object.__setattr__(self, "shard_count", count)
        object.__setattr__(self, "shard_index", index)

    @property
    def blocks(self) -> tuple[int, ...]:
        """The shard's blocks, of `shard_count` equal ones: block `shard_index`.

        >>> ShardOptions(1, 4).blocks
        (1,)
        """
        return (self.shard_index,)

    @property
    def writers(self) -> tuple[int, ...]:
        """For each block the process that writes its part of a state: process h for block h.

        >>> ShardOptions(1, 2).writers
        (0, 1)
        """
        return tuple(range(self.shard_count))

    def resolve(self) -> ShardOptions:
        """The same shard as a plain ShardOptions.

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

    Args:
        blocks: one or more ascending ints in [0, shard_count), else a ValueError; several shards may hold the same
            block.
        shard_count: int >= 1. Every step gives all blocks the same number of rows.
        writers: for each of the shard_count blocks, the process that writes its part of a state. ValueError for
            another number of them.
        store: as in `ShardOptions`.

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
        """Always False: no row is dropped, and a last step without equal parts is an error of `shard_spans`.

        >>> ShardBlocks(blocks=(1,), shard_count=2, writers=(0, 0)).drop_remainder
        False
        """
        return False


Shard: TypeAlias = ShardOptions | ShardBlocks


def check_sharding(options: object, name: str = "shard_options") -> None:
    """TypeError for options that are neither None nor a sharding; name: what they are called in the error.

    >>> check_sharding(3)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    TypeError: shard_options: expected ShardOptions(...), NoSharding(), ... got 3
    """
    if options is not None and not isinstance(options, Sharding):
        raise TypeError(
            f"{name}: expected ShardOptions(...), NoSharding(), ShardByJaxProcess() or ShardBySharding(...), "
            f"got {_short(options)}"
        )
