"""RangeDataSource: Python's range, with keys checked and columns read at once."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderkit._source.fingerprint import fingerprint_of
from loaderkit.sources import RangeDataSource


@given(st.integers(-50, 50), st.integers(-50, 50), st.integers(-7, 7).filter(bool), st.data())
def test_it_is_pythons_range(start, stop, step, data):
    """The same length and the same numbers, one by one, many as a list, and as an array."""
    expected = range(start, stop, step)
    source = RangeDataSource(start, stop, step)
    assert list(source) == list(expected)
    assert len(source) == len(expected)
    keys = data.draw(st.lists(st.integers(0, len(expected) - 1), max_size=5)) if expected else []
    assert source.__getitems__(keys) == [expected[key] for key in keys]
    out = [np.empty(len(keys), np.int64)]
    assert source.take(np.array(keys, int), out=out) is out[0]
    assert source.take(keys).tolist() == out[0].tolist() == [expected[key] for key in keys]


def test_records_are_plain_ints():
    """So a batch of them is int64, as np.stack makes it."""
    source = RangeDataSource(np.int32(5))
    assert type(source[np.int64(2)]) is int
    assert source.take([1]).dtype == np.int64


@pytest.mark.parametrize("key", [5, -6])
def test_a_key_out_of_range(key):
    """IndexError with the key, the length and the source."""
    with pytest.raises(IndexError, match=rf"record_key: .*, got {key}; RangeDataSource\(start=0, stop=5, "):
        RangeDataSource(5)[key]


def test_bad_arguments():
    """A step of 0, floats, and what a batch couldn't hold."""
    with pytest.raises(ValueError, match=r"^step: expected another int than 0, got 0$"):
        RangeDataSource(0, 5, 0)
    for wrong in (2.0, True, "2"):
        with pytest.raises(TypeError, match=f"^start: expected an int, got {wrong!r}$"):
            RangeDataSource(wrong)
        with pytest.raises(TypeError, match=f"^stop: expected an int, got {wrong!r}$"):
            RangeDataSource(0, wrong)
    with pytest.raises(
        ValueError, match=r"stop: expected an int that fits in 64 bits.*, got 9223372036854775808"
    ):
        RangeDataSource(2**63)


def test_it_travels_and_has_a_fingerprint():
    """Three numbers, in the pickle as in the state."""
    source = RangeDataSource(3, 30, 4)
    assert list(pickle.loads(pickle.dumps(source))) == list(source)
    assert fingerprint_of(source) == {
        "kind": "declared",
        "type": "RangeDataSource",
        "start": 3,
        "stop": 30,
        "step": 4,
    }
