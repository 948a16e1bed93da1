"""The DataLoader: what a user says of a stream, checked at once; the only file that joins all parts."""

import copy
import dataclasses
import os
import warnings
from collections.abc import Iterable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Generic, Never, Self

from loaderkit._base.closing import Closing
from loaderkit._base.hints import refuse_foreign_method, refusing_foreign_arguments
from loaderkit._base.integers import at_least
from loaderkit._iterator.error_notes import named
from loaderkit._iterator.iterator import DataLoaderIterator, T_co
from loaderkit._iterator.open_scheduler import open_scheduler
from loaderkit._iterator.quarantine import Quarantine
from loaderkit._iterator.reader import StreamReader
from loaderkit._order.index_limits import MOST_INDEX
from loaderkit._order.metadata import RecordMetadata
from loaderkit._order.sharding import Sharding, ShardOptions
from loaderkit._plan.seekable_plan import SeekablePlan
from loaderkit._plan.stream_shape import batching_of, changes_rows, check_reach
from loaderkit._runtime.cluster.agreement import agree
from loaderkit._runtime.cluster.end_of_stream import EndOfStreamAgreement
from loaderkit._runtime.executors.executor import Executor
from loaderkit._runtime.executors.inline import InlineExecutor
from loaderkit._runtime.executors.restart_policy import RestartPolicy
from loaderkit._runtime.executors.worker_pool import WorkerPool
from loaderkit._runtime.worker.bad_record_handler import OnRecordError
from loaderkit._runtime.worker.program import Program
from loaderkit._runtime.worker.reading import ReadOptions
from loaderkit._state.identity import agreement_of, name_of, notes_of
from loaderkit._system.resources import available_cpus, available_memory
from loaderkit._system.versions import present_versions
from loaderkit.errors import TransportError
from loaderkit.samplers import IndexSampler, Sampler, SequentialSampler
from loaderkit.samplers.protocol import fingerprint_of, length_of, num_records_of, seed_of
from loaderkit.sources import RandomAccessDataSource
from loaderkit.sources.file_identity import Files
from loaderkit.sources.fingerprint import fingerprint_of as source_fingerprint_of
from loaderkit.sources.foreign_files import foreign_files
from loaderkit.sources.naming import namer_of
from loaderkit.sources.protocol import check_source
from loaderkit.transforms.base import Map, draws, label_of
from loaderkit.transforms.operation_names import operation_name
from loaderkit.transforms.operations import Operation, as_operations
from loaderkit.transforms.parameters import parameters_of
from loaderkit.transforms.shape import shape_of

from .element_spec import spec_of
from .shared_executor import SharedExecutor
from .user_arguments import checked_sampler, seconds_or_none, sharding_of, tolerance_of


