"""Epochs: one alone by its number, all of them in a row, and how many steps there are."""

import gc
import itertools
import json
import operator
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from internals import executor_of

import loaderkit as lk


def loader_of(
    count: int, *operations, num_epochs: int | None = None, shuffle: bool = True, **options
) -> "lk.DataLoader":
    sampler = lk.IndexSampler(count, shuffle=shuffle, seed=4, num_epochs=num_epochs)
    return lk.DataLoader(data_source=range(count), sampler=sampler, operations=operations, **options)


@given(
    count=st.integers(1, 30),
    size=st.integers(1, 8),
    drop=st.booleans(),
    e=st.integers(0, 5),
    epochs=st.none() | st.integers(1, 3),
)
def test_an_epoch_is_its_part_of_the_stream(count, size, drop, e, epochs):
    """epoch(e) gives the records of indices e*n to (e+1)*n, also past num_epochs; only its last step is partial."""
    loader = loader_of(count, lk.Batch(size, drop_remainder=drop), num_epochs=epochs)
    one = loader.epoch(e)
    batches = [batch.tolist() for batch in one]
    whole = lk.IndexSampler(count, shuffle=True, seed=4)
    keys = whole.record_keys(range(e * count, (e + 1) * count)).tolist()
    expected = [keys[first : first + size] for first in range(0, count, size)]
    if drop and count % size:
        expected.pop()
    assert batches == expected
    assert len(one) == len(batches)
    for step, batch in enumerate(batches):
        assert [(m.index, m.record_key) for m in one.records(step)] == [
            (e * count + step * size + row, key) for row, key in enumerate(batch)
        ]


@pytest.mark.parametrize("sampler", [lk.SequentialSampler, lk.IndexSampler])
def test_an_epoch_draws_what_the_stream_draws(sampler):
    """The first epoch is the stream's beginning, random numbers and their seed included."""

    def loader_with(seed: int) -> lk.DataLoader:
        drawn = lk.RandomMap(lambda key, rng: (key, rng.random()))
        return lk.DataLoader(data_source=range(5), sampler=sampler(5, seed=seed), operations=[drawn])

    loader = loader_with(3)
    assert list(loader.epoch(0)) == list(itertools.islice(loader, 5))
    assert iter(loader.epoch(0)).sampler.seed == 3
    with pytest.raises(lk.CheckpointMismatchError, match=r"sampler\.seed"):
        iter(loader_with(4).epoch(0)).set_state(iter(loader.epoch(0)).get_state())


def test_an_epochs_positions_begin_at_its_own_first_index():
    """Steps from 0, segments [[0, e*n, G]], and an index and epoch that say where in the endless stream it is."""
    loader = loader_of(10, lk.Batch(4))
    it = iter(loader.epoch(3))
    assert (it.step, it.index, it.epoch) == (0, 30, 3)
    assert json.loads(it.get_state())["segments"] == [[0, 30, 4]]
    assert json.loads(it.get_state())["epoch"] == 3
    assert [batch.shape for batch in it] == [(4,), (4,), (2,)]
    assert (it.step, it.index) == (3, 40)
    assert json.loads(it.get_state())["cursors"] == [[40]]


def test_batches_of_all_epochs_run_across_their_borders():
    """Without epoch(e) there is no partial batch between epochs, only at the very end."""
    assert [batch.shape for batch in loader_of(10, lk.Batch(4), num_epochs=2)] == [(4,)] * 5
    assert [batch.shape for batch in loader_of(10, lk.Batch(4), num_epochs=3)] == [(4,)] * 7 + [(2,)]


def test_an_epochs_state_is_that_epochs():
    """A state restores into the same epoch, and into no other and not into the loader; each says where it belongs."""
    loader = loader_of(10, lk.Batch(4))
    it = iter(loader.epoch(2))
    next(it)
    same = iter(loader.epoch(2))
    same.set_state(it.get_state())
    assert same.get_state() == it.get_state()
    assert np.array_equal(next(same), next(it))
    for other in (loader, loader.epoch(1)):
        with pytest.raises(lk.CheckpointMismatchError, match=r"epoch: saved 2(.|\n)*loader\.epoch\(2\)"):
            iter(other).set_state(it.get_state())
    with pytest.raises(lk.CheckpointMismatchError, match="state of the loader itself"):
        same.set_state(iter(loader).get_state())
    with pytest.raises(ValueError, match="allow: expected names among"):
        iter(loader).set_state(it.get_state(), allow={"epoch"})


def test_an_epoch_of_operations_that_change_rows():
    """epoch(e) of a row-changing pipeline begins and ends at its own records too, and resumes."""
    loader = loader_of(10, lk.Filter(lambda key: key % 3), lk.Batch(2))
    keys = lk.IndexSampler(10, shuffle=True, seed=4).record_keys(range(20, 30)).tolist()
    kept = [key for key in keys if key % 3]
    it = iter(loader.epoch(2))
    assert it.index == 20
    first = next(it).tolist()
    again = iter(loader.epoch(2))
    again.set_state(it.get_state())
    for rest in (it, again):
        assert first + [key for batch in rest for key in batch.tolist()] == kept


