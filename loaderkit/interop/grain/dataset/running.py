"""Iterators of chains that the engine makes, by workers or in this process, and of W streams of those made in order."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from loaderkit._loader.iterator.reader import StreamReader
from loaderkit._loader.settings import LoaderSettings
from loaderkit._runtime.worker.reading import read_ahead_limits
from loaderkit.errors import CheckpointMismatchError
from loaderkit.interop.grain._compile import compiled
from loaderkit.interop.grain._engine import EngineLoader
from loaderkit.interop.grain._layout_plan import LayoutPlan, LayoutPosition, Place
from loaderkit.interop.grain._order import VectorOrder
from loaderkit.interop.grain._round_robin import RoundRobin
from loaderkit.interop.grain._steps import Step
from loaderkit.interop.grain._tree import as_sent
from loaderkit.interop.grain.options import MultiprocessingOptions, reads_of
from loaderkit.interop.grain.samplers import SequentialSampler
from loaderkit.interop.grain.transforms import Batch
from loaderkit.transforms.operations import as_operations

from .blocks import BlockReader
from .in_order.elements import MapIterDataset
from .in_order.several import InterleaveIterDataset
from .iter_dataset import DatasetIterator, IterDataset
from .node import Dataset
from .planning import Chain, chain_of
from .rows import ENDLESS, ChainElements, State, is_there, of_state, sized, sources_of


class Engine:
    """The workers of a chain, and its streams.

    Args:
        chain: what is made.
        layout: W, or 0 for what Grain makes in its own process.
        options: how many processes there are.
        sent: whether elements are as worker processes of Grain send them.
    """

    def __init__(self, chain: Chain, layout: int, options: MultiprocessingOptions, *, sent: bool) -> None:
        self.streams, self.layout = max(layout, 1), layout
        self.changes_rows = bool(chain.steps)  # by more than filters of single rows
        self.of = chain.unfolded()
        steps = [*self.of.steps]
        if sent and layout == 1 and steps and steps[-1].kind == "batch":
            # Grain's only worker doesn't stack into memory of the first row's dtype.
            steps.append(Step("map", as_sent, "sending the batch", as_sent))
        self.compiled = compiled(steps, None, by_workers=sent and layout > 0)
        self.batch = self.compiled.batches[0] if len(self.compiled.batches) == 1 else None
        self.sizes = [self.of.rows.size(stream, self.streams) for stream in range(self.streams)]
        self.length = max(
            (size - 1) * self.streams + w + 1 if size else 0 for w, size in enumerate(self.sizes)
        )
        source = ChainElements(
            self.of.rows, self.streams, self.length, bool(steps) and steps[0].kind == "filter"
        )
        workers = options.processes
        records = max(self.length, 1)
        self._order = VectorOrder(SequentialSampler(records), records)
        settings = LoaderSettings(
            source=source,
            sampler=self._order,
            operations=as_operations(self.compiled.operations),
            worker_count=workers,
            prefetch=max(1, workers * options.per_worker_buffer_size),
            read_options=reads_of(self.of.read_options),
        )
        # Whether rows are all that is asked for, and this thread makes them one after the other.
        passed_on = not self.changes_rows and all(step.kind == "filter" for step in self.of.steps)
        ahead = workers or layout or read_ahead_limits(source, settings.read_options)
        self._alone = passed_on and not ahead
        self._loader = EngineLoader(self.compiled, settings, [*sources_of(self.of.rows)])

    def reader(self, only: int | None) -> "StreamElements | BlockReader":
        """Reads all streams in turn, or one of them.

        Args:
            only: the number of that one.
        """
        if self._alone and only is None:
            return BlockReader(self.of.rows)
        first, parts = (0, self.streams) if only is None else (only, 1)
        batch = self.batch if self.compiled.fixed and self.batch is not None else Batch(1)
        round_robin = RoundRobin(
            parts=parts,
            rows=batch.batch_size,
            keep=not batch.drop_remainder,
            records=self.length,
            first=first,
            stride=self.streams // parts,
            sizes=tuple(self.sizes if only is None else [self.sizes[only]]),
        )
        plan = LayoutPlan(self._order, round_robin, self.compiled, self.length >= ENDLESS, self.length)
        return StreamElements(self._loader.stream(plan, self.layout))

    # --- states ---------------------------------------------------------------------------------------------------

    def state(self, place: Place, stream: int) -> State:
        """Grain's state of a stream at a place."""
        state = self.of.rows.state(place[0], stream, self.streams)
        if any(step.kind == "flat_map" for step in self.of.steps):
            state = {"parent": state, "next_index_in_buffer": place[1] if len(place) > 1 else 0}
        return state

    def place(self, state: Any, stream: int) -> Place:
        """The place in a stream where a state of Grain's stands."""
        if not any(step.kind == "flat_map" for step in self.of.steps):
            return (self.of.rows.used(state, stream, self.streams),)
        before, given = of_state(state, "parent", "next_index_in_buffer")
        used = self.of.rows.used(before, stream, self.streams)
        given = sized("next_index_in_buffer", given, ENDLESS)
        if not given:
            return (used,)
        # Grain counts from the element before: those that aren't there are between.
        while used < self.sizes[stream]:
            (row,) = self.of.rows.at(np.array([used * self.streams + stream]), self.streams)
            if is_there(row):
                break
            used += 1
        return (used, given)

    def close(self) -> None:
        """Ends the workers."""
        self._loader.close()


