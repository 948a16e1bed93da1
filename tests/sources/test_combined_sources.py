"""ConcatDataSource and SubsetDataSource: sources made of sources."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderkit._base.tree import flatten
from loaderkit._source.fingerprint import fingerprint_of
from loaderkit._source.optional import advised_calls, advised_chunk, column_reader, many_reader
from loaderkit._source.protocol import read_records
from loaderkit.samplers import ChunkSampler
from loaderkit.sources import (
    ArrayDataSource,
    ConcatDataSource,
    InMemoryDataSource,
    MapDataSource,
    RangeDataSource,
    SubsetDataSource,
)

PARTS = st.lists(
    st.lists(st.integers(), max_size=4) | st.builds(RangeDataSource, st.integers(0, 4)), min_size=1
)


@given(PARTS, st.data())
def test_a_concatenation_is_the_parts_in_order(parts, data):
    """One by one and many at a time, with empty parts among them."""
    source = ConcatDataSource(parts)
    expected = [record for part in parts for record in part]
    assert len(source) == len(expected)
    assert list(source) == expected
    keys = data.draw(st.lists(st.integers(0, len(expected) - 1), max_size=100)) if expected else []
    wanted = [expected[key] for key in keys]
    assert read_records(source, keys) == wanted
    for repeats in (1, 50):
        assert list(source.read_each(np.array(keys * repeats, np.int64))) == wanted * repeats
    if keys:
        subset, places = SubsetDataSource(source, keys), np.arange(len(keys))[::-1].copy()
        assert list(subset.read_each(places)) == wanted[::-1]


@given(PARTS)
def test_names_change_no_record(parts):
    """A mapping has the records of its values in order; the fingerprint has them by name, without a total."""
    named = {f"part {place}": part for place, part in enumerate(parts)}
    source = ConcatDataSource(named)
    assert source.names == tuple(named) and ConcatDataSource(parts).names is None
    assert list(source) == list(pickle.loads(pickle.dumps(source))) == list(ConcatDataSource(parts))
    said = fingerprint_of(source)
    assert said["sources"] == {name: fingerprint_of(part) for name, part in named.items()}
    assert "records" not in said


def test_what_a_concatenation_is_called():
    """The repr is what was given."""
    assert repr(ConcatDataSource([RangeDataSource(2), [1]])) == (
        f"ConcatDataSource([{RangeDataSource(2)!r}, a list of 1 records])"
    )
    many = {f"{place}": range(place) for place in range(5)}
    assert repr(ConcatDataSource(many)) == (
        "ConcatDataSource({'0': range(0, 0), '1': range(0, 1), '2': range(0, 2), and 2 more})"
    )


def test_reads_of_each_record_stop_at_the_bad_one():
    """The records before it come first, then its own error, as from reads one by one."""

    class Brittle(list):
        def __getitem__(self, key):
            return 60 // (key - 20)

    whole = ConcatDataSource([range(5), Brittle(range(40))])
    for source, ask, before, error in (
        (whole, [3, 44, 25, *range(60)], [3, 3], ZeroDivisionError),
        (whole, [1, 45], [1], IndexError),
        (SubsetDataSource(whole, range(45)), [3, 44, 25], [3, 3], ZeroDivisionError),
        (SubsetDataSource(whole, range(9)), [1, 9], [1], IndexError),
    ):
        records = source.read_each(np.array(ask, np.int64))
        assert [next(records) for _ in before] == before
        with pytest.raises(error):
            next(records)


def test_a_concatenation_reads_each_part_once():
    """A part that can read many records in one call is asked once for all of its own."""
    calls = []

    class Batched:
        def __len__(self):
            return 3

        def __getitem__(self, key):
            raise AssertionError("one by one")

        def __getitems__(self, keys):
            calls.append(keys)
            return [f"record {key}" for key in keys]

    source = ConcatDataSource([RangeDataSource(2), [], Batched()])
    assert source.__getitems__([4, 0, 2, 4]) == ["record 2", 0, "record 0", "record 2"]
    assert calls == [[2, 0, 2]]


@given(st.integers(1, 20), st.data())
def test_a_subset_is_the_chosen_records(n, data):
    """Keys may be a list, an array, a range, a slice or a fraction, with the result of a list of the records."""
    records = [f"record {key}" for key in range(n)]
    keys = data.draw(st.lists(st.integers(0, n - 1), min_size=1))
    start, stop, step = data.draw(st.tuples(*[st.integers(0, n)] * 2, st.integers(-3, 3).filter(bool)))
    fraction = data.draw(st.floats(0.5, 1))
    choices = [
        (keys, [records[key] for key in keys]),
        (np.array(keys, np.uint16), [records[key] for key in keys]),
        (slice(start, stop, step), records[start:stop:step]),
        (range(n)[start:stop:step], records[start:stop:step]),
        (fraction, records[: round(fraction * n)]),
    ]
    for chosen, expected in choices:
        if not expected:
            with pytest.raises(ValueError, match="expected one record or more of a list of"):
                SubsetDataSource(records, chosen)
            continue
        source = SubsetDataSource(records, chosen)
        assert list(source) == expected
        assert read_records(source, range(len(expected))) == expected


@given(st.lists(st.integers(0, 19), min_size=1))
def test_the_same_choice_is_the_same_fingerprint(keys):
    """A list, an array, a range and a slice of the same keys are equal; other keys differ."""
    source = RangeDataSource(20)
    seen = fingerprint_of(SubsetDataSource(source, keys))
    assert seen == fingerprint_of(SubsetDataSource(source, np.array(keys)))
    assert seen != fingerprint_of(SubsetDataSource(source, [*keys, 0]))
    assert seen != fingerprint_of(SubsetDataSource(RangeDataSource(21), keys))
    step = keys[0] % 4 + 1
    written = [range(0, 20, step), list(range(0, 20, step)), slice(None, None, step), slice(0, 25, step)]
    prints = [fingerprint_of(SubsetDataSource(source, choice)) for choice in written]
    assert all(each == prints[0] for each in prints)


def test_a_subset_has_columns_where_its_source_has():
    """take is there for columns, and isn't for a list; its rows are the source's."""
    arrays = ArrayDataSource({"x": np.arange(10) * 10})
    for choice in ([7, 1, 1], slice(2, 8, 3)):
        subset = SubsetDataSource(arrays, choice)
        assert subset.take([1, 0])["x"].tolist() == [subset[1]["x"], subset[0]["x"]]
        out = [np.zeros(2, np.int64)]
        subset.take([1, 0], out=out)
        assert out[0].tolist() == [subset[1]["x"], subset[0]["x"]]
    assert not hasattr(SubsetDataSource([1, 2, 3], 0.5), "take")


class Remote:
    """A source that advises: 4 calls in flight, chunks of 60 records."""

    read_ahead, chunk_records = 4, 60

    def __init__(self, records, chunk=60):
        self.records, self.chunk_records = records, chunk

    def __len__(self):
        return len(self.records)

    def __getitem__(self, key):
        return self.records[key]

    def __getitems__(self, keys):
        return [self.records[key] for key in keys]


def test_what_all_parts_offer_is_passed_on():
    """Bulk reads and chunks where all non-empty parts have them, read-ahead where one asks for it."""
    remote, local = Remote(range(600)), [*range(300)]
    both = ConcatDataSource([remote, [], Remote(range(1200), 20)])
    mixed = ConcatDataSource([remote, local])
    assert many_reader(both)([599, 600, 1799]) == [599, 0, 1199]
    # Beside a list the remote source's reads stay in flight: one record each, so eight times as many.
    assert (advised_calls(both), advised_calls(mixed), advised_calls(ConcatDataSource([local]))) == (4, 32, 0)
    slow = Remote([*range(9)])
    slow.__dict__["__getitems__"] = None  # it has no reads in bulk: its 4 calls are single reads as it is
    assert advised_calls(ConcatDataSource([slow, local])) == 4
    assert many_reader(mixed) is many_reader(SubsetDataSource(mixed, 0.5)) is None
    assert not hasattr(mixed, "__getitems__") and not hasattr(mixed, "chunk_records")
    # 10 chunks of 60 records and 60 of 20.
    assert advised_chunk(both) == round(1800 / 70)
    assert many_reader(SubsetDataSource(both, [5, 700]))([1, 0]) == [100, 5]
    assert advised_calls(SubsetDataSource(both, [5])) == 4
    chunks = {
        (0, 600, 1): 60,
        (0, 600, 4): 15,
        (599, None, -2): 30,
        (10, 20, 1): 60,
    }
    for cut, chunk in chunks.items():
        assert advised_chunk(SubsetDataSource(remote, slice(*cut))) == chunk
    assert advised_chunk(SubsetDataSource(remote, [0, 1, 2, 5, 9])) == 30
    assert advised_chunk(SubsetDataSource(remote, [0, 5, 1])) is None
    assert advised_chunk(SubsetDataSource(local, 0.5)) is None


def test_chunk_bytes_are_passed_on():
    """So `ChunkSampler.over` leaves room for large records also where sources are combined."""
    large, small = Remote(range(600)), Remote(range(1200), 20)
    large.chunk_bytes, small.chunk_bytes = 8 << 20, 1 << 20
    both = ConcatDataSource({"large": large, "none": [], "small": small})
    # 10 chunks of 8 MiB and 60 of 1 MiB.
    assert both.chunk_bytes == 2 << 20
    sampler = ChunkSampler.over(both, cache_bytes=16 << 20, seed=0)
    assert (sampler.chunk, sampler.window) == (both.chunk_records, 4)
    for made in (SubsetDataSource(large, 0.5), MapDataSource(large, str)):
        assert made.chunk_bytes == 8 << 20
    unsaid = Remote(range(9))
    assert not any(
        hasattr(made, "chunk_bytes")
        for made in (
            ConcatDataSource([large, unsaid]),
            SubsetDataSource(unsaid, 0.5),
            MapDataSource(unsaid, str),
        )
    )


COLUMNS = [
    {"x": np.arange(3), "y": np.arange(6.0).reshape(3, 2)},
    {"x": np.arange(4) * 10, "y": np.ones((4, 2))},
]


@given(st.lists(st.integers(0, 6), max_size=12))
def test_columns_of_a_concatenation_are_its_records_stacked(keys):
    """With and without arrays to fill, of one part or of both."""
    source = ConcatDataSource([[], *map(ArrayDataSource, COLUMNS)])
    expected = {
        name: np.array([source[key][name] for key in keys], column.dtype).reshape(-1, *column.shape[1:])
        for name, column in COLUMNS[0].items()
    }
    out = [np.empty_like(column) for column in expected.values()]
    for taken in (source.take(keys), source.take(np.array(keys, np.int64), out=out), dict(zip("xy", out))):
        for name, column in expected.items():
            assert taken[name].dtype == column.dtype
            assert taken[name].tolist() == column.tolist()


@pytest.mark.parametrize(
    "other",
    [
        [1, 2],
        ArrayDataSource({"x": np.arange(3)}),
        ArrayDataSource({"z": COLUMNS[0]["x"], "y": COLUMNS[0]["y"]}),
        ArrayDataSource({"y": COLUMNS[0]["y"], "x": COLUMNS[0]["x"]}),
        ArrayDataSource({**COLUMNS[0], "x": np.arange(3, dtype=np.int32)}),
        ArrayDataSource({**COLUMNS[0], "y": np.zeros((3, 3))}),
        SubsetDataSource([1, 2], 1.0),
    ],
    ids=[
        "no columns",
        "fewer",
        "another name",
        "another order",
        "another dtype",
        "another shape",
        "a subset without",
    ],
)
def test_unlike_columns_are_not_joined(other):
    """Rows are read one by one then, as each part gives them."""
    source = ConcatDataSource([ArrayDataSource(COLUMNS[0]), other])
    assert column_reader(source) is column_reader(pickle.loads(pickle.dumps(source))) is None
    assert list(map(str, source)) == list(map(str, [*ArrayDataSource(COLUMNS[0]), *other]))


def test_a_subset_of_a_concatenation_of_subsets():
    """Sources are made of any sources."""
    evens = SubsetDataSource(RangeDataSource(10), slice(0, None, 2))
    words = InMemoryDataSource(["a", "b", "c"])
    source = SubsetDataSource(ConcatDataSource([evens, words, SubsetDataSource(evens, [4])]), [8, 5, 1])
    assert list(source) == [8, "a", 2]
    assert read_records(source, [2, 1]) == [2, "a"]


@pytest.mark.parametrize(
    "own", [[np.zeros(2), {"x": np.zeros(2)}], (np.zeros(2), [np.zeros(2)]), np.zeros((2, 2))]
)
def test_the_users_own_arrays_come_back_read_only(own):
    """A list gives its own arrays; through a source of ours they are read-only for operations."""
    for source in (ConcatDataSource([own]), SubsetDataSource(own, [1, 0]), SubsetDataSource(own, 1.0)):
        for record in [*source, *read_records(source, [0, 1])]:
            arrays, _ = flatten(record)
            assert not any(array.flags.writeable for array in arrays)
    arrays, _ = flatten(list(own))
    assert all(array.flags.writeable for array in arrays)


def test_they_travel(in_child):
    """A pickle has the parts; a long table of keys travels without a copy."""
    keys = np.random.default_rng(0).permutation(100_000)
    source = ConcatDataSource([SubsetDataSource(RangeDataSource(100_000), keys), InMemoryDataSource(["end"])])

    def look(source):
        return read_records(source, [5, 100_000, 99_999]), source[7], fingerprint_of(source)

    assert in_child(source, look) == look(source)
    assert source[5] == keys[5]
    assert pickle.loads(pickle.dumps(source))[5] == keys[5]


def test_fingerprints_hold_those_of_the_parts():
    """The fingerprints of the parts are in order; a change of a part changes the whole."""
    seen = fingerprint_of(ConcatDataSource([RangeDataSource(2), [1, 2]]))
    assert [part["kind"] for part in seen["sources"]] == ["declared", "foreign"]
    assert seen != fingerprint_of(ConcatDataSource([[1, 2], RangeDataSource(2)]))
    assert seen != fingerprint_of(ConcatDataSource([RangeDataSource(2), [1, 3]]))


@pytest.mark.parametrize("key", [3, -4, 2**70])
def test_a_key_out_of_range(key):
    """IndexError with the key and the length of the whole, before any part is asked."""
    concat = ConcatDataSource([RangeDataSource(1), RangeDataSource(2)])
    subset = SubsetDataSource(RangeDataSource(6), [5, 0, 1])
    for source, name in ((concat, "ConcatDataSource"), (subset, "SubsetDataSource")):
        says = f"record_key: expected an int from {{}} to 2, got {key}; {name}.* has 3 records"
        with pytest.raises(IndexError, match=says.format(-3)):
            source[key]
        with pytest.raises(IndexError, match=says.format(0)):
            source.__getitems__([key])


@pytest.mark.parametrize(
    ("choice", "error", "says"),
    [
        ([0, 6], IndexError, "record_key: expected an int from -6 to 5, got 6; a str of 6 records"),
        ([0, -7], IndexError, "record_key: expected .*, got -7;"),
        (range(-7, 3), IndexError, "record_key: expected .*, got -7;"),
        (range(3, 9), IndexError, "record_key: expected .*, got 8;"),
        (0.0, ValueError, "expected 0 < fraction <= 1, got 0.0"),
        (1.5, ValueError, "expected 0 < fraction <= 1"),
        (0.01, ValueError, "expected one record or more of a str of 6 records, got none with 0.01"),
        ([], ValueError, "expected one record or more"),
        (3, TypeError, "expected integers in one dimension, a range, a slice or a float, got 3"),
        ([[1]], TypeError, "integers in one dimension"),
        ([0.5], TypeError, "record_key: expected an int, got 0.5"),
        (
            np.array([True, False]),
            ValueError,
            "mask: expected 6 bools, one for each record of a str of 6 .*got 2",
        ),
        (np.zeros(6, bool), ValueError, "expected one record or more"),
    ],
)
def test_bad_choices(choice, error, says):
    """Keys that the source lacks, fractions out of range, masks, and what is no choice at all."""
    with pytest.raises(error, match=says):
        SubsetDataSource("abcdef", choice)


def test_what_is_no_source_is_refused():
    """Named by its place."""
    with pytest.raises(
        TypeError, match=r"sources\[1\]: expected an object with __len__ .*got a list_iterator"
    ):
        ConcatDataSource([[1], iter([2])])
    with pytest.raises(ValueError, match="expected one data source or more, got an empty sequence"):
        ConcatDataSource([])
    with pytest.raises(ValueError, match="expected one data source or more, got an empty mapping"):
        ConcatDataSource({})
    with pytest.raises(TypeError, match=r"sources\['two'\]: expected an object with __len__ "):
        ConcatDataSource({"one": [1], "two": iter([2])})
    with pytest.raises(TypeError, match="sources: expected names that are texts, got 1"):
        ConcatDataSource({1: [1]})
    with pytest.raises(TypeError, match=r"source: .*got a dict with the keys 'x'"):
        SubsetDataSource({"x": 1}, 0.5)
