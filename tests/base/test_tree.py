"""Elements are flattened and rebuilt without loss, and columns have the leaves of each element."""

import copy
import dataclasses
import pickle
import subprocess
import sys
from collections import Counter, OrderedDict, UserDict, defaultdict, namedtuple
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderkit._base.tree import (
    Structure,
    StructureMismatch,
    columns,
    copy_containers,
    flatten,
    leaf_order,
    map_leaves,
    own_each,
    paths,
    structure_of,
    typed_columns,
    unflatten,
)

Pair = namedtuple("Pair", "left right")


@dataclasses.dataclass
class Sample:
    """A dataclass whose __init__ refuses what a batch holds."""

    image: Any
    label: Any = dataclasses.field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.image, list):
            raise TypeError("one image, not many")


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    """A dataclass whose attributes can't be set."""

    x: Any


@attrs.frozen
class Attrs:
    """An attrs class whose attributes can't be set."""

    x: Any
    y: Any


LEAVES = st.one_of(st.integers(), st.text(max_size=2), st.just(b"a"), st.just(2.5))
ELEMENTS = st.recursive(
    st.one_of(LEAVES, st.none()),
    lambda inner: st.one_of(
        st.dictionaries(st.one_of(st.sampled_from("xyz"), st.integers(0, 2)), inner, max_size=3),
        st.dictionaries(st.sampled_from("xyz"), inner, max_size=2).map(OrderedDict),
        st.dictionaries(st.sampled_from("xyz"), inner, max_size=2).map(UserDict),
        st.dictionaries(st.sampled_from("xyz"), inner, max_size=2).map(
            lambda items: defaultdict(list, items)
        ),
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.builds(Pair, inner, inner),
        st.builds(Frozen, inner),
        st.builds(Attrs, inner, inner),
    ),
    max_leaves=8,
)


def same(one: Any, other: Any) -> bool:
    """Equal, and of the same types all the way down."""
    return structure_of(one).same_order(structure_of(other)) and flatten(one)[0] == flatten(other)[0]


@given(ELEMENTS)
def test_an_element_is_its_leaves_and_its_structure(element: Any) -> None:
    """unflatten gives back what flatten took apart; there is one path for each leaf, which leads to it."""
    leaves, structure = flatten(element)
    assert structure.size == len(leaves)
    assert structure == structure_of(element)
    rebuilt = unflatten(structure, leaves)
    assert type(rebuilt) is type(element)
    assert rebuilt == element
    assert [eval("element" + path, {"element": element}) for path in paths(structure)] == leaves


@given(ELEMENTS, ELEMENTS)
def test_equal_structures_hash_alike_and_travel(one: Any, other: Any) -> None:
    """A structure survives pickling; two are equal exactly if containers, keys and places of leaves are."""
    first, second = structure_of(one), structure_of(other)
    assert pickle.loads(pickle.dumps(first)) == first
    assert hash(pickle.loads(pickle.dumps(first))) == hash(first)
    assert (first == second) == (kinds(one) == kinds(other))
    if first == second:
        assert hash(first) == hash(second)


def kinds(element: Any) -> Any:
    """The types of the containers, as a tree of dicts that doesn't know the order of keys."""
    if isinstance(element, dict | UserDict):
        return type(element), {key: kinds(value) for key, value in element.items()}
    if isinstance(element, list | tuple):
        return type(element), [kinds(value) for value in element]
    if isinstance(element, Frozen):
        return Frozen, kinds(element.x)
    if isinstance(element, Attrs):
        return Attrs, kinds(element.x), kinds(element.y)
    return None if element is None else "leaf"


@given(ELEMENTS, st.integers(1, 5))
def test_columns_are_the_leaves_of_each_row(element: Any, count: int) -> None:
    """Column j has leaf j of every row, whatever the tree, and the set of types that are in it."""
    rows = [map_leaves(str if row % 2 else type, element) for row in range(count)]
    structure = structure_of(element)
    wanted = [list(column) for column in zip(*(flatten(row)[0] for row in rows), strict=True)]
    assert columns(rows, structure) == wanted
    assert [types for _, types in typed_columns(rows, structure)] == [
        set(map(type, column)) for column in wanted
    ]


