"""decode.Example of many records: what it remembers of the ones before never changes what it gives."""

import pickle

import numpy as np
import pytest
from formats.records import example, field, varint
from hypothesis import given, settings
from hypothesis import strategies as st

import loaderkit as lk
from loaderkit.transforms.decode import Example
from loaderkit.transforms.decode.feature_spec import feature_spec
from loaderkit.transforms.decode.frame_memory import FrameMemory
from loaderkit.transforms.stack import collect

NAMES = st.sampled_from(["a", "b", "c"])
# Few lengths, so that records of one length and different frames, and of one frame and different values, are common.
VALUES = st.one_of(
    st.lists(st.binary(max_size=2), max_size=2),
    st.lists(st.sampled_from([0.5, -1.0, float("nan")]), min_size=1, max_size=2),
    st.lists(st.sampled_from([0, 1, 127, 128, 300, -1, 2**62]), min_size=1, max_size=3),
)


def entry(name: str, values: list, packed: bool) -> bytes:
    if not values:
        return field(1, field(1, name.encode()) + field(2, field(1, b"")))
    whole = example({name: values}, packed=packed)
    return whole[1 + len(varint(len(whole) - 3)) :]  # without the tag and the length of the map


RECORDS = st.lists(st.tuples(NAMES, VALUES, st.booleans()), max_size=4).map(
    lambda entries: field(1, b"".join(entry(*each) for each in entries))
)
SPECS = st.none() | st.dictionaries(
    NAMES | st.just("lacks"),
    st.sampled_from(
        [
            *(bytes, (bytes, None), (bytes, 2, b"?"), str, (str, None), (str, (), "?")),
            *(np.float32, (np.float32, None), (np.float32, 2, 0.5), (np.float64, (1, 1)), (np.float16, None)),
            *(np.int64, (np.int64, None), (np.int64, 2, 7), (np.uint8, (), 1), (np.int32, (None, 2)), bool),
        ]
    ),
    max_size=3,
)


def outcome(decode: Example, data: bytes) -> object:
    """Names in their order, types, dtypes, shapes and bytes; or the error."""
    try:
        found = decode.map(data)
    except ValueError as error:
        return str(error)
    assert all(not isinstance(value, np.ndarray) or value.flags.writeable for value in found.values())
    return [
        (name, value.dtype, value.shape, value.tobytes())
        if isinstance(value, np.ndarray)
        else (name, type(value), value)
        for name, value in found.items()
    ]


@st.composite
def series(draw) -> list[bytes]:
    """Records, some of them again with a byte changed: mostly in a value, else in the frame."""
    records = draw(st.lists(RECORDS, min_size=1, max_size=3))
    for data in records[:]:
        for _ in range(3):
            place = draw(st.integers(0, len(data) - 1))
            other = draw(st.sampled_from([0, 1, 10, 0x7F, 0x80, 0xFF]))
            records.append(data[:place] + bytes([other]) + data[place + 1 :])
    return records


@given(series(), SPECS)
def test_each_record_is_as_if_it_came_alone(records, features):
    """Of any order, with names that come again, features that lack, packed lists and others, and damage."""
    alone = [outcome(Example(features), data) for data in records]
    decode = Example(features)
    for _ in range(3):
        assert [outcome(decode, data) for data in records] == alone


def assert_as_collected(block, records, features) -> None:
    """A block has what `map` makes of each record alone, put in columns."""
    expected = collect([Example(features).map(data) for data in records])
    assert expected is not None
    assert block.structure.same_order(expected.structure) and len(block) == len(records)
    for ours, theirs in zip(block.columns, expected.columns, strict=True):
        assert type(ours) is type(theirs)
        if isinstance(ours, np.ndarray):
            assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
            assert ours.tobytes() == theirs.tobytes() and ours.flags.writeable
        else:
            assert ours == theirs


OF_MIXED = {
    "x": (np.float32, (2,)),
    "l": np.int32,
    "n": (str, (), "none"),
    "y": (np.float32, (1, 2), 0.5),
}


@st.composite
def fitting(draw) -> list[bytes]:
    """Records that OF_MIXED fits, but for some with a byte changed."""
    records = []
    for _ in range(draw(st.integers(1, 3))):
        number, text = (
            draw(st.sampled_from([0, 127, 128, 70_000])),
            draw(st.sampled_from([None, b"", b"a\0"])),
        )
        values = {"l": [number], "x": [0.5, number], "u": draw(st.sampled_from([[1], [300, 2]]))}
        records.append(example(values | ({} if text is None else {"n": [text]})))
    for data in records[: draw(st.integers(0, 2))]:
        place, other = draw(st.integers(0, len(data) - 1)), draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
        records.append(data[:place] + bytes([other]) + data[place + 1 :])
    return records


@given(fitting(), st.integers(16, 20))
@settings(max_examples=40)
def test_by_column_is_as_record_by_record(records, times):
    """Of any frames and lengths; where one of the records is an error, `map` is left to say it."""
    fine = [data for data in records if not isinstance(outcome(Example(OF_MIXED), data), str)]
    decode = Example(OF_MIXED)
    for data in fine * 2:
        decode.map(data)
    if fine:
        assert_as_collected(decode._by_column(fine * times), fine * times, OF_MIXED)
    assert fine == records or decode._by_column(records * times) is None


