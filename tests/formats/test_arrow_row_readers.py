"""Single rows of Arrow arrays: what a reader gives is what pyarrow gives of the same rows, as numpy has it."""

import datetime
import decimal

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")

from loaderkit.formats.tables.arrow_records import arrow_type, as_stored, describe  # noqa: E402
from loaderkit.formats.tables.arrow_row_readers import row_reader, rows_of  # noqa: E402
from tests.formats.round_trip import same  # noqa: E402

NUMBERS = {
    "int": pa.array([3, 1, 4, 1, 5]),
    "int with nulls": pa.array([3, None, 4, None, 5], pa.int8()),
    "float with nulls": pa.array([None, 0.5, float("nan"), None, 1.5]),
    "bool with nulls": pa.array([True, None, False, True, None]),
    "half": pa.array(np.arange(5, dtype=np.float16)),
    "moment": pa.array([datetime.datetime(2020, 1, 1), None] * 2 + [None], pa.timestamp("us", "UTC")),
    "day": pa.array([datetime.date(2020, 1, 1), None] * 2 + [None]),
    "duration": pa.array([5, None, 7, 8, 9], pa.duration("ms")),
    "box": pa.array([[1, 2], [3, 4], [5, 6], [7, 8], [9, 10]], pa.list_(pa.float32(), 2)),
    "box with nulls": pa.array([[1, 2], None, [None, 6], [7, 8], [9, 10]], pa.list_(pa.int16(), 2)),
    "box of boxes with nulls": pa.array(
        [[[1]], None, [[None]], [None], [[2]]], pa.list_(pa.list_(pa.int8(), 1), 1)
    ),
    "tensor": pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(30).reshape(5, 2, 3)),
}
OTHERS = {
    "text": pa.array(["a", None, "", "äö", "e" * 99]),
    "large text": pa.array(["a", None, "", "äö", "e"], pa.large_string()),
    "bytes": pa.array([b"a", None, b"", b"\0\1", b"e"]),
    "category": pa.array(["b", None, "a", "b", "c"]).dictionary_encode(),
    "category of numbers": pa.array([7, None, 8, 7, 9]).dictionary_encode(),
    "tokens": pa.array([[1, 2], None, [], [3], [4, 5, 6]], pa.large_list(pa.int32())),
    "tokens with nulls": pa.array([[1, None], None, [], [3], [None]], pa.list_(pa.int32())),
    "boxes": pa.array([[[1, 2]], None, [], [[3, 4], [5, 6]], [[7, 8]]], pa.list_(pa.list_(pa.int32(), 2))),
    "boxes with nulls": pa.array(
        [[[1, 2]], None, [], [[3, None]], [None]], pa.list_(pa.list_(pa.int32(), 2))
    ),
    "pairs of words": pa.array(
        [["a", None], None, ["", "b"], ["c", "d"], ["e", "f"]], pa.list_(pa.string(), 2)
    ),
    "nothing": pa.array([{}, None, {}, {}, {}], pa.struct([])),
    "prices": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal(2), None, None], pa.decimal128(5, 2)),
    "lists of prices": pa.array(
        [[decimal.Decimal("1.50")], None, [], [None], []], pa.list_(pa.decimal128(5, 2))
    ),
    "map": pa.array([[("a", 1)], None, [], [("b", None)], []], pa.map_(pa.string(), pa.int8())),
    "words": pa.array([["a", None], None, [], ["b"], ["c", "d"]]),
    "lists of lists": pa.array([[[1], []], None, [], [None], [[2, 3]]]),
    "struct": pa.array([{"x": 1, "y": ["a"]}, None, {"x": None, "y": None}, {"x": 3, "y": []}, {"x": 4}]),
    "structs": pa.array([[{"x": 1}], None, [], [None], [{"x": 2}, {"x": None}]]),
}


@pytest.mark.parametrize("name", [*NUMBERS, *OTHERS])
def test_rows_are_those_of_the_taken_array(name):
    """In any order, twice, none, and of a slice."""
    whole = (NUMBERS | OTHERS)[name]
    for array in (whole, whole.slice(1, 3)):
        read, values = row_reader(array), array.to_pylist()
        if name == "tensor":
            values = array.to_numpy_ndarray().tolist()
        for rows in ([2, 0, 1, 2], [1], []):
            for found, row in zip(read(rows), rows, strict=True):
                assert_values(found, values[row])
        assert same(rows_of(array), read([*range(len(array))]))


def assert_values(found, expected):
    """Numbers are numpy's, and lists of them arrays where none is null; maps and others are what pyarrow gives."""
    if isinstance(found, list | dict):
        assert type(found) is type(expected)
        assert len(found) == len(expected)
        pairs = [(found[k], expected[k]) for k in (found if isinstance(found, dict) else range(len(found)))]
        for pair in pairs:
            assert_values(*pair)
        if isinstance(found, list) and found:
            assert not all(isinstance(each, np.generic) for each in found)
        return
    assert not isinstance(found, int | float) or isinstance(found, np.generic)
    if isinstance(found, np.ndarray | np.generic):
        expected = (
            np.array(expected, found.dtype) if found.dtype.kind not in "mM" else plain(expected, found.dtype)
        )
        found = np.asarray(found)
        assert found.shape == expected.shape or not found.size
        assert found.tobytes() == expected.tobytes()
    else:
        assert found == expected


def plain(moment, dtype):
    """A moment without its time zone, which is UTC."""
    return np.array(moment.replace(tzinfo=None) if isinstance(moment, datetime.datetime) else moment, dtype)


@pytest.mark.parametrize(
    "values",
    [
        [3, None, 5],
        [True, False, None],
        [0.5, None, 2.5],
        [np.float16(3), None, np.float16(5)],
        [np.zeros((2, 3), ">i2"), None, np.ones((1, 1), ">i2")],
        [np.arange(3), None, np.arange(0)],
        [("a", "b"), None, ("c",)],
        [[{"x": 1}], None, [{"x": 2}, {"x": 3}]],
        [{"x": 1, "y": {"z": (1.5,)}}, None, {"x": 2, "y": {"z": (2.5, 3.5)}}],
        [[1, "mixed"], 1 << 70, None],
    ],
    ids=repr,
)
def test_values_that_loaderkit_wrote(values):
    """A reader gives back the Python and numpy types of the description."""
    description = describe(values[0])
    array = pa.array([as_stored(each, description) for each in values], arrow_type(description))
    read = row_reader(array, description)
    assert same(read([2, 0, 1, 0]), [values[2], values[0], values[1], values[0]])


def test_what_is_read_does_not_refer_to_the_array():
    """So that a file can be unmapped, and a record changed."""
    for name in ("box", "tensor"):
        read = row_reader(NUMBERS[name])
        before = read([1])[0].copy()
        read([1])[0][...] = 99
        assert same(read([1])[0], before)
