"""The most common loaders in one call."""

from collections.abc import Iterable
from typing import Any

from loaderkit._runtime.reading import ReadOptions
from loaderkit.foreign import refuse_foreign_keywords
from loaderkit.loader import DataLoader
from loaderkit.plan.samplers import IndexSampler
from loaderkit.plan.sharding import Sharding
from loaderkit.sources import check_source
from loaderkit.transforms.base import Batch
from loaderkit.transforms.operations import Operation

_LOADER_OPTIONS = {
    *("worker_kind", "prefetch_batches", "max_memory", "logical_streams", "num_steps"),
    *("on_record_error", "max_bad_records", "quarantine", "verify", "agree"),
    *("max_worker_restarts", "worker_timeout", "on_worker_timeout"),
}


def load(
    source: Any,
    *,
    num_epochs: int | None = None,
    shuffle: bool = False,
    seed: int | None = None,
    shard_options: Sharding | None = None,
    transformations: Iterable[Operation] = (),
    batch_size: int | None = None,
    drop_remainder: bool = False,
    worker_count: int | None = 0,
    read_options: ReadOptions | None = None,
    **options: Any,
) -> DataLoader:
    """A DataLoader over a source in one call.

    Args:
        source: anything with `__len__` and `__getitem__`.
        num_epochs, shuffle, seed: as IndexSampler takes them; without num_epochs the stream has no end.
        shard_options, worker_count, read_options: as DataLoader takes them.
        transformations: its operations.
        batch_size, drop_remainder: of a Batch behind them, None for none.
        options: what else DataLoader takes.

    >>> import loaderkit as lk
    >>> [batch.tolist() for batch in lk.load([1, 2, 3], num_epochs=1, batch_size=2)]
    [[1, 2], [3]]
    """
    if "operations" in options:
        raise TypeError("load() has no argument operations; instead of it write: transformations=[...]")
    refuse_foreign_keywords("load", {name: options[name] for name in options.keys() - _LOADER_OPTIONS})
    if drop_remainder and batch_size is None:
        raise ValueError("drop_remainder: there is no batch to drop; give batch_size too")
    check_source(source)
    operations = [*transformations]
    if batch_size is not None:
        operations.append(Batch(batch_size, drop_remainder=drop_remainder))
    return DataLoader(
        data_source=source,
        sampler=IndexSampler(len(source), shuffle=shuffle, num_epochs=num_epochs, seed=seed),
        operations=operations,
        shard_options=shard_options,
        worker_count=worker_count,
        read_options=read_options,
        **options,
    )
