"""Grain's operations said in the engine's.

A Map is a Map, a Filter a Filter. Randomness differs: a record has one generator, from which its RandomMaps draw in
turn. So the operations from the first RandomMap to the last become one *stage*, which has the generator while they run;
where a RandomMap comes after a Batch, the stage extends to the Batch, and gives the generator's state with the row.
After a FlatMap there is no generator, as in Grain.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

import loaderkit.transforms.base as engine
from loaderkit._base.numbers import at_least
from loaderkit._base.system.dataclasses import dataclass, field
from loaderkit.transforms.base import NamedOperation
from loaderkit.transforms.stages import RaisedBy

from . import transforms
from ._batching import CallingBatch, StackingBatch
from ._order import Generators, States
from ._steps import Step
from ._tree import as_sent, sealed

# What a stage gives where a Filter in it drops the element; the next operation of the engine drops it.
DROPPED = object()
# Stands for the operation in an error of sending an element where there are no operations.
_SENDING = Step("map", as_sent, "sending the record", as_sent)


@dataclass(slots=True)
class Compiled:
    """Operations of the engine, and what Grain's arithmetic has to know of them.

    batches: each Batch with its size and whether it drops the remainder. changes_rows: whether there is a Filter or a
    FlatMap.
    """

    operations: list[engine.Transformation] = field(default_factory=list)
    batches: list[transforms.Batch] = field(default_factory=list)
    changes_rows: bool = False

    @property
    def fixed(self) -> bool:
        """Whether which records make an element is known beforehand: no Filter, no FlatMap, one Batch at most."""
        return not self.changes_rows and len(self.batches) < 2

    def add(self, operation: engine.Transformation, steps: Sequence[Step]) -> None:
        """Another operation, and which of the user's it is."""
        operation._written = tuple(NamedOperation(step.label, step.operation) for step in steps)
        operation._may_give_none = True
        self.operations.append(operation)


def compiled(steps: Sequence[Step], generators: Generators | None, *, by_workers: bool) -> Compiled:
    """The steps in the engine's operations.

    Args:
        steps: in order.
        generators: of the records; None where they have none, and a RandomMap gets None.
        by_workers: whether it is what worker processes of Grain give: then the first row of the last Batch says the
            dtype, where that is the last step, and dicts are in the order of their keys.
    """
    made = Compiled()
    # The RandomMaps that have a generator; the places of steps are those in the whole list.
    reach = next((place for place, step in enumerate(steps) if step.kind == "flat_map"), len(steps))
    random = [place for place, step in enumerate(steps[:reach]) if step.kind == "random"]
    if generators is None:
        random = []
    batches = [place for place, step in enumerate(steps) if step.kind == "batch"]
    paired = False  # whether this level's elements are pairs
    for number, (begin, end) in enumerate(pairwise([0, *batches, len(steps)])):
        first = begin
        if number:  # all levels but the first begin with a Batch
            first_dtype = by_workers and begin + 1 == len(steps)
            _add_batch(made, steps[begin], paired=paired, first_dtype=first_dtype)
            first += 1
        carries = any(place >= end for place in random)
        drawing = [place for place in random if first <= place < end]
        stop = end if carries else max(drawing, default=first - 1) + 1
        start = first if paired else min(drawing, default=stop)
        _add_plain(made, steps[first:start])
        if generators is not None and (paired or carries or drawing):
            _add_stage(made, steps[start:stop], generators, paired=paired, carries=carries)
        _add_plain(made, steps[stop:end])
        paired = carries
        following = steps[end].batch if end < len(steps) else None
        if following is not None and following.batch_fn is None:
            made.add(engine.Map(_sealed_first if carries else sealed), steps[end : end + 1])
    stacked = steps[-1].batch if steps else None
    if by_workers and (stacked is None or stacked.batch_fn is not None):
        made.add(engine.Map(as_sent), steps[-1:] or [_SENDING])
    return made


def _add_batch(made: Compiled, step: Step, *, paired: bool, first_dtype: bool) -> None:
    batch = step.batch
    assert batch is not None
    size = at_least(f"{step.label}: batch_size", batch.batch_size, 1)
    drop, function = batch.drop_remainder, batch.batch_fn
    made.batches.append(batch)
    if function is None:
        made.add(StackingBatch(size, drop_remainder=drop, paired=paired, first_dtype=first_dtype), [step])
    else:
        kind = CallingBatch if paired else engine.Batch
        made.add(kind(size, drop_remainder=drop, batch_fn=function), [step])


def _add_plain(made: Compiled, steps: Sequence[Step]) -> None:
    """Steps one by one; a RandomMap has no generator here."""
    kinds = {"map": engine.Map, "random": engine.Map, "filter": engine.Filter, "flat_map": engine.FlatMap}
    for step in steps:
        assert step.call is not None
        call = partial(_without_generator, step.call) if step.kind == "random" else step.call
        made.add(kinds[step.kind](call), [step])
        made.changes_rows |= step.kind in ("filter", "flat_map")


def _add_stage(
    made: Compiled, steps: Sequence[Step], generators: Generators, *, paired: bool, carries: bool
) -> None:
    stage = Stage(tuple(steps), generators, carries=carries)
    made.add(engine.Map(stage.go_on) if paired else engine.MapWithIndex(stage.begin), steps)
    if any(step.kind == "filter" for step in steps):
        made.add(engine.Filter(_kept), steps)
        made.changes_rows = True


class Stage:
    """Steps that share one generator.

    Args:
        steps: maps, random maps and filters.
        generators: of the records.
        carries: whether the generator's state is given with the element.
    """

    def __init__(self, steps: tuple[Step, ...], generators: Generators, *, carries: bool) -> None:
        self.steps = steps
        self.generators = generators
        self.carries = carries

    def begin(self, index: int, element: Any) -> Any:
        """Takes a record."""
        return self._run(element, self.generators.at(index))

    def go_on(self, pair: tuple[Any, States]) -> Any:
        """Takes a batch and the states of its rows."""
        return self._run(pair[0], self.generators.thawed(pair[1]))

    def _run(self, element: Any, rng: np.random.Generator | None) -> Any:
        for step in self.steps:
            assert step.call is not None
            try:
                if step.kind == "map":
                    element = step.call(element)
                elif step.kind == "random":
                    element = step.call(element, rng)
                elif not step.call(element):
                    return DROPPED
            except Exception as error:
                raise RaisedBy(step.label, error) from error
        return (element, self.generators.frozen(rng)) if self.carries else element


def _kept(element: Any) -> bool:
    return element is not DROPPED


def _without_generator(function: Callable[[Any, None], Any], element: Any) -> Any:
    return function(element, None)


def _sealed_first(pair: tuple[Any, Any]) -> tuple[Any, Any]:
    return sealed(pair[0]), pair[1]
