"""What every source shares: which objects are sources, and which keys they have."""

import os
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import loaderkit as lk
from loaderkit._source.protocol import RandomAccessDataSource, read_records
from loaderkit._source.record_key import check_key, check_keys, short_repr
from loaderkit.sources import ConcatDataSource, RangeDataSource, SubsetDataSource
from loaderkit.sources.checked import check_source


class Squares:
    def __len__(self):
        return 10

    def __getitem__(self, key):
        return key * key


class Unreadable:
    def __len__(self):
        return 3


@pytest.mark.parametrize("source", [Squares(), [1], (1,), np.zeros(2), range(3), RangeDataSource(3)])
def test_anything_with_len_and_getitem_is_a_source(source):
    """Nothing has to be inherited or registered."""
    check_source(source)
    assert isinstance(source, RandomAccessDataSource)


@pytest.mark.parametrize(
    ("source", "error", "says"),
    [
        (
            "train-*.array_record",
            TypeError,
            r".* got 'train-\*.array_record', .* by character; .* lk.open\('train-.*'\)$",
        ),
        (b"records", TypeError, ".*got b'records', which would be read character by character"),
        (
            Path("train-*.array_record"),
            TypeError,
            r".*got the path 'train-\*.array_record'; .* lk.open\('train-\*.array_record'\)$",
        ),
        (
            Path("it's here"),
            TypeError,
            r".*got the path \"it's here\"; for files .* write lk.open\(\"it's here\"\)$",
        ),
        ("a" * 100, TypeError, r".*got 'a{79}, .*; for files .* write lk.open\('a{100}'\)$"),
        ("a" * 5000, TypeError, r".*got 'a{79}, .*; for files .* write lk.open\(path\)$"),
        (iter([1, 2]), TypeError, "expected an object with __len__ and __getitem__, got a list_iterator"),
        ({1, 2}, TypeError, "expected an object with __getitem__, got a set"),
        (Unreadable(), TypeError, "expected an object with __getitem__, got a Unreadable"),
        (None, TypeError, "expected an object with __len__ and __getitem__, got a NoneType"),
        (Squares, TypeError, r"expected an object, got the class Squares; give Squares\(\.\.\.\)"),
        ({"train": [1], "test": [2]}, TypeError, r".*got a dict with the keys 'train', 'test'.*a split"),
        ([], ValueError, "expected one record or more, got a list of 0 records"),
        (RangeDataSource(0), ValueError, r".*got RangeDataSource\(start=0, stop=0, step=1\), which is empty"),
    ],
)
def test_what_is_no_source_is_refused(source, error, says):
    """The error names what it lacks, and what to do."""
    with pytest.raises(error, match=f"data_source: {says}"):
        check_source(source)


@pytest.mark.parametrize("kind", [str, Path])
def test_a_folder_is_answered_with_what_opens_it(kind, tmp_path):
    """What the error says can be pasted: the names in the folder, and no PosixPath(...)."""
    with pytest.raises(TypeError) as error:
        check_source(kind(tmp_path))
    assert str(error.value).endswith(f"; for files and data sets write lk.open('{tmp_path}')")


@pytest.mark.parametrize("path", ["train-{000..063}.tar", "https://host/a.tar?token=x.y", "digits", b"x.csv"])
def test_a_path_is_answered_with_what_opens_it(path):
    """Files and data sets."""
    with pytest.raises(TypeError) as error:
        check_source(path)
    assert str(error.value).endswith(f"; for files and data sets write lk.open({os.fsdecode(path)!r})")


X, Y = np.arange(6.0).reshape(3, 2), np.arange(3)
MEASURED = {"worker_count": 0}
# Everything that takes a data source by hand, as a function of the source and a folder that gives all records.
TAKERS = {
    "load": lambda source, _: list(lk.load(source, num_epochs=1)),
    "DataLoader": lambda source, _: list(lk.DataLoader(data_source=source, sampler=IN_ORDER, operations=[])),
    "MapDataSource": lambda source, _: list(lk.MapDataSource(source, lambda record: record)),
    "SubsetDataSource": lambda source, _: list(lk.SubsetDataSource(source, range(3))),
    "CachedDataSource": lambda source, _: list(lk.CachedDataSource(source)),
    "WindowDataSource": lambda source, _: [
        each for window in lk.sources.WindowDataSource(source, 1) for each in unstacked(window)
    ],
    "ConcatDataSource": lambda source, _: list(lk.ConcatDataSource([source])),
    "ZipDataSource": lambda source, _: [record for (record,) in lk.ZipDataSource([source])],
    "mix": lambda source, _: in_order(lk.mix({"a": source}, {"a": 1}, num_epochs=1, when_exhausted="stop")),
    "interleave": lambda source, _: in_order(lk.interleave([source], cycle_length=1, num_epochs=1)),
    "balance": lambda source, _: in_order(
        lk.balance(source, [0, 0, 0], shuffle=False, seed=None, num_epochs=1, when_exhausted="stop")
    ),
    "write": lambda source, path: list(read_written(source, path)),
    "measure": lambda source, path: [*lk.offline.measure(source, lambda r: int(r["y"]), path / "m.npy", **MEASURED)],
    "column_stats": lambda source, _: [lk.offline.column_stats(source, **MEASURED)["columns"]["y"]["max"]],
    "map_shards": lambda source, _: lk.offline.map_shards(
        lambda r: [int(r["y"])], source, version=1, reduce=lambda a, b: a + b, **MEASURED
    ),
}  # fmt: skip
IN_ORDER = lk.IndexSampler(3, num_epochs=1)


