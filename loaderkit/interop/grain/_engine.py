"""The engine behind a loader of Grain's names: workers, memory and order are loaderkit's own."""

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any

from loaderkit._base.system.dataclasses import dataclass, replace
from loaderkit._base.system.file_identity import Files
from loaderkit._loader.executor_factory import files_of_workers, make_executor, program_of
from loaderkit._loader.iterator.quarantine import Quarantine
from loaderkit._loader.iterator.reader import Element, StreamReader
from loaderkit._loader.settings import LoaderSettings
from loaderkit._loader.shared_executor import SharedExecutor
from loaderkit._runtime.executors.executor import Executor
from loaderkit._runtime.worker.bulk_read import SourceEndedError
from loaderkit._runtime.worker.program import Program

from ._compile import Compiled
from ._layout_plan import LayoutPlan, LayoutPosition
from .options import READER_NAME


@dataclass(frozen=True, slots=True)
class EngineExecutorFactory:
    """Makes the executors for plans of a layout.

    settings: of the engine. files: that workers open by name. cursors: whether they are kept with the elements, also
    where the number of rows is known. layout: for what an error advises.
    """

    settings: LoaderSettings
    files: Files
    cursors: bool
    layout: int

    def program(self) -> Program:
        """What is to be run, as it is now."""
        program = program_of(self.settings, self.files)
        return replace(program, seed=None, row_changing=self.cursors, reader_name=READER_NAME)

    def make(self, program: Program) -> Executor:
        """A new executor for it."""
        # Without worker_layout the layout would become that of worker_count=0, and the batches others.
        without_workers = f"work in this process with worker_count=0, worker_layout={self.layout}"
        return make_executor(self.settings, program, without_workers=without_workers)


class EngineLoader:
    """Runs plans of compiled operations with workers of loaderkit.

    Args:
        compiled: what it runs.
        settings: with its operations, and with what they run on.
        sources: that the records are read from; the one of the settings if not given.
    """

    def __init__(
        self, compiled: Compiled, settings: LoaderSettings, sources: Sequence[Any] | None = None
    ) -> None:
        self.compiled, self._settings = compiled, settings
        self._sources = [settings.source] if sources is None else sources
        self._shared_executor = SharedExecutor()

    @cached_property
    def _files(self) -> Files:
        each = (files_of_workers(self._settings.replace(source=source)) for source in self._sources)
        return {path: identity for files in each for path, identity in files.items()}

    def reader(self, plan: LayoutPlan, layout: int) -> "LayoutReader":
        """As `stream`, of a source that may end where it raises StopIteration."""
        return LayoutReader(self.stream(plan, layout))

    def stream(self, plan: LayoutPlan, layout: int) -> StreamReader[LayoutPosition, LayoutPlan]:
        """The stream of a plan, which is that of a layout, from its beginning."""
        factory = EngineExecutorFactory(self._settings, self._files, not self.compiled.fixed, layout)
        return StreamReader(
            partial(self._shared_executor.executor, factory),
            plan,
            partial(LayoutPlan.open_scheduler, prefetch=self._settings.elements_ahead),
            Quarantine(None),
        )

    def close(self) -> None:
        """Ends the workers."""
        self._shared_executor.close()


class LayoutReader:
    """Reads a plan's stream; that of a layout worker ends before a record where the source raises StopIteration.

    The records of a smaller batch before that are read again.

    Args:
        stream: reads it, as long as no source ends.
    """

    def __init__(self, stream: StreamReader[LayoutPosition, LayoutPlan]) -> None:
        self._stream = stream
        self.start_prefetch, self.close = stream.start_prefetch, stream.close

    @property
    def position(self) -> LayoutPosition:
        """Where it stands."""
        return self._stream.position

    def take(self) -> Element[LayoutPosition]:
        """The next element; the position moves on."""
        while True:
            try:
                return self._stream.take()
            except SourceEndedError as error:
                self._stream.continue_with(self._stream.plan.ending_before(error.index), self.position)

    def go_to(self, position: LayoutPosition) -> None:
        """Goes to a position; the source is asked again for all records."""
        self._stream.go_to(position, self._stream.plan.ending_before(None))
