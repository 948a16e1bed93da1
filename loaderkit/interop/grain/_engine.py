"""The engine behind a loader of Grain's names: workers, memory and order are loaderkit's own."""

from functools import partial
from typing import Any

from loaderkit._iterator.quarantine import Quarantine
from loaderkit._iterator.reader import StreamReader
from loaderkit._loader.loader import DataLoader
from loaderkit._order.sharding import NoSharding
from loaderkit._runtime.executors.executor import Executor
from loaderkit._runtime.worker.program import Program
from loaderkit._runtime.worker.reading import ReadOptions

from . import options
from ._compile import Compiled
from ._layout_plan import LayoutPlan, LayoutPosition
from ._order import Order


class EngineLoader(DataLoader):
    """Runs a plan of ours with the workers of a DataLoader."""

    def _program(self) -> Program:
        # Cursors are kept wherever elements are regrouped, also where their number is known.
        return Program(
            source=self._source,
            operations=self._operations,
            seed=None,
            read_options=self._read_options,
            row_changing=self._cursors,
            files=self._files,
        )

    _cursors = True

    def reader(self, plan: LayoutPlan, layout: int) -> StreamReader[LayoutPosition]:
        """The stream of a plan, which is that of a layout, from its beginning."""
        prefetch = self._prefetch if self._worker_count else 1  # without workers nothing is made ahead
        return StreamReader(
            partial(self._executor_for, layout),
            plan,
            partial(plan.open_scheduler, prefetch),
            Quarantine(None),
        )

    def _executor_for(self, layout: int) -> Executor:
        # Without worker_layout the layout would become that of worker_count=0, and the batches others.
        self._without_workers = f"work in this process with worker_count=0, worker_layout={layout}"
        return self._shared_executor.executor(self)


def engine_loader(
    *,
    source: Any,
    order: Order,
    compiled: Compiled,
    cursors: bool,
    worker_count: int,
    prefetch: int,
    read_options: options.ReadOptions | None,
) -> EngineLoader:
    """A loader of the engine's for compiled operations.

    Args:
        source, order, compiled: what it runs.
        cursors: whether places inside the stream are kept with the elements.
        worker_count: processes; 0 works in this one.
        prefetch: elements made ahead.
        read_options: the script's; the engine's own default where it gave none.
    """
    reads = ReadOptions()
    if read_options is not None:
        reads = ReadOptions(int(read_options.num_threads), int(read_options.prefetch_buffer_size))
    loader = EngineLoader(
        data_source=source,
        sampler=order,
        operations=compiled.operations,
        worker_count=worker_count,
        prefetch_batches=prefetch,
        read_options=reads,
        shard_options=NoSharding(),
    )
    loader._cursors = cursors
    return loader
