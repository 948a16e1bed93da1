"""What a user may write, for type checkers: lines that end with `# wrong` have to be errors, all others none.

Nothing here is called: test_typing.py reads it with mypy and pyright.
"""

from collections.abc import Iterator
from typing import Any, assert_type

import numpy as np

import loaderkit as lk
from loaderkit.transforms import image

Element = dict[str, np.ndarray[Any, Any]]


class Squares:
    """A source of the user's own."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, key: int) -> int:
        return key * key


class OnlyIterated:
    """Not a source."""

    def __iter__(self) -> Iterator[int]:
        return iter([1])


class Double(lk.Map):
    def map(self, element: int) -> int:
        return 2 * element


def names() -> None:
    lk.Batsch(3)  # wrong
    lk.MapTransform  # wrong  # noqa: B018
    lk.loda([1])  # wrong
    lk.transforms.imagery  # wrong  # noqa: B018
    lk.transforms.image.Decoed()  # wrong
    lk.testing.check_pipelin(lk.load([1]))  # wrong
    lk.transforms.image.Decode(key="image")
    lk.transforms.image.Decode(keys="image")  # wrong
    image.Resize((224, 224), key=("left", 0))
    lk.testing.check_pipeline(lk.load([1]))
    lk.testing.check_source([1], records=2, skip=["threads"])
    lk.testing.check_source([1], record=2)  # wrong
    lk.testing.check_sampler(lk.IndexSampler(3), num_records=3)
    lk.testing.check_sampler([1], num_records=1)  # wrong
    lk.testing.check_operation(lambda x: x + 1, 1, 2, seed=0)
    lk.testing.check_format("jsonl", [{"n": 1}, {"n": 2}])  # wrong
    lk.CheckpointSave  # noqa: B018
    lk.CheckpointSaev  # wrong  # noqa: B018
    lk.ShardByJaxProcess(drop_remainder=True)
    lk.ShardByJaxProcess(drop_reminder=True)  # wrong
    lk.device_iterator(iter(lk.load([1], batch_size=1)), None)


def arguments(anything: Any) -> None:
    lk.load([1], batch_size=3, worker_kind="thread", num_steps=4, on_record_error="skip")
    lk.load([1], batch_sise=3)  # wrong
    lk.load([1], batch_sise=anything)  # wrong
    lk.load([1], 3)  # wrong
    lk.load([1], batch_size="3")  # wrong
    lk.load([1], worker_timeout="60")  # wrong
    lk.DataLoader(data_source=[1], sampler=lk.IndexSampler(1), worker_count=None)
    lk.DataLoader(data_source=[1], sampler=lk.IndexSampler(1), num_workers=anything)  # wrong
    lk.DataLoader([1], sampler=lk.IndexSampler(1))  # wrong
    lk.DataLoader(data_source=[1])  # wrong
    lk.Batch(3, remainder="pad", batch_fn=len)
    lk.Batch(3, drop_last=anything)  # wrong
    lk.Batch(3, False)  # wrong


def sources(array: np.ndarray[Any, Any], anything: Any) -> None:
    lk.load([1, 2])
    lk.load((1, "a"))
    lk.load(range(3))
    lk.load(array)
    lk.load(anything)
    lk.load(Squares())
    lk.load(lk.ArrayRecordDataSource("data-*.array_record"))
    lk.load(lk.ConcatDataSource([lk.RangeDataSource(0, 3, 1), lk.SubsetDataSource(Squares(), 0.5)]))
    lk.load(lk.ArrayDataSource({"x": array}))
    lk.load(lk.InMemoryDataSource([1, 2]))
    lk.load(3)  # wrong
    lk.load(OnlyIterated())  # wrong
    lk.load(x for x in [1])  # wrong
    lk.load(None)  # wrong


def operations() -> None:
    lk.load([1], operations=[Double(), lambda x: x + 1, abs, lk.Filter(bool), lk.RandomMap(max)])
    lk.load([1], operations=[3])  # wrong
    lk.load([1], operations=Double())  # wrong


def nothing_said() -> None:
    loader = lk.DataLoader(data_source=[1], sampler=lk.IndexSampler(1))
    assert_type(loader, lk.DataLoader[Any])
    assert_type(lk.load([1]), lk.DataLoader[Any])
    it = iter(loader)
    assert_type(it, lk.DataLoaderIterator[Any])
    next(it)["image"].anything()
    it.step + 1
    it.stpe  # wrong  # noqa: B018
    it.get_stat()  # wrong
    loader.epochs(1)  # wrong
    loader.state_dict()  # wrong
    with loader as same, iter(same) as entered:
        assert_type(same, lk.DataLoader[Any])
        entered.seek(3)
        entered.seek("3")  # wrong


def chains(array: np.ndarray[Any, Any], anything: Any) -> None:
    ds = lk.Dataset(Squares())
    assert_type(ds, lk.Dataset[int])
    assert_type(ds.map(str).shuffle(seed=0).repeat()[2:9], lk.Dataset[str])
    assert_type(ds.map(str)[3], str)
    assert_type(ds.map(Double()), lk.Dataset[Any])
    assert_type(ds.random_map(lambda value, rng: value * rng.random()), lk.Dataset[float])
    assert_type(ds.flat_map(range).window(2, sorted), lk.Dataset[int])
    assert_type(ds.filter(lambda value: value > 2).take(3).loader(worker_count=2), lk.DataLoader[int])
    assert_type(lk.Dataset.concat([ds, ds]), lk.Dataset[int])
    for value in ds.map(float).cache():
        assert_type(value, float)
    lk.Dataset.mix({"a": ds, "b": array}, {"a": 1}, seed=0).batch(
        lk.PadBatch(4, boundaries={"x": [4]})
    ).loader(num_steps=3)
    lk.Dataset({"x": array}).pack(8, how="first_fit").batch(4, batch_fn=len)
    lk.Dataset(OnlyIterated())  # wrong
    ds.map(len)  # wrong
    ds.shuffle("0")  # wrong
    ds.prefetch(2)  # wrong
    ds.batch(4).loader(num_workers=2)  # wrong
    ds.loader(worker_timeout="60")  # wrong
    lk.Dataset.mix({"a": ds}, shuffle=True)  # wrong


def without_brackets(loader: "lk.DataLoader", it: "lk.DataLoaderIterator") -> "lk.DataLoader":
    next(it).anything()
    return loader.epoch(1)


def said() -> None:
    loader: lk.DataLoader[Element] = lk.DataLoader(data_source=[1], sampler=lk.IndexSampler(1))
    assert_type(loader, lk.DataLoader[Element])
    for batch in loader:
        assert_type(batch, Element)
    with iter(loader) as it:
        assert_type(it, lk.DataLoaderIterator[Element])
        assert_type(next(it), Element)
        assert_type(it.peek(), Element)
        next(it).shape  # wrong  # noqa: B018
    assert_type(loader.epoch(0), lk.DataLoader[Element])
    short: lk.DataLoader[Element] = lk.load([1])
    assert_type(next(iter(short)), Element)
    explicit = lk.DataLoader[Element](data_source=[1], sampler=lk.IndexSampler(1))
    assert_type(explicit, lk.DataLoader[Element])
    train(short)
    train(lk.load([1]))
    train_on_numbers(short)  # wrong


def train(loader: "lk.DataLoader[Element]") -> None:
    next(iter(loader))["image"].sum()


def train_on_numbers(loader: "lk.DataLoader[int]") -> None:
    next(iter(loader)) + 1
