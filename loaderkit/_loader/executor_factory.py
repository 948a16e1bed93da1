"""How the executor of a loader is made: in this process, or a pool of workers."""

import warnings
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from loaderkit._base.system.file_identity import Files
from loaderkit._base.system.heap import keep_freed_memory
from loaderkit._base.system.module_import import module_of_program
from loaderkit._base.system.resources import available_memory
from loaderkit._engine.worker_tuner import WorkerTuner
from loaderkit._runtime.executors.executor import Executor
from loaderkit._runtime.executors.inline import InlineExecutor
from loaderkit._runtime.executors.worker_pool import WorkerPool
from loaderkit._runtime.start.bare_processes import BareProcesses
from loaderkit._runtime.worker.program import Program
from loaderkit.errors import TransportError
from loaderkit.samplers import Sampler
from loaderkit.samplers.optional import components_of, lanes_of, next_uses_of, window_of
from loaderkit.sources.foreign_files import foreign_files

from .settings import LoaderSettings

if TYPE_CHECKING:
    from loaderkit._runtime.feeder.feeder import Feeder
    from loaderkit._runtime.remote.recruiter import Recruiter
    from loaderkit._storage.cache.chunk_feed import ChunkFeed
    from loaderkit._storage.cache.joint_feed import JointChunkFeed

from loaderkit._plan.stream_shape import changes_rows, reads_windows
from loaderkit.samplers.protocol import seed_of
from loaderkit.transforms.shape import shape_of


def program_of(settings: LoaderSettings, files: Files) -> Program:
    """The program of a loader, with its operations as they are now.

    Args:
        settings: the loader's.
        files: that the source opens by name in a worker process.

    >>> from loaderkit.samplers import SequentialSampler
    >>> settings = LoaderSettings(source=[5, 6], sampler=SequentialSampler(2), operations=(), verify=True)
    >>> program = program_of(settings, files={})
    >>> program.source, program.row_changing, program.verify
    ([5, 6], False, True)
    """
    shape = shape_of(settings.operations)
    return Program(
        source=source_of(settings),
        operations=settings.operations,
        seed=seed_of(settings.sampler),
        read_options=settings.read_options,
        row_changing=changes_rows(shape, settings.tolerance),
        on_record_error=settings.on_record_error,
        reads_windows=reads_windows(shape, settings.tolerance, settings.num_steps),
        verify=settings.verify,
        files=files,
    )


def source_of(settings: LoaderSettings) -> Any:
    """What a program reads: the source, where documents of packed rows are left out with those rows.

    >>> from loaderkit.samplers import SequentialSampler
    >>> source_of(LoaderSettings(source=[5, 6], sampler=SequentialSampler(2), operations=()))
    [5, 6]
    """
    return settings.source if settings.block_lists is None else settings.block_lists.staged(settings.source)


_WITHOUT_END = 1 << 62  # bytes
_WITHOUT_WORKERS = "work in this process with worker_count=0 or in threads with worker_kind='thread'"


def make_executor(
    settings: LoaderSettings,
    program: Program,
    *,
    without_workers: str = _WITHOUT_WORKERS,
    feeder: "Feeder | None" = None,
    recruiter: "Recruiter | None" = None,
    bare: BareProcesses | None = None,
) -> Executor:
    """A new executor for a program. It is the caller's to shut down.

    Args:
        settings: how many workers there are, of which kind, and what they may take.
        program: what is run.
        without_workers: what the user can do with operations that can't be sent to workers, for the error.
        feeder: fetches chunks into the source's cache; it ends with the executor.
        recruiter: finds workers of other machines; it ends with the loader. None for none.
        bare: processes that were started for the workers; None for none.

    Raises TransportError where the program can't be sent to worker processes.

    >>> from loaderkit.samplers import SequentialSampler
    >>> settings = LoaderSettings(source=[5, 6], sampler=SequentialSampler(2), operations=())
    >>> executor = make_executor(settings, program_of(settings, files={}))
    >>> executor.usable
    True
    >>> executor.shut_down()
    """
    keep_freed_memory()
    if settings.worker_count == 0:
        return InlineExecutor(program, task_rows=settings.task_rows, feeder=feeder)
    try:
        return WorkerPool(
            program,
            workers=settings.worker_count,
            tuned=settings.tuned,
            kind=settings.worker_kind,
            level=settings.cpu,
            restart_policy=settings.restart_policy,
            max_memory=memory_budget(settings.max_memory, available_memory()),
            task_rows=settings.task_rows,
            feeder=feeder,
            recruiter=recruiter,
            bare=bare,
        )
    except TransportError as error:
        raise TransportError(f"{error}, or {without_workers}.") from error.__cause__


def memory_budget(chosen: int | None, available: int | None) -> int | None:
    """Bytes of batches that may lie in shared memory: the user's number, or half of what is available.

    Args:
        chosen: the user's, None if not given.
        available: bytes on this machine now, None where that isn't known; then there is no limit.

    >>> memory_budget(100, 5000), memory_budget(None, 5000), memory_budget(None, None)
    (100, 2500, None)
    """
    if chosen is not None:
        return chosen
    return None if available is None else available // 2


