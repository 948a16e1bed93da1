"""The arguments of a DataLoader but for its source, sampler and operations."""

import os
from collections.abc import Mapping
from typing import Literal, TypedDict

from loaderkit._order.sharding import Sharding
from loaderkit._runtime.remote.remote_workers import RemoteWorkers
from loaderkit._runtime.worker.bad_record_handler import OnRecordError
from loaderkit._runtime.worker.reading import ReadOptions


class LoaderOptions(TypedDict, total=False):
    """How a stream is run, and what ends it; `DataLoader` says what each means."""

    worker_count: int | Literal["auto"] | None
    worker_kind: str
    cpu: str | None
    remote_workers: RemoteWorkers | None
    prefetch_batches: int
    read_options: ReadOptions | None
    shard_options: Sharding | None
    max_memory: int | None
    logical_streams: int
    num_steps: int | None
    exclude: str | os.PathLike[str] | Mapping[str, str | os.PathLike[str]] | None
    on_record_error: OnRecordError
    max_bad_records: float | None
    quarantine: str | os.PathLike[str] | None
    verify: bool
    agree: bool
    max_worker_restarts: int
    worker_timeout: float | None
    on_worker_timeout: str
