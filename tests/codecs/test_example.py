"""tf.train.Example: the reader of its wire format against protobuf's own, and against any bytes."""

from unittest.mock import patch

import numpy as np
import pytest
from formats.records import example, field, varint
from hypothesis import assume, given
from hypothesis import strategies as st

from loaderkit._codecs.example import parse_example
from loaderkit._codecs.scan import Malformed

INTEGERS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(width=32, allow_nan=False)
FEATURES = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
    st.one_of(
        st.lists(st.binary(max_size=6), min_size=1, max_size=4),
        st.lists(FLOATS, min_size=1, max_size=20),
        st.lists(st.integers(-3, 300) | INTEGERS, max_size=20),
    ),
    max_size=4,
)


@pytest.fixture(scope="module")
def message():
    """Protobuf's own class of the message, from the copy of its definition in tensorflow_datasets."""
    pytest.importorskip("google.protobuf")
    return pytest.importorskip("tensorflow_datasets.proto.tf_example_generated_pb2").Example


def by_protobuf(message, data: bytes) -> dict[str, list]:
    features = message.FromString(data).features.feature
    kinds = ((name, feature, feature.WhichOneof("kind")) for name, feature in features.items())
    return {name: [*getattr(feature, kind).value] for name, feature, kind in kinds if kind}


def as_lists(data: bytes) -> dict[str, list]:
    return {
        name: values if isinstance(values, list) else values.tolist()
        for name, values in parse_example(data).items()
    }


@given(FEATURES, st.booleans())
def test_features_come_back(features, packed):
    """Of each kind, packed or each value by itself, with the dtypes of the format."""
    data = example(features, packed=packed)
    assert as_lists(data) == features
    for values in parse_example(data).values():
        assert isinstance(values, list) or (values.dtype in (np.float32, np.int64) and values.flags.writeable)


@given(FEATURES, st.booleans())
def test_what_protobuf_writes_and_reads(message, features, packed):
    """The same values from its bytes, and the same by it from ours."""
    data = example(features, packed=packed)
    assert by_protobuf(message, data) == as_lists(data)
    assert as_lists(message.FromString(data).SerializeToString()) == features


# Pieces of the wire format, whole and broken: unknown fields, other wire types, names that come again, several lists.
PIECES = st.recursive(
    st.sampled_from(
        [
            *(b"", b"\x08\x05", b"\x0d\x00\x00\x80\x3f", b"\x09" + bytes(8), b"\x80\x01\x01", b"\x0a"),
            *(field(1, b"x"), field(1, b"\xff"), field(1, bytes(4)), field(1, b"\x80\x80"), field(9, b"??")),
            *(field(1, varint(7) * 70), field(1, varint(-5) * 9 + b"\x01"), field(1, b"\xff" * 10 + b"\x01")),
            *(b"\x13\x08\x01\x14", b"\x0b\x0b\x0c\x0c", b"\x0c", b"\x0e\x01", b"\x00\x01"),
        ]
    ),
    lambda inner: st.builds(field, st.integers(1, 3), st.lists(inner, max_size=4).map(b"".join)),
    max_leaves=8,
)
MAPS = st.lists(PIECES, max_size=3).map(lambda pieces: field(1, field(1, b"".join(pieces))))


@given(MAPS | PIECES | FEATURES.map(example), st.data())
def test_any_message_is_read_as_protobuf_reads_it(message, data, draw):
    """Or refused by both, whole and with a byte changed."""
    from google.protobuf.message import DecodeError
    from google.protobuf.unknown_fields import UnknownFieldSet

    if data and draw.draw(st.booleans()):
        place = draw.draw(st.integers(0, len(data) - 1))
        data = data[:place] + bytes([draw.draw(st.integers(0, 255))]) + data[place + 1 :]
    try:
        expected = by_protobuf(message, data)
    except DecodeError:
        with pytest.raises(Malformed):
            parse_example(data)
    else:
        # Protobuf leaves out an entry with an unknown field, for newer versions of it.
        assume(not len(UnknownFieldSet(message.FromString(data).features)))
        assert repr(sorted(as_lists(data).items())) == repr(sorted(expected.items()))


def outcome(data: bytes) -> tuple:
    try:
        found = parse_example(data)
    except Malformed as error:
        return (str(error),)
    return tuple((name, getattr(each, "dtype", list), repr([*each])) for name, each in found.items())


@given(MAPS | PIECES | FEATURES.map(example), st.data())
def test_records_in_the_usual_layout_are_read_as_field_by_field(data, draw):
    """The same names in the same order, dtypes and values, or the same error: whole, with a byte changed, and cut."""
    if data and draw.draw(st.booleans()):
        place = draw.draw(st.integers(0, len(data) - 1))
        data = data[:place] + bytes([draw.draw(st.integers(0, 255))]) + data[place + 1 :]
    if draw.draw(st.booleans()):
        data = data[: draw.draw(st.integers(0, len(data)))]
    with patch("loaderkit._codecs.example.feature_places", lambda data: None):
        expected = outcome(data)
    assert outcome(data) == expected


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_malformed(data):
    """No other exception, no hang."""
    try:
        parse_example(data)
    except Malformed as error:
        offset = error.offset
    else:
        offset = 0
    assert 0 <= offset <= len(data)


@given(FEATURES.filter(len), st.data())
def test_truncated_bytes_are_never_other_values(features, data):
    """At any byte: the one field of the message is cut."""
    whole = example(features)
    with pytest.raises(Malformed):
        parse_example(whole[: data.draw(st.integers(1, len(whole) - 1))])


def test_deep_groups_end():
    """100,000 groups within each other are skipped without recursion; one that isn't closed is malformed."""
    many = 100_000
    assert parse_example(b"\x0b" * many + b"\x0c" * many) == {}
    with pytest.raises(Malformed):
        parse_example(b"\x0b" * many)


@pytest.mark.parametrize("before", [0, 100])
def test_a_packed_integer_that_is_cut(before):
    """At the end of its list, in a record that is laid out as usual."""
    packed = varint(7) * before + b"\x80"
    data = field(1, field(1, field(1, b"x") + field(2, field(3, field(1, packed)))))
    with pytest.raises(Malformed, match="the end of the list within one"):
        parse_example(data)
