"""Grain's DataLoader: the same arguments, the same batches, the same checkpoints, on loaderkit's engine.

The batches of Grain depend on its worker_count. Here that number is the *layout*, `worker_layout`, and the number of
processes that work is another: the layout says which records make a batch, `worker_count` how many processes make them.
Without `worker_layout` a script has the layout of its worker_count, or of the state that it restores.
"""

import os
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from loaderkit._base.numbers import at_least
from loaderkit._loader.settings import LoaderSettings
from loaderkit.errors import CheckpointMismatchError
from loaderkit.sources.checked import check_source
from loaderkit.transforms.operations import as_operations

from . import sharding
from ._compile import Compiled, compiled
from ._engine import EngineLoader, LayoutReader
from ._in_order import InOrderRun
from ._layout_plan import LayoutPlan, Place
from ._order import as_ours, generators_of, order_of
from ._round_robin import RoundRobin
from ._state import Identity, read, written
from ._steps import listed, steps_of
from ._version import OLDER, compare, length_of
from .options import MultiprocessingOptions, ReadOptions, reads_of
from .samplers import IndexSampler, size_of
from .transforms import Batch

_ENDLESS = 1 << 62  # records: no run reads that many, and indices stay below 2**63


class DataLoader:
    """Loads and transforms records, giving what Grain's DataLoader of the same arguments gives.

    Args:
        data_source: anything with `__len__` and `__getitem__`.
        sampler: which record each index reads.
        operations: transforms, legacy operations, or callables from records to records.
        worker_count: processes that work, 0 for this one, None for the number of CPUs; and the layout, where
            worker_layout doesn't say it.
        worker_buffer_size: batches that each of them makes ahead.
        shard_options: which part of the indices this process reads; the sampler's if not given.
        read_options: how a worker reads.
        enable_profiling: nothing, as in Grain.
        worker_layout: the worker_count of the Grain run whose batches these are.
        grain_version: whose batches these are, "0.2.18" or "0.2.19", which keeps the records that don't fill all
            shards unless shard_options drop them; None is "0.2.18", with a warning where a newer Grain is installed.

    Raises ValueError where a number is out of range, neither shard_options nor the sampler say the shards, or another
    process of a JAX run has another grain_version.

    >>> import loaderkit.interop.grain as grain
    >>> loader = grain.DataLoader(
    ...     data_source=range(10),
    ...     sampler=grain.SequentialSampler(10),
    ...     operations=[grain.Batch(3)],
    ...     worker_layout=2,
    ... )
    >>> [batch.tolist() for batch in loader]
    [[0, 2, 4], [1, 3, 5], [6, 8], [7, 9]]
    """

    def __init__(
        self,
        *,
        data_source: Any,
        sampler: Any,
        operations: Sequence[Any] = (),
        worker_count: int | None = 0,
        worker_buffer_size: int = 1,
        shard_options: Any = None,
        read_options: Any = None,
        enable_profiling: bool = False,
        worker_layout: int | None = None,
        grain_version: str | None = None,
    ) -> None:
        """All arguments are given by name; help(DataLoader) says what each of them is, and the errors."""
        workers = at_least("worker_count", os.cpu_count() or 1 if worker_count is None else worker_count, 0)
        at_least("worker_buffer_size", worker_buffer_size, 1 if workers else 0)
        if worker_layout is not None:
            at_least("worker_layout", worker_layout, 0)
        # Grain's names for what Grain's loader holds, too: code that makes a loader anew with one operation more reads
        # them, with the options below.
        self._data_source = data_source
        self._sampler = sampler
        self._operations = listed("operations", operations)
        self._steps = steps_of(self._operations)
        self._in_order = any(step.kind == "records" for step in self._steps)
        self._read_options: ReadOptions | None = read_options
        self._multiprocessing_options = MultiprocessingOptions(
            num_workers=workers, per_worker_buffer_size=worker_buffer_size, enable_profiling=enable_profiling
        )
        self._worker_layout = worker_layout
        self._shard_options = _shard_options(sampler, shard_options)
        ours = as_ours(sampler)
        self._order = order_of(ours, max(len(data_source), 1))
        self._generators = generators_of(ours)
        size = size_of(sampler)
        self._endless = size >= _ENDLESS
        self._length = length_of(min(size, _ENDLESS), self._shard_options, grain_version)
        self._version = grain_version or OLDER
        compare(self._shard_options, self._version)
        self._made: dict[bool, EngineLoader] = {}
        if not self._in_order:
            self._engine(self._own_layout)  # raises now what is wrong with a Batch

    @property
    def multiprocessing_options(self) -> MultiprocessingOptions:
        """The number of processes."""
        return self._multiprocessing_options

    def __iter__(self) -> "DataLoaderIterator":
        return DataLoaderIterator(self, None)

    def close(self) -> None:
        """Ends the processes that work for this loader; without it they end with its last iterator.

        >>> import loaderkit.interop.grain as grain
        >>> grain.load([1, 2], num_epochs=1).close()
        """
        for loader in self._made.values():
            loader.close()

    # --- for the iterator -----------------------------------------------------------------------------------------

    @property
    def _own_layout(self) -> int:
        return (
            self._multiprocessing_options.num_workers if self._worker_layout is None else self._worker_layout
        )

    def _reader(self, layout: int) -> LayoutReader | InOrderRun:
        """The stream of a layout, from its beginning."""
        if self._in_order:
            return self._run_in_order(layout)
        return self._engine(layout).reader(self._plan(layout), layout)

    def _run_in_order(self, layout: int) -> InOrderRun:
        return InOrderRun(
            source=self._data_source,
            sampler=as_ours(self._sampler),
            steps=self._steps,
            layout=layout,
            indices_from=self._plan(layout).round_robin.indices_from,
            read_options=self._read_options,
        )

    def _plan(self, layout: int) -> LayoutPlan:
        compiled = Compiled() if self._in_order else self._engine(layout).compiled
        only_batch = compiled.batches[0] if len(compiled.batches) == 1 else Batch(1)
        round_robin = RoundRobin(
            parts=max(layout, 1),
            rows=only_batch.batch_size,
            keep=not only_batch.drop_remainder,
            records=self._length,
            first=self._shard_options.shard_index,
            stride=self._shard_options.shard_count,
        )
        return LayoutPlan(self._order, round_robin, compiled, self._endless, len(self._data_source))

    def _engine(self, layout: int) -> EngineLoader:
        by_workers = layout > 0
        if by_workers not in self._made:
            source, options = self._data_source, self._multiprocessing_options
            made = compiled(self._steps, self._generators, by_workers=by_workers)
            settings = LoaderSettings(
                # Grain reads a tuple item by item, whatever they are.
                source=source if isinstance(source, tuple) else check_source(source),
                sampler=self._order,
                operations=as_operations(made.operations),
                worker_count=options.num_workers,
                prefetch=max(1, options.num_workers * options.per_worker_buffer_size),
                read_options=reads_of(self._read_options),
            )
            self._made[by_workers] = EngineLoader(made, settings)
        return self._made[by_workers]

    def _resolved(self, part: int, cursor: Place, layout: int) -> Place:
        """A cursor of a document as the engine's; an InOrderRun counts as Grain does."""
        if self._in_order or not any(cursor[1:]):
            return cursor
        return self._run_in_order(layout).resolved(part, cursor)

    def _identity(self) -> Identity:
        flat_maps = sum(step.kind == "flat_map" for step in self._steps)
        shard, source = self._shard_options, self._data_source
        return Identity(
            repr(self._sampler),
            str(type(source)) if isinstance(source, list | tuple | np.ndarray) else repr(source),
            flat_maps,
            shard.shard_index,
            shard.shard_count,
            self._length,
            self._version,
        )


