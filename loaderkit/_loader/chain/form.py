"""What the steps of a chain mean so far: a source, an order, operations, and how many steps there are."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from loaderkit._base.numbers import at_least
from loaderkit._base.system.dataclasses import dataclass, replace
from loaderkit._order.sharding import ShardOptions
from loaderkit._plan.bad_records import Tolerance
from loaderkit._plan.stream_shape import batching_of, changes_rows
from loaderkit._source.optional import advised_chunk
from loaderkit._source.record_key import check_keys, short_repr
from loaderkit.samplers import ChunkSampler, Sampler
from loaderkit.samplers.protocol import checked_epochs, checked_seed, length_of, record_keys_of
from loaderkit.samplers.slices import SliceSampler
from loaderkit.samplers.spans import epoch_lengths_of, sampler_over
from loaderkit.sources import CachedDataSource, MapDataSource, SubsetDataSource
from loaderkit.sources.subset import SampledKeys
from loaderkit.transforms.base import (
    Batch,
    Filter,
    FlatMap,
    Map,
    MapWithIndex,
    RandomMap,
    Transformation,
    Window,
    draws,
    function_of,
)
from loaderkit.transforms.pack import Pack
from loaderkit.transforms.shape import shape_of
from loaderkit.transforms.window_shuffle import WindowShuffle

from .refusals import check_order


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Form:
    """The lowered form of a chain; each step makes another one, or is refused.

    Args:
        source: of the records.
        lengths: {source as it was given: its length then}, by pairs.
        steps: names of all steps. "limit" is a take of batches, "chosen" stands for the shuffle of a choice.
        operations: on the elements, in order.
        seed: of the stream.
        shuffle: whether each epoch has an order of its own.
        window: chunks that it mixes at a time, None for all records.
        lanes: into how many parts a step of all hosts is cut, of a shuffle or a mixture.
        num_epochs: how many; 1 before repeat.
        mixed: gives the sampler of several parts, of (seed, indices of a step); None for epochs of the source.
        start, stop: the part of the sampler's indices that is taken.
        num_steps: of the loader, None for all.
        sized: the place of the Batch whose size is that of the global batch while it is the last one.
    """

    source: Any
    lengths: tuple[tuple[Any, int], ...]
    steps: tuple[str, ...] = ()
    operations: tuple[Transformation, ...] = ()
    seed: int | None = None
    shuffle: bool = False
    window: int | None = None
    lanes: int = 1
    num_epochs: int | None = 1
    mixed: Callable[[int | None, int | None], Sampler] | None = None
    start: int = 0
    stop: int | None = None
    num_steps: int | None = None
    sized: int | None = None

    # --- what it means ----------------------------------------------------------------------------------------------

    @property
    def zone(self) -> str:
        """Records, stream or elements."""
        if any(isinstance(op, Batch | FlatMap | Window) for op in self.operations):
            return "elements"
        return "stream" if self.mixed is not None or "repeat" in self.steps else "records"

    @property
    def stride(self) -> int | None:
        """How many indices a step of all hosts takes; None before a batch."""
        batching = batching_of(shape_of(self.operations), ShardOptions(0, 1))
        return batching.stride if batching.batched else None

    @property
    def changes_rows(self) -> bool:
        """Whether the number of elements is known only once they are made."""
        return changes_rows(shape_of(self.operations), Tolerance())

    @property
    def draws(self) -> bool:
        """Whether an operation draws."""
        return any(map(draws, self.operations))

    def sampler(self, seed: int | None = None, batch: int | None = None) -> Sampler:
        """Which record each index reads.

        Args:
            seed: where the chain has none.
            batch: the indices of a step, which count where there are lanes.
        """
        seed = self.seed if self.seed is not None else seed
        if self.lanes > 1 and batch is None:
            raise ValueError(f"lanes={self.lanes}: expected .batch() in the chain, got none; write .batch(n)")
        batch = batch if self.lanes > 1 else None
        made = self._epochs(seed, batch) if self.mixed is None else self.mixed(seed, batch)
        return SliceSampler(made, self.start, self.stop) if self.start or self.stop is not None else made

    def _epochs(self, seed: int | None, batch: int | None) -> Sampler:
        records, often = len(self.source), self.num_epochs
        if (self.window is None and self.lanes == 1) or epoch_lengths_of(self.source) is not None:
            return sampler_over(
                self.source, shuffle=self.shuffle, num_epochs=often, seed=seed, lanes=self.lanes
            )
        if seed is None:
            raise ValueError(".shuffle(): expected a seed, got none; write .shuffle(seed=0)")
        return ChunkSampler(
            records,
            # Windows of one record where there are no chunks: the order is then a shuffle of all records.
            chunk=min(advised_chunk(self.source) or 1, records),
            window=self.window or 1,
            lanes=self.lanes,
            batch=batch,
            num_epochs=often,
            seed=seed,
        )

    def length(self) -> int | None:
        """How many indices there are, None where there is no end; the order needs no seed for it."""
        return length_of(self.sampler(seed=0, batch=self.lanes))

    def steps_in_all(self) -> int | None:
        """The steps of a loader in one process, None without end; where rows change their number, of their records."""
        length, batching = self.length(), batching_of(shape_of(self.operations), ShardOptions(0, 1))
        if length is None:
            return self.num_steps
        whole, left = divmod(length, batching.stride)
        steps = whole + (bool(batching.count_rows(left)) and batching.remainder != "drop")
        return steps if self.num_steps is None else min(steps, self.num_steps)

    def check_ready(self) -> None:
        """Raises ValueError where a loader can't be made: without a seed that is needed, or of changed sources."""
        needs = next((repr(op) for op in self.operations if draws(op)), None)
        needs = ".shuffle()" if self.shuffle else needs
        if self.seed is None and needs is not None:
            raise ValueError(f"{needs}: expected a seed in the chain, got none; write .seed(0) behind it")
        for source, length in self.lengths:
            if len(source) != length:
                raise ValueError(
                    f"Dataset: expected {short_repr(source)} to have {length} records, as when the chain was written, "
                    f"got {len(source)}; write the chain again once the source is complete"
                )

    # --- its steps ----------------------------------------------------------------------------------------------------

    def _then(self, step: str, **changes: Any) -> Form:
        return replace(self, steps=(*self.steps, step), **changes)

    def shuffled(self, seed: Any, window: Any, lanes: Any) -> Form:
        """Each epoch in an order of its own."""
        check_order("shuffle", self.steps)
        seed = checked_seed(seed)
        lanes = at_least("lanes", lanes, 1, advice="give 1, or the number of hosts")
        if window is not None:
            window = at_least("window", window, 1, advice="give how many chunks are mixed at a time")
            if advised_chunk(self.source) is None:
                raise ValueError(
                    f".shuffle(window={window}): expected a source that says its chunk_records, such as a "
                    f"TarDataSource, got {short_repr(self.source)}; leave window out"
                )
        elif lanes > 1:
            raise ValueError(
                f".shuffle(lanes={lanes}): expected window= too, got none; give for example window=8"
            )
        made = self._seeded("shuffle", seed)._without("chosen")
        return made._then("shuffle", shuffle=True, window=window, lanes=lanes)

    def with_seed(self, seed: Any) -> Form:
        """Of random operations and of a shuffle without a seed of its own."""
        seed = checked_seed(seed)
        if seed is None:
            raise TypeError(".seed(): expected an int, got None; give for example .seed(0)")
        return self._seeded("seed", seed)._then("seed")

    def _seeded(self, step: str, seed: int | None) -> Form:
        if seed is None:
            return self
        if self.seed is not None and "chosen" not in self.steps:
            by = next(name for name in self.steps if name in ("seed", "shuffle", "mix", "interleave"))
            raise ValueError(
                f".{step}({seed}): expected one seed, got a second: .{by}() has {self.seed}; write it once"
            )
        return replace(self, seed=seed)

    def _without(self, step: str, *instead: str) -> Form:
        kept = tuple(each for each in self.steps if each != step)
        return replace(self, steps=kept + instead if len(kept) < len(self.steps) else kept)

    def repeated(self, num_epochs: Any) -> Form:
        """Several epochs, or without end."""
        check_order("repeat", self.steps)
        num_epochs = checked_epochs(num_epochs)
        if "chosen" in self.steps and num_epochs != 1:
            warnings.warn(
                ".repeat(): each epoch has the order in which the records were chosen; write .shuffle(seed=...) before "
                ".repeat() for another order in each",
                stacklevel=4,  # behind the step and its decorator
            )
        return self._then("repeat", num_epochs=num_epochs)

    def sliced(self, step: str, which: slice) -> Form:
        """The records, indices or steps of a slice."""
        if self.zone == "elements" and step == "take":
            return self._limited(which.stop)
        check_order(step, self.steps)
        if self.zone == "records":
            chosen = range(len(self.source))[which]
            if not chosen:
                raise _nothing(step, len(self.source))
            if not self.shuffle:
                if len(chosen) == len(self.source) and chosen.step == 1:
                    return self._then(step)
                return self._then(step, source=SubsetDataSource(self.source, chosen))
            return self._chosen(step, SampledKeys(self._first_epoch(step), chosen))
        length = self.length()
        if which.step not in (None, 1) or (length is None and min(which.start or 0, which.stop or 0) < 0):
            raise ValueError(
                f"[a:b:c]: expected a and b from 0 on and no c of a stream, got {which}; write it before .repeat()"
            )
        start, stop, _ = which.indices(length if length is not None else (1 << 63) - 1)
        if start >= stop:
            raise _nothing(step, length)
        last = None if length is None and which.stop is None else self.start + stop
        return self._then(step, start=self.start + start, stop=last)

    def selected(self, record_keys: Any) -> Form:
        """The records of some places."""
        check_order("select", self.steps)
        if isinstance(record_keys, range):
            record_keys = np.arange(record_keys.start, record_keys.stop, record_keys.step)
        if np.ndim(record_keys) and not len(record_keys):
            raise _nothing("select", len(self.source))
        if not self.shuffle:
            return self._then("select", source=SubsetDataSource(self.source, record_keys))
        places = check_keys(record_keys, len(self.source), self.source)
        return self._chosen("select", record_keys_of(self._first_epoch("select"), places))

    def _first_epoch(self, step: str) -> Sampler:
        if self.seed is None:
            raise ValueError(
                f".{step}(): expected a seed of the order that it chooses by, got none; write .shuffle(seed=0)"
            )
        return self.sampler()

    def _chosen(self, step: str, keys: Any) -> Form:
        made = self._without("shuffle", "chosen")
        return made._then(step, source=SubsetDataSource(self.source, keys), **_IN_ORDER)

    def _limited(self, count: Any) -> Form:
        check_order("limit", self.steps)
        batches = [op for op in self.operations if isinstance(op, Batch)]
        if not batches:
            check_order("take", self.steps)
        steps = at_least("take", count, 1)
        length = self.length()
        if self.changes_rows and length is not None and batches[-1].remainder in ("drop", "wrap"):
            raise ValueError(
                f".take({steps}): expected remainder='keep' or 'pad' in the last batch, as how many there are isn't "
                f"known, got {batches[-1].remainder!r}; give num_steps={steps} to loader(), which raises where there "
                "are fewer"
            )
        most = self.num_steps if self.changes_rows else self.steps_in_all()
        steps = steps if most is None else min(steps, most)
        return self._then("limit", num_steps=steps)

    def cached(self, folder: Any, limit: Any) -> Form:
        """The records behind the maps so far, each made once and kept."""
        check_order("cache", self.steps)
        source = CachedDataSource(mapped(self.source, self.operations), folder, limit=limit)
        return self._then("cache", source=source, operations=())

    def with_operation(self, op: Transformation, *, sized: bool = False) -> Form:
        """One more operation; sized: whether it is a Batch of the global batch if no other one follows."""
        step = step_of(op)
        check_order(step, self.steps)
        operations, place = [*self.operations], len(self.operations)
        if isinstance(op, Batch) and self.sized is not None:
            before = operations[self.sized]
            assert isinstance(before, Batch)
            operations[self.sized] = inner = Batch(
                before.global_batch_size, remainder=before.remainder, batch_fn=before.batch_fn
            )
            if inner.remainder not in ("keep", "drop"):
                raise ValueError(
                    f".batch(): expected remainder='keep' or 'drop' before the last batch, got {inner!r}"
                )
        if isinstance(op, Batch):
            return self._then(step, operations=(*operations, op), sized=place if sized else None)
        return self._then(step, operations=(*operations, op))


