"""ZipDataSource, MapDataSource and the id column: records side by side, behind a function, with their source."""

import functools
import pickle
from collections import UserList

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderkit._source.fingerprint import fingerprint_of
from loaderkit._source.optional import advised_calls, advised_chunk, column_reader, many_reader
from loaderkit.sources import (
    ArrayDataSource,
    ConcatDataSource,
    InMemoryDataSource,
    MapDataSource,
    RangeDataSource,
    SubsetDataSource,
    ZipDataSource,
)
from loaderkit.sources.id_column import IdColumnDataSource


class Bulk(list):
    """Reads in bulk, 4 calls at a time, in chunks of 6."""

    read_ahead, chunk_records = 4, 6

    def __getitem__(self, key):
        return list.__getitem__(self, key)

    def __getitems__(self, keys):
        return [self[key] for key in keys]

    def name(self, record_key):
        return f"bulk-{record_key}"


def columns(n, start=0):
    return {"x": np.arange(start, start + n), "y": np.arange(2.0 * n).reshape(n, 2)}


PARTS = st.integers(1, 9).flatmap(
    lambda n: st.lists(
        st.sampled_from(
            [range(n), Bulk(range(5, n + 5)), [f"text {k}" for k in range(n)], ArrayDataSource(np.arange(n))]
        ),
        min_size=1,
        max_size=3,
    )
)


@given(PARTS, st.data())
def test_records_side_by_side(parts, data):
    """As zip of the sources, alone and in bulk; the options where all parts have them."""
    pairs, named = ZipDataSource(parts), ZipDataSource({f"{k}": part for k, part in enumerate(parts)})
    expected = [*zip(*parts, strict=True)]
    assert list(pairs) == expected and len(pairs) == len(expected)
    assert list(pickle.loads(pickle.dumps(named))) == [
        {f"{k}": value for k, value in enumerate(record)} for record in expected
    ]
    all_bulk = all(isinstance(part, Bulk) for part in parts)
    assert (many_reader(pairs) is not None) == (advised_chunk(pairs) is not None) == all_bulk
    some_bulk = any(isinstance(part, Bulk) for part in parts)
    # Single reads take the place of calls in bulk, so more of them are in flight.
    assert advised_calls(pairs) == (4 if all_bulk else 32 if some_bulk else 0)
    keys = data.draw(st.lists(st.integers(0, len(expected) - 1)))
    if all_bulk:
        assert pairs.__getitems__(keys) == [expected[key] for key in keys]
    assert pairs.name(0) == ("bulk-0" if some_bulk else None)


@given(st.lists(st.integers(0, 4), max_size=9), st.booleans())
def test_columns_side_by_side(keys, named):
    """take gives the stacked records, into given arrays too; a source without columns ends it."""
    parts = {"a": ArrayDataSource(columns(5)), "b": ArrayDataSource(np.arange(5, dtype=np.uint8))}
    source = ZipDataSource(parts if named else [*parts.values()])
    a, b = ("a", "b") if named else (0, 1)
    out = [np.empty(len(keys), np.int64), np.empty((len(keys), 2)), np.empty(len(keys), np.uint8)]
    for taken in (source.take(keys), source.take(keys, out=out)):
        assert taken[a]["x"].tolist() == keys and taken[b].tolist() == keys
        assert taken[a]["y"].tolist() == [[2.0 * key, 2.0 * key + 1] for key in keys]
    assert out[0].tolist() == out[2].tolist() == keys
    assert not hasattr(ZipDataSource([*parts.values(), range(5)]), "take")


