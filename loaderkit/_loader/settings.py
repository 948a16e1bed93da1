"""What a stream and its workers are made of, as one frozen value."""

from typing import Any

from loaderkit._base.system.dataclasses import dataclass, field, replace
from loaderkit._engine.supervisor import RestartPolicy
from loaderkit._order.sharding import NoSharding, Sharding
from loaderkit._plan.bad_records import Tolerance
from loaderkit._runtime.remote.remote_workers import RemoteWorkers
from loaderkit._runtime.worker.bad_record_handler import OnRecordError
from loaderkit._runtime.worker.reading import ReadOptions
from loaderkit._source.protocol import RandomAccessDataSource
from loaderkit.samplers import Sampler
from loaderkit.transforms.base import Transformation

from .block_lists import BlockFolders

_RESTART_POLICY = RestartPolicy(restarts=2, timeout=None, restart_late=False)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)  # a source may be any size
class LoaderSettings:
    """What a stream and its workers are made of; all values are checked already.

    `DataLoader` makes one of a user's arguments (user_arguments.py). A variant of a loader, such as one epoch of
    it, differs from it by `replace`.

    Args:
        source: where records come from.
        sampler: which record each index reads.
        operations: what is done with records, in order.
        worker_count: workers; 0 works in the calling thread.
        tuned: whether there are from 1 to `worker_count` workers, as many as help.
        worker_kind: "process" or "thread".
        cpu: level of x86-64 processors that worker processes compute as; None for the present processor.
        remote_workers: workers of other machines, beside those of this one; None for none.
        prefetch: elements that workers make ahead of the one handed out.
        read_options: how a worker reads.
        sharding: which rows of a global batch are this process's; resolved when iteration starts.
        max_memory: bytes of batches in shared memory; None for half of what is available when the workers start.
        logical_streams: independent streams, where operations change the number of rows.
        num_steps: steps of the whole run, None for all that there are.
        on_record_error: "raise", "replace", "skip", or a function of the error and the RecordMetadata.
        tolerance: which bad records are accepted, and how many.
        quarantine: path of the file that gets a line for each bad record, None for none.
        verify: whether rows and elements carry checksums on their way from the workers.
        restart_policy: how many lost and late workers are accepted.
        epoch: the only epoch of the stream, None for all of the sampler's.
        block_lists: folders of lists of records that are left out, None for none.
        task_rows: rows in each task, None for what takes a few milliseconds. Changes no element.

    >>> from loaderkit.samplers import SequentialSampler
    >>> settings = LoaderSettings(source=[5, 6, 7], sampler=SequentialSampler(3), operations=())
    >>> settings.replace(worker_count=2).worker_count, settings.worker_count
    (2, 0)
    """

    source: RandomAccessDataSource[Any]
    sampler: Sampler
    operations: tuple[Transformation, ...]
    worker_count: int = 0
    tuned: bool = False
    worker_kind: str = "process"
    cpu: str | None = None
    remote_workers: RemoteWorkers | None = None
    prefetch: int = 2
    read_options: ReadOptions = field(default_factory=ReadOptions)
    sharding: Sharding = field(default_factory=NoSharding)
    max_memory: int | None = None
    logical_streams: int = 1
    num_steps: int | None = None
    on_record_error: OnRecordError = "raise"
    tolerance: Tolerance = field(default_factory=Tolerance)
    quarantine: str | None = None
    verify: bool = False
    restart_policy: RestartPolicy = _RESTART_POLICY
    epoch: int | None = None
    block_lists: BlockFolders | None = None
    task_rows: int | None = None

    def replace(self, **changes: Any) -> "LoaderSettings":
        """The same settings but for the given fields, whose values must be checked already."""
        if "worker_count" in changes:
            changes = {"tuned": False, **changes}
        return replace(self, **changes)

    @property
    def elements_ahead(self) -> int:
        """Elements to make ahead: without workers there is nothing that could work ahead."""
        return self.prefetch if self.worker_count else 1