def step_of(op: Transformation) -> str:
    """The name of the step that an operation is.

    >>> step_of(Map(abs)), step_of(RandomMap(max)), step_of(Batch(4))
    ('map', 'random_map', 'batch')
    """
    if draws(op) and not isinstance(op, Window):
        return "random_map"
    return next(name for kind, name in STEPS.items() if isinstance(op, kind))


# The step of each kind of operation; a subclass stands before its base.
STEPS: dict[type[Transformation], str] = {
    Pack: "pack",
    WindowShuffle: "window_shuffle",
    Window: "window",
    Map: "map",
    RandomMap: "random_map",
    MapWithIndex: "map_with_index",
    Filter: "filter",
    FlatMap: "flat_map",
    Batch: "batch",
}


_IN_ORDER: dict[str, Any] = {"shuffle": False, "window": None, "lanes": 1}


def mapped(source: Any, maps: Any) -> Any:
    """A source behind Maps.

    >>> list(mapped([-1, 2], [Map(abs), Map(float)]))
    [1.0, 2.0]
    """
    for op in maps:
        source = MapDataSource(source, function_of(op))
    return source


def _nothing(step: str, length: int | None) -> ValueError:
    shown = "[a:b:c]" if step == "slice" else f".{step}()"
    of = "a stream without end" if length is None else str(length)
    return ValueError(
        f"{shown}: expected one or more to be left, got none of {of}; such a chain reads nothing"
    )