def test_sources_of_other_lengths():
    """An error that names both, unless the shortest is asked for."""
    parts = {"images": range(5), "more": range(6), "labels": range(3)}
    with pytest.raises(
        ValueError,
        match=r"sources: expected sources of one length, got 3 records of sources\['labels'\] and 6 of "
        r"sources\['more'\]; strict=False takes the first 3 of each",
    ):
        ZipDataSource(parts)
    with pytest.raises(ValueError, match=r"got 1 records of sources\[1\] and 2 of sources\[0\]"):
        ZipDataSource([[1, 2], [3]])
    source = ZipDataSource(parts, strict=False)
    assert len(source) == 3 and source[2] == {"images": 2, "more": 2, "labels": 2}
    with pytest.raises(IndexError, match="record_key: expected an int from -3 to 2, got 3; ZipDataSource"):
        source[3]
    with pytest.raises(TypeError, match="strict: expected True or False, got 1"):
        ZipDataSource(parts, strict=1)
    with pytest.raises(ValueError, match="sources: expected one data source or more"):
        ZipDataSource([])
    assert (
        repr(source) == "ZipDataSource({'images': range(0, 5), 'more': range(0, 6), 'labels': range(0, 3)})"
    )


@pytest.mark.parametrize("records", [[*range(4)], Bulk(range(4)), InMemoryDataSource(range(4))])
def test_a_function_of_each_record(records):
    """Alone and in bulk; what the source offers stays."""
    source = MapDataSource(records, lambda record: {"twice": 2 * record})
    assert list(source) == [{"twice": 2 * k} for k in range(4)]
    assert (many_reader(source) is None) == (many_reader(records) is None)
    assert advised_calls(source) == advised_calls(records)
    assert advised_chunk(source) == advised_chunk(records)
    assert column_reader(source) is None
    if isinstance(records, Bulk):
        assert source.__getitems__([3, 0]) == [{"twice": 6}, {"twice": 0}]
        assert source.name(1) == "bulk-1"


@pytest.mark.parametrize("kind", [Bulk, list, UserList])
def test_a_function_that_changes_its_record(kind):
    """It gets containers of its own; the source's records stay as they are."""
    held = kind([{"x": 1}, {"x": 2}])

    def pop(record):
        return record.pop("x")

    source = MapDataSource(held, pop)
    many = source.__getitems__ if kind is Bulk else lambda keys: [source[key] for key in keys]
    assert [source[0], *many([0, 1, 1]), source[1]] == [1, 1, 2, 2, 2]
    assert [*held] == [{"x": 1}, {"x": 2}]


def module_function(record, by=1):
    return record * by


class Scale:
    def __call__(self, record):
        return record


def test_functions_in_a_fingerprint():
    """Their names, without module and enclosing functions; another function is another source."""

    def inner(record):
        return record

    functions = {
        "module_function": module_function,
        "inner": inner,
        "<lambda>": lambda record: record,
        "Scale": Scale(),
        "str.upper": str.upper,
        "abs": abs,
    }
    for name, function in functions.items():
        said = fingerprint_of(MapDataSource(range(2), function))
        assert said["function"] == name and said["source"] == fingerprint_of(range(2))
    assert fingerprint_of(MapDataSource(range(2), functools.partial(module_function, by=2)))["function"] == (
        "module_function"
    )
    assert repr(MapDataSource(range(2), abs)) == "MapDataSource(range(0, 2), abs)"


@pytest.mark.parametrize("fn", [3, None, "abs"])
def test_what_is_no_function(fn):
    """Named, with what to give instead."""
    with pytest.raises(TypeError, match=r"fn: expected a function of one record, got .*Decode\(\)\.map"):
        MapDataSource(range(2), fn)


def test_zip_has_the_parts_in_its_fingerprint():
    """By name, or in order."""
    a, b = range(3), RangeDataSource(3)
    assert fingerprint_of(ZipDataSource([a, b]))["sources"] == [fingerprint_of(a), fingerprint_of(b)]
    assert fingerprint_of(ZipDataSource({"a": a, "b": b}))["sources"] == {
        "a": fingerprint_of(a),
        "b": fingerprint_of(b),
    }
    assert fingerprint_of(ZipDataSource([a, range(4)], strict=False)) != fingerprint_of(ZipDataSource([a, a]))


