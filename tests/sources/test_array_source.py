"""ArrayDataSource: columns in shared memory or in files, read one row or many at a time."""

import os
import pickle
from collections import namedtuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from loaderkit._base.tree import flatten
from loaderkit._source.fingerprint import fingerprint_of
from loaderkit.sources import ArrayDataSource

DTYPES = npst.integer_dtypes() | npst.floating_dtypes() | npst.boolean_dtypes() | npst.datetime64_dtypes()


@st.composite
def columns(draw):
    n = draw(st.integers(1, 5))
    shapes = st.sampled_from([(n,), (n, 0), (n, 3), (n, 2, 2)])
    arrays = npst.arrays(DTYPES, shapes)
    arrays |= arrays.map(lambda array: array[::-1])
    dicts = st.dictionaries(st.sampled_from("abc"), arrays, min_size=1)
    return draw(dicts | st.tuples(arrays, st.lists(arrays)) | arrays)


@given(columns(), st.data())
def test_rows_many_rows_and_numpy_agree(tree, data):
    """source[k] is row k of each array; take(keys) is those rows stacked, whatever the layout of the "
    "arrays."""
    source = ArrayDataSource(tree)
    arrays, structure = flatten(tree)
    assert len(source) == len(arrays[0])
    keys = data.draw(st.lists(st.integers(0, len(source) - 1), max_size=8))
    taken, taken_structure = flatten(source.take(keys))
    out = [np.zeros_like(array, shape=(len(keys), *array.shape[1:])) for array in arrays]
    filled = flatten(source.take(np.array(keys, np.int32), out=out))[0]
    assert taken_structure == structure
    for array, got, place, back in zip(arrays, taken, out, filled, strict=True):
        expected = array[np.array(keys, int)]
        assert (got.dtype, got.shape, got.tobytes()) == (expected.dtype, expected.shape, expected.tobytes())
        assert back is place
        assert place.tobytes() == expected.tobytes()
    for key in keys:
        for array, leaf in zip(arrays, flatten(source[key])[0], strict=True):
            assert np.asarray(leaf).tobytes() == array[key].tobytes()
            assert not (isinstance(leaf, np.ndarray) and leaf.flags.writeable)


def test_columns_are_taken_when_it_is_made():
    """Later changes of the user's array don't reach the source, and the array stays writable."""
    array = np.zeros((3, 2))
    source = ArrayDataSource({"x": array})
    array[:] = 1
    assert source[0]["x"].tolist() == [0, 0]


def test_lists_are_arrays_too():
    """What np.asarray makes an array of is a column."""
    source = ArrayDataSource({"x": np.array([1, 2]), "y": np.array(["a", "b"])})
    assert source[1] == {"x": 2, "y": "b"}


def test_it_travels_to_a_worker_without_a_copy(in_child):
    """The worker maps the same memory, and can't write in it either."""
    source = ArrayDataSource({"x": np.arange(2_000_000).reshape(1000, 2000), "y": np.arange(1000)})

    def look(source):
        x, y = source[7].values()
        return os.fstat(source._columns._copied._buffer._fd).st_ino, int(x.sum()), int(y), x.flags.writeable

    assert in_child(source, look) == look(source)
    assert pickle.loads(pickle.dumps(source)).take([3])["x"].tolist() == source.take([3])["x"].tolist()