class DataLoader(Closing, Generic[T_co]):
    """Reads records in a sampler's order, applies operations, and gives elements; the same ones however it is run.

    Args:
        data_source: anything with `__len__` and `__getitem__`.
        sampler: which record each index reads: an IndexSampler, a SequentialSampler, or one of the user's.
        operations: transformations in order; a bare function is a Map.
        worker_count: 0 works in the calling thread; None takes the CPUs that this process may use.
        worker_kind: "process" or "thread".
        prefetch_batches: elements that the workers make ahead of the one handed out.
        read_options: how a worker reads.
        shard_options: which part of each global batch this process loads; the sampler's own, or all, if not given.
        max_memory: bytes of batches that may be held in shared memory; above it they are copied out of it. Half of the
            memory available at the start, if not given.
        logical_streams: for operations that change the number of rows: how many independent streams there are.
        num_steps: the steps of the whole run, resumed ones included: it ends there. All that there are, if not given.
        on_record_error: what becomes of a record whose read, or an operation before the first Batch on it, raises: the
            error is "raise"d; "replace": its row reads the next good record; "skip": it has no row; or a function of
            the error and the RecordMetadata gives the element.
        max_bad_records: how many may be lost so before that is an error: a count, or a share of the records.
        quarantine: path of a file that gets a line of JSON for each.
        verify: workers write checksums beside their rows and elements, and whoever reads them compares; what differs
            is a ChecksumError.
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

    @refusing_foreign_arguments
    def __init__(
        self,
        *,
        data_source: RandomAccessDataSource[Any],
        sampler: Sampler,
        operations: Iterable[Operation] = (),
        worker_count: int | None = 0,
        worker_kind: str = "process",
        prefetch_batches: int = 2,
        read_options: ReadOptions | None = None,
        shard_options: Sharding | None = None,
        max_memory: int | None = None,
        logical_streams: int = 1,
        num_steps: int | None = None,
        on_record_error: OnRecordError = "raise",
        max_bad_records: float | None = None,
        quarantine: str | os.PathLike[str] | None = None,
        verify: bool = False,
        agree: bool = True,
        max_worker_restarts: int = 2,
        worker_timeout: float | None = None,
        on_worker_timeout: str = "raise",
    ) -> None:
        check_source(data_source)
        self._source = data_source
        self._sampler = checked_sampler(sampler, data_source)
        self._operations = as_operations(operations)
        self._worker_count = (
            available_cpus() if worker_count is None else at_least("worker_count", worker_count, 0)
        )
        if worker_kind not in ("process", "thread"):
            raise ValueError(f"worker_kind: expected 'process' or 'thread', got {worker_kind!r}")
        self._worker_kind = worker_kind
        self._prefetch = at_least("prefetch_batches", prefetch_batches, 1)
        if read_options is not None and not isinstance(read_options, ReadOptions):
            raise TypeError(f"read_options: expected a ReadOptions, got {read_options!r}")
        self._read_options = read_options or ReadOptions()
        self._max_memory = None if max_memory is None else at_least("max_memory", max_memory, 0)
        self._logical_streams = at_least("logical_streams", logical_streams, 1)
        self._num_steps = None if num_steps is None else at_least("num_steps", num_steps, 1)
        if not isinstance(verify, bool):
            raise TypeError(f"verify: expected True or False, got {verify!r}")
        self._verify = verify
        if not isinstance(agree, bool):
            raise TypeError(f"agree: expected True or False, got {agree!r}")
        self._to_agree = [agree]  # shared with the loaders of single epochs
        if on_worker_timeout not in ("raise", "restart"):
            raise ValueError(f"on_worker_timeout: expected 'raise' or 'restart', got {on_worker_timeout!r}")
        self._restart_policy = RestartPolicy(
            restarts=at_least("max_worker_restarts", max_worker_restarts, 0),
            timeout=seconds_or_none("worker_timeout", worker_timeout),
            restart_late=on_worker_timeout == "restart",
        )
        self._sharding = sharding_of(sampler, shard_options)
        self._on_record_error = on_record_error
        self._tolerance = tolerance_of(on_record_error, max_bad_records, quarantine)
        self._quarantine = None if quarantine is None else os.fspath(quarantine)
        self._check_operations()
        check_reach(batching_of(shape_of(self._operations), ShardOptions(0, 1)), length_of(sampler))
        self._epoch: int | None = None
        self._shared_executor = SharedExecutor()
        self._task_rows: int | None = None
        self._iterated = False

    def _check_operations(self) -> None:
        for place, op in enumerate(self._operations):
            if draws(op) and seed_of(self._sampler) is None:
                raise ValueError(
                    f"{operation_name(place, op)} draws random numbers, and the sampler has no seed: "
                    "give it one, for example IndexSampler(..., seed=0)"
                )
            if (
                isinstance(op, Map)
                and op.seed_globals
                and self._worker_kind == "thread"
                and self._worker_count
            ):
                raise ValueError(
                    f"{operation_name(place, op)} seeds the global generators, which threads share with each "
                    "other and with the training loop; use worker_kind='process'"
                )

    # --- iterating ----------------------------------------------------------------------------------------------

    def __iter__(self) -> DataLoaderIterator[T_co]:
        if self._iterated and self._epoch is None and self._repeats_order:
            warnings.warn(
                "iterating again repeats the same shuffled order, for the loader covers one epoch; "
                "use loader.epoch(e) for the order of epoch e, or num_epochs=None",
                stacklevel=2,
            )
        self._iterated = True
        plan = self._plan()
        self._agree(plan)
        self._warn_of_unequal_steps(plan)
        prefetch = self._prefetch if self._worker_count else 1  # nobody would work ahead
        store = plan.shard.store
        reader = StreamReader(
            partial(self._shared_executor.executor, self),
            plan,
            partial(open_scheduler, plan, prefetch),
            Quarantine(self._quarantine),
            agreement=partial(EndOfStreamAgreement, store, name_of(plan))
            if plan.asks_others and store is not None
            else None,
        )
        return DataLoaderIterator(reader, plan)

    def _agree(self, plan: SeekablePlan) -> None:
        store = plan.shard.store
        if self._to_agree[0] and store is not None and store.processes > 1:
            advice = (
                "Every process has to build the same loader, with the same versions of loaderkit and numpy; "
                "agree=False is for one that only some of them run."
            )
            versions = present_versions()
            said, notes = agreement_of(plan, versions), notes_of(plan, versions)
            told = agree(store, "loader", said, advice=advice, notes=notes)
            if told:
                warnings.warn(
                    f"the processes differ, and may train on different data:\n{told}\n"
                    "Give every process the same operations and versions; fields of an operation that belong to a "
                    "host can be left out with dataclasses.field(compare=False).",
                    stacklevel=3,
                )
        self._to_agree[0] = False

    @property
    def _repeats_order(self) -> bool:
        return (
            bool(getattr(self._sampler, "shuffle", False)) and getattr(self._sampler, "num_epochs", None) == 1
        )

    def __len__(self) -> int:
        plan = self._plan()
        steps = plan.steps()
        if steps is None:
            raise TypeError(plan.why_no_length("len(loader)"))
        return steps

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
        records = num_records_of(self._sampler)
        if records is None:
            raise TypeError(
                f"epoch(e): {type(self._sampler).__qualname__} doesn't say how long an epoch is; give it num_records"
            )
        loader = self._copied()
        loader._epoch = at_least("e", e, 0)
        if (loader._epoch + 1) * records > MOST_INDEX:
            raise ValueError(
                f"e: epoch {e} of {records} records ends behind index 2**62, to which a run goes"
            )
        return loader

    def records(self, step: int) -> list[RecordMetadata]:
        """Metadata of every record of a step over all shards, in order; reads no data.

        With the names that the data source gives its records. Raises ValueError where operations change the number of
        rows, IndexError for a step that isn't there.

        >>> import loaderkit as lk
        >>> [metadata.record_key for metadata in lk.load([5, 6, 7], batch_size=2).records(1)]
        [2, 0]
        """
        plan = self._plan()
        if plan.row_changing:
            raise ValueError(plan.why_unknown("records(step)"))
        return named(plan.records(plan.first_position(), at_least("step", step, 0)), namer_of(self._source))

    @cached_property
    def element_spec(self) -> Any:
        """The first element's tree with an ArraySpec for each array and number, and the type for other leaves.

        The first element is made for it, in this process.

        >>> import loaderkit as lk
        >>> lk.load([{"x": 1.5}, {"x": 2.5}], batch_size=2).element_spec
        {'x': ArraySpec(shape=(2,), dtype=dtype('float64'))}
        """
        executor = InlineExecutor(self._program(), task_rows=None)
        try:
            plan = self._plan()
            reader = StreamReader(lambda: executor, plan, partial(open_scheduler, plan, 1), Quarantine(None))
            first = reader.peek().value
        except StopIteration:
            raise ValueError("element_spec: the loader gives no element") from None
        finally:
            executor.shut_down()
        return spec_of(first)

    # --- workers ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends the workers of this loader; its iterators can't go on. Closing twice does nothing.

        >>> import loaderkit as lk
        >>> loader = lk.load([5, 6])
        >>> loader.close()
        """
        self._shared_executor.close()

    def _copied(self) -> Self:
        loader = copy.copy(self)
        loader.__dict__.pop("element_spec", None)  # is made of what will differ
        return loader

    def _variant(self, **changes: Any) -> Self:
        """The same loader with other private settings, and workers of its own."""
        loader = self._copied()
        loader.__dict__["_fingerprints"] = self._fingerprints
        loader.__dict__.pop("_parameters", None)
        loader._shared_executor, loader._iterated = SharedExecutor(), False
        for name, value in changes.items():
            setattr(loader, f"_{name}", value)
        return loader

    # What can be done with operations that can't be sent to workers.
    _without_workers = "work in this process with worker_count=0 or in threads with worker_kind='thread'"

    def _program(self) -> Program:
        return Program(
            source=self._source,
            operations=self._operations,
            seed=seed_of(self._sampler),
            read_options=self._read_options,
            row_changing=changes_rows(shape_of(self._operations), self._tolerance),
            on_record_error=self._on_record_error,
            verify=self._verify,
            files=self._files,
        )

    @cached_property
    def _files(self) -> Files:
        # Other workers read with the trainer's own objects.
        apart = self._worker_count > 0 and self._worker_kind == "process"
        return foreign_files(self._source) if apart else {}

    def _make_executor(self) -> Executor:
        program = self._program()
        if self._worker_count == 0:
            return InlineExecutor(program, task_rows=self._task_rows)
        budget = self._max_memory
        if budget is None:
            available = available_memory()
            budget = None if available is None else available // 2
        try:
            return WorkerPool(
                program,
                workers=self._worker_count,
                kind=self._worker_kind,
                restart_policy=self._restart_policy,
                max_memory=budget,
                task_rows=self._task_rows,
            )
        except TransportError as error:
            advice = f"Make it where it is used first, or {self._without_workers}."
            raise TransportError(f"{error}. {advice}") from error.__cause__

    # --- the stream ---------------------------------------------------------------------------------------------

    def _plan(self) -> SeekablePlan:
        shard = self._sharding.resolve()
        sampler, start, stop = self._sampler, 0, length_of(self._sampler)
        if self._epoch is not None:
            records = num_records_of(sampler) or 0
            start, stop = self._epoch * records, (self._epoch + 1) * records
            sampler = _endless(sampler)
        return SeekablePlan(
            sampler=sampler,
            operations=shape_of(self._operations),
            shard=shard,
            start=start,
            stop=stop,
            logical_streams=self._logical_streams,
            num_records=len(self._source),
            sampler_fingerprint=self._fingerprints[0],
            source_fingerprint=self._fingerprints[1],
            parameters=self._parameters,
            epoch=self._epoch,
            num_steps=self._num_steps,
            tolerance=self._tolerance,
        )

    @cached_property
    def _fingerprints(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return fingerprint_of(self._sampler), source_fingerprint_of(self._source)

    @cached_property
    def _parameters(self) -> list[dict[str, Any]]:
        return parameters_of(self._operations)

    def _warn_of_unequal_steps(self, plan: SeekablePlan) -> None:
        if plan.stop is None or plan.row_changing:
            return
        stride = plan.batching.stride
        last = plan.start + (plan.stop - plan.start) // stride * stride
        without = plan.schedule.shards_without(last)
        if without:
            warnings.warn(
                f"the last step has too few rows for all {plan.shard.shard_count} shards: the last {without} make "
                "one step fewer. Use Batch(remainder='drop'), 'pad' or 'wrap', or ShardOptions(drop_remainder=True), "
                "for equal steps",
                stacklevel=3,
            )

    def __repr__(self) -> str:
        operations = ", ".join(label_of(op) for op in self._operations)
        return (
            f"DataLoader({type(self._source).__qualname__} with {len(self._source)} records, {self._sampler!r}, "
            f"[{operations}], worker_count={self._worker_count})"
            + ("" if self._epoch is None else f".epoch({self._epoch})")
        )

    if not TYPE_CHECKING:  # where it would make every misspelled name an attribute

        def __getattr__(self, name: str) -> Never:
            refuse_foreign_method(self, name)


def _endless(sampler: Sampler) -> Sampler:
    """The same order without the sampler's last epoch; one of the user's own says itself where it ends."""
    if isinstance(sampler, IndexSampler):
        return dataclasses.replace(sampler, num_epochs=None)
    if type(sampler) is SequentialSampler:
        return IndexSampler(sampler.num_records, seed=sampler.seed)
    return sampler