MIXED = [
    example(
        {"l": [n * (1 if n % 3 else 40)], "x": [n / 2, 1.0]} | ({"n": [b"%04d" % (n % 7)]} if n % 50 else {})
    )
    for n in range(200)
]


def test_records_of_several_frames_are_decoded_by_column():
    """Also the few that have a frame of their own; a subclass with another `map` isn't passed over."""

    class Other(Example):
        def map(self, element):
            return {"l": len(element)}

    decode, other = Example(OF_MIXED), Other(OF_MIXED)
    assert decode._by_column(MIXED) is None  # no frame is known yet
    for data in MIXED:
        decode.map(data)
        other.map(data)
    assert_as_collected(decode._by_column(MIXED), MIXED, OF_MIXED)
    assert other._by_column(MIXED) is None


@pytest.mark.parametrize("policy", ["raise", "replace"])
@pytest.mark.parametrize(
    "after",
    [
        [lk.Batch(64)],
        [lk.Batch(8), lk.Batch(8)],
        [lk.Batch(48, remainder="pad")],
        [lk.Batch(32, batch_fn=lambda rows: [type(row["l"]) for row in rows])],
        [lk.Batch(64), lk.FlatMap(lambda batch: [batch, len(batch["l"])])],
    ],
    ids=["one", "two", "pad", "batch_fn", "flat_map"],
)
def test_batches_are_the_same_by_column(policy, after):
    """As with an operation between, which gets each record; with errors, and what stands in place of bad records."""
    records = [*MIXED[:150], b"x" * 7, *MIXED[150:]]
    features = {name: OF_MIXED[name] for name in ("x", "l", "y")}

    def batches(between: list) -> list:
        loader = lk.DataLoader(
            data_source=records,
            sampler=lk.IndexSampler(len(records), shuffle=False, seed=3, num_epochs=2),
            operations=[Example(features), *between, *after],
            on_record_error=policy,
            worker_count=0,
        )
        found: list = []
        try:
            found.extend(map(repr, loader))
        except ValueError as error:
            found.append(str(error))
        return found

    assert batches([]) == batches([lk.Map(lambda row: row)])


@pytest.mark.parametrize(
    "features",
    [
        None,
        {"n": (str, ()), "l": np.int64, "x": (np.float32, (2,)), "lacks": (int, (), 3)},
        {"m": (int, None)},
    ],
)
def test_a_frame_is_known_from_the_second_record_on(features):
    """Other values of the same lengths are decoded by it; another name, or an integer that is cut, isn't."""
    specs = features and {name: feature_spec(name, spec) for name, spec in features.items()}
    first, second = (
        example({"l": [n], "n": [b"%04d" % n], "m": [n, 300], "x": [n / 2, 1.0]}) for n in (7, 8)
    )
    memory = FrameMemory()
    memory.learn(first, specs)
    assert memory.decoded(first) is None
    memory.learn(first, specs)
    found = memory.decoded(second)
    assert repr(found) == repr(Example(features).map(second))
    assert memory.decoded(second.replace(b"n\x12", b"o\x12")) is None
    assert memory.decoded(second.replace(b"\xac\x02", b"\xac\x82")) is None
    assert pickle.dumps(memory) == pickle.dumps(FrameMemory())  # a worker begins anew


@pytest.mark.parametrize("names", ["m", "am", "ama", "mm", "aa"])
@pytest.mark.parametrize("count", [2, 100])
@pytest.mark.parametrize("features", [None, {"a": (int, (None,), [])}, {}])
def test_an_integer_that_is_cut_is_found_in_any_list(names, count, features):
    """Short and long, of a feature that is read, of one that isn't, and of one that the same name replaces."""
    for cut in range(len(names)):
        parts = [entry(name, [200] * count, True) for name in names]
        whole = field(1, b"".join(parts))
        parts[cut] = parts[cut][:-1] + b"\x80"
        decode = Example(features)
        for _ in range(3):
            decode.map(whole)
        with pytest.raises(ValueError, match="the end of the list within one"):
            decode.map(field(1, b"".join(parts)))


def test_what_is_remembered_is_bounded():
    """Of records with many lengths, many frames of one length, and many values."""
    memory = FrameMemory()
    lengths = [example({"x": [bytes(size)]}) for size in range(600)]
    names = [example({"x": [b"1"], name: [b"2"]}) for name in "abcdefgh"]
    for data in names + names + lengths + lengths:
        memory.learn(data, None)
    assert len(memory._known) == 512
    assert [data for data in names if memory.decoded(data)] == names[1:5]
    assert memory.decoded(lengths[3]) and not memory.decoded(lengths[-1])
    many = example({"x": [b"12"] * 100})
    every = Example()
    assert [len(every.map(many)["x"]) for _ in range(3)] == [100] * 3