class StreamElements:
    """The elements of a stream that the engine makes.

    Args:
        stream: reads it.
    """

    def __init__(self, stream: StreamReader[LayoutPosition, LayoutPlan]) -> None:
        self._stream = stream
        self.go_to, self.start_prefetch, self.close = stream.go_to, stream.start_prefetch, stream.close

    def next(self) -> Any:
        """The next element; StopIteration behind the last."""
        return self._stream.take().value

    @property
    def position(self) -> LayoutPosition:
        """Where it stands."""
        return self._stream.position


class EngineIterator(DatasetIterator):
    """Iterates over a chain that the engine makes.

    Args:
        engine_of: gives the engine for a layout.
        layout: W, 0 without mp_prefetch.
        only: the stream that is read, None for all in turn.
    """

    def __init__(self, engine_of: Callable[[int], Engine], layout: int, only: int | None = None) -> None:
        super().__init__()
        self._engine_of, self._only = engine_of, only
        self._engine = engine_of(layout)
        self._reader = self._engine.reader(only)
        self._next = self._reader.next

    def __next__(self) -> Any:
        return self._next()

    def get_state(self) -> State:
        return self._state_at(self._mark())

    def _mark(self) -> LayoutPosition:
        return self._reader.position

    def _state_at(self, mark: LayoutPosition) -> State:
        engine, position = self._engine, mark
        first = self._only or 0
        states = [engine.state(place, first + part) for part, place in enumerate(position.cursors)]
        if engine.layout == 0 or self._only is not None:
            return states[0]
        return {
            "next_index_in_cycle": position.turn,
            "next_index_in_datasets": engine.layout,
            "iterators_in_use_indices": [*range(engine.layout)],
            "iterators_in_use_states": states,
            "exhausted": [0] * engine.layout,
            "future_states": {},
        }

    def set_state(self, state: State) -> None:
        """Goes to where a state stands, of ours or of Grain's; a state of W streams brings its W.

        Raises StateError where it is of other steps, IndexError where it is after the last element.
        """
        found: Any = state.get("iterators_in_use_states")
        streams: list[State] = found if isinstance(found, list) and self._only is None else []
        layout = len(streams)
        engine, reader = self._engine, self._reader
        if self._only is None and layout != engine.layout:
            engine = self._engine_of(layout)
            reader = engine.reader(None)
        first, turn = self._only or 0, 0
        cursors: list[Place] = [engine.place(state, first)] if not layout else []
        for stream in range(layout):
            ended = state["exhausted"][stream]
            place = (engine.sizes[stream],) if ended else engine.place(streams[stream], stream)
            cursors.append(place)
            turn = state["next_index_in_cycle"]
        reader.go_to(LayoutPosition(0, turn, tuple(cursors)))
        if reader is not self._reader:
            self.close()
            self._engine, self._reader, self._next = engine, reader, reader.next

    def _rows_of_element(self) -> int:
        engine = self._engine
        if engine.layout > 1 or engine.changes_rows:
            return super()._get_next_index()
        return 1 if engine.batch is None else engine.batch.batch_size

    def _get_next_index(self) -> int:
        rows = self._rows_of_element()
        used: int = self._reader.position.cursors[0][0]
        return -(-used // rows)

    def _set_next_index(self, index: int) -> None:
        used = sized("index", index * self._rows_of_element(), self._engine.sizes[0])
        self._reader.go_to(LayoutPosition(0, 0, ((used,),)))

    def start_prefetch(self) -> None:
        self._reader.start_prefetch()

    def close(self) -> None:
        self._reader.close()
        if self._only is None:
            self._engine.close()


def _engine(node: Any, options: MultiprocessingOptions, layout: int) -> Engine:
    chain = chain_of(node, max(layout, 1))
    if chain is None:
        raise CheckpointMismatchError(
            f"state: expected one that these steps can go on from, got one of {layout} streams"
        )
    return Engine(chain, layout, options, sent=True)


def planned(node: Any) -> EngineIterator | None:
    """The iterator of a node in this process where the engine makes its elements, else None."""
    if chain_of(node, 1) is None:
        return None
    return EngineIterator(partial(_engine, node, MultiprocessingOptions()), 0)


Dataset._steps["IterDataset.planned"] = planned


class MultiprocessIterDataset(IterDataset, step="IterDataset.mp_prefetch"):
    """What Grain gives with W workers.

    Where the engine doesn't make all of it, each of the W streams has a copy of the steps that run in order, in a
    thread of this process, over rows that the workers of one engine make.
    """

    def __init__(self, parent: Any, options: MultiprocessingOptions) -> None:
        super().__init__(parent)
        self._options = options

    def __iter__(self) -> Any:
        streams = self._options.num_workers
        if chain_of(self._parent, streams) is not None:
            return EngineIterator(partial(_engine, self._parent, self._options), streams)
        engines: dict[int, Engine] = {}
        chains = []
        for stream in range(streams):
            chain = self._parent._sliced(stream, streams, partial(self._leaf, engines, stream))
            chain._last_of_worker = streams > 1
            chains.append(chain)
        ahead = self._options.per_worker_buffer_size
        turns = InterleaveIterDataset(chains, cycle_length=streams, iter_buffer_size=ahead)
        return iter(MapIterDataset(turns, as_sent))

    def _leaf(self, engines: dict[int, Engine], stream: int, node: IterDataset) -> IterDataset | None:
        streams = self._options.num_workers
        chain = chain_of(node, streams)
        if chain is None:
            return None
        if id(node) not in engines:
            engines[id(node)] = Engine(chain, streams, self._options, sent=False)
        return _StreamOf(engines[id(node)], stream)


class _StreamOf(IterDataset):
    """One stream of an engine's."""

    def __init__(self, engine: Engine, stream: int) -> None:
        super().__init__()
        self._engine, self._number = engine, stream

    def __iter__(self) -> EngineIterator:
        return EngineIterator(lambda layout: self._engine, 0, self._number)
