"""Grain's operations said in the engine's.

A Map is a Map, a Filter a Filter. What is different is the randomness: a record's one generator goes on from RandomMap
to RandomMap. So the operations from the first RandomMap to the last become one *stage*, which has the generator while
they run; where one stands behind a Batch, the stage goes on to the Batch, and gives the generator's state with the row.
Behind a FlatMap there is no generator, as in Grain.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import loaderkit.transforms.base as engine
from loaderkit.transforms.operation_names import NamedOperation, RaisedBy

from . import transforms
from ._batching import CallingBatch, StackingBatch
from ._rng import Generators, States
from ._sent import as_sent
from ._steps import Step
from ._tree import sealed

# What a stage gives where a Filter of it said no; the next operation of the engine drops it.
DROPPED = object()
# Whose errors those of an element on its way are where there are no operations.
_SENDING = Step("map", as_sent, "sending the record", as_sent)


@dataclass(slots=True)
class Compiled:
    """Operations of the engine, and what Grain's arithmetic has to know of them.

    batches: each Batch with its size and whether it drops the remainder. flat_maps: how many.
    """

    operations: list[engine.Transformation] = field(default_factory=list)
    batches: list[transforms.Batch] = field(default_factory=list)
    filters: int = 0
    flat_maps: int = 0

    def add(self, operation: engine.Transformation, steps: Sequence[Step]) -> None:
        """Another operation, and which of the user's it is."""
        operation._written = tuple(NamedOperation(step.label, step.operation) for step in steps)
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
    levels = _cut(steps)
    # The places of RandomMaps that have a generator, level by level: none behind a FlatMap.
    reach = len(_until_flat_map(steps)) if generators is not None else 0
    begin = 0
    drawing: list[bool] = []
    for level in levels:
        drawing.append(any(step.kind == "random" for step in level[: max(0, reach - begin)]))
        begin += len(level)
    came = False  # whether this level's elements are pairs
    begin = 0
    for number, level in enumerate(levels):
        carries = any(drawing[number + 1 :])
        body = [*level]
        if number:
            first, *body = level
            last = number == len(levels) - 1 and not body
            _add_batch(made, first, carries=came, first_dtype=by_workers and last)
            begin += 1
        fused = body[: max(0, reach - begin)] if drawing[number] or carries or came else []
        if not carries:
            fused = fused[: 1 + max((k for k, step in enumerate(fused) if step.kind == "random"), default=-1)]
        ahead = 0 if came else next((k for k, step in enumerate(fused) if step.kind == "random"), len(fused))
        _add_plain(made, fused[:ahead])
        if generators is not None and (came or carries or fused[ahead:]):
            _add_stage(made, fused[ahead:], generators, came=came, carries=carries)
        _add_plain(made, body[len(fused) :])
        begin += len(body)
        came = carries
        if number + 1 < len(levels):
            batch = levels[number + 1][0].batch
            if batch is not None and batch.batch_fn is None:
                made.add(engine.Map(_sealed_first if carries else sealed), levels[number + 1][:1])
    stacked = steps[-1].batch if steps else None
    if by_workers and (stacked is None or stacked.batch_fn is not None):
        made.add(engine.Map(as_sent), steps[-1:] or [_SENDING])
    return made


def _cut(steps: Sequence[Step]) -> list[list[Step]]:
    """The steps level by level; each but the first begins with its Batch."""
    levels: list[list[Step]] = [[]]
    for step in steps:
        if step.kind == "batch":
            levels.append([])
        levels[-1].append(step)
    return levels


def _until_flat_map(steps: Sequence[Step]) -> Sequence[Step]:
    places = [place for place, step in enumerate(steps) if step.kind == "flat_map"]
    return steps[: places[0]] if places else steps


def _add_batch(made: Compiled, step: Step, *, carries: bool, first_dtype: bool) -> None:
    batch = step.batch
    assert batch is not None
    if batch.batch_size <= 0:
        raise ValueError(f"{step.label}: batch_size must be positive, got {batch.batch_size}")
    size, drop, function = batch.batch_size, batch.drop_remainder, batch.batch_fn
    made.batches.append(batch)
    if function is None:
        stacking = StackingBatch(size, drop_remainder=drop, carries=carries, first_dtype=first_dtype)
        made.add(stacking, [step])
    elif carries:
        made.add(CallingBatch(size, drop_remainder=drop, batch_fn=function), [step])
    else:
        made.add(engine.Batch(size, drop_remainder=drop, batch_fn=function), [step])


def _add_plain(made: Compiled, steps: Sequence[Step]) -> None:
    """Steps one by one; a RandomMap has no generator here."""
    for step in steps:
        assert step.call is not None
        match step.kind:
            case "map":
                made.add(engine.Map(step.call), [step])
            case "random":
                made.add(engine.Map(partial(_without_generator, step.call)), [step])
            case "filter":
                made.add(engine.Filter(step.call), [step])
                made.filters += 1
            case "flat_map":
                made.add(engine.FlatMap(step.call), [step])
                made.flat_maps += 1


def _add_stage(
    made: Compiled, steps: Sequence[Step], generators: Generators, *, came: bool, carries: bool
) -> None:
    stage = Stage(tuple(steps), generators, carries=carries)
    made.add(engine.Map(stage.go_on) if came else engine.MapWithIndex(stage.begin), steps)
    if any(step.kind == "filter" for step in steps):
        made.add(engine.Filter(_kept), steps)
        made.filters += 1


class Stage:
    """Steps that one generator goes through.

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
