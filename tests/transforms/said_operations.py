"""Operations and parameters of every kind, and how a state describes each; without pytest, for a separate process."""

from dataclasses import dataclass, field
from enum import Enum, Flag
from functools import partial, wraps
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import numpy as np

import loaderkit as lk
from loaderkit.transforms import image
from loaderkit.transforms.parameters import parameters_of


class Colour(Enum):
    RED = 1


class Sides(Flag):
    LEFT = 1
    RIGHT = 2


class Size(NamedTuple):
    height: int
    width: int


class Opaque:
    """Only its class is known."""

    def __call__(self, element: Any) -> Any:
        return element

    def __repr__(self) -> str:
        raise AssertionError("a repr may hold an address, or cost what it likes")

    __str__ = __repr__


class Touchy:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __call__(self, element: Any) -> Any:
        return element


class Broken(dict):  # type: ignore[type-arg]
    def __len__(self) -> int:
        raise RuntimeError("no length")


@dataclass(frozen=True)
class Inner:
    alpha: float

    def mix(self, element: Any) -> Any:
        return element


@dataclass(frozen=True)
class Holds(lk.Map):
    value: Any

    def map(self, element: Any) -> Any:
        return element


@dataclass(frozen=True)
class Cached(lk.Map):
    size: int = 64
    folder: str = field(default="/tmp", compare=False)
    made: int = field(default=0, init=False)

    def map(self, element: Any) -> Any:
        return element


@dataclass(frozen=True)
class Function:
    size: int

    def __call__(self, element: Any) -> Any:
        return element


class Plain(lk.Map):
    """Not a dataclass: the meaning of its attributes isn't known."""

    def __init__(self, size: int) -> None:
        self.size = size

    def map(self, element: Any) -> Any:
        return element


def decode(element: Any, size: int = 0) -> Any:
    return element


def local() -> Any:
    def inside(element: Any) -> Any:
        return element

    return inside


@wraps(decode)
def traced(element: Any) -> Any:
    return decode(element)


OPERATIONS: dict[str, tuple[Any, dict[str, Any]]] = {
    "a function": (lk.Map(decode), {"op": "Map", "name": "decode"}),
    "a builtin": (lk.Filter(str.isalpha), {"op": "Filter", "name": "str.isalpha"}),
    "a lambda": (lk.RandomMap(lambda element, rng: element), {"op": "RandomMap", "name": "<lambda>"}),
    "a local function": (lk.FlatMap(local()), {"op": "FlatMap", "name": "inside"}),
    "a wrapped function": (lk.MapWithIndex(traced), {"op": "MapWithIndex", "name": "decode"}),
    "a ufunc": (lk.Map(np.sqrt), {"op": "Map", "name": "sqrt"}),
    "a partial": (
        lk.Map(partial(decode, size=3)),
        {"op": "Map", "name": "decode", "parameters": {"size": 3}},
    ),
    "a partial of places": (
        lk.Map(partial(partial(decode, 1), size=3)),
        {"op": "Map", "name": "decode", "parameters": {"0": 1, "size": 3}},
    ),
    "a callable": (lk.Map(Opaque()), {"op": "Map", "name": "Opaque"}),
    "a frozen callable": (
        lk.Map(Function(3)),
        {"op": "Map", "name": "Function", "parameters": {"size": 3}},
    ),
    "a method": (lk.Map(Inner(0.5).mix), {"op": "Map", "name": "Inner.mix", "parameters": {"alpha": 0.5}}),
    "a callable that raises": (lk.Map(Touchy()), {"op": "Map", "name": "Touchy"}),
    "a class": (Plain(3), {"op": "Map", "name": "Plain"}),
    "a frozen class": (Cached(), {"op": "Map", "name": "Cached", "parameters": {"size": 64}}),
    "a batch": (lk.Batch(3, remainder="drop"), {"op": "Batch"}),
    "a batch_fn": (
        lk.Batch(3, batch_fn=partial(decode, size=3)),
        {"op": "Batch", "name": "decode", "parameters": {"size": 3}},
    ),
    "an image operation": (
        image.DecodeRandomResizedCrop(64, scale=(0.2, 1.0)),
        {
            "op": "RandomMap",
            "name": "DecodeRandomResizedCrop",
            "parameters": {"size": 64, "scale": [0.2, 1.0]},
        },
    ),
    "an image operation without parameters": (image.HWCToCHW(), {"op": "Map", "name": "HWCToCHW"}),
}

VALUES: list[tuple[Any, Any]] = [
    (None, None),
    (True, True),
    (np.bool_(True), True),
    (64, 64),
    (np.int32(64), 64),
    (2**80, {"int": hex(2**80)}),
    (0.5, 0.5),
    (np.float32(0.5), 0.5),
    (float("inf"), {"float": "inf"}),
    (np.float64("nan"), {"float": "nan"}),
    (1 + 2j, {"complex": "(1+2j)"}),
    ("image", "image"),
    (np.str_("image"), "image"),
    (b"abc", {"bytes": 3, "sha256": "ba7816bf8f01cfea"}),
    ((1, [2, {3}]), [1, [2, {"set": [3]}]]),
    (Size(2, 3), [2, 3]),
    ({"a", "b", "c"}, {"set": ["a", "b", "c"]}),
    ({"b": 1, "a": (2,)}, {"b": 1, "a": [2]}),
    ({(number, (number,)) for number in range(3)}, {"set": [[0, [0]], [1, [1]], [2, [2]]]}),
    ({2: "b", 1: "a"}, {"dict": [[1, "a"], [2, "b"]]}),
    (range(3), {"range": "range(0, 3)"}),
    (slice(None, 3), {"slice": [None, 3, None]}),
    (Colour.RED, {"enum": "Colour.RED"}),
    (Sides.LEFT | Sides.RIGHT, {"enum": "Sides.LEFT|RIGHT"}),
    (np.dtype("float32"), {"dtype": "float32"}),
    (np.float32, {"type": "float32"}),
    (np.datetime64("2026-01-01"), {"datetime64[D]": "2026-01-01"}),
    (np.zeros(3, np.uint8), {"array": [3], "dtype": "uint8", "sha256": "709e80c88487a241"}),
    (np.zeros(3, object), {"array": [3], "dtype": "object"}),
    (np.zeros(2**20 + 1, np.uint8), {"array": [2**20 + 1], "dtype": "uint8"}),
    (PurePosixPath("/data/today/vocabulary.txt"), {"path": "vocabulary.txt"}),
    (Inner(0.5), {"Inner": {"alpha": 0.5}}),
    (decode, {"function": "decode"}),
    (partial(decode, size=3), {"function": "decode", "parameters": {"size": 3}}),
    (Opaque(), {"type": "Opaque"}),
    (Touchy(), {"type": "Touchy"}),
    (Broken(), {"type": "Broken"}),
    (np.random.default_rng(0), {"type": "Generator"}),
]


def everything() -> list[Any]:
    """The description of each operation and value above."""
    operations = [operation for operation, _ in OPERATIONS.values()] + [Holds(value) for value, _ in VALUES]
    operations.append(Holds(frozenset(f"word {number}" for number in range(20))))
    operations.append(
        Holds({(f"word {number}", (number, number)) for number in range(3000)})
    )  # too many to look at
    return [parameters_of([operation]) for operation in operations]
