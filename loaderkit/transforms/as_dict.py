"""Elements without names as dicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from loaderkit._base.field_names import field_choices
from loaderkit._base.structure import children_of, kind_of_element

from .base import Map
from .leaf import Place, described, leaf_at, leaf_key


@dataclass(frozen=True, init=False, repr=False)
class AsDict(Map):
    """The values of a tuple, list, named tuple, dataclass or attrs instance as a dict: what AsTuple takes apart.

    Args:
        fields: the names of all values in their order, in one str with spaces between or each for itself. A single
            name is that of an element without containers, too. Without fields and places an object has its own.
        places: instead, the place that each name has its value of: a position, a key, the name of a field, or a path of
            these as a tuple.

    Raises ValueError for an element with another number of values, KeyError or IndexError without one at a place.

    >>> AsDict("image label").map((2, 7)), AsDict(label=-1, x=(0, "boxes", 0)).map([{"boxes": [2, 3]}, 7])
    ({'image': 2, 'label': 7}, {'label': 7, 'x': 2})
    >>> AsDict("image", "label").map((1, 2, 3))
    Traceback (most recent call last):
    ValueError: AsDict('image', 'label'): expected an element of 2 values, got a tuple with the positions 0 to 2
    """

    fields: tuple[str, ...] = ()
    places: tuple[tuple[str, Place], ...] = ()

    def __init__(self, /, *fields: str, **places: Place) -> None:
        if fields and places:
            raise ValueError(
                f"places: expected none beside fields, got {', '.join(places)}; give one of both"
            )
        given: Any = fields[0] if len(fields) == 1 else fields
        names = map(";".join, field_choices("fields", given)) if fields else ()
        self._set(
            fields=tuple(names), places=tuple((name, leaf_key(name, key)) for name, key in places.items())
        )

    def map(self, element: Any) -> dict[str, Any]:
        """The values of the element by their names."""
        if self.places:
            return {name: leaf_at(element, place) for name, place in self.places}
        kind = kind_of_element(element)
        if kind == "dict" or (not self.fields and kind not in ("namedtuple", "fields")):
            expected = "a tuple, a list or an object with fields" if self.fields else "an object with fields"
            line = "lk.AsDict(name=key)" if kind == "dict" else "lk.AsDict('image', 'label')"
            raise TypeError(f"{self!r}: expected {expected}, got {described(element)}; write {line}")
        names, values = children_of(element, kind)
        values = [element] if kind in ("leaf", "nothing") else [*values]
        if self.fields and len(values) != len(self.fields):
            expected = f"an element of {len(self.fields)} values"
            raise ValueError(f"{self!r}: expected {expected}, got {described(element)}")
        return dict(zip(self.fields or names, values))

    def __repr__(self) -> str:
        named = [f"{name}={place!r}" for name, place in self.places]
        return f"AsDict({', '.join([*map(repr, self.fields), *named])})"
