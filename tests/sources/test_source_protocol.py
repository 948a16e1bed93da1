"""What every source shares: which objects are sources, and which keys they have."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderkit.sources import ConcatDataSource, RandomAccessDataSource, RangeDataSource, SubsetDataSource
from loaderkit.sources.protocol import check_key, check_keys, check_source, read_records, short_repr


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
            r".* got 'train-\*.array_record', .* by character; .* lk.ArrayRecordDataSource\('train-.*'\)$",
        ),
        (b"records", TypeError, ".*got b'records', which would be read character by character"),
        (
            Path("train-*.array_record"),
            TypeError,
            r".*got the path 'train-\*.array_record'; .* lk.ArrayRecordDataSource\('train-\*.array_record'\)$",
        ),
        (
            Path("it's here"),
            TypeError,
            r".*got the path \"it's here\"; for files write lk.ArrayRecordDataSource\(\"it's here\"\)$",
        ),
        ("a" * 100, TypeError, r".*got 'a{79}, .*; for files write lk.ArrayRecordDataSource\('a{100}'\)$"),
        ("a" * 5000, TypeError, r".*got 'a{79}, .*; for files write lk.ArrayRecordDataSource\(paths\)$"),
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
def test_a_folder_is_answered_with_its_files(kind, tmp_path):
    """What the error says can be pasted: the names in the folder, and no PosixPath(...)."""
    with pytest.raises(TypeError) as error:
        check_source(kind(tmp_path))
    assert str(error.value).endswith(f"; for its files write lk.ArrayRecordDataSource('{tmp_path}/*')")


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("train-{000..063}.tar", "Tar"),
        ("https://host/a.tar?token=x.y", "Tar"),
        ("a.tfrecord-00000-of-00064", "TFRecord"),
        ("a.TFRecord@8", "TFRecord"),
        ("a.tar.jsonl", "JsonLines"),
        ("b.csv[0:10]", "Csv"),
        ("c.txt", "Lines"),
        ("c.array_record", "ArrayRecord"),
        ("c.csvs", "ArrayRecord"),
    ],
)
def test_a_path_is_answered_with_the_source_of_its_files(path, source, tmp_path):
    """By the last extension that is known; a folder's, by that of its first file that has one."""
    with pytest.raises(TypeError) as error:
        check_source(path)
    assert str(error.value).endswith(f"; for files write lk.{source}DataSource({path!r})")
    if "/" not in path and not path.endswith("s"):
        (tmp_path / "README").touch()
        (tmp_path / path).touch()
        with pytest.raises(TypeError, match=rf"lk.{source}DataSource\('{tmp_path}/\*\.\w+\*'\)"):
            check_source(tmp_path)


def test_a_path_among_sources_is_no_source_either():
    """The same advice where sources are put together."""
    path = Path("part.array_record")
    for of in (lambda: ConcatDataSource([[1], path]), lambda: SubsetDataSource(path, [0])):
        with pytest.raises(TypeError, match=r"write lk.ArrayRecordDataSource\('part.array_record'\)$"):
            of()


KEYS = st.integers(-(2**70), 2**70) | st.integers(-3, 12)


@given(st.lists(KEYS, max_size=8), st.integers(0, 10))
def test_many_keys_are_checked_as_one_by_one(keys, num_records):
    """check_keys gives the same keys, or the same error for the first bad one, as check_key in a loop."""
    bad = [key for key in keys if not 0 <= key < num_records]
    if bad:
        with pytest.raises(IndexError) as one:
            check_key(bad[0], num_records, "source")
        with pytest.raises(IndexError) as many:
            check_keys(keys, num_records, "source")
        assert str(many.value) == str(one.value)
    else:
        checked = check_keys(keys, num_records, "source")
        assert checked.dtype == np.int64
        assert checked.tolist() == keys == [check_key(key, num_records, "source") for key in keys]


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
