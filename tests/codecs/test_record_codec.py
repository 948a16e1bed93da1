"""Dicts as bytes and back."""

import contextlib
from typing import Any

import numpy as np
import pytest
from formats.round_trip import MIXED, RECORDS, same
from hypothesis import given
from hypothesis import strategies as st

from loaderkit._codecs.example import parse_example
from loaderkit._codecs.record_codec import MAGIC, decode_record, encode_record, is_encoded
from loaderkit._codecs.scan import Malformed


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


# The bytes that files of the first release hold: they are read for ever, and the same dict gives them again.
WRITTEN: list[tuple[dict[Any, Any], bytes]] = [
    (
        {
            "label": 3,
            "image": np.arange(6, dtype=np.uint8).reshape(2, 3),
            "caption": "ü",
            "raw": b"\x00\xff",
            "ok": True,
            "none": None,
            "box": {"x": np.float32(0.5), "sizes": np.array([1, -2], "<i8")},
            "score": 0.25,
            "many": [1, 300, -1],
            "words": ("a", "b"),
            "wide": np.array([1.5]),
        },
        (
            b'\n\xf2\x03\n\x8f\x02\n\r__loaderkit__\x12\xfd\x01\n\xfa\x01\n\xf7\x01{"label":"int","image":["array","|u1",[2,3]],'
            b'"caption":"str","raw":"bytes","ok":"bool","none":"none","box":{"x":["scalar","<f4"],"sizes":["array","<i8",'
            b'[2]]},"score":"float","many":["list","int"],"words":["tuple","str"],"wide":["array","<f8",[1]]}'
            b"\n\x1c\n\tbox/sizes\x12\x0f\x1a\r\n\x0b\x01\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"
            b"\n\x11\n\x05box/x\x12\x08\x12\x06\n\x04\x00\x00\x00?"
            b"\n\x11\n\x07caption\x12\x06\n\x04\n\x02\xc3\xbc"
            b"\n\x13\n\x05image\x12\n\n\x08\n\x06\x00\x01\x02\x03\x04\x05"
            b"\n\x0e\n\x05label\x12\x05\x1a\x03\n\x01\x03"
            b"\n\x19\n\x04many\x12\x11\x1a\x0f\n\r\x01\xac\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
            b"\n\x0b\n\x02ok\x12\x05\x1a\x03\n\x01\x01"
            b"\n\r\n\x03raw\x12\x06\n\x04\n\x02\x00\xff"
            b"\n\x15\n\x05score\x12\x0c\n\n\n\x08\x00\x00\x00\x00\x00\x00\xd0?"
            b"\n\x14\n\x04wide\x12\x0c\n\n\n\x08\x00\x00\x00\x00\x00\x00\xf8?"
            b"\n\x11\n\x05words\x12\x08\n\x06\n\x01a\n\x01b"
        ),
    ),
    (
        {
            "mixed": [1, "a", (None, 2.5)],
            3: np.array([1, 2], np.int16),
            "large": 1 << 70,
            "s": np.float64(0.5),
        },
        (
            b"\xc1lk1\x84\xa5mixed\x93\x01\xa1a\xc7\x0b\x03\x92\xc0\xcb@\x04\x00\x00\x00\x00\x00\x00"
            b"\x03\xc7\r\x01\x93\xa3<i2\x91\x02\xc4\x04\x01\x00\x02\x00\xa5large\xc7\x16\x041180591620717411303424"
            b"\xa1s\xd8\x02\x93\xa3<f8\x90\xc4\x08\x00\x00\x00\x00\x00\x00\xe0?"
        ),
    ),
]


@pytest.mark.parametrize(("record", "data"), WRITTEN)
def test_bytes_of_the_first_release_are_read_and_written(record, data):
    assert same(decode_record(data), record)
    assert encode_record(record) == data


names = st.text(min_size=1)
leaves = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(names, inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(names, leaves, max_size=4))
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
