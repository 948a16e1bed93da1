"""InMemoryDataSource: any objects, one copy for all processes, arrays without a copy."""

import dataclasses
import enum
import os
import pickle
import threading
from collections import OrderedDict, namedtuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from loaderkit._base.system import shared_memory as _memory
from loaderkit._source.fingerprint import fingerprint_of
from loaderkit.errors import TransportError
from loaderkit.sources import InMemoryDataSource

Point = namedtuple("Point", "x y")
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
TREES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | st.tuples(inner, inner)
        | st.builds(Point, inner, inner)
    ),
    max_leaves=8,
)
DTYPES = npst.integer_dtypes() | npst.floating_dtypes() | npst.boolean_dtypes() | npst.unicode_string_dtypes()
ARRAYS = npst.arrays(DTYPES, npst.array_shapes(min_dims=0, min_side=0, max_side=4))


@given(st.lists(TREES, max_size=6))
def test_any_elements_come_back(elements):
    """Equal, of the same types, in the same places."""
    source = InMemoryDataSource(elements)
    assert len(source) == len(elements)
    assert [source[key] for key in range(len(elements))] == elements
    assert [repr(source[key]) for key in range(len(elements))] == list(map(repr, elements))


@given(st.lists(st.tuples(ARRAYS, ARRAYS), min_size=1, max_size=4))
def test_arrays_come_back_exactly_and_read_only(pairs):
    """Value, dtype and shape stay for every memory layout; the shared copy is read-only."""
    elements = [[a, b.T, b[..., ::-1] if b.ndim else b] for a, b in pairs]
    for expected_row, row in zip(elements, InMemoryDataSource(elements), strict=True):
        for expected, got in zip(expected_row, row, strict=True):
            assert type(got) is np.ndarray
            assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
            assert got.tobytes() == expected.tobytes()
            assert not got.flags.writeable


def test_arrays_are_views_of_one_copy():
    """Reading a record twice gives two objects over the same memory, also of arrays with gaps."""
    whole = np.arange(24.0).reshape(4, 6)
    for array in (whole, whole.T, whole[:, ::2], whole[::-1]):
        source = InMemoryDataSource([{"x": array}])
        first, second = source[0], source[0]
        assert first is not second
        assert np.shares_memory(first["x"], second["x"])
        assert not np.shares_memory(first["x"], whole)


def test_changing_a_record_changes_nothing_in_the_source():
    """Containers are new at each read; writing in an array raises."""
    source = InMemoryDataSource([{"x": np.zeros(3), "list": [1]}])
    record = source[0]
    record["list"].append(2)
    record["more"] = 1
    with pytest.raises(ValueError, match="read-only"):
        record["x"][0] = 1
    assert source[0].keys() == {"x", "list"}
    assert source[0]["list"] == [1]


def test_the_elements_are_taken_when_it_is_made():
    """Later changes of the user's own objects don't reach the source."""
    array, element = np.zeros(3), {"n": 1}
    source = InMemoryDataSource([array, element])
    array[0] = 1
    element["n"] = 2
    assert source[0].tolist() == [0, 0, 0]
    assert source[1] == {"n": 1}


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Row:
    image: np.ndarray
    colour: Colour = Colour.RED


def test_objects_of_many_kinds():
    """Data classes, enums, ordered dicts, object arrays, structured arrays, masked arrays, sets, classes."""
    structured = np.array([(1, 2.5)], [("a", np.int32), ("b", np.float64)])
    masked = np.ma.masked_array([1, 2], [True, False])
    elements = [
        Row(np.arange(3)), OrderedDict(b=1, a=2), np.array([None, "x"], object), structured, {1, 2}, int,
        np.int8(3), masked, bytearray(b"abc"), NotImplemented, Row, len,
    ]  # fmt: skip
    source = InMemoryDataSource(iter(elements))
    assert [type(source[key]) for key in range(len(source))] == list(map(type, elements))
    assert source[0].image.tolist() == [0, 1, 2]
    assert source[0].colour is Colour.RED
    assert list(source[1]) == ["b", "a"]
    assert source[2].tolist() == [None, "x"]
    assert source[3].tolist() == structured.tolist()
    assert source[7].mask.tolist() == [True, False]
    assert [source[5], source[9], source[10], source[11]] == [int, NotImplemented, Row, len]


def test_it_travels_to_a_worker_without_a_copy(in_child):
    """The worker maps the memory that the trainer has, and can't write in it either."""
    elements = [{"x": np.full(100_000, i), "name": str(i)} for i in range(5)]
    source = InMemoryDataSource(elements)

    def look(source):
        memory = os.fstat(source._shared._buffer._fd).st_ino
        return memory, [(row["name"], int(row["x"].sum()), row["x"].flags.writeable) for row in source]

    assert look(source)[1] == [(str(i), 100_000 * i, False) for i in range(5)]
    assert in_child(source, look) == look(source)
    with _memory.sending():
        assert len(pickle.dumps(source)) < 1000


def test_pickled_by_hand_it_goes_by_value():
    """Outside of a loader its pickle holds the data, as any object's does."""
    source = InMemoryDataSource([{"x": np.arange(1000)}, "text"])
    again = pickle.loads(pickle.dumps(source))
    assert again[0]["x"].tolist() == list(range(1000))
    assert again[1] == "text"
    assert not again[0]["x"].flags.writeable


def test_classes_that_a_worker_cannot_import_travel(in_child):
    """Elements of classes made in a function or in __main__ arrive, and all of one class."""

    @dataclasses.dataclass
    class Local:
        n: int

        def double(self):
            return 2 * self.n

    source = InMemoryDataSource([Local(1), {"f": Local(2), "g": lambda x: x + 1}])
    assert source[0] == Local(1)

    def look(source):
        first, second = source
        return first.double(), second["f"].double(), second["g"](1), type(first) is type(second["f"])

    assert in_child(source, look) == look(source) == (2, 4, 2, True)


def test_an_element_that_cannot_be_pickled_is_named():
    """The error has its place, its type and the reason."""
    with pytest.raises(TransportError, match=r"element 2, a dict, can't be pickled \(.*'_thread.lock'"):
        InMemoryDataSource([1, 2, {"lock": threading.Lock()}])


def test_a_dict_is_refused():
    """Its elements would be its keys; the user meant columns or values."""
    with pytest.raises(TypeError, match="use ArrayDataSource for a dict of columns"):
        InMemoryDataSource({"x": np.zeros(3)})


@pytest.mark.parametrize("key", [2, -3, 2**70])
def test_a_key_out_of_range(key):
    """IndexError with the key, the length and the source."""
    with pytest.raises(IndexError, match=rf"record_key: .*, got {key}; InMemoryDataSource\(2 e"):
        InMemoryDataSource("ab")[key]


def test_the_fingerprint_is_the_values(in_child):
    """The same in another process and for equal elements; another for other elements."""
    source = InMemoryDataSource([{"x": np.arange(5), "names": {"a", "b", "c"}}] * 3)
    seen = fingerprint_of(source)
    assert seen == in_child(source, fingerprint_of)
    assert seen == fingerprint_of(InMemoryDataSource([{"names": {"c", "b", "a"}, "x": np.arange(5)}] * 3))
    assert seen != fingerprint_of(InMemoryDataSource([{"x": np.arange(5), "names": {"a", "b", "d"}}] * 3))
    assert (seen["kind"], seen["records"]) == ("declared", 3)