def in_order(made):
    source, sampler = made
    return list(lk.DataLoader(data_source=source, sampler=sampler, operations=[]))


def unstacked(window):
    return [{name: leaf[0] for name, leaf in window.items()}]


def read_written(source, path):
    lk.write(source, path / "a.jsonl", worker_count=0)
    return lk.JsonLinesDataSource(path / "a.jsonl")


@pytest.mark.parametrize("name", TAKERS)
def test_arrays_are_columns_or_records_and_never_guessed(name, tmp_path):
    """A dict of arrays of one length is columns, everywhere; a tuple of them is refused with both readings."""
    found = TAKERS[name]({"x": X, "y": Y}, tmp_path)
    if isinstance(found[0], dict):
        assert [(record["x"].tolist(), int(record["y"])) for record in found] == [
            ([0, 1], 0),
            ([2, 3], 1),
            ([4, 5], 2),
        ]
    else:
        assert found == {"measure": [0, 1, 2], "column_stats": [2], "map_shards": [0, 1, 2]}[name]
    for pair in ((X, Y), (jnp.asarray(X), Y)):
        with pytest.raises(
            TypeError, match=r"a tuple of 2 arrays of 3 rows.*ArrayDataSource\(\{'x': t\[0\].*list\(t\)"
        ):
            TAKERS[name](pair, tmp_path)


@pytest.mark.parametrize(
    "source",
    [[X, Y], (X, Y[:2]), (X,), (1, 2), (np.float32(1), np.float32(2)), ("a", "b"), [(X, Y)]],
    ids=repr,
)
def test_a_list_is_records_always(source):
    """So is a tuple of anything else."""
    assert list(map(repr, lk.load(source, num_epochs=1))) == list(map(repr, source))


@pytest.mark.parametrize("source", [{"x": X, "y": [1, 2, 3]}, {"x": 1.0}, {"a": {"x": X}}, {}])
def test_a_dict_of_anything_else_is_no_source(source):
    with pytest.raises(
        TypeError, match=r"got a dict with the keys.*or give arrays of one length, which are columns"
    ):
        lk.load(source)


def test_a_path_among_sources_is_no_source_either():
    """The same advice where sources are put together."""
    path = Path("part.array_record")
    for of in (lambda: ConcatDataSource([[1], path]), lambda: SubsetDataSource(path, [0])):
        with pytest.raises(TypeError, match=r"write lk.open\('part.array_record'\)$"):
            of()


KEYS = st.integers(-(2**70), 2**70) | st.integers(-3, 12)


@given(st.lists(KEYS, max_size=8), st.integers(0, 10))
def test_many_keys_are_checked_as_one_by_one(keys, num_records):
    """check_keys gives the same keys, or the same error for the first bad one, as check_key in a loop.

    Keys below 0 count from the end where that is asked for, and are errors where keys come from a sampler or a list.
    """
    for least in (-num_records, 0):
        bad = [key for key in keys if not least <= key < num_records]
        if bad:
            with pytest.raises(
                IndexError, match=f"from {least} to {num_records - 1}, got {bad[0]}; "
            ) as many:
                check_keys(keys, num_records, "source", from_end=least < 0)
            if least:
                with pytest.raises(IndexError) as one:
                    check_key(bad[0], num_records, "source")
                assert str(many.value) == str(one.value)
        else:
            checked = check_keys(keys, num_records, "source", from_end=least < 0)
            assert checked.dtype == np.int64
            records = range(num_records)
            assert checked.tolist() == [records[key] for key in keys]
            assert checked.tolist() == [check_key(key, num_records, "source") for key in keys]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64, np.int64])
def test_keys_of_any_integer_type(dtype):
    """An array of any integer dtype is as good as a list."""
    keys = np.array([3, 0, 9], dtype)
    assert check_keys(keys, 10, "source").tolist() == [3, 0, 9]
    assert check_key(keys[2], 10, "source") == 9
    with pytest.raises(IndexError, match=r"record_key: expected .*, got 9;"):
        check_keys(keys, 9, "source")


@pytest.mark.parametrize("keys", [[[1, 2]], 3, [1.0], ["1"], [None]])
def test_keys_that_are_no_integers(keys):
    """TypeError rather than a rounded or flattened key."""
    with pytest.raises(TypeError):
        check_keys(keys, 10, "source")


def test_records_are_read_in_one_call_where_that_is_offered():
    """A source with __getitems__ gets all keys at once, as Python ints; another is read one by one."""
    calls = []

    class Batched(Squares):
        def __getitems__(self, keys):
            calls.append(keys)
            return [key * key for key in keys]

    assert read_records(Batched(), [3, 1]) == read_records(Squares(), [3, 1]) == [9, 1]
    assert calls == [[3, 1]]


def test_a_batched_read_that_gives_another_number_of_records():
    """It is an error: records and keys can't be matched."""

    class Short(Squares):
        def __getitems__(self, keys):
            return [0]

    with pytest.raises(ValueError, match=r"Short\.__getitems__: expected 2 records, .*got 1"):
        read_records(Short(), [3, 1])


def test_a_source_in_an_error_is_never_its_data():
    """The message stays short, even for a huge list or repr."""
    assert short_repr(list(range(10**6))) == "a list of 1000000 records"
    assert short_repr(np.zeros((50, 3))) == "a ndarray of 50 records"

    class Talkative(Squares):
        def __repr__(self):
            return "x" * 1000

    assert short_repr(Talkative()) == "a Talkative of 10 records"
