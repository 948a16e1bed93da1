"""A loader that gives each record of a source once, in order, to this process alone."""

from collections.abc import Sequence
from typing import Any

from loaderkit._order.sharding import NoSharding
from loaderkit.samplers.epochs import SequentialSampler
from loaderkit.transforms.base import Transformation

from .loader import DataLoader


def one_pass(
    source: Any, operations: Sequence[Transformation] = (), *, worker_count: int | None, **options: Any
) -> DataLoader[Any]:
    """The loader of a function that goes through a data set, such as `lk.offline.measure`.

    Args:
        source, operations, worker_count, options: as `DataLoader` takes them.

    >>> with one_pass(["a", "b"], worker_count=0) as loader:
    ...     list(loader)
    ['a', 'b']
    """
    return DataLoader(
        data_source=source,
        sampler=SequentialSampler(len(source)),
        operations=operations,
        worker_count=worker_count,
        shard_options=NoSharding(),
        agree=False,
        **options,
    )
