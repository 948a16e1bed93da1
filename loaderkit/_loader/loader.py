"""The DataLoader: the user's side of a loader, over settings, a plan, and workers that its iterators share."""

from __future__ import annotations

import contextlib
import copy
import os
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Generic, Literal, Never, Self, TypeVar

from loaderkit._base.closing import Closing
from loaderkit._base.hints import refuse_foreign_method, refusing_foreign_arguments
from loaderkit._base.numbers import at_least, true_or_false
from loaderkit._base.system.processor_level import checked_level
from loaderkit._engine.stats.stats import Stats
from loaderkit._engine.supervisor import RestartPolicy
from loaderkit._order.metadata import RecordMetadata
from loaderkit._order.sharding import Sharding
from loaderkit._plan.seekable_plan import SeekablePlan
from loaderkit._runtime.remote.remote_workers import RemoteWorkers
from loaderkit._runtime.worker.bad_record_handler import OnRecordError
from loaderkit._runtime.worker.reading import ReadOptions
from loaderkit._source.naming import namer_of
from loaderkit._source.protocol import RandomAccessDataSource
from loaderkit.samplers import Sampler
from loaderkit.sources.checked import check_source
from loaderkit.transforms.base import label_of
from loaderkit.transforms.element_spec import spec_of
from loaderkit.transforms.operations import Operation, as_operations
from loaderkit.transforms.parameters import parameters_of

from . import user_arguments as arguments
from .block_lists import block_folders_of
from .executor_factory import (
    LoaderExecutorFactory,
    files_of_workers,
    make_executor,
    program_of,
    source_of,
)
from .iterator.error_notes import named
from .iterator.iterator import DataLoaderIterator, T_co
from .iterator.open_scheduler import open_scheduler
from .iterator.quarantine import Quarantine
from .iterator.reader import StreamReader
from .lineage_methods import LineageMethods
from .part_dtypes import part_dtypes_of
from .plan import (
    Fingerprints,
    checked_epoch,
    plan_of,
    repeats_order,
    shards_without_last_step,
    why_lanes_are_shared,
)
from .planned_shapes import with_planned_shapes
from .process_agreement import ProcessAgreement, end_agreement_of
from .settings import LoaderSettings
from .shared_executor import SharedExecutor

if TYPE_CHECKING:
    from .inspect.describe import Description
    from .inspect.explanation import Explanation
    from .inspect.follow import Followed
    from .inspect.lineage import Lineage

Loader = TypeVar("Loader", bound="DataLoader[Any]")