class TestMemmaps:
    """A memmap stays in its file, and travels as the file's name and its place there."""

    @pytest.fixture
    def path(self, tmp_path):
        path = tmp_path / "data.npy"
        np.save(path, np.arange(12_000, dtype=np.int32).reshape(3000, 4))
        return path

    @pytest.mark.parametrize(
        "part",
        [
            lambda array: array,
            lambda array: array[2500:],
            lambda array: array[5:2000:7],
            lambda array: array[::-1],
            lambda array: array[:, 1:3],
            lambda array: array[1000:][:, 2],
            lambda array: np.asarray(array)[100:],
            lambda array: array.view(np.int16)[1500:, ::2],
            lambda array: array.T[:, 1024:],
            lambda array: array[:, :0],
        ],
    )
    def test_any_part_of_a_file(self, path, part, in_child):
        """Slices keep their place, here and in a worker."""
        array = part(np.load(path, mmap_mode="r"))
        source = ArrayDataSource({"x": array})
        expected = array.tolist()
        assert [row["x"].tolist() for row in source] == expected
        assert in_child(source, lambda source: source.take(range(len(source)))["x"].tolist()) == expected

    def test_nothing_is_copied(self, path):
        """The source's pickle has no data in it, and what others write in the file is seen."""
        array = np.load(path, mmap_mode="r+")
        source = ArrayDataSource({"x": array})
        assert len(pickle.dumps(source)) < 2000
        array[3] = -5
        assert source[3]["x"].tolist() == [-5] * 4
        assert not source[3]["x"].flags.writeable

    def test_private_changes_are_kept(self, path, in_child):
        """A copy-on-write map has changes that the file lacks, so it is copied."""
        array = np.load(path, mmap_mode="c")
        array[3] = -5
        source = ArrayDataSource({"x": array})
        assert in_child(source, lambda source: source[3]["x"].tolist()) == [-5] * 4

    def test_a_file_that_is_gone_or_cut(self, path):
        """A worker that opens it again names the file."""
        content = pickle.dumps(ArrayDataSource({"x": np.load(path, mmap_mode="r")}))
        os.truncate(path, 1000)
        with pytest.raises(ValueError, match=r"data\.npy: expected an array .* got a file of 1000 bytes"):
            pickle.loads(content)
        path.unlink()
        with pytest.raises(FileNotFoundError, match=r"data\.npy"):
            pickle.loads(content)

    def test_a_memmap_is_the_same_data_as_an_array(self, path):
        """The fingerprint is the content, wherever it lies."""
        array = np.load(path, mmap_mode="r")
        assert fingerprint_of(ArrayDataSource([array])) == fingerprint_of(ArrayDataSource([np.array(array)]))


Pair = namedtuple("Pair", "left right")


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"x": np.zeros(3), "y": np.zeros(4)}, ValueError, r"same number of.*\['x'\]\": 3.*\['y'\]\": 4"),
        ({"x": 1.5}, ValueError, r"columns\['x'\]: expected an array of rows, got 1.5"),
        ({}, ValueError, "expected one array or more"),
        (
            {"x": np.array([None])},
            TypeError,
            r"columns\['x'\]: expected .* Python objects.*InMemoryDataSource",
        ),
        (Pair(np.zeros(1), np.ma.zeros(1)), TypeError, r"columns\.right: .* masked array.*filled"),
    ],
)
def test_bad_columns(given, error, says):
    """Named by their place in the tree."""
    with pytest.raises(error, match=says):
        ArrayDataSource(given)


@pytest.mark.parametrize("key", [3, -4])
def test_a_key_out_of_range(key):
    """IndexError with the key, the length and the source, for one row and for many."""
    source = ArrayDataSource({"x": np.zeros((3, 2))})
    says = (
        rf"record_key: .* (0|-3) to 2, got {key}; ArrayDataSource\(\['x'\]: float64\(3, 2\)\) has 3 records"
    )
    with pytest.raises(IndexError, match=says):
        source[key]
    with pytest.raises(IndexError, match=says):
        source.take([0, key])


def test_the_fingerprint_tells_other_columns():
    """Another value, dtype, shape or name is other data."""
    x = np.arange(6)
    columns = [x, x + 1, x.astype(np.int32), x.reshape(6, 1), x[:5]]
    seen = [fingerprint_of(ArrayDataSource(tree)) for tree in [*({"x": c} for c in columns), {"y": x}]]
    assert all(a != b for i, a in enumerate(seen) for b in seen[:i])
    assert fingerprint_of(ArrayDataSource({"x": x.copy()})) == seen[0]
