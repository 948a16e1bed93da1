"""The most common loaders in one call."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from loaderkit._base.former_arguments import former_arguments
from loaderkit._base.hints import refusing_foreign_arguments
from loaderkit._loader.loader import DataLoader
from loaderkit._order.sharding import Sharding
from loaderkit._runtime.remote.remote_workers import RemoteWorkers
from loaderkit._runtime.worker.bad_record_handler import OnRecordError
from loaderkit._runtime.worker.reading import ReadOptions
from loaderkit._source.protocol import RandomAccessDataSource
from loaderkit.samplers.spans import sampler_over
from loaderkit.sources.checked import check_source
from loaderkit.transforms.base import Batch
from loaderkit.transforms.operations import Operation, as_operations

from .known_files import warn_of_columns, warn_of_file_names


@former_arguments(removed_in="0.3.0", renamed={"transformations": "operations"})
@refusing_foreign_arguments
def load(
    source: RandomAccessDataSource[Any] | Mapping[str, Any],
    *,
    num_epochs: int | None = None,
    shuffle: bool = False,
    seed: int | None = None,
    shard_options: Sharding | None = None,
    operations: Iterable[Operation] = (),
    batch_size: int | None = None,
    drop_remainder: bool = False,
    worker_count: int | Literal["auto"] | None = 0,
    worker_kind: str = "process",
    cpu: str | None = None,
    remote_workers: RemoteWorkers | None = None,
    prefetch_batches: int = 2,
    read_options: ReadOptions | None = None,
    max_memory: int | None = None,
    logical_streams: int = 1,
    num_steps: int | None = None,
    exclude: str | os.PathLike[str] | Mapping[str, str | os.PathLike[str]] | None = None,
    on_record_error: OnRecordError = "raise",
    max_bad_records: float | None = None,
    quarantine: str | os.PathLike[str] | None = None,
    verify: bool = False,
    agree: bool = True,
    max_worker_restarts: int = 2,
    worker_timeout: float | None = None,
    on_worker_timeout: str = "raise",
) -> DataLoader[Any]:
    """A DataLoader over a source in one call.

    Args:
        source: anything with `__len__` and `__getitem__`, or a dict of arrays of one length, which is columns.
        num_epochs: passes over the source; without it the stream has no end.
        shuffle: whether each epoch has an order of its own, drawn from the seed.
        seed: for the order, and for operations that draw random numbers.
        shard_options: which part of each global batch this process loads, all if not given.
        operations: transformations in order; a bare function is a Map.
        batch_size: rows of a Batch behind them, None for none.
        drop_remainder: whether that Batch drops the last rows where they fill no whole one.
        worker_count: 0 works in the calling thread; None takes the CPUs that this process may use; "auto" starts with
            two and takes as many of these as help, one at least.
        worker_kind, cpu, remote_workers, prefetch_batches, read_options, max_memory: as DataLoader takes them, like all
            that follow.
        logical_streams, num_steps: of the stream.
        exclude: a folder of lists of records that are left out.
        on_record_error, max_bad_records, quarantine: of bad records.
        verify, agree: what is compared.
        max_worker_restarts, worker_timeout, on_worker_timeout: of lost workers.

    >>> import loaderkit as lk
    >>> [batch.tolist() for batch in lk.load([1, 2, 3], num_epochs=1, batch_size=2)]
    [[1, 2], [3]]
    """
    if drop_remainder and batch_size is None:
        raise ValueError("drop_remainder: expected False without a batch_size, got True; give batch_size too")
    source = check_source(source, "source")
    warn_of_file_names(source)
    warn_of_columns(source)
    given: list[Operation] = [*as_operations(operations, "operations")]
    if batch_size is not None:
        given.append(Batch(batch_size, drop_remainder=drop_remainder))
    return DataLoader(
        data_source=source,
        sampler=sampler_over(source, shuffle=shuffle, num_epochs=num_epochs, seed=seed),
        operations=given,
        worker_count=worker_count,
        worker_kind=worker_kind,
        cpu=cpu,
        remote_workers=remote_workers,
        prefetch_batches=prefetch_batches,
        read_options=read_options,
        shard_options=shard_options,
        max_memory=max_memory,
        logical_streams=logical_streams,
        num_steps=num_steps,
        exclude=exclude,
        on_record_error=on_record_error,
        max_bad_records=max_bad_records,
        quarantine=quarantine,
        verify=verify,
        agree=agree,
        max_worker_restarts=max_worker_restarts,
        worker_timeout=worker_timeout,
        on_worker_timeout=on_worker_timeout,
    )