class DataLoader(LineageMethods, Closing, Generic[T_co]):
    """Reads records in a sampler's order, applies operations, and gives elements; the same ones however it is run.

    Args:
        data_source: anything with `__len__` and `__getitem__`, or a dict of arrays of one length, which is columns.
        sampler: which record each index reads: an IndexSampler, a SequentialSampler, or one of the user's.
        operations: transformations in order; a bare function is a Map.
        worker_count: 0 works in the calling thread; None takes the CPUs that this process may use; "auto" starts with
            two and takes as many of these as help, one at least.
        worker_kind: "process" or "thread".
        cpu: level of x86-64 processors as which worker processes compute, "x86-64-v2", "x86-64-v3" or "x86-64-v4": the
            same last bits on all that have it. It needs worker processes.
        remote_workers: workers of other machines, `lk.interop.ray.Workers(count)`, beside those of this one: they come
            and go at any time, and change no element. It needs worker processes here, one at least.
        prefetch_batches: elements that the workers make ahead of the one handed out.
        read_options: how a worker reads.
        shard_options: which part of each global batch this process loads; the sampler's own, or all, if not given.
        max_memory: bytes of batches that may be held in shared memory; above it they are copied out of it. Half of the
            memory available at the start, if not given.
        logical_streams: for operations that change the number of rows: how many independent streams there are.
        num_steps: the steps of the whole run, resumed ones included: it ends there. All that there are, if not given.
        exclude: a folder of lists that `lk.offline.block_list` wrote, whose records are left out; of a mixture {name of
            a component: folder}. The lists that are there now; `it.exclude()` takes those that come later. A folder may
            be empty.
        on_record_error: what becomes of a record whose read, or an operation before the first Batch on it, raises: the
            error is "raise"d; "replace": its row reads the next good record; "skip": it has no row; or a function of
            the error and the RecordMetadata gives the element.
        max_bad_records: how many may be lost so before that is an error: a count, or a share of the records.
        quarantine: path of a file that gets a line of JSON for each.
        verify: workers write checksums beside their rows and elements, and the reader compares them; what differs is a
            ChecksumError.
        agree: whether the processes of JAX compare what they load when iteration starts for the first time; False for a
            loader that only some of them run.
        max_worker_restarts: workers that may be lost at the same records, and replaced, before that is a WorkerError.
            The second one that is lost names the record.
        worker_timeout: seconds that a worker may be at the same task (a few milliseconds of work, once it is known how
            long records take; a task has at least one record), None for any number. To start it has a minute at least.
        on_worker_timeout: what happens then: "raise" a WorkerTimeoutError, or "restart": another worker does the task
            again, and this one is killed. A thread can't be killed: it is left to itself, and so is the memory that it
            may write to; a batch_fn that is stuck in one raises.

    What is wrong with them is raised here, as TypeError or ValueError; what depends on the shards, when iteration
    starts. A type checker may be told what an element is, `loader: lk.DataLoader[dict[str, np.ndarray]] = ...`.

    >>> import loaderkit as lk
    >>> loader = lk.DataLoader(
    ...     data_source=[1, 2, 3, 4, 5],
    ...     sampler=lk.IndexSampler(5, num_epochs=1),
    ...     operations=[lambda x: x * x, lk.Batch(2)],
    ... )
    >>> [batch.tolist() for batch in loader], len(loader)
    ([[1, 4], [9, 16], [25]], 3)
    """

    # Why it is no data source; read by _source/tables.py.
    instead_of_source = "expected a data source, got a DataLoader; give the source that it was made of"

    @refusing_foreign_arguments
    def __init__(
        self,
        *,
        data_source: RandomAccessDataSource[Any] | Mapping[str, Any],
        sampler: Sampler,
        operations: Iterable[Operation] = (),
        worker_count: int | Literal["auto"] | None = 0,
        worker_kind: str = "process",
        cpu: str | None = None,
        remote_workers: RemoteWorkers | None = None,
        prefetch_batches: int = 2,
        read_options: ReadOptions | None = None,
        shard_options: Sharding | None = None,
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
    ) -> None:
        source = check_source(data_source)
        tolerance = arguments.tolerance_of(on_record_error, max_bad_records, quarantine)
        sampler_of_source = arguments.checked_sampler(sampler, source)
        on_timeout = arguments.one_of("on_worker_timeout", on_worker_timeout, "raise", "restart")
        self._settings = LoaderSettings(
            source=source,
            sampler=sampler_of_source,
            operations=with_planned_shapes(
                as_operations(operations), sampler_of_source, tolerance, len(source)
            ),
            worker_count=arguments.worker_count_of(worker_count),
            tuned=worker_count == "auto",
            worker_kind=arguments.one_of("worker_kind", worker_kind, "process", "thread"),
            cpu=checked_level(cpu),
            remote_workers=arguments.remote_workers_of(remote_workers),
            prefetch=at_least("prefetch_batches", prefetch_batches, 1),
            read_options=arguments.read_options_of(read_options),
            max_memory=None if max_memory is None else at_least("max_memory", max_memory, 0),
            logical_streams=at_least("logical_streams", logical_streams, 1),
            num_steps=None if num_steps is None else at_least("num_steps", num_steps, 1),
            block_lists=block_folders_of(exclude, sampler_of_source, source),
            verify=true_or_false("verify", verify),
            restart_policy=RestartPolicy(
                restart_late=on_timeout == "restart",
                restarts=at_least("max_worker_restarts", max_worker_restarts, 0),
                timeout=arguments.seconds_or_none("worker_timeout", worker_timeout),
            ),
            sharding=arguments.sharding_of(sampler, shard_options),
            on_record_error=on_record_error,
            tolerance=tolerance,
            quarantine=None if quarantine is None else os.fspath(quarantine),
        )
        arguments.check_settings(self._settings)
        # The loaders of single epochs share these with this one.
        self._fingerprints = Fingerprints(self._settings.sampler, self._settings.source)
        self._process_agreement = ProcessAgreement(pending=true_or_false("agree", agree))
        self._part_dtypes = part_dtypes_of(self._settings)
        self._executor_factory = LoaderExecutorFactory(self._settings)
        self._shared_executor = SharedExecutor()
        self._iterated = False

    # --- iterating ----------------------------------------------------------------------------------------------

    def __iter__(self) -> DataLoaderIterator[T_co]:
        if self._iterated and repeats_order(self._settings):
            warnings.warn(
                "iterating again repeats the same shuffled order, for the loader covers one epoch; "
                "use loader.epoch(e) for the order of epoch e, or num_epochs=None, in a chain .repeat()",
                stacklevel=2,
            )
        self._iterated = True
        plan = self._plan()
        self._process_agreement.check(plan, self._part_dtypes, level=self._settings.cpu, stacklevel=2)
        if without := shards_without_last_step(plan):
            warnings.warn(
                f"the last step has too few rows for all {plan.shard.shard_count} shards: the last {without} make "
                "one step fewer. Use Batch(remainder='drop'), 'pad' or 'wrap', or ShardOptions(drop_remainder=True), "
                "for equal steps",
                stacklevel=2,
            )
        if why := why_lanes_are_shared(plan):
            warnings.warn(
                f"shards read the same lanes: {why}. The stream is the same, but several shards may read each chunk; "
                "give batch= the indices of a step over all shards, and lanes= a multiple of the number of shards",
                stacklevel=2,
            )
        find_executor = partial(self._shared_executor.executor, self._executor_factory)
        reader = StreamReader(
            find_executor,
            plan,
            partial(open_scheduler, prefetch=self._settings.elements_ahead),
            Quarantine(self._settings.quarantine),
            agreement=end_agreement_of(plan),
            watch=self._part_dtypes,
        )
        self._process_agreement.compare_later(reader)
        return DataLoaderIterator(reader, agrees=self._process_agreement.agrees)

    def _plan(self) -> SeekablePlan:
        shard = self._settings.sharding.resolve()
        return plan_of(self._settings, shard, self._fingerprints, self._parameters)

    @cached_property
    def _parameters(self) -> list[dict[str, Any]]:
        return parameters_of(self._settings.operations)

    def __len__(self) -> int:
        plan = self._plan()
        steps = plan.steps()
        if steps is None:
            raise TypeError(plan.why_no_length("len(loader)"))
        return steps

    def __length_hint__(self) -> int:
        return self._plan().length_hint()

    def __bool__(self) -> bool:
        return True

    def epoch(self, e: int) -> Self:
        """That epoch alone, as a loader that shares this one's workers; e may be past the sampler's last.

        Args:
            e: 0 or more, the sampler's num_epochs is no limit. A state of its iterators restores only into the same
                epoch.

        Raises TypeError where the sampler doesn't say how long an epoch is.

        >>> import loaderkit as lk
        >>> loader = lk.load([1, 2, 3], shuffle=True, seed=0)
        >>> sorted(loader.epoch(7))
        [1, 2, 3]
        """
        return self._with(self._settings.replace(epoch=checked_epoch(self._settings.sampler, e)))

    def records(self, step: int) -> list[RecordMetadata]:
        """Metadata of every record of a step over all shards, in order; reads no data.

        With the names that the data source gives its records.

        Args:
            step: from 0 on; IndexError for one that isn't there.

        Raises ValueError where operations change the number of rows.

        >>> import loaderkit as lk
        >>> [metadata.record_key for metadata in lk.load([5, 6, 7], batch_size=2).records(1)]
        [2, 0]
        """
        plan = self._plan()
        plan.check_known("records(step)")
        return named(
            plan.records(plan.first_position(), at_least("step", step, 0)), namer_of(self._settings.source)
        )

    def _lineage(self) -> Lineage:
        from .inspect.lineage import Lineage

        plan = self._plan()
        return Lineage(plan, plan.first_position(), source_of(self._settings))

    @cached_property
    def element_spec(self) -> Any:
        """The first element's tree with an ArraySpec for each array and number, and the type for other leaves.

        The first element is made for it, in this process.

        >>> import loaderkit as lk
        >>> lk.load([{"x": 1.5}, {"x": 2.5}], batch_size=2).element_spec
        {'x': ArraySpec(shape=(2,), dtype=dtype('float64'))}
        """
        with _open_reader(self, worker_count=0, task_rows=None) as reader:
            try:
                return spec_of(reader.peek().value)
            except StopIteration:
                raise ValueError("element_spec: the loader gives no element") from None

    # --- looking inside: what that needs is imported when it is asked for --------------------------------------------

    def describe(self) -> Description:
        """What this loader does, part by part, with what an element looks like behind each operation; text and HTML.

        >>> import loaderkit as lk
        >>> "operations[0] Map(float)" in str(lk.load([5, 6], operations=[float]).describe())
        True
        """
        from .inspect.describe import describe

        def first_element() -> Any:
            # Its bad records aren't those of a run.
            with variant_of(self, worker_count=0, quarantine=None) as alone, iter(alone) as it:
                return next(it)

        return describe(self._settings, self._plan(), program_of(self._settings, files={}), first_element)

    def follow(self, index: int) -> Followed:
        """What becomes of the record of an index: its key, each operation's time, result and random key, step and row.

        Args:
            index: place in the stream of all epochs. IndexError where there is none such.

        >>> import loaderkit as lk
        >>> lk.load([5, 6], operations=[lambda x: x * x]).follow(1).value
        36
        """
        from .inspect.follow import follow

        plan = self._plan()  # says first which documents rows lack
        return follow(program_of(self._settings, files={}), plan, index)

    def explain(self, step: Any = None, seconds: float = 20.0) -> Explanation:
        """Whether this loader is the bottleneck, what limits it and what to change, by experiments on copies of it.

        Args:
            step: the training step, a function of a batch; without it nothing is known of the trainer.
            seconds: for all experiments.

        Raises RuntimeError while an iterator of the loader is open: they share the processors.

        >>> import loaderkit as lk
        >>> lk.load(range(1000), batch_size=10).explain(lambda batch: None, seconds=1).limit.kind != ""
        True
        """
        from .inspect.explain import explain_loader

        if self._shared_executor.in_use:
            raise RuntimeError(
                "explain: expected a loader without an open iterator, got one; close it, or use it.explain()"
            )
        open_reader = partial(_open_reader, self)
        return explain_loader(self._settings, self._plan(), open_reader, step=step, seconds=seconds)

    def trace(self, path: str | os.PathLike[str], step: Any = None, *, steps: int = 200) -> None:
        """Writes a timeline of the first steps, made by a copy of this loader: a file that Perfetto opens.

        It has each worker's tasks with their reads, operations and rows, the pump, waits of next(), and workers that
        were hired, lost or stuck. Under `jax.profiler.trace` a run's own timeline is in JAX's files without a call.

        Args:
            path: of the .json file; one that is there is replaced.
            step: the training step, a function of a batch; without it nothing happens between batches.
            steps: how many, or all where the stream has fewer.

        >>> import pathlib, tempfile
        >>> import loaderkit as lk
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "run.json")
        ...     lk.load(range(100), batch_size=10).trace(path, steps=5)
        ...     '"name": "next()"' in path.read_text()
        True
        """
        from .inspect.trace import trace_loader

        trace_loader(partial(_open_reader, self), path, step, steps)

    def debug(self) -> Self:
        """The same stream for a debugger: this thread works, row by row, and `breakpoint()` stops in an operation.

        Its bad records aren't those of a run: none is written to the quarantine.

        >>> import loaderkit as lk
        >>> next(iter(lk.load([5, 6], worker_count=2).debug()))
        5
        """
        options = replace(self._settings.read_options, num_threads=0)
        return variant_of(self, worker_count=0, task_rows=1, quarantine=None, read_options=options)

    # --- workers ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the loader's worker processes now, which import numpy and loaderkit while the program does other work.

        What they run is taken at `iter(loader)`, as without this call. Where they have been started, or work in this
        process or in threads, it does nothing. Raises IteratorClosedError after `close`, WorkerError where this program
        can't start processes.

        >>> import loaderkit as lk
        >>> with lk.load([5, 6], worker_count=1) as loader:
        ...     loader.start()  # and then, say, compile the training step
        ...     next(iter(loader))
        5
        """
        if not self._shared_executor.made:
            self._executor_factory.start()

    def stats(self) -> Stats:
        """What the loader's workers did so far, for all of its iterators; `it.stats()` has the trainer's side too.

        >>> import loaderkit as lk
        >>> loader = lk.load(range(64), num_epochs=1, batch_size=8)
        >>> batches = list(loader)
        >>> loader.stats().pool.all.records
        64
        """
        shared = self._shared_executor
        return Stats(None, shared.statistics(), of=shared.number, at=time.perf_counter_ns())

    def close(self) -> None:
        """Ends the workers of this loader; its iterators can't go on. Closing twice does nothing.

        >>> import loaderkit as lk
        >>> loader = lk.load([5, 6])
        >>> loader.close()
        """
        self._shared_executor.close()
        self._executor_factory.close()

    def _with(self, settings: LoaderSettings) -> Self:
        """A copy with other settings that shares the workers, and keeps what a subclass has."""
        loader = copy.copy(self)
        loader._settings = settings
        loader.__dict__.pop("element_spec", None)
        if settings.operations is not self._settings.operations:
            loader.__dict__.pop("_parameters", None)
        return loader

    def __repr__(self) -> str:
        settings = self._settings
        operations = ", ".join(label_of(op) for op in settings.operations)
        workers = "'auto'" if settings.tuned else settings.worker_count
        policy = settings.on_record_error
        return (
            f"DataLoader({type(settings.source).__qualname__} with {len(settings.source)} records, "
            f"{settings.sampler!r}, [{operations}], worker_count={workers}"
            + ("" if settings.block_lists is None else f", exclude={settings.block_lists.shown!r}")
            + ("" if policy == "raise" else f", on_record_error={policy!r}")
            + ")"
            + ("" if settings.epoch is None else f".epoch({settings.epoch})")
        )

    if not TYPE_CHECKING:  # where it would make every misspelled name an attribute

        def __getattr__(self, name: str) -> Never:
            refuse_foreign_method(self, name)


def settings_of(loader: DataLoader[Any]) -> LoaderSettings:
    """What a loader's stream and workers are made of.

    >>> import loaderkit as lk
    >>> settings_of(lk.load([5, 6], prefetch_batches=3)).prefetch
    3
    """
    return loader._settings


def variant_of(loader: Loader, **changes: Any) -> Loader:
    """A loader that differs in some settings, with workers of its own; for checks of a loader.

    A state of one fits the other: the fingerprints of sampler and source are those of the given loader.

    Args:
        loader: left as it is.
        changes: fields of LoaderSettings, checked already.

    >>> import loaderkit as lk
    >>> list(variant_of(lk.load([5, 6], num_epochs=1), source=[7, 8]))
    [7, 8]
    """
    settings = loader._settings.replace(**changes)
    variant = loader._with(settings)
    variant._part_dtypes = part_dtypes_of(settings)
    variant._executor_factory, variant._shared_executor = LoaderExecutorFactory(settings), SharedExecutor()
    variant._iterated = False
    return variant


@contextlib.contextmanager
def _open_reader(loader: DataLoader[Any], **changes: Any) -> Iterator[StreamReader[Any, Any]]:
    """A reader of a variant, with an executor that ends with it; it writes no quarantine."""
    variant = variant_of(loader, **changes)
    settings, plan = variant._settings, variant._plan()
    executor = make_executor(settings, program_of(settings, files_of_workers(settings)))
    reader = StreamReader(
        lambda: executor, plan, partial(open_scheduler, prefetch=settings.elements_ahead), Quarantine(None)
    )
    try:
        yield reader
    finally:
        reader.close()
        executor.shut_down()