def test_epochs_of_other_samplers():
    """A sequential sampler's epochs repeat its order; a sampler of one's own needs num_records to have epochs."""
    sequential = lk.DataLoader(
        data_source=range(5), sampler=lk.SequentialSampler(5), operations=[lk.Batch(2)]
    )
    assert [batch.tolist() for batch in sequential.epoch(3)] == [[0, 1], [2, 3], [4]]
    assert iter(sequential.epoch(3)).index == 15

    class Own:
        def __getitem__(self, index: int) -> lk.RecordMetadata:
            return lk.RecordMetadata(index, index % 3)

    own = Own()
    with pytest.raises(TypeError, match=r"how long an epoch is, got .*Own; give it num_records"):
        lk.DataLoader(data_source=range(5), sampler=own).epoch(0)
    own.num_records = 3
    assert list(lk.DataLoader(data_source=range(5), sampler=own).epoch(4)) == [0, 1, 2]


@pytest.mark.parametrize(
    ("e", "error"), [(-1, ValueError), (1.0, TypeError), (True, TypeError), (None, TypeError)]
)
def test_epochs_are_counted_from_zero(e, error):
    """What is no epoch's number is refused by name."""
    with pytest.raises(error, match="e: expected"):
        loader_of(10).epoch(e)


def test_a_repeated_order_is_told():
    """A second iter() of a shuffled one-epoch loader warns, once each time; nothing else does."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for loader in (
            loader_of(5, num_epochs=1, shuffle=False),
            loader_of(5, num_epochs=2),
            loader_of(5),
            loader_of(5, num_epochs=1).epoch(0),
        ):
            iter(loader), iter(loader)
        once = loader_of(5, num_epochs=1)
        first = list(once)
    with pytest.warns(UserWarning, match=r"repeats the same shuffled order.*loader\.epoch\(e\)") as said:
        assert list(once) == first
    assert said[0].filename == __file__


def test_len_where_it_is_known():
    """len(loader) counts this shard's steps; an endless loader has none and says why."""
    assert len(loader_of(10, num_epochs=3)) == 30
    assert len(loader_of(10, lk.Batch(4), num_epochs=3)) == 8
    assert len(loader_of(10, lk.Batch(4, drop_remainder=True), num_epochs=3)) == 7
    assert len(loader_of(10, lk.Batch(2), lk.Batch(3, drop_remainder=True), num_epochs=3)) == 5
    assert len(loader_of(10, lk.Batch(2), shard_options=lk.ShardOptions(1, 2), num_epochs=1)) == 3
    assert len(loader_of(10).epoch(7)) == 10
    with pytest.raises(TypeError, match="endless"):
        len(loader_of(10))


ENDLESS = {
    "loader": lambda: loader_of(3),
    "batches": lambda: loader_of(3, lk.Batch(2), shuffle=True),
    "rows unknown": lambda: loader_of(3, lk.Filter(bool), lk.Batch(2)),
    "weights": lambda: lk.DataLoader(
        data_source=range(2), sampler=lk.samplers.WeightedSampler([1, 2], seed=0)
    ),
}
TAKERS = {
    "list": list,
    "tuple": tuple,
    "sorted": lambda each: sorted(each, key=repr),
    "unpacked": lambda each: [*each],
    "extend": [].extend,
    "length_hint": operator.length_hint,
}


@pytest.mark.parametrize("take", TAKERS)
@pytest.mark.parametrize("name", ENDLESS)
def test_an_endless_loader_is_no_list(name, take):
    """An error with what to write, instead of the whole memory; `len` stays a TypeError, and `for` works."""
    loader = ENDLESS[name]()
    for each in (loader, iter(loader)):
        with pytest.raises(ValueError, match="got an endless one; write num_epochs=1"):
            TAKERS[take](each)
        with pytest.raises(TypeError):
            len(each)
    assert len(list(itertools.islice(loader, 2))) == len(list(zip(range(2), loader))) == 2


def test_what_ends_is_a_list():
    """With a length or without: the hint is for what has no end."""
    assert sorted(loader_of(3, num_epochs=1)) == sorted(loader_of(3).epoch(0)) == [0, 1, 2]
    assert len(tuple(loader_of(3, num_steps=5))) == 5
    filtered = loader_of(5, lk.Filter(bool), num_epochs=1)
    assert operator.length_hint(filtered, 7) == 7 and len([*filtered]) == 4
    assert len([*iter(loader_of(3, lk.Filter(bool)).epoch(2))]) == 2
    assert np.asarray(loader_of(3)).shape == ()  # an object: numpy asks for no length
    mixed = lk.interleave([[1, 2], [3]], cycle_length=2, num_epochs=1)
    assert list(lk.DataLoader(data_source=mixed[0], sampler=mixed[1])) == [1, 3, 2]


def test_epochs_share_the_loaders_workers():
    """An epoch's loader starts no workers: it uses the loader's, and keeps them when the loader is gone."""
    loader = loader_of(12, lk.Batch(4), worker_count=2, worker_kind="thread")
    list(loader.epoch(0))
    executor = executor_of(loader)
    one = loader.epoch(1)
    assert len(list(one)) == 3
    assert executor_of(one) is executor
    del loader
    gc.collect()
    assert len(list(one)) == 3
    one.close()
