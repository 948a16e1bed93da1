"""What samplers of epochs share that are made of an array."""

from dataclasses import fields
from reprlib import repr as _short
from typing import Any

import numpy as np

from .epochs import EpochSampler

_HASHED = 64  # entries that `hash` looks at; equality compares all


class ArraySampler(EpochSampler):
    """Equality, hash, repr and copies of a frozen dataclass: its first field is an array, the others are values.

    A subclass is a dataclass with init=False, eq=False and repr=False; its `__init__` takes what makes the array.
    """

    __slots__ = ()

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)  # a frozen dataclass has no other way

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        (mine, said), (theirs, others) = _parts(self), _parts(other)
        return said == others and np.array_equal(mine, theirs)

    def __hash__(self) -> int:
        array, said = _parts(self)
        return hash((array[:_HASHED].tobytes(), *said.values()))

    def __repr__(self) -> str:
        array, said = _parts(self)
        settings = "".join(f", {name}={value!r}" for name, value in said.items())
        return f"{type(self).__name__}({_short(array.tolist())}{settings})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _made_of, (type(self), *_parts(self))  # an array is writable when it is unpickled


def _parts(sampler: Any) -> tuple[Any, dict[str, Any]]:
    first, *others = fields(sampler)
    said = {each.name: getattr(sampler, each.name) for each in others if each.init}
    return getattr(sampler, first.name), said


def _made_of(kind: Any, array: Any, said: dict[str, Any]) -> Any:
    return kind(array, **said)