class DataLoaderIterator(Iterator[Any]):
    """Goes through a loader's elements; its state is the document that Grain writes.

    Args:
        data_loader: gives the elements.
        state: the fields of a document to continue from, None for the beginning.
        validate_state: whether the state must be of the same sampler and source.

    >>> import loaderkit.interop.grain as grain
    >>> loader = grain.load([5, 6, 7], num_epochs=1)
    >>> it = iter(loader)
    >>> next(it)
    5
    >>> again = iter(loader)
    >>> again.set_state(it.get_state())
    >>> next(again)
    6
    """

    def __init__(
        self, data_loader: DataLoader, state: dict[str, Any] | None, validate_state: bool = True
    ) -> None:
        self._data_loader = data_loader
        self._validate_state = validate_state
        self._layout = data_loader._own_layout
        self._reader = data_loader._reader(self._layout)
        if state is not None:
            import json

            self.set_state(json.dumps(state).encode())

    def __iter__(self) -> "DataLoaderIterator":
        return self

    def __next__(self) -> Any:
        return self._reader.take().value

    def get_state(self) -> bytes:
        """Where it stands, as the JSON that Grain writes."""
        return written(self._reader.position, self._layout, self._data_loader._identity())

    def set_state(self, state: bytes) -> None:
        """Goes to where a state stands.

        Args:
            state: of ours or of Grain's, of any worker_count. json.JSONDecodeError or StateError where it is no such
                document, CheckpointMismatchError where it is of another sampler, source or layout, StateError where it
                is of another shard, IndexError where it is after the last record; nothing has changed then.
        """
        loader = self._data_loader
        layout, position = read(state, loader._identity(), validate=self._validate_state)
        if loader._worker_layout is not None and layout != loader._worker_layout:
            raise CheckpointMismatchError(
                f"worker_layout: expected {layout}, the worker_count of the state, got "
                f"{loader._worker_layout}: give worker_layout={layout}, or none, and a state brings its own"
            )
        cursors = tuple(
            loader._resolved(part, cursor, layout) for part, cursor in enumerate(position.cursors)
        )
        reader = self._reader if layout == self._layout else loader._reader(layout)
        reader.go_to(replace(position, cursors=cursors))
        if reader is not self._reader:
            self._reader.close()
            self._reader, self._layout = reader, layout

    def start_prefetch(self) -> None:
        """Begins to make elements now instead of at the first next(); calling it again does nothing."""
        self._reader.start_prefetch()

    def close(self) -> None:
        """Stops making elements; get_state() still works."""
        self._reader.close()

    async def save(self, directory: Any) -> Coroutine[Any, Any, None]:
        """Orbax's StatefulCheckpointable: takes the state now, writes it in what is returned.

        Args:
            directory: the folder, as Orbax gives it.
        """
        from .checkpoint import save_async

        return await save_async(self, directory)

    async def load(self, directory: Any) -> Coroutine[Any, Any, None]:
        """Orbax's StatefulCheckpointable: goes to the state saved there in what is returned.

        Args:
            directory: the folder, as Orbax gives it.
        """
        from .checkpoint import load_saved

        return load_saved(self, directory)

    def __str__(self) -> str:
        return f"PyGrainDatasetIterator(state={self.get_state().decode()})"


