"""Dicts as bytes and back."""

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from round_trip import MIXED, RECORDS, same

from loaderkit._formats.example import parse_example
from loaderkit._formats.record_codec import MAGIC, decode_record, encode_record, is_encoded
from loaderkit._formats.scan import Malformed


@pytest.mark.parametrize("record", [*RECORDS, *MIXED, {}, {"__loaderkit__": 1}, {"a/b": 1, "a": {"b": 2}}])
def test_a_dict_comes_back(record):
    data = encode_record(record)
    assert is_encoded(data) and encode_record(record) == data
    assert same(decode_record(data), record)


def test_the_leaves_of_every_dtype_come_back():
    for dtype in "?bBhHiIlLefdFD":
        for shape in [(), (0,), (3,), (2, 20)]:
            array = np.arange(np.prod(shape, dtype=int)).astype(dtype).reshape(shape)
            for value in (array, array.ravel()[:1].sum(dtype=dtype)):
                assert same(decode_record(encode_record({"x": value})), {"x": value}), (dtype, shape)
    for value in (
        np.array(["a", "bcd"]),
        np.array([b"a", b""]),
        np.array(["2020-01-01"], "M8[D]"),
        np.array([1, 2], ">i4"),
        np.array([1.5], ">f8"),
        np.str_(""),
        np.array([np.iinfo(np.int64).min, -1, 0, np.iinfo(np.int64).max] * 5),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
    ):
        assert same(decode_record(encode_record({"x": value})), {"x": value})


leaves = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), leaves, max_size=4))
def test_any_dict_comes_back(record):
    assert same(decode_record(encode_record(record)), record)


@given(st.binary() | st.binary().map(MAGIC.__add__) | st.just(encode_record({"a": 1})))
def test_bytes_stay_bytes(data):
    assert decode_record(encode_record(data)) == data
    if not is_encoded(data):
        assert encode_record(data) is data


def test_an_example_has_the_leaves_as_features():
    features = parse_example(encode_record({"image": b"jpeg", "label": 3, "box": {"x": np.float32(0.5)}}))
    assert [*features] == ["__loaderkit__", "box/x", "image", "label"]
    assert features["image"] == [b"jpeg"] and features["label"].tolist() == [3]
    assert features["box/x"].tolist() == [0.5]


@given(st.sampled_from([encode_record(RECORDS[1]), encode_record(MIXED[0])]), st.data())
def test_damage_is_malformed_or_another_record(data, draw):
    place = draw.draw(st.integers(0, len(data) - 1))
    for damaged in (data[:place], data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]):
        with contextlib.suppress(Malformed):
            decode_record(damaged)


@pytest.mark.parametrize(
    ("record", "named"),
    [
        ({"a": {"b": [1, object()]}}, r"record\['a'\]\['b'\]\[1\]: expected .*, got object"),
        ({"a": np.array([None])}, r"record\['a'\]: expected .*, got ndarray of dtype object"),
        ({"a": {1, 2}}, r"record\['a'\]: expected .*, got set"),
        ([1], "record: expected bytes or a dict, got list"),
    ],
)
def test_a_leaf_that_cannot_be_written_is_named(record, named):
    with pytest.raises(TypeError, match=named):
        encode_record(record)
