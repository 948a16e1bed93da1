"""A naive twin of batching, and rows of all kinds for tests."""

import dataclasses
from collections import OrderedDict, namedtuple
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

from loaderkit._base.tree import flatten, structure_of, unflatten
from loaderkit.transforms.stack import RowSpec

Pair = namedtuple("Pair", "left right")


@dataclasses.dataclass(frozen=True)
class Sample:
    """A frozen element."""

    image: Any
    label: Any


class Subclass(np.ndarray):
    """An ndarray subclass: never exact, but batched as the array that it is."""


def twin_of_leaves(leaves: list[Any]) -> np.ndarray:
    if any(isinstance(leaf, bytes) for leaf in leaves):
        out = np.empty(len(leaves), object)
        for row, leaf in enumerate(leaves):
            out[row] = leaf if isinstance(leaf, bytes) else np.asarray(leaf)[()]
        return out
    return np.stack([np.asarray(leaf) for leaf in leaves])


def twin(rows: list[Any]) -> Any:
    first = rows[0]
    if isinstance(first, dict):
        return type(first)((key, twin([row[key] for row in rows])) for key in first)
    if isinstance(first, Pair):
        return Pair(*(twin([row[place] for row in rows]) for place in range(2)))
    if isinstance(first, list | tuple):
        return type(first)(twin([row[place] for row in rows]) for place in range(len(first)))
    if isinstance(first, Sample):
        return Sample(twin([row.image for row in rows]), twin([row.label for row in rows]))
    return None if first is None else twin_of_leaves(rows)


def describe(row: int) -> str:
    return f"record_key {row + 10} (index {row})"


def assert_same_array(got: Any, wanted: np.ndarray) -> None:
    assert type(got) is np.ndarray
    assert got.dtype == wanted.dtype
    assert got.shape == wanted.shape
    assert got.flags.c_contiguous
    if wanted.dtype.hasobject:
        pairs = list(zip(got.ravel().tolist(), wanted.ravel().tolist(), strict=True))
        assert all(type(one) is type(other) for one, other in pairs)
        assert all(one == other or (one != one and other != other) for one, other in pairs)
    else:
        assert got.tobytes() == wanted.tobytes()  # NaN payloads and signs of zero too


def assert_same_batch(got: Any, wanted: Any) -> None:
    got_leaves, got_structure = flatten(got)
    wanted_leaves, wanted_structure = flatten(wanted)
    assert got_structure.same_order(wanted_structure), (got_structure, wanted_structure)
    for got_leaf, wanted_leaf in zip(got_leaves, wanted_leaves, strict=True):
        assert_same_array(got_leaf, wanted_leaf)


# At least one of each kind that numpy has.
NUMBERS = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8"]
OTHERS = [">i4", ">f8", "U3", "U5", "S2", "M8[s]", "M8[ms]", "m8[s]", "O"]
STRUCTURED = np.dtype([("a", "i2"), ("b", "f4")])


def array(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    numbers = rng.integers(-100, 100, size=shape)
    if dtype is STRUCTURED:
        made = np.zeros(shape, STRUCTURED)
        made["a"] = numbers
        return made
    return numbers.astype(dtype)


def fortran(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    return np.asfortranarray(array(rng, shape, dtype))


def every_second(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    return np.repeat(array(rng, shape, dtype), 2, axis=-1)[..., ::2] if shape else array(rng, shape, dtype)


def subclassed(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    return array(rng, shape, dtype).view(Subclass)


PLAIN = st.one_of(
    st.booleans(),
    st.integers(-5, 5),
    st.sampled_from([2**31, 2**63 - 1, -(2**63), 2**63, 2**64, -(2**70)]),
    st.floats(width=64),
    st.complex_numbers(max_magnitude=9),
    st.text(max_size=4).filter(lambda text: not text.endswith("\0")),
    st.binary(max_size=3),
    st.just(Fraction(1, 3)),
)
ALIKE = st.sampled_from(
    [
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(width=64),
        st.text(max_size=4).filter(lambda text: not text.endswith("\0")),
        st.binary(max_size=3),
    ]
)
DTYPE = st.sampled_from([*NUMBERS, *OTHERS, STRUCTURED])


@st.composite
def leaves_of_one_place(draw: st.DrawFn, count: int) -> list[Any]:
    """What `count` rows have at one place of the tree: mostly alike, sometimes all sorts of things."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from(["alike", "arrays", "arrays", "scalars", "mixed arrays", "mixed scalars"]))
    if kind == "alike":
        return draw(st.lists(draw(ALIKE), min_size=count, max_size=count))
    shape = draw(st.sampled_from([(), (3,), (2, 3), (0,), (4, 0), (1,)]))
    if kind == "arrays":
        make = draw(st.sampled_from([array, array, fortran, every_second, subclassed]))
        dtype = draw(DTYPE)
        return [make(rng, shape, dtype) for _ in range(count)]
    if kind == "scalars":
        dtype = draw(DTYPE)
        return [array(rng, (), dtype)[()] for _ in range(count)]
    few = draw(st.lists(DTYPE, min_size=1, max_size=3))
    if kind == "mixed arrays":
        return [array(rng, shape, draw(st.sampled_from(few))) for _ in range(count)]
    scalar = st.sampled_from(few).map(lambda dtype: array(rng, (), dtype)[()])
    return draw(st.lists(st.one_of(PLAIN, scalar), min_size=count, max_size=count))


TEMPLATES = st.recursive(
    st.just(0),
    lambda inner: st.one_of(
        st.none(),
        st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
        st.dictionaries(st.sampled_from("xyz"), inner, max_size=2).map(OrderedDict),
        st.lists(inner, max_size=2),
        st.lists(inner, max_size=2).map(tuple),
        st.builds(Pair, inner, inner),
        st.builds(Sample, inner, inner),
    ),
    max_leaves=4,
)


def shuffled_keys(element: Any, data: st.DataObject) -> Any:
    if type(element) is dict:
        keys = data.draw(st.permutations(list(element)))
        return {key: shuffled_keys(element[key], data) for key in keys}
    return element


@st.composite
def rows_of(draw: st.DrawFn, max_count: int = 7) -> list[Any]:
    count = draw(st.integers(1, max_count))
    structure = structure_of(draw(TEMPLATES))
    columns = [draw(leaves_of_one_place(count)) for _ in range(structure.size)]
    return [unflatten(structure, [column[row] for column in columns]) for row in range(count)]


def room_for(spec: RowSpec, count: int) -> list[np.ndarray]:
    out = [np.empty((count, *leaf.shape), leaf.dtype) for leaf in spec.leaves]
    for target in out:
        target.view(np.uint8).reshape(-1)[...] = 0xAB
    return out
