"""The samplers: every index of every epoch, one by one and many at once, and what they refuse."""

import itertools
import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderkit._order.metadata import RecordMetadata
from loaderkit._order.mixing import fold
from loaderkit._order.permutation import Permutation
from loaderkit._order.rng import generator
from loaderkit._order.sharding import NoSharding, ShardOptions
from loaderkit.samplers import IndexSampler, Sampler, SequentialSampler

sizes = st.one_of(st.integers(1, 600), st.sampled_from([65536, 65537, (1 << 20) + 1, (1 << 41) + 1]))
seeds = st.integers(0, (1 << 64) - 1)


@st.composite
def samplers(draw):
    shuffle = draw(st.booleans())
    return IndexSampler(
        draw(sizes),
        shuffle=shuffle,
        num_epochs=draw(st.none() | st.integers(1, 5)),
        seed=draw(seeds if shuffle else st.none() | seeds),
    )


def limit_of(sampler):
    return 1 << 63 if sampler.num_epochs is None else len(sampler)


def naive_key(sampler, index):
    epoch, position = divmod(index, sampler.num_records)
    if not sampler.shuffle:
        return position
    return int(Permutation(sampler.num_records, fold(sampler.seed, epoch))(np.array([position]))[0])


@given(samplers(), st.data())
def test_many_at_once_are_the_same_as_one_by_one(sampler, data):
    """Consecutive or scattered over any epochs, up to the last index there is."""
    last = limit_of(sampler) - 1
    scattered = data.draw(st.lists(st.integers(0, last), max_size=12))
    start = data.draw(st.integers(0, last))
    indices = [*scattered, *range(start, min(start + 12, last + 1)), last]
    keys = sampler.record_keys(np.array(indices))
    assert keys.dtype == np.int64
    assert keys.tolist() == [naive_key(sampler, index) for index in indices]
    assert keys.tolist() == [sampler[index].record_key for index in indices]


@given(st.integers(1, 700), st.integers(1, 4), seeds)
def test_each_epoch_has_every_record_once(n, epochs, seed):
    """Shuffled anew in each: no epoch loses or repeats a record."""
    sampler = IndexSampler(n, shuffle=True, num_epochs=epochs, seed=seed)
    keys = sampler.record_keys(range(epochs * n)).reshape(epochs, n)
    assert np.array_equal(np.sort(keys, axis=1), np.tile(np.arange(n), (epochs, 1)))


