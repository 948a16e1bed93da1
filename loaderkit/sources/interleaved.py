"""Several sources in turn, as tf.data's `interleave` reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loaderkit._base.former_arguments import former_arguments
from loaderkit._base.hints import refusing_foreign_arguments
from loaderkit._order.sharding import Sharding
from loaderkit.samplers import InterleavedSampler

from . import ConcatDataSource
from .checked import require_source
from .parts import parts_of


@former_arguments(removed_in="0.3.0", left_out={"num_epochs": 1})
@refusing_foreign_arguments
def interleave(
    sources: Sequence[Any] | Mapping[str, Any],
    *,
    cycle_length: int | None = None,
    block_length: int = 1,
    num_epochs: int | None,
    seed: int | None = None,
    shard_options: Sharding | None = None,
) -> tuple[ConcatDataSource, InterleavedSampler]:
    """The records of several sources in turn, in exactly the order of tf.data's `interleave`; any place in O(log n).

    Args:
        sources: data sources, or data sources by name; some may be empty, but not all. In the order in which tf.data
            would get them.
        cycle_length: how many sources are open at a time, None for all. Where one has no more records, the next source
            takes its place when its turn comes again.
        block_length: how many consecutive records of a source are read in its turn.
        num_epochs: how many times the same order is read, None for an endless stream. Say it: without it that is once,
            with a DeprecationWarning, and 0.3 requires it.
        seed: int in [0, 2**64), for random operations.
        shard_options: used by a loader that gets none of its own.

    Returns the source and the sampler for a DataLoader. TypeError and ValueError as ConcatDataSource and
    InterleavedSampler raise them.

    >>> import loaderkit as lk
    >>> source, sampler = interleave([["a", "b", "c"], ["D"], ["e", "f"]], cycle_length=2, num_epochs=1)
    >>> "".join(lk.DataLoader(data_source=source, sampler=sampler, operations=[]))
    'aDbcef'
    """
    if isinstance(sources, str | bytes):  # each of its characters would be a source
        require_source(sources, argument="sources")
    names, each = parts_of(sources)
    source = ConcatDataSource(each if names is None else dict(zip(names, each, strict=True)))
    for place, one in zip(source.names or range(len(each)), each, strict=True):
        require_source(one, argument=f"sources[{place!r}]")
    sampler = InterleavedSampler(
        [len(one) for one in each],
        cycle_length=cycle_length,
        block_length=block_length,
        num_epochs=num_epochs,
        seed=seed,
        shard_options=shard_options,
    )
    return source, sampler
