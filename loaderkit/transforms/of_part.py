"""Operations on the elements of one part of several, which leave those of the other parts as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from loaderkit._base.system.dataclasses import dataclass

from .base import Map, NamedOperation, RandomMap, Transformation, function_of, label_of, name_of, seeds
from .seeded import Seeded


@dataclass(frozen=True, slots=True)
class OfPart:
    """A function of the records of one part, as one of elements that have their part.

    part: its name, or its place. function: of a record, or of a record and a generator. beside: whether an element is
    the records of all parts side by side, a tuple or a dict by part; else it is (part, record).

    >>> OfPart("a", abs)(("a", -3)), OfPart("a", abs)(("b", -3)), OfPart(1, abs, beside=True)((-3, -4))
    (('a', 3), ('b', -3), (-3, 4))
    """

    part: str | int
    function: Callable[..., Any]
    beside: bool = False

    def __call__(self, element: Any, *rng: np.random.Generator) -> Any:
        if not self.beside:
            part, record = element
            if part != self.part:
                return element
            made = self.function(record, *rng)
            return None if made is None else (part, made)  # None is the stage's error
        made = self.function(element[self.part], *rng)
        if made is None:
            return None
        if isinstance(element, dict):
            return {**element, self.part: made}
        return tuple(made if place == self.part else each for place, each in enumerate(element))

    @property
    def __name__(self) -> str:
        return f"{self.part}: {name_of(self.function)}"


def of_part(op: Transformation, part: str | int, number: int, *, beside: bool) -> Transformation:
    """A Map or a RandomMap as an operation on all elements; in errors it is `part: ` and its own name.

    number: of a random one among those of its part. What it draws is by this and the name of the part, so that no
    operation of another part changes it.

    >>> of_part(Map(abs), "web", 0, beside=False)
    Map(web: abs)
    """
    function = OfPart(part, function_of(op), beside)
    if isinstance(op, RandomMap):
        made: Transformation = RandomMap(function)
    else:
        made = Seeded(function) if seeds(op) else Map(function)
    named = op._written or (NamedOperation(label_of(op), op),)
    made._written = tuple(NamedOperation(f"{part}: {each.label}", each.operation) for each in named)
    made._drawn_as = f"{part}/{op._drawn_as or number}"
    return made


@dataclass(frozen=True, repr=False)
class WithoutPart(Map):
    """Of (part, record) the record; with an `id_key` the record, a dict, gets the place of its part at that key.

    >>> WithoutPart().map(("web", 3)), WithoutPart("of", ("web",)).map(("web", {"x": 3}))
    (3, {'x': 3, 'of': np.int32(0)})
    """

    id_key: str | None = None
    parts: tuple[str, ...] = ()

    def map(self, element: Any) -> Any:
        """The record."""
        part, record = element
        if self.id_key is None:
            return record
        if not isinstance(record, dict) or self.id_key in record:
            raise ValueError(
                f"id_key: expected records that are dicts without the key {self.id_key!r}, got a "
                f"{type(record).__name__} of {part!r}; give another key, or make dicts of the part's records"
            )
        return {**record, self.id_key: np.int32(self.parts.index(part))}
