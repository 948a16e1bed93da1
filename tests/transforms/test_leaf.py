"""One form for the place of a leaf: a key, a position, the name of a field or a path, for every kind of element."""

import dataclasses
from collections import UserDict
from typing import Any, NamedTuple

import attrs
import numpy as np
import pytest

import loaderkit as lk
from loaderkit._base.structure import children_of, kind_of
from loaderkit.errors import BatchError
from loaderkit.transforms.leaf import leaf_at, with_leaf, with_value

X, Y = np.array([1, 2, 3]), np.array([4.0, 6.0])


class Pair(NamedTuple):
    x: Any
    y: Any
    z: Any = None


@dataclasses.dataclass
class Record:
    x: Any
    y: Any
    z: Any = None


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: Any
    y: Any
    z: Any = None


@attrs.define
class Attrs:
    x: Any
    y: Any
    z: Any = None


# An element of x and y, and the places of both and of one more.
KINDS: dict[str, tuple[Any, tuple[Any, Any, Any]]] = {
    "dict": ({"x": X, "y": Y}, ("x", "y", "z")),
    "a dict of tuples as keys": ({("x", 0): X, "y": Y}, (("x", 0), "y", "z")),
    "UserDict": (UserDict(x=X, y=Y), ("x", "y", "z")),
    "tuple": ((X, Y), (0, 1, 2)),
    "list": ([X, Y], (0, np.int64(1), 2)),
    "namedtuple": (Pair(X, Y), ("x", "y", "z")),
    "namedtuple by position": (Pair(X, Y), (0, -2, 2)),
    "dataclass": (Record(X, Y), ("x", "y", "z")),
    "frozen dataclass": (Frozen(X, Y), ("x", "y", "z")),
    "attrs": (Attrs(X, Y), ("x", "y", "z")),
    "path": ({"inputs": (X, {"y": Y})}, (("inputs", 0), ("inputs", 1, "y"), ("inputs", 2))),
    "path through an object": ([Record(X, (Y,))], ((0, "x"), (0, "y", 0), (0, "z"))),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_operation_takes_each_place(kind: str) -> None:
    """It makes of the leaves what it makes of those of a dict, in the container that was given, which stays."""
    element, (x, y, z) = KINDS[kind]
    plain = {"x": X, "y": Y}
    operations: list[tuple[lk.Map, lk.Map]] = [
        (lk.PadTo(4, "x", mask="z"), lk.PadTo(4, x, mask=z)),
        (lk.features.Numeric("y", mean=5), lk.features.Numeric(y, mean=5)),
        (lk.features.Hashed("x", 9, output="z"), lk.features.Hashed(x, 9, output=z)),
        (lk.features.Crossed(["x", "x"], 9, output="z"), lk.features.Crossed([x, x], 9, output=z)),
        (lk.transforms.Seeded(np.negative, "y"), lk.transforms.Seeded(np.negative, y)),
    ]
    for of_dict, operation in operations:
        expected, made = of_dict.map(plain), operation.map(element)
        assert type(made) is type(element)
        for name, place in zip("xyz", (x, y, z)):
            if name in expected:
                np.testing.assert_array_equal(leaf_at(made, place), expected[name])
        assert leaf_at(element, x) is X and leaf_at(element, y) is Y


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_each_kind_are_padded_to_one_bucket(kind: str) -> None:
    """PadBatch pads both leaves of all rows, with a mask at a new place."""
    element, (x, y, z) = KINDS[kind]
    short = with_leaf(with_leaf(element, x, lambda leaf: leaf[:1]), y, lambda leaf: leaf[:1])
    batch = lk.PadBatch(2, boundaries={x: [2, 4], y: [1, 3]}, mask={x: z}, padding_values={y: -1})
    made = batch.stacked([[element, short]], "row {}".format)
    assert leaf_at(made, x).tolist() == [[1, 2, 3, 0], [1, 0, 0, 0]]
    assert leaf_at(made, y).tolist() == [[4.0, 6.0, -1.0], [4.0, -1.0, -1.0]]
    assert leaf_at(made, z).tolist() == [[True, True, True, False], [True, False, False, False]]


def test_positions_from_behind_are_those_of_the_row_that_came() -> None:
    """Masks are put behind the others when all leaves are padded."""
    batch = lk.PadBatch(1, boundaries={-1: [3], -2: [4]}, mask={-1: 2, -2: 3})
    x, y, of_y, of_x = batch.stacked([[(X, Y)]], str)
    assert (x.tolist(), y.tolist()) == ([[1, 2, 3, 0]], [[4.0, 6.0, 0.0]])
    assert (of_x.sum(), of_y.sum()) == (3, 2)


def test_the_stream_of_tuples_is_one_for_any_workers_and_after_a_restore() -> None:
    """Padded, with a mask, by places that a state has."""
    rows = [(np.arange(k % 4), {"y": float(k)}) for k in range(12)]
    operations = [
        lk.features.Numeric((1, "y"), mean=6),
        lk.PadBatch(3, boundaries={0: [4]}, mask={0: 2}),
    ]

    def loader(worker_count: int) -> Any:
        return lk.load(
            rows, num_epochs=1, shuffle=True, seed=1, operations=operations, worker_count=worker_count
        )

    def told(batch: Any) -> Any:
        return [leaf.tolist() for leaf in (batch[0], batch[1]["y"], batch[2])]

    expected = [*map(told, loader(0))]
    with loader(1) as several:
        it = iter(several)
        first = [told(next(it)), told(next(it))]
        state = it.get_state()
    again = iter(loader(0))
    again.set_state(state)
    assert [*first, *map(told, again)] == expected and len(expected) == 4


def test_a_bare_array_has_no_key() -> None:
    """None is the place of the element itself."""
    assert lk.PadTo(4, None).map(X).tolist() == [1, 2, 3, 0]
    assert lk.features.Numeric(None, mean=5).map(Y).tolist() == [-1.0, 1.0]


@pytest.mark.parametrize(
    ("element", "place", "error", "text"),
    [
        (
            {"x": 1},
            "y",
            KeyError,
            r"leaf 'y': expected a place in the element, got a dict with the keys \['x'\]",
        ),
        ((1, 2), 2, IndexError, "leaf 2: .* got a tuple with the positions 0 to 1"),
        ((1, 2), -3, IndexError, "leaf -3: .* got a tuple with the positions 0 to 1"),
        ((), 0, IndexError, "leaf 0: .* got a tuple with no values"),
        ((1, 2), "x", TypeError, "leaf 'x': .* got a tuple with the positions 0 to 1"),
        ((1, 2), True, TypeError, "leaf True: .* got a tuple"),
        (Pair(1, 2), "w", KeyError, r"leaf 'w': .* got a Pair with the fields \['x', 'y', 'z'\]"),
        (Record(1, 2), 0, KeyError, "leaf 0: .* got a Record with the fields"),
        (3, "x", TypeError, "leaf 'x': .* got int itself; leave the key out"),
        ({"x": (1,)}, ("x", 1), IndexError, "leaf 1: .* got a tuple with the positions 0 to 0"),
        ({"x": 1}, None, TypeError, "key: expected the place of a leaf in a dict .*, got None; give key="),
    ],
)
def test_a_place_that_is_not_there_is_named(element: Any, place: Any, error: Any, text: str) -> None:
    """With the places that there are, where a leaf is read and where it is put."""
    with pytest.raises(error, match=text):
        leaf_at(element, place)
    with pytest.raises(error, match=text):
        with_leaf(element, place, str)


def test_where_a_leaf_has_no_place_is_an_error() -> None:
    """A gap in a tuple, and a field that a class lacks; a mask that another leaf would be lost for."""
    with pytest.raises(IndexError, match=r"leaf 3: .* positions 0 to 1"):
        with_value((1, 2), 3, 4)
    with pytest.raises(KeyError, match=r"leaf 'mask': .* got a Record with the fields"):
        lk.PadTo(4, "x", mask="mask").map(Record(X, Y))
    for element, mask in ((Record(X, Y), "y"), ((X, Y), 1), ((X, Y), -1)):
        with pytest.raises(ValueError, match="mask: expected the place of a new leaf, got"):
            lk.PadTo(4, 0 if isinstance(element, tuple) else "x", mask=mask).map(element)


def test_ragged_rows_and_missing_fields_name_their_record() -> None:
    """In a batch, and in an operation on a leaf."""
    ragged = lk.load([(X, 1), (X[:2], 2)], batch_size=2, num_epochs=1)
    with pytest.raises(BatchError, match=r"record_key 1\D.*\[0\]|\[0\].*record_key 1\D"):
        list(ragged)
    rows = [{"x": X}, {"w": X}]
    missing = lk.load(rows, batch_size=2, num_epochs=1, operations=[lk.PadTo(4, "x")])
    with pytest.raises(KeyError, match=r"leaf 'x': .* a dict with the keys \['w'\]") as error:
        list(missing)
    assert any("record_key 1" in note for note in error.value.__notes__)


@pytest.mark.parametrize("kind", ["tuple", "list", "namedtuple", "dataclass", "frozen dataclass", "attrs"])
def test_a_dict_of_any_element_and_back(kind: str) -> None:
    """AsDict gives the values of each kind their names, and AsTuple takes them apart again."""
    element, (x, y, _) = KINDS[kind]
    held = [*children_of(element, kind_of(type(element)))[1]]
    names = "abc"[: len(held)]
    named = lk.AsDict(" ".join(names)).map(element)
    assert named == lk.AsDict(*names).map(element) and [*named] == [*names]
    assert named["a"] is X and named["b"] is Y
    assert all(a is b for a, b in zip(lk.AsTuple(*names).map(named), held, strict=True))
    assert lk.AsDict(b=y, a=x).map(element) == {"b": leaf_at(element, y), "a": leaf_at(element, x)}
    if kind not in ("tuple", "list"):
        assert [*lk.AsDict().map(element)] == ["x", "y", "z"]


@pytest.mark.parametrize(
    ("make", "element", "error", "text"),
    [
        (
            lambda: lk.AsDict("a", "b"),
            (1, 2, 3),
            ValueError,
            r"AsDict\('a', 'b'\): expected an element of 2 values, got",
        ),
        (lambda: lk.AsDict("a", "b"), 3, ValueError, "expected an element of 2 values, got int itself"),
        (
            lk.AsDict,
            (1, 2),
            TypeError,
            r"AsDict\(\): expected an object with fields, .* write lk.AsDict\('im",
        ),
        (
            lambda: lk.AsDict("a"),
            {"x": 1},
            TypeError,
            r"got a dict with the keys \['x'\]; write lk.AsDict\(name=key\)",
        ),
        (lambda: lk.AsDict(a=5), (1, 2), IndexError, "leaf 5: expected a place in the element"),
        (lambda: lk.AsDict("a", b=1), None, ValueError, "places: expected none beside fields, got b"),
        (lambda: lk.AsDict("a", "a"), None, ValueError, "fields: expected each name once"),
        (lambda: lk.AsDict(a=[1]), None, TypeError, "a: expected a dict's key, a position"),
    ],
)
def test_what_as_dict_refuses(make: Any, element: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        make().map(element)


def test_a_single_value_gets_its_name() -> None:
    assert lk.AsDict("x").map(3) == {"x": 3}
    assert repr(lk.AsDict(x=(0, "y"))) == "AsDict(x=(0, 'y'))"
    assert lk.AsDict(x=0) == lk.AsDict(x=0) != lk.AsDict(x=1)
