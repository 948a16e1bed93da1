"""One operation called as an engine calls it, without an engine: for elements that were given, one at a time."""

from itertools import islice
from typing import Any

import numpy as np

from loaderkit._base.system.dataclasses import dataclass
from loaderkit._base.tree import flatten, unflatten
from loaderkit._order.rng import generator
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
    group_of,
    seeds,
)
from loaderkit.transforms.seeding import SeededCall

from .conformance import expect, expect_same
from .snapshot import copied, snapshot_of

_MOST_CHILDREN = 1_000_000  # of one element: a FlatMap that gives more is taken to give elements without end


@dataclass(frozen=True, slots=True)
class OperationCalls:
    """The calls of an operation: call k takes element k; of a Batch or Window all elements, the k-th of them first.

    operation: any. elements: at least one; they stay as they are. seed: of a sampler, in [0, 2**64).

    >>> calls = OperationCalls(Map(lambda element: element + 1), (1, 2), seed=0)
    >>> [calls(place) for place in range(len(calls))]
    [2, 3]
    """

    operation: Transformation
    elements: tuple[Any, ...]
    seed: int

    def __len__(self) -> int:
        return len(self.elements)

    def __call__(self, place: int) -> Any:
        """What the operation makes of a copy of element `place`.

        Of a FlatMap or a Window the list of its children; Mismatch for more than max_fan_out, or than any element has.
        """
        if isinstance(self.operation, Batch):
            return self.batch(self.rows(place))
        return self.on(self.given(place), place, self.rng(place))

    def given(self, place: int) -> Any:
        """What the operation gets, of a Window a list of all elements; a copy."""
        return self.rows(place) if isinstance(self.operation, Window) else self.element(place)

    def element(self, place: int) -> Any:
        """A copy of an element, in containers and arrays of its own."""
        leaves, structure = flatten(self.elements[place % len(self)])
        return unflatten(structure, [copied(leaf) for leaf in leaves])

    def rows(self, place: int) -> list[Any]:
        """Copies of all elements, from `place` on and around."""
        return [self.element(place + row) for row in range(len(self))]

    def rng(self, place: int) -> np.random.Generator:
        """The generator of index `place`, as the first random operation of a pipeline gets it."""
        return generator(self.seed, 0, place, 0)

    def batch(self, rows: list[Any]) -> Any:
        """What a Batch makes of rows."""
        assert isinstance(self.operation, Batch)
        if self.operation.batch_fn is not None:
            return self.operation.batch_fn(rows)
        return self.operation.stacked([rows], lambda row: f"element {row}")

    def on(self, element: Any, place: int, rng: np.random.Generator) -> Any:
        """What any other operation makes of what it is given, with index `place` and a generator."""
        function = function_of(self.operation)
        match self.operation:
            case RandomMap():
                return function(element, (lambda row: rng) if group_of(self.operation) else rng)
            case Map() if seeds(self.operation):
                seeded = SeededCall(function)
                with seeded.kept():
                    return seeded(element, rng)
            case MapWithIndex():
                return function(place, element)
            case Window() if draws(self.operation):
                return self._children(function(element, rng), place)
            case FlatMap() | Window():
                return self._children(function(element), place)
        return function(element)

    def _children(self, children: Any, place: int) -> list[Any]:
        limit = self.operation.max_fan_out if isinstance(self.operation, FlatMap) else None
        most = limit or _MOST_CHILDREN
        made = [(child, snapshot_of(child)) for child in islice(iter(children), most + 1)]
        expect(len(made) <= most, f"at most {most:,} elements of element {place}", f"{len(made):,} or more")
        for number, (child, before) in enumerate(made):
            what = f"child {number} of element {place}"
            expect_same(before, snapshot_of(child), what, "after the later children were made")
        return [child for child, _ in made]

    @property
    def kind(self) -> str:
        """Map, RandomMap, ..., whatever the class of the operation is called."""
        kinds = (Map, MapWithIndex, RandomMap, Filter, FlatMap, Window, Batch)
        return next(kind.__name__ for kind in kinds if isinstance(self.operation, kind))
