"""Whose batches these are: after 0.2.18 Grain's loaders keep the records that don't fill all shards."""

import importlib.metadata
import re
import sys
import warnings
from functools import cache

from .sharding import ShardOptions

OLDER, NEWER = "0.2.18", "0.2.19"


def length_of(size: int, shard: ShardOptions, version: str | None) -> int:
    """How many of a sampler's indices a shard reads. ValueError for another version than these two.

    Args:
        size: of the sampler.
        shard: which one; with drop_remainder all shards read alike.
        version: of Grain, None for 0.2.18, with a warning where the installed Grain is newer and reads more.

    >>> (
    ...     [length_of(7, ShardOptions(index, 3), "0.2.19") for index in range(3)],
    ...     length_of(7, ShardOptions(0, 3), "0.2.18"),
    ... )
    ([3, 2, 2], 2)
    """
    if version not in (None, OLDER, NEWER):
        raise ValueError(f"grain_version: expected {OLDER!r} or {NEWER!r}, got {version!r}")
    each, left = divmod(size, shard.shard_count)
    if shard.drop_remainder or not left:
        return each
    if version is None:
        _warn_of_newer()
    return each + (version == NEWER and shard.shard_index < left)


@cache  # once for a process
def _warn_of_newer() -> None:
    try:
        installed = importlib.metadata.version("grain")
    except importlib.metadata.PackageNotFoundError:
        return
    if [*map(int, re.findall(r"\d+", installed)[:3])] > [0, 2, 18]:
        warnings.warn(
            f"grain {installed} is installed, which reads the records that don't fill all shards, too; these batches "
            f"are those of {OLDER}. Give grain_version={NEWER!r}, or grain_version={OLDER!r} to keep them",
            stacklevel=4,
        )


def compare(shard: ShardOptions, version: str) -> None:
    """Raises ValueError where another process of a JAX run has begun with another version; waits for none."""
    distributed = sys.modules.get("jax._src.distributed")
    if distributed is None or distributed.global_state.num_processes != shard.shard_count:
        return  # one process, or shards that aren't the processes of the run
    from loaderkit.interop.jax.store import store_of

    store = store_of(range(shard.shard_count), shard.shard_index, timeout=0)
    if store is None:
        return
    folder = f"grain/{store.count('grain')}/"
    store.post(f"{folder}{store.process}", version)
    others = {key.rpartition("/")[2]: other for key, other in store.read(folder).items() if other != version}
    if others:
        raise ValueError(
            f"grain_version: expected the same in all processes, got {version} here and {others} by process: "
            "they would make other numbers of steps"
        )