def load(
    source: Any,
    *,
    num_epochs: int | None = None,
    shuffle: bool = False,
    seed: int | None = None,
    shard_options: sharding.ShardOptions | None = None,
    transformations: Sequence[Any] = (),
    batch_size: int | None = None,
    drop_remainder: bool = False,
    worker_count: int | None = 0,
    read_options: ReadOptions | None = None,
) -> DataLoader:
    """A DataLoader over a source in one call.

    Args:
        source: anything with `__len__` and `__getitem__`.
        num_epochs, shuffle, seed: as IndexSampler has them.
        shard_options: which part of the records this process loads, all if not given.
        transformations: the DataLoader's operations.
        batch_size, drop_remainder: of a Batch behind them; None for none.
        worker_count, read_options: as DataLoader has them.

    >>> [batch.tolist() for batch in load([1, 2, 3], num_epochs=1, batch_size=2)]
    [[1, 2], [3]]
    """
    sampler = IndexSampler(
        num_records=len(source),
        shard_options=sharding.NoSharding() if shard_options is None else shard_options,
        shuffle=shuffle,
        num_epochs=num_epochs,
        seed=seed,
    )
    batch = [] if batch_size is None else [Batch(batch_size, drop_remainder=drop_remainder)]
    return DataLoader(
        data_source=source,
        sampler=sampler,
        operations=[*listed("transformations", transformations), *batch],
        worker_count=worker_count,
        read_options=read_options,
    )


def _shard_options(sampler: Any, given: Any) -> sharding.ShardOptions:
    own = getattr(sampler, "_shard_options", None)
    found = sharding.as_shard_options(own if given is None else given)
    if found is None:
        raise ValueError(
            "shard_options: expected NoSharding(), ShardByJaxProcess() or ShardOptions(shard_index, shard_count), got "
            f"{given!r}{', and the sampler has none' if given is None else ''}"
        )
    return found