def files_of_workers(settings: LoaderSettings) -> Files:
    """The files that worker processes open by name; threads and this process read with the trainer's own objects."""
    apart = settings.worker_count > 0 and settings.worker_kind == "process"
    return foreign_files(settings.source) if apart else {}


def feeder_of(settings: LoaderSettings) -> "Feeder | None":
    """A feeder for the cache of a loader's source, None where it has none; it starts with the first stream.

    Raises ValueError where the cache is too small for the windows of the sampler; warns where a full shuffle makes it
    useless.

    >>> from loaderkit.samplers import SequentialSampler
    >>> feeder_of(LoaderSettings(source=[5, 6], sampler=SequentialSampler(2), operations=())) is None
    True
    """
    feed: ChunkFeed | JointChunkFeed | None = getattr(source_of(settings), "chunk_feed", None)
    if feed is None:
        return None
    sampler, records = settings.sampler, len(settings.source)
    samplers = _samplers_of_chunks(sampler, feed)
    by_chunks = [each for each in samplers if next_uses_of(each) is not None]
    shuffles = [each for each in samplers if getattr(each, "shuffle", False)]
    if by_chunks and len(by_chunks) == len(shuffles):
        lanes = -(-lanes_of(by_chunks[0]) // settings.sharding.resolve().shard_count)
        of_windows = feed.bytes_of(2 * lanes * sum(map(prod, map(window_of, by_chunks))))
        if feed.limit < min(of_windows, feed.nbytes):
            windows = " and ".join(dict.fromkeys(str(window_of(each)[0]) for each in by_chunks))
            of = f" of {len(by_chunks)} components" if len(by_chunks) > 1 else ""
            raise ValueError(
                f"limit: expected {of_windows} bytes or more, two windows of {windows} chunks for each of "
                f"{lanes} lanes{of}, got {feed.limit}; ChunkSampler.over(source, cache_bytes=) chooses the window"
            )
    elif shuffles and feed.limit < feed.nbytes:
        warnings.warn(
            f"the cache has room for {feed.limit} of {feed.nbytes} bytes, and {type(sampler).__qualname__} shuffles "
            "all records: a chunk would be fetched for each, so what the cache lacks is read without it. Use "
            "ChunkSampler.over(source, cache_bytes=), or a larger limit",
            stacklevel=2,
        )
        feed.allow_direct_reads(_WITHOUT_END)
        return None
    from loaderkit._runtime.feeder.feeder import Feeder  # loaders without a cache don't need it

    return Feeder(feed, records)


def _samplers_of_chunks(sampler: Sampler, feed: "ChunkFeed | JointChunkFeed") -> list[Sampler]:
    """The sampler, or of a mixture those of the components whose source has a cache."""
    mixed = components_of(sampler)
    if mixed is None:
        return [sampler]
    from loaderkit._storage.cache.chunk_feed import NO_CHUNK

    firsts = np.array([*mixed.offsets.values()], np.int64)
    cached = (feed.numbers(firsts) != NO_CHUNK).tolist()
    return [each for each, has in zip(mixed.samplers.values(), cached, strict=True) if has]


class LoaderExecutorFactory:
    """Makes the executors of a DataLoader and of its epochs, an ExecutorFactory.

    Args:
        settings: the loader's.
    """

    def __init__(self, settings: LoaderSettings) -> None:
        self._settings = settings
        remote = settings.remote_workers
        self._recruiter: Recruiter | None = None
        if remote is not None and settings.worker_count and settings.worker_kind == "process":
            from loaderkit._runtime.remote import recruiter  # other loaders don't need it

            self._recruiter = recruiter.Recruiter(remote)
        self._bare: BareProcesses | None = None

    def start(self) -> None:
        """Starts processes for the workers of the next executor, without a program."""
        settings = self._settings
        if module_of_program() is not None:
            return  # a worker imports a module that starts them: no loader of its own will have them
        if settings.worker_count and settings.worker_kind == "process" and self._bare is None:
            tuner = WorkerTuner(settings.worker_count)
            self._bare = BareProcesses(
                tuner.workers if settings.tuned else settings.worker_count, settings.cpu
            )

    def close(self) -> None:
        """Ends processes that no executor has."""
        if self._bare is not None:
            self._bare.end()

    @cached_property
    def _files(self) -> Files:
        # As they are when first asked for: workers that start later must find the same ones.
        return files_of_workers(self._settings)

    def program(self) -> Program:
        """What is to be run, as it is now."""
        return program_of(self._settings, self._files)

    def make(self, program: Program) -> Executor:
        """A new executor for it."""
        feeder = feeder_of(self._settings)
        bare = self._bare if self._bare is not None and self._bare.usable else None
        executor = make_executor(self._settings, program, feeder=feeder, recruiter=self._recruiter, bare=bare)
        self._bare = None  # an error leaves them here
        return executor