@given(st.lists(ELEMENTS, min_size=1, max_size=4))
def test_columns_refuse_the_first_row_of_another_structure(rows: list[Any]) -> None:
    """Rows are put in columns if all have the structure; else the error has the first that doesn't."""
    structure = structure_of(rows[0])
    others = [position for position, row in enumerate(rows) if structure_of(row) != structure]
    if not others:
        assert len(columns(rows, structure)) == structure.size
        return
    with pytest.raises(StructureMismatch) as error:
        columns(rows, structure)
    assert error.value.position == others[0]
    assert error.value.expected != error.value.got


@given(ELEMENTS, st.randoms(use_true_random=False))
def test_the_order_of_keys_is_told_but_doesnt_count(element: Any, random: Any) -> None:
    """Dicts with shuffled keys have equal structures; leaf_order maps the leaves of one to the other's."""

    def shuffled(value: Any) -> Any:
        if type(value) is dict:
            keys = list(value)
            random.shuffle(keys)
            return {key: shuffled(value[key]) for key in keys}
        return [shuffled(item) for item in value] if type(value) is list else value

    other = shuffled(element)
    structure, like = structure_of(element), structure_of(other)
    assert structure == like
    assert hash(structure) == hash(like)
    leaves, wanted = flatten(element)[0], flatten(other)[0]
    assert [leaves[number] for number in leaf_order(structure, like)] == wanted
    assert columns([other], structure) == [[leaf] for leaf in leaves]
    assert structure.same_order(like) == (repr(element) == repr(other))


@given(ELEMENTS)
def test_copied_containers_are_new_and_their_leaves_the_same(element: Any) -> None:
    """Changing a copy's containers doesn't change the old ones; every leaf is the same object."""
    copied = copy_containers(element)
    assert same(copied, element)
    assert all(one is other for one, other in zip(flatten(copied)[0], flatten(element)[0], strict=True))
    before = copy.deepcopy(element)
    spoil(copied)
    assert same(element, before)


def spoil(element: Any) -> None:
    """Empties every dict and list in the tree."""
    if isinstance(element, dict | list):
        for value in list(element.values() if isinstance(element, dict | UserDict) else element):
            spoil(value)
        element.clear()
    elif isinstance(element, tuple):
        for value in element:
            spoil(value)
    elif isinstance(element, Frozen | Attrs):
        spoil(element.x)
        spoil(getattr(element, "y", None))


def test_what_lies_beside_the_tree_is_copied_too() -> None:
    """A defaultdict keeps its function, a Counter its kind, an object the attributes that are no fields."""
    counts = defaultdict(int, a=1)
    assert copy_containers(counts)["b"] == 0
    assert "b" not in counts
    assert type(copy_containers(Counter("aab"))) is Counter
    sample = Sample(1)
    sample.note = "mine"  # type: ignore[attr-defined]
    copied = map_leaves(lambda leaf: leaf + 1, {"sample": sample})["sample"]
    assert (copied.image, copied.note, sample.image) == (2, "mine", 1)


def test_a_missing_key_is_missed_in_a_dict_that_makes_its_own() -> None:
    """A defaultdict without the key is another structure, and doesn't gain the key by being looked at."""
    rows = [defaultdict(int, a=1), defaultdict(int, b=1)]
    with pytest.raises(StructureMismatch):
        columns(rows, structure_of(rows[0]))
    assert list(rows[1]) == ["b"]


def test_objects_are_built_without_their_init() -> None:
    """A batch of dataclasses is one dataclass whose fields are columns; its __init__ needn't know of that."""
    structure = structure_of(Sample(1, label=2))
    built = unflatten(structure, [[1, 2], [3, 4]])
    assert (type(built), built.image, built.label) == (Sample, [1, 2], [3, 4])