@given(st.lists(st.integers(0, 11), max_size=60))
def test_records_say_their_source(keys):
    """One by one, in bulk and by column, with int32."""
    parts = {"a": [{"x": k, "y": [k, k]} for k in range(5)], "b": [], "c": [{"x": -k} for k in range(7)]}
    source = IdColumnDataSource({name: Bulk(records) for name, records in parts.items()}, "source")
    expected = [{**record, "source": place} for place, name in enumerate(parts) for record in parts[name]]
    wanted = [expected[key] for key in keys]
    for read in (
        [source[key] for key in keys],
        source.__getitems__(keys),
        source.read_each(np.array(keys, int)),
    ):
        read = [*read]
        assert read == wanted
        assert all(type(record["source"]) is np.int32 and [*record][-1] == "source" for record in read)
    by_column = IdColumnDataSource(
        {"a": ArrayDataSource(columns(5)), "b": ArrayDataSource(columns(7, 5))}, "of"
    )
    out = [np.empty(len(keys), np.int64), np.empty((len(keys), 2)), np.empty(len(keys), np.int32)]
    for taken in (by_column.take(keys), by_column.take(keys, out=out)):
        assert taken["x"].tolist() == keys and taken["of"].dtype == np.int32
        assert taken["of"].tolist() == [int(key > 4) for key in keys]
    if keys:
        assert out[2].tolist() == taken["of"].tolist()
    again = pickle.loads(pickle.dumps(source))
    assert [again[key] for key in keys] == wanted


def test_ids_in_the_fingerprint():
    """The key, and which number a name has."""
    one, other = ({n: [{"x": n}] for n in names} for names in ("ab", "ba"))
    plain = fingerprint_of(ConcatDataSource(one))
    assert {**plain, "names": ["b", "a"]} == fingerprint_of(ConcatDataSource(other))
    said = fingerprint_of(IdColumnDataSource(one, "source"))
    numbered = {name: {**plain["sources"][name], "id": place} for place, name in enumerate("ab")}
    assert said == {**plain, "sources": numbered, "id_key": "source"}
    assert said != fingerprint_of(IdColumnDataSource(other, "source"))


@pytest.mark.parametrize("kind", [list, Bulk])
def test_records_without_room_for_an_id(kind):
    """Those that aren't dicts, and those that have the key, are named with their source."""
    source = IdColumnDataSource({"texts": kind(["a"]), "tables": kind([{"source": 1}])}, "source")
    read = source.__getitems__ if kind is Bulk else lambda keys: [source[key] for key in keys]
    with pytest.raises(
        TypeError, match=r"id_key: expected records that are dicts, got a str of 'texts'; make dicts"
    ):
        read([0])
    with pytest.raises(
        ValueError, match=r"id_key: expected a key that records lack, got 'source', .* of 'tables' has"
    ):
        read([1])
    with pytest.raises(TypeError, match="id_key: expected a text, got 3"):
        IdColumnDataSource({"a": [1]}, 3)
    # A key that records have can't be a column either, so rows are read one by one and say why.
    assert column_reader(IdColumnDataSource({"a": ArrayDataSource(columns(2))}, "x")) is None


def test_many_records_in_one_call_and_their_keys():
    """Of a function with `map_many`, as record by record; a new record without room for the key is named."""

    class Doubles:
        calls = ()

        def __call__(self, record):
            return {"x": 2 * record}

        def map_many(self, records):
            self.calls += (len(records),)
            return list(map(self, records))

    double = Doubles()
    source = MapDataSource(RangeDataSource(10, 20), double, key_name="key")
    wanted = [{"x": 2 * key + 20, "key": key} for key in (3, 0, 9)]
    assert source.__getitems__([3, 0, 9]) == wanted == [source[key] for key in (3, 0, 9)]
    assert double.calls == (3,)
    assert fingerprint_of(source) != fingerprint_of(MapDataSource(RangeDataSource(10, 20), double))
    for name, function, got in (("x", double, r"a dict of \['x'\]"), ("key", str, "a str")):
        with pytest.raises(
            ValueError, match=f"key_name: expected new records, .* without '{name}', got {got}"
        ):
            MapDataSource(RangeDataSource(10, 20), function, key_name=name)[0]


def test_sources_made_of_each_other():
    """A subset of a zip of maps."""
    source = SubsetDataSource(
        ZipDataSource([MapDataSource(range(9), str), ConcatDataSource([range(4), "abcde"])]), [8, 3]
    )
    assert list(source) == [("8", "e"), ("3", 3)]
