"""Data sets of other libraries are sources by their __len__ and __getitem__."""

import numpy as np
import pytest

from loaderkit._source.fingerprint import fingerprint_of
from loaderkit._source.protocol import read_records
from loaderkit.sources import ConcatDataSource, SubsetDataSource
from loaderkit.sources.checked import check_source


class HuggingFaceLike:
    """What `datasets.Dataset` does: keys are checked to be ints, and a list of keys gives a dict of columns."""

    def __init__(self, columns):
        self.columns = columns

    def __len__(self):
        return len(self.columns["text"])

    def __getitem__(self, key):
        if isinstance(key, list):
            return {name: [column[k] for k in key] for name, column in self.columns.items()}
        assert type(key) is int
        return {name: column[key] for name, column in self.columns.items()}

    def __getitems__(self, keys):
        batch = self[keys]
        return [{name: column[i] for name, column in batch.items()} for i in range(len(keys))]

    def __repr__(self):
        return f"Dataset({{\n    features: {list(self.columns)},\n    num_rows: {len(self)}\n}})"


def hugging_face():
    return HuggingFaceLike({"text": [f"text {i}" for i in range(6)], "label": list(range(6))})


def torch_map_style():
    torch = pytest.importorskip("torch")

    class Squares(torch.utils.data.Dataset):
        def __len__(self):
            return 6

        def __getitem__(self, key):
            return key * key, f"{key}"

    return Squares()


def torch_subset():
    torch = pytest.importorskip("torch")
    return torch.utils.data.Subset(torch_map_style(), [5, 4, 3, 2, 1, 0])


def torch_tensors():
    torch = pytest.importorskip("torch")
    return torch.utils.data.TensorDataset(torch.arange(6), torch.arange(12).reshape(6, 2))


class TensorsLike:
    """What `torch.utils.data.TensorDataset` does: a tuple of the rows of several arrays."""

    def __init__(self, *tensors):
        self.tensors = tensors

    def __len__(self):
        return len(self.tensors[0])

    def __getitem__(self, key):
        return tuple(tensor[key] for tensor in self.tensors)


class SubsetLike:
    """What `torch.utils.data.Subset` does: `__getitems__` asks for the data set's, if it has one."""

    def __init__(self, dataset, indices):
        self.dataset, self.indices = dataset, indices

    def __len__(self):
        return len(self.indices)

    def __getitem__(self, key):
        if isinstance(key, list):
            return self.dataset[[self.indices[k] for k in key]]
        return self.dataset[self.indices[key]]

    def __getitems__(self, keys):
        if callable(getattr(self.dataset, "__getitems__", None)):
            return self.dataset.__getitems__([self.indices[key] for key in keys])
        return [self.dataset[self.indices[key]] for key in keys]


def tensors_like():
    return TensorsLike(np.arange(6), np.arange(12).reshape(6, 2))


def subset_of_tensors_like():
    return SubsetLike(tensors_like(), [5, 4, 3, 2, 1, 0])


def subset_of_batched_reads():
    return SubsetLike(hugging_face(), [5, 4, 3, 2, 1, 0])


def grain_dataset():
    grain = pytest.importorskip("grain")
    return grain.MapDataset.range(6).map(lambda x: x * 3).shuffle(seed=3)


def plain_array():
    return np.arange(12).reshape(6, 2)


OF_TORCH = (torch_map_style, torch_subset, torch_tensors)
SOURCES = [
    hugging_face, *(pytest.param(make, marks=pytest.mark.torch) for make in OF_TORCH), tensors_like,
    subset_of_tensors_like, subset_of_batched_reads, grain_dataset, plain_array,
]  # fmt: skip


@pytest.mark.parametrize("make", SOURCES)
def test_it_is_a_source_as_it_is(make):
    """Records come one by one or many at a time, also through our own combinations, with plain ints for keys."""
    source = make()
    check_source(source)
    expected = [repr(source[key]) for key in range(6)]
    assert len(set(expected)) == 6
    assert list(map(repr, read_records(source, [4, 0, 4]))) == [expected[4], expected[0], expected[4]]
    around = SubsetDataSource(ConcatDataSource([source, source]), np.array([11, 2, 5, 1]))
    through = [expected[5], expected[2], expected[5], expected[1]]
    assert list(map(repr, read_records(around, range(4)))) == through
    assert [repr(around[np.int64(key)]) for key in range(4)] == through


@pytest.mark.parametrize("make", SOURCES)
def test_its_fingerprint_is_what_can_be_known(make):
    """The same for the data set made again; its type and length are in it."""
    seen = fingerprint_of(make())
    assert seen == fingerprint_of(make())
    assert (seen["kind"], seen["records"]) == ("foreign", 6)
    assert seen["type"].endswith(type(make()).__qualname__)


def torch_iterable():
    return pytest.importorskip("torch").utils.data.IterableDataset


@pytest.mark.parametrize(
    "base",
    [pytest.param(torch_iterable, marks=pytest.mark.torch), lambda: object],
    ids=["torch", "its interface"],
)
def test_a_torch_data_set_that_can_only_be_iterated(base):
    """It is an error that says what to do, since no record can be read by its key."""

    class Stream(base()):
        def __iter__(self):
            return iter(range(3))

    with pytest.raises(
        TypeError,
        match=r"data_source: expected an object with __len__.*, got a Stream.*InMemoryDataSource\(list",
    ):
        check_source(Stream())