@pytest.mark.parametrize(
    "leaf",
    [np.zeros(2), np.float32(1), 1, "a", b"a", {1, 2}, range(3), np.ma.masked_array([1]), object(), Sample],
    ids=lambda leaf: type(leaf).__name__,
)
def test_everything_else_is_a_leaf(leaf: Any) -> None:
    """Arrays, scalars, text, sets, classes and unknown objects are one leaf each; None is none."""
    assert structure_of(leaf).container is None
    assert flatten(leaf)[0] == [leaf] or flatten(leaf)[0][0] is leaf
    assert flatten(None)[0] == []


@pytest.mark.parametrize(
    ("element", "wanted"),
    [
        ({"image": 0, 3: (0, [0])}, ["['image']", "[3][0]", "[3][1][0]"]),
        (Pair(0, Frozen(0)), [".left", ".right.x"]),
        (Sample({"a": 0}, label=0), [".image['a']", ".label"]),
        (0, [""]),
        (None, []),
    ],
)
def test_paths_are_what_one_writes_in_python(element: Any, wanted: list[str]) -> None:
    """Keys and places in brackets, names after a dot."""
    assert list(paths(structure_of(element))) == wanted


@pytest.mark.parametrize(
    ("element", "text"),
    [
        ({"a": 0, "b": [0, None]}, "{'a': *, 'b': [*, None]}"),
        (((0,), ()), "((*,), ())"),
        (OrderedDict(a=0), "OrderedDict({'a': *})"),
        (Attrs(0, Pair(0, 0)), "Attrs(x=*, y=Pair(left=*, right=*))"),
    ],
)
def test_a_structure_prints_as_its_element_with_stars(element: Any, text: str) -> None:
    """The text that errors show."""
    assert repr(structure_of(element)) == text


def test_a_mismatch_says_where_and_what() -> None:
    """The row, the path to the containers that differ, and both of them."""
    rows = [{"a": {"b": 1}}, {"a": {"b": 2}}, {"a": {"c": 3}}]
    with pytest.raises(StructureMismatch, match=r"row 2\['a'\]: expected {'b': \*}, got {'c': \*}") as error:
        columns(rows, structure_of(rows[0]))
    assert (error.value.position, error.value.path) == (2, "['a']")


def test_too_few_or_too_many_leaves_are_refused() -> None:
    """unflatten takes as many leaves as the structure has."""
    structure = structure_of((0, 0))
    for leaves in ([1], [1, 2, 3]):
        with pytest.raises(ValueError, match=rf"leaves: expected 2 for \(\*, \*\), got {len(leaves)}"):
            unflatten(structure, leaves)


def test_a_structure_from_another_process_is_equal() -> None:
    """The hash of a str differs between processes; a structure that was pickled in one is still found."""
    program = (
        "import pickle, sys; from loaderkit._base.tree import structure_of;"
        "sys.stdout.buffer.write(pickle.dumps(structure_of({'x': 0, 'y': [0]})))"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout
    assert {structure_of({"x": 0, "y": [0]}): 1}[pickle.loads(answer)] == 1
    assert isinstance(pickle.loads(answer), Structure)


@given(
    st.lists(
        st.dictionaries(st.sampled_from("abc"), st.one_of(st.integers(), st.lists(st.integers()), st.none()))
    )
)
def test_what_other_else_holds_is_copied(elements):
    """`own_each` gives what `copy_containers` gives: equal elements that share no container with the old ones."""
    copies = own_each([*elements])
    assert copies == [copy_containers(element) for element in elements] == elements
    for old, new in zip(elements, copies):
        assert new is not old
        assert all(new[key] is not old[key] for key in old if isinstance(old[key], list))


def test_what_nobody_else_holds_is_not_copied():
    made = [{"x": n, "y": np.full(2, n)} for n in range(3)]
    places = [*map(id, made)]
    assert [*map(id, own_each(made))] == places
    other = made[1]
    changed = own_each(made)
    changed[1]["x"] = "changed"
    assert other["x"] == 1


def test_a_list_that_other_holds_is_copied_though_the_dict_around_it_is_new():
    shared = [1, 2]
    (mine,) = own_each([{"x": shared}])
    mine["x"].append(3)
    assert shared == [1, 2]
