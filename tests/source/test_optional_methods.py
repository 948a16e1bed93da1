"""take and __getitems__ are used only if they are a source's own, never another library's of the same name."""

import abc
import gc
import weakref
from typing import Any

import numpy as np
import pytest

import loaderkit as lk
from loaderkit._source.optional import column_reader, many_reader


class Rows:
    """Row k is k times 10, as columns and as many at a time, too; it counts what is called."""

    def __init__(self):
        self.called = []

    def __len__(self):
        return 6

    def __getitem__(self, key):
        return key * 10

    def __getitems__(self, keys):
        self.called.append("__getitems__")
        return [key * 10 for key in keys]

    def take(self, record_keys, out=None):
        self.called.append("take")
        columns = np.asarray(record_keys) * 10
        if out is not None:
            out[0][...] = columns
        return columns


def batches(source, **options):
    with lk.load(source, num_epochs=1, batch_size=4, **options) as loader:
        return [batch.tolist() for batch in loader]


def test_a_source_that_follows_the_protocol_is_read_by_column():
    """Nothing has to be inherited or registered: the name and `out` are enough."""
    source = Rows()
    assert batches(source) == [[0, 10, 20, 30], [40, 50]]
    assert set(source.called) == {"take"}
    around = lk.SubsetDataSource(source, [5, 1])
    assert batches(around) == [[50, 10]]
    assert set(source.called) == {"take"}


def own_take(cls, take):
    return type(
        "Own", (cls,), {"take": take, "__getitem__": Rows.__getitem__, "__getitems__": Rows.__getitems__}
    )


OURS = [
    lambda self, record_keys, out=None: 0,
    lambda self, keys, *, out=None: 0,
    lambda self, keys, out=None, mode="clip", **more: 0,
]
OTHERS = [
    lambda self, n: 0,  # Hugging Face's: the first n records
    lambda self, indices, axis=0, **kwargs: 0,  # pandas'
    lambda self, indices, axis=None, out=None, mode="raise": 0,  # numpy's and JAX's
    lambda self, indices, axis=None, out=None: 0,
    lambda self, indices: 0,  # pyarrow's
    lambda self, *args, **kwargs: 0,
    lambda self, keys, out: 0,
    lambda self, *, keys, out=None: 0,
    lambda self: 0,
    7,
]


@pytest.mark.parametrize("take", OURS)
def test_our_take_is_known_by_its_signature(take):
    """Its second parameter is out, passed by position or by name."""
    assert column_reader(own_take(Rows, take)()) is not None


@pytest.mark.parametrize("take", OTHERS)
@pytest.mark.parametrize("worker_kind", [None, "thread"])
def test_another_librarys_take_is_never_called(take, worker_kind):
    """Nor is it called through a subset; the rows are read one by one instead."""
    source = own_take(Rows, take)()
    assert column_reader(source) is None
    assert not hasattr(lk.SubsetDataSource(source, [1]), "take")
    options: dict[str, Any] = {"worker_count": 1, "worker_kind": worker_kind} if worker_kind else {}
    assert batches(source, **options) == [[0, 10, 20, 30], [40, 50]]


@pytest.mark.parametrize("worker_kind", [None, "thread"])
def test_an_array_of_several_dimensions_is_batched_by_rows(worker_kind):
    """numpy's take would pick single elements of the flattened array."""
    rows = np.arange(24).reshape(6, 2, 2)
    options: dict[str, Any] = {"worker_count": 1, "worker_kind": worker_kind} if worker_kind else {}
    assert batches(rows, **options) == [rows[:4].tolist(), rows[4:].tolist()]
    assert batches(lk.SubsetDataSource(rows, [5, 0]), **options) == [rows[[5, 0]].tolist()]


# --- what a class inherits ----------------------------------------------------------------------------------


class Shifted(Rows):
    """A subclass with other records; the methods that it inherits read those of Rows."""

    def __getitem__(self, key):
        return key * 10 + 1


class ShiftedColumns(lk.ArrayDataSource):
    def __getitem__(self, key):
        return super().__getitem__(key) + 1


class ShiftedRange(lk.RangeDataSource):
    def __getitem__(self, key):
        return super().__getitem__(key) * 10 + 1


SHIFTED = [Shifted, lambda: ShiftedColumns(np.arange(6) * 10), lambda: ShiftedRange(6)]


@pytest.mark.parametrize("make", SHIFTED, ids=["of the user's", "ArrayDataSource", "RangeDataSource"])
def test_what_was_written_for_other_records_is_not_inherited(make):
    """A class that replaces __getitem__ alone is read by it, with and without a Batch, through combinations, too."""
    expected = [[1, 11, 21, 31], [41, 51]]
    assert batches(make()) == expected
    assert batches(make(), operations=[lambda x: x]) == expected
    assert batches(lk.ConcatDataSource([make()])) == expected
    assert batches(lk.SubsetDataSource(make(), slice(None))) == expected
    assert many_reader(make()) is column_reader(make()) is None


def test_what_reads_by_a_classs_own_getitem_is_inherited():
    """A base without records of its own, or with abstract ones, can't read other records."""

    class Mixin:
        def __getitems__(self, keys):
            return [self[key] for key in keys]

    class Base(Mixin, abc.ABC):
        @abc.abstractmethod
        def __getitem__(self, key): ...

        def take(self, record_keys, out=None):
            return np.array([self[key] for key in record_keys])

    class Tens(Base):
        def __len__(self):
            return 6

        def __getitem__(self, key):
            return key * 10

    class More(Rows):
        pass

    for source in (Tens(), More()):
        assert many_reader(source)([3]) == [30]
        assert column_reader(source)([3]).tolist() == [30]


def test_what_a_wrapper_hands_on_is_not_its_own():
    """__getattr__ gives the methods of what is wrapped, whose records may be other ones."""

    class Doubled:
        def __init__(self, source):
            self.source = source

        def __len__(self):
            return len(self.source)

        def __getitem__(self, key):
            return 2 * self.source[key]

        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return getattr(self.source, name)

    source = Doubled(Rows())
    assert callable(source.take)
    assert column_reader(source) is None
    assert batches(source) == [[0, 20, 40, 60], [80, 100]]


def test_what_an_object_is_given_is_its_own():
    """A method that was set on the object is used."""
    source = ShiftedRange(6)
    source.take = lambda record_keys, out=None: np.asarray(record_keys) * 10 + 1
    assert column_reader(source)([3]).tolist() == [31]


def test_grains_source_still_reads_many_records_in_one_call(tmp_path, write_records):
    """It has a __getitem__ of its own, which reads the same records."""
    from loaderkit.interop.grain.sources import ArrayRecordDataSource

    source = ArrayRecordDataSource(write_records(tmp_path / "a", [b"a", b"b"]))
    assert many_reader(source)([1, 0]) == [b"b", b"a"]


def test_the_class_of_a_source_goes_with_it():
    """A class of a notebook's or a script's holds, by its methods, all that the script has: its data too."""

    class Own:
        def __len__(self):
            return 4

        def __getitem__(self, key):
            return key

    own = weakref.ref(Own)
    loader = lk.load(lk.ConcatDataSource([Own(), Own()]), num_epochs=1, batch_size=4)
    assert [batch.tolist() for batch in loader] == [[0, 1, 2, 3], [0, 1, 2, 3]]
    del Own, loader
    gc.collect()
    assert own() is None
