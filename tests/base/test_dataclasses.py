"""Dataclasses that are compiled late do what the standard library's do."""

import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from loaderkit._base.system import dataclasses as ours

KINDS = [ours.dataclass, dataclasses.dataclass]
Made = tuple[Any, Any, Any]


def made_by(dataclass: Callable[..., Any]) -> Made:
    @dataclass(frozen=True, slots=True)
    class Place:
        row: int
        absent: list[str] = dataclasses.field(default_factory=list)
        hidden: Any = dataclasses.field(default=0.5, repr=False, compare=False)
        COUNT: ClassVar[int] = 3

        @property
        def next(self) -> int:
            return self.row + 1

    @dataclass(frozen=True, slots=True)
    class Below(Place):  # noqa: PLW1641 - what becomes of its hash is looked at
        depth: int = 7

        def __eq__(self, other: object) -> bool:
            return other == self.depth

    @dataclass(kw_only=True)
    class Changing:
        one: int = 1
        made: int = dataclasses.field(default=4, init=False)
        double: int = dataclasses.field(init=False)

        def __post_init__(self) -> None:
            self.double = 2 * self.one

        def __repr__(self) -> str:
            return f"changing {self.one} {self.made} {self.double}"

    return Place, Below, Changing


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - the same one is expected
        return type(error), str(error)


@pytest.mark.parametrize(
    "call",
    [
        lambda place, *_: place(3),
        lambda place, *_: place(row=3, absent=["a"], hidden=2),
        lambda place, *_: place(3, ["a"]).next,
        lambda place, *_: place(3) == place(3, hidden=9),
        lambda place, *_: place(3) == place(4),
        lambda place, *_: place(3).__eq__(3),
        lambda place, *_: hash(place(3, ())) == hash(place(3, (), 9)),
        lambda place, *_: hash(place(3)),
        lambda place, *_: place(3).absent is place(3).absent,
        lambda place, *_: place(),
        lambda place, *_: place(1, [], 2, 3),
        lambda place, *_: place(1, other=2),
        lambda place, *_: setattr(place(1), "row", 2),
        lambda place, *_: delattr(place(1), "row"),
        lambda place, *_: hasattr(place(1), "__dict__"),
        lambda place, *_: dataclasses.replace(place(1, ["b"]), row=5),
        lambda place, *_: dataclasses.astuple(copy.copy(place(1, ["b"], 8))),
        lambda place, *_: place.__match_args__,
        lambda place, below, _: below(1, ["a"], 2, 3),
        lambda place, below, _: (below(1) == 7, below(1) == place(1)),
        lambda place, below, _: hash(below(1)),
        lambda place, below, _: setattr(below(1), "row", 2),
        lambda place, below, _: setattr(below(1), "depth", 2),
        lambda place, below, changing: changing(one=3),
        lambda place, below, changing: changing(3),
        lambda place, below, changing: (changing(one=3) == changing(one=3), changing.__hash__),
        lambda place, below, changing: setattr(changing(), "one", 2),
    ],
)
def test_it_does_what_the_standard_library_does(call: Callable[..., Any]):
    """Values, text, comparisons, hashes, errors, replaced and copied objects, also of a class below another."""
    ours, theirs = (outcome(lambda kind=kind: call(*made_by(kind))) for kind in KINDS)  # type: ignore[misc]
    assert repr(ours) == repr(theirs)


@ours.dataclass(frozen=True, slots=True)
class Kept:
    """A value that goes through a pickle."""

    row: int
    names: tuple[str, ...] = ()


def test_a_frozen_object_with_slots_is_pickled():
    """An object of the class comes back."""
    assert pickle.loads(pickle.dumps(Kept(3, ("a",)))) == Kept(3, ("a",))


def test_a_class_without_a_docstring_gets_no_signature():
    """The standard library's, of the same fields, has its signature, for which it compiles expressions."""
    made = ours.dataclass(type("Made", (), {"__annotations__": {"row": int}}))
    assert made.__doc__ == "Made" and Kept.__doc__ == "A value that goes through a pickle."
