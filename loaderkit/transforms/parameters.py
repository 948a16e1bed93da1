"""The operations by name and parameters, as JSON values, which saved states and other processes compare.

    op          the kind: Map, Filter, Batch, ...
    name        of the class, or of the function that was given; for a Batch, of its batch_fn
    parameters  the fields of a frozen dataclass (the operation, its function, or the object that a method is bound to),
                and the arguments that a `functools.partial` binds; absent where there are none

Code isn't compared. Nothing depends on the process: no memory addresses, no order of a set, no `repr` of a user's
class. Plain values are written as JSON, long ones as a digest, all others as their type only. So the same loader gives
the same JSON in every process and every run, a few kilobytes at most.

Fields with `compare=False` are left out, because the class declares that they aren't part of its value (a folder on
this host, a cache), as are fields that `__init__` doesn't take. Of this package's own operations fields at their
default are left out too, so that a later version may add a field without a difference in states.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from hashlib import sha256
from pathlib import PurePath
from typing import Any

import numpy as np

from loaderkit._base.canonical_json import canonical

from .base import Batch, Transformation, given_function, kind_of

# Limits that keep a state small and quick to make. They decide what is written, so another value changes saved states.
_MOST_CHARACTERS = 4096  # of all operations together
_MOST_OF_ONE = 200  # characters of a parameter
_MOST_OF_NAME = 80  # characters
_MOST_VALUES = 10_000  # values read inside an operation
_MOST_DEPTH = 8  # a level here is up to three levels of the document, which may have 32
_MOST_HASHED = 1 << 20  # bytes of an array
_OWN = __name__.partition(".")[0]


def parameters_of(operations: Sequence[Transformation]) -> list[dict[str, Any]]:
    """Kind, name and parameters of each operation, in order; JSON values of at most about 4,000 characters.

    >>> from loaderkit.transforms.base import Map, RandomMap
    >>> @dataclasses.dataclass(frozen=True)
    ... class Crop(RandomMap):
    ...     size: int
    ...
    ...     def random_map(self, element, rng):
    ...         return element
    >>> parameters_of([Map(abs), Crop(64)])
    [{'op': 'Map', 'name': 'abs'}, {'op': 'RandomMap', 'name': 'Crop', 'parameters': {'size': 64}}]
    """
    entries = [_operation(operation) for operation in operations]
    if len(canonical(entries)) <= _MOST_CHARACTERS:
        return entries
    entries = [
        {**entry, "parameters": {"sha256": _digest(entry["parameters"])}} if "parameters" in entry else entry
        for entry in entries
    ]
    if len(canonical(entries)) <= _MOST_CHARACTERS:
        return entries
    return [{"op": "all", "name": f"{len(entries)} operations", "parameters": {"sha256": _digest(entries)}}]


def _operation(operation: Transformation) -> dict[str, Any]:
    kind = kind_of(operation)
    entry: dict[str, Any] = {"op": kind.__name__}
    subject: Any = given_function(operation) or operation
    if type(operation) is kind and subject is operation:
        subject = operation.batch_fn if isinstance(operation, Batch) else None
    if subject is None:
        return entry
    entry["name"] = _name(subject)
    found = _named_values(subject, _MOST_VALUES, 0)
    parameters = {name: _bounded(value) for name, value in found.items()}
    return {**entry, "parameters": parameters} if parameters else entry


def _named_values(subject: Any, left: int, depth: int) -> dict[str, Any]:
    """The parameters of an operation or a function by name, each as JSON."""
    if isinstance(subject, partial):
        bound = {str(place): value for place, value in enumerate(subject.args)} | subject.keywords
        each = left // max(len(bound), 1)
        values = {name: _as_json(value, each, depth) for name, value in bound.items()}
        return _named_values(subject.func, left, depth) | values
    owner = subject if _is_frozen(subject) else _attribute(subject, "__self__")  # that of a bound method
    return _fields_of(owner, left, depth) if _is_frozen(owner) else {}


def _is_frozen(value: Any) -> bool:
    """Whether it is an instance of a frozen dataclass."""
    settings = getattr(type(value), "__dataclass_params__", None)
    return bool(getattr(settings, "frozen", False))


def _name(subject: Any) -> str:
    """The name of a function or a class without its module and enclosing functions, which change more often."""
    while isinstance(subject, partial):
        subject = subject.func
    names = (_attribute(subject, "__qualname__"), _attribute(subject, "__name__"), type(subject).__qualname__)
    name = next(name for name in names if isinstance(name, str))
    return name.rpartition("<locals>.")[2][:_MOST_OF_NAME]


def _attribute(subject: Any, name: str) -> Any:
    try:
        return getattr(subject, name, None)
    except Exception:  # noqa: BLE001 - a user's __getattr__ may raise anything
        return None


def _digest(value: Any) -> str:
    return sha256(canonical(value).encode()).hexdigest()[:16]


def _bounded(value: Any) -> Any:
    return value if len(canonical(value)) <= _MOST_OF_ONE else {"sha256": _digest(value)}


def _fields_of(value: Any, left: int, depth: int) -> dict[str, Any]:
    """The fields of a frozen dataclass, each as JSON."""
    own = type(value).__module__.partition(".")[0] == _OWN
    fields = [field for field in dataclasses.fields(value) if field.compare and field.init]
    values: dict[str, Any] = {}
    for field in fields:
        found = _as_json(_attribute(value, field.name), left // len(fields), depth)
        if not own or field.default is dataclasses.MISSING or found != _as_json(field.default, left, depth):
            values[field.name] = found
    return values


def _as_json(value: Any, left: int = _MOST_VALUES, depth: int = 0) -> Any:
    """A value as JSON.

    left: how many values inside it may be read. Its parts get equal shares, so that the result doesn't depend on their
    order, which for a set differs between processes. depth: how many values enclose it.
    """
    try:
        for kinds, convert in _PLAIN:
            if isinstance(value, kinds):
                return convert(value)
        return _inside(value, left, depth + 1)
    except Exception:  # noqa: BLE001 - a user's class may raise anything, and saving a state must not fail for it
        return {"type": _name(type(value))}


def _inside(value: Any, left: int, depth: int) -> Any:
    """A container as JSON, which may contain itself; an object of another type as its type."""
    each = left
    if isinstance(value, tuple | list | set | frozenset | dict):
        each = (left - len(value)) // max(len(value), 1)
    if each < 0 or depth > _MOST_DEPTH:
        return {_name(type(value)): len(value)} if each < 0 else {"type": _name(type(value))}
    if isinstance(value, tuple | list):
        return [_as_json(item, each, depth) for item in value]
    if isinstance(value, set | frozenset):
        return {"set": sorted((_as_json(item, each, depth) for item in value), key=canonical)}
    if isinstance(value, dict):
        if all(type(key) is str for key in value):
            return {key: _as_json(item, each, depth) for key, item in value.items()}
        pairs = ([_as_json(key, each, depth), _as_json(item, each, depth)] for key, item in value.items())
        return {"dict": sorted(pairs, key=canonical)}
    if isinstance(value, slice):
        return {"slice": [_as_json(part, each, depth) for part in (value.start, value.stop, value.step)]}
    if isinstance(value, partial):
        return {"function": _name(value), "parameters": _named_values(value, each, depth)}
    if _is_frozen(value):
        return {_name(type(value)): _fields_of(value, each, depth)}
    if callable(value) and _attribute(value, "__name__") is not None:
        return {"function": _name(value)}
    return {"type": _name(type(value))}


def _whole(value: int | np.integer) -> Any:
    number = int(value)
    return number if -(2**63) <= number < 2**63 else {"int": hex(number)}


def _real(value: float | np.floating) -> Any:
    number = float(value)
    return number if math.isfinite(number) else {"float": repr(number)}


def _array(value: np.ndarray) -> Any:
    entry: dict[str, Any] = {"array": list(value.shape), "dtype": str(value.dtype)}
    # Structs and long doubles have padding bytes with arbitrary content.
    plain = value.dtype.kind in "biufcmMSU" and value.dtype.char not in "gG"
    if plain and value.nbytes <= _MOST_HASHED:
        entry["sha256"] = sha256(value.tobytes()).hexdigest()[:16]
    return entry


# The first match is used: an IntEnum is an int too, and numpy's float64 is a float.
_PLAIN: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    ((bool, type(None)), lambda value: value),
    (Enum, lambda value: {"enum": f"{_name(type(value))}.{value.name}"}),
    (np.bool_, bool),
    (str, str.__str__),
    ((int, np.integer), _whole),
    ((float, np.floating), _real),
    ((complex, np.complexfloating), lambda value: {"complex": str(complex(value))}),
    (range, lambda value: {"range": str(value)}),
    ((bytes, bytearray), lambda value: {"bytes": len(value), "sha256": sha256(value).hexdigest()[:16]}),
    (np.dtype, lambda value: {"dtype": str(value)}),
    (np.ndarray, _array),
    ((np.datetime64, np.timedelta64), lambda value: {str(value.dtype): str(value)}),
    (PurePath, lambda value: {"path": value.name}),  # without the folder, which may differ in the next run
    (type, lambda value: {"type": _name(value)}),
)