@pytest.mark.parametrize("n", [1, 2, 3, 65536, 65537, (1 << 20) + 1])
def test_exact_sizes_lose_nothing(n):
    """One block over the end of an epoch and the whole of the next."""
    keys = IndexSampler(n, shuffle=True, seed=1).record_keys(np.arange(n // 2, 2 * n))
    assert np.array_equal(np.sort(keys[-n:]), np.arange(n))
    assert len(set(keys[:-n].tolist())) == n - n // 2


@given(samplers())
def test_iterating_gives_what_indexing_gives(sampler):
    """Metadata by metadata, the generators' states too."""
    for index, metadata in enumerate(itertools.islice(sampler, 5)):
        single = sampler[index]
        assert metadata == single
        assert metadata.index == index
        assert str(metadata) == str(single)
        if sampler.seed is None:
            assert metadata.rng is None
        else:
            expected = str(generator(sampler.seed, 0, index, 0).bit_generator.state)
            assert str(metadata.rng.bit_generator.state) == str(single.rng.bit_generator.state) == expected


@pytest.mark.parametrize("n", [1, 1023, 1024, 1025, 2500])
def test_a_finite_sampler_ends_after_its_last_index(n):
    """This holds for any block size of its iteration."""
    sampler = SequentialSampler(n)
    assert [metadata.index for metadata in sampler] == list(range(n)) == list(range(len(sampler)))


def test_it_prints_as_in_the_guide():
    """A user often calls these first."""
    sampler = IndexSampler(5, shard_options=NoSharding(), num_epochs=1, seed=0)
    assert [str(metadata) for metadata in sampler][:2] == [
        "RecordMetadata(index=0, record_key=0, rng=Generator(Philox))",
        "RecordMetadata(index=1, record_key=1, rng=Generator(Philox))",
    ]
    assert repr(sampler) == (
        "IndexSampler(num_records=5, shard_options=NoSharding(shard_index=0, shard_count=1,"
        " drop_remainder=False), shuffle=False, num_epochs=1, seed=0)"
    )
    assert repr(SequentialSampler(8)) == "SequentialSampler(num_records=8, shard_options=None, seed=None)"


def test_a_sequential_sampler_is_one_unshuffled_epoch():
    """The same keys and attributes as an IndexSampler said so."""
    one, other = SequentialSampler(9, seed=4), IndexSampler(9, num_epochs=1, seed=4)
    for name in ("num_records", "shard_options", "shuffle", "num_epochs", "seed"):
        assert getattr(one, name) == getattr(other, name)
    assert list(one) == list(other)


@given(samplers(), st.integers(0, 7))
def test_a_sharding_changes_no_key(sampler, shard):
    """One space of indices for all shards: the process that reads an index doesn't change which record it is."""
    sharded = IndexSampler(
        sampler.num_records,
        shard_options=ShardOptions(shard, 8),
        shuffle=sampler.shuffle,
        num_epochs=sampler.num_epochs,
        seed=sampler.seed,
    )
    wanted = np.arange(min(limit_of(sampler), 20))
    assert np.array_equal(sharded.record_keys(wanted), sampler.record_keys(wanted))
    assert sharded.fingerprint() == sampler.fingerprint()


@pytest.mark.parametrize("num_epochs", [None, 2])
def test_an_index_out_of_range_is_named(num_epochs):
    """record_keys names the first such index, and so does indexing."""
    sampler = IndexSampler(4, num_epochs=num_epochs)
    beyond = 8 if num_epochs else 1 << 63
    for bad in (-1, beyond):
        with pytest.raises(IndexError, match=rf"index: expected an int from 0 to .*, got {bad}, of "):
            sampler[bad]
    with pytest.raises(IndexError, match=r"index: expected .*, got -2, of"):
        sampler.record_keys([0, 1, -2, -9])
    with pytest.raises(IndexError, match=f"index: expected .*, got {beyond}, of"):
        sampler.record_keys(
            np.array([0, beyond, -1 if num_epochs else beyond], np.int64 if num_epochs else np.uint64)
        )


@pytest.mark.parametrize("indices", [[0.0], np.array([1.5]), [True], ["0"], [None]])
def test_indices_that_are_no_ints_are_refused(indices):
    """A float index is a mistake somewhere, not an index to round."""
    with pytest.raises(TypeError, match="indices: expected ints"):
        IndexSampler(4).record_keys(indices)
    with pytest.raises(TypeError):
        IndexSampler(4)["0"]


def test_indices_must_be_flat():
    """A table of indices would come back in another shape than its keys are used in."""
    with pytest.raises(ValueError, match=r"one dimension, got shape \(1, 2\)"):
        IndexSampler(4).record_keys([[0, 1]])


@pytest.mark.parametrize("shuffle", [False, True])
def test_no_indices_give_no_keys(shuffle):
    """An empty block is no special case."""
    keys = IndexSampler(4, shuffle=shuffle, seed=0).record_keys([])
    assert (keys.shape, keys.dtype) == ((0,), np.int64)


def test_an_endless_sampler_says_that_it_has_no_length():
    """And says what to do; it is true all the same."""
    with pytest.raises(TypeError, match="endless and has no length; give num_epochs"):
        len(IndexSampler(4))
    assert bool(IndexSampler(4)) is bool(SequentialSampler(4)) is True


def test_seeds_of_every_width_choose_different_orders():
    """Up to 2**64 - 1, python's or numpy's; nothing is cut off."""
    wanted = range(100)
    chosen = [0, 1, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
    orders = {
        tuple(IndexSampler(100, shuffle=True, seed=seed).record_keys(wanted).tolist()) for seed in chosen
    }
    assert len(orders) == len(chosen)
    assert IndexSampler(np.int64(100), seed=np.uint32(7)) == IndexSampler(100, seed=7)


@given(samplers())
def test_fingerprints_are_json_and_tell_samplers_apart(sampler):
    """Every argument that changes a key changes the fingerprint; its integers have at most 63 bits."""
    said = sampler.fingerprint()
    assert json.loads(json.dumps(said)) == said
    assert all(value < 1 << 63 for value in said.values() if isinstance(value, int))
    others = [
        replace(sampler, num_records=sampler.num_records + 1),
        replace(sampler, num_epochs=(sampler.num_epochs or 0) + 1),
        replace(sampler, seed=(1 << 64) - 2 - (sampler.seed or 0) // 2),
    ]
    assert all(other.fingerprint() != said for other in others if other != sampler)


@given(samplers())
def test_samplers_are_values(sampler):
    """Equal when said alike, hashable, picklable, and unchangeable."""
    copy = pickle.loads(pickle.dumps(sampler))
    assert copy == sampler
    assert hash(copy) == hash(sampler)
    assert isinstance(sampler, Sampler)
    with pytest.raises(AttributeError):
        sampler.seed = 3


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (
            {"num_records": 0},
            ValueError,
            r"num_records: expected an int from 1 to .*, got 0; give len\(source\)",
        ),
        ({"num_records": -2}, ValueError, "num_records: expected an int from 1 .*, got -2"),
        ({"num_records": 1 << 62}, ValueError, r"num_records: expected an int from 1 to 2\*\*62 - 1, got 4"),
        ({"num_records": 2.0}, TypeError, "num_records: expected an int, got 2.0"),
        (
            {"num_epochs": 0},
            ValueError,
            "num_epochs: expected 1 or more, got 0; give None for an endless",
        ),
        ({"num_epochs": -1}, ValueError, "num_epochs: expected 1 or more, got -1"),
        ({"num_epochs": "1"}, TypeError, "num_epochs: expected an int, got '1'"),
        (
            {"num_epochs": 1 << 62},
            ValueError,
            r"num_epochs \* num_records: expected an int from 1 to .* num_epochs=None",
        ),
        ({"seed": -1}, ValueError, r"seed: expected an int from 0 to 2\*\*64 - 1, got -1"),
        ({"seed": 1 << 64}, ValueError, r"seed: expected an int from 0 to 2\*\*64 - 1, got 1"),
        ({"seed": 1.5}, TypeError, "seed: expected an int, got 1.5"),
        ({"seed": True}, TypeError, "seed: expected an int, got True"),
        ({"seed": "0", "shuffle": True}, TypeError, "seed: expected an int, got '0'"),
        ({"shuffle": True}, ValueError, "seed: expected an int, as shuffle=True needs a seed, got None"),
        ({"shuffle": 1}, TypeError, "shuffle: expected True or False, got 1"),
        ({"shard_options": 3}, TypeError, "shard_options: expected ShardOptions.*, got 3"),
    ],
)
def test_bad_arguments_are_refused_by_name(arguments, error, text):
    """The error names the argument, what was expected, what came and what to do."""
    with pytest.raises(error, match=text):
        IndexSampler(**{"num_records": 8, **arguments})
    if not {"num_epochs", "shuffle"} & set(arguments):
        with pytest.raises(error, match=text):
            SequentialSampler(**{"num_records": 8, **arguments})


def test_shuffled_keys_are_part_of_the_stream():
    """These never change: streams that were trained on depend on them."""
    small, large = IndexSampler(10, shuffle=True, seed=0), IndexSampler(1_000_000, shuffle=True, seed=42)
    assert small.record_keys(range(12)).tolist() == [5, 2, 8, 4, 7, 0, 3, 6, 1, 9, 6, 8]
    assert large.record_keys([0, 1, 999_999, 1_000_000, 10**12]).tolist() == [
        27036,
        909443,
        882994,
        17950,
        748120,
    ]
    assert small[3] == RecordMetadata(3, small.record_keys([3])[0])


@pytest.mark.parametrize("index", ["2", 2.0, None])
def test_an_index_that_is_no_int_is_named(index):
    """A TypeError that says which argument it is."""
    with pytest.raises(TypeError, match=rf"^index: expected an int, got {index!r}$"):
        IndexSampler(8)[index]
