"""The sampler of chosen keys: an IndexSampler over their places, what it refuses, and runs of loaders with it."""

import dataclasses
import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import loaderkit as lk
from loaderkit.samplers import IndexSampler, KeysSampler, MixedSampler, Sampler
from loaderkit.samplers.protocol import length_of
from loaderkit.testing import check_sampler

key_lists = st.lists(st.integers(0, (1 << 62) - 1) | st.integers(0, 9), min_size=1, max_size=300)
settings = st.fixed_dictionaries(
    {
        "shuffle": st.booleans(),
        "num_epochs": st.none() | st.integers(1, 5),
        "seed": st.integers(0, (1 << 64) - 1),
    }
)


@given(key_lists, settings, st.lists(st.integers(0, 10_000), max_size=20))
def test_it_is_an_index_sampler_over_the_places_of_the_keys(keys, said, indices):
    """Many at once, one by one, and in one epoch each key as often as it was given."""
    sampler, places = KeysSampler(keys, **said), IndexSampler(len(keys), **said)
    assert sampler.num_records == len(keys)
    assert sampler.min_records == max(keys) + 1
    if said["num_epochs"]:
        assert len(sampler) == len(places)
        indices = [index % len(places) for index in indices]
    got = sampler.record_keys(np.array(indices, np.int64))
    assert got.dtype == np.int64
    assert got.tolist() == [keys[place] for place in places.record_keys(indices).tolist()]
    assert got.tolist() == [sampler[index].record_key for index in indices]
    assert sorted(sampler.record_keys(range(len(keys))).tolist()) == sorted(keys)


@pytest.mark.parametrize(
    "keys",
    [
        [5, 5, 2],
        (5, 5, 2),
        np.array([5, 5, 2], np.uint8),
        np.array([5, 5, 2], object),
        np.array([5, 5, 2], ">i4"),
    ],
)
def test_keys_may_be_any_ints(keys):
    """All are kept as int64, and are the same sampler."""
    assert KeysSampler(keys) == KeysSampler([5, 5, 2])
    assert KeysSampler(keys).keys.dtype == np.int64
    assert KeysSampler(range(5, 1, -3)) == KeysSampler([5, 2])


def test_keys_stay_as_they_were():
    """The array given may change later; the kept one can't, in a pickled copy neither."""
    given = np.arange(5)
    sampler = KeysSampler(given)
    given[0] = 9
    for one in (sampler, pickle.loads(pickle.dumps(sampler))):
        assert one.keys.tolist() == [0, 1, 2, 3, 4]
        with pytest.raises(ValueError, match="read-only"):
            one.keys[0] = 9
    given.setflags(write=False)
    assert not np.shares_memory(KeysSampler(given).keys, given)


@given(key_lists, settings)
def test_samplers_are_values(keys, said):
    """Equal when said alike, hashable, picklable, and unchangeable; the fingerprint differs where the stream does."""
    sampler = KeysSampler(keys, **said)
    copy = pickle.loads(pickle.dumps(sampler))
    assert copy == sampler == KeysSampler(keys, **said) == dataclasses.replace(sampler)
    assert hash(copy) == hash(sampler)
    assert isinstance(sampler, Sampler)
    with pytest.raises(AttributeError):
        sampler.seed = 3
    fingerprint = sampler.fingerprint()
    assert json.loads(json.dumps(fingerprint)) == fingerprint == copy.fingerprint()
    others = [
        KeysSampler([*keys, 0], **said),
        KeysSampler([keys[0] ^ 1, *keys[1:]], **said),
        KeysSampler(keys, **{**said, "shuffle": not said["shuffle"]}),
        KeysSampler(keys, **{**said, "seed": said["seed"] ^ 1}),
        KeysSampler(keys, **{**said, "num_epochs": (said["num_epochs"] or 0) + 1}),
    ]
    for other in others:
        assert other != sampler
        assert other.fingerprint() != fingerprint
    assert sampler != IndexSampler(len(keys), **said)


def test_the_repr_is_short():
    """A million keys aren't written out."""
    sampler = KeysSampler(range(1_000_000), num_epochs=2)
    assert repr(sampler) == (
        "KeysSampler([0, 1, 2, 3, 4, 5, ...], shuffle=False, num_epochs=2, seed=None, shard_options=None)"
    )


@pytest.mark.parametrize(
    ("keys", "error", "text"),
    [
        ([], ValueError, "keys: expected one record key or more, got none"),
        (
            [1, -2, -3],
            ValueError,
            r"keys\[1\]: expected an int from 0 to 2\*\*62 - 1, got -2; give record keys",
        ),
        ([1, 2, 1 << 62], ValueError, r"keys\[2\]: expected an int from 0 to 2\*\*62 - 1, got 46"),
        ([0, 1 << 63, -1], ValueError, r"keys\[1\]: expected an int from 0"),
        ([0, 1 << 70], ValueError, r"keys\[1\]: expected an int from 0"),
        ([0, 2.5], TypeError, r"keys\[1\]: expected an int, got 2.5"),
        (np.array([0.0]), TypeError, r"keys\[0\]: expected an int, got .*0.0"),
        ([0, "a"], TypeError, r"keys\[1\]: expected an int, got 'a'"),
        ([True, False], TypeError, r"keys\[0\]: expected an int, got True; give .*flatnonzero\(mask\)"),
        ([[1, 2], [3, 4]], ValueError, r"keys: expected one dimension, got \[\[1, 2\], \[3, 4\]\]"),
        ([[1, 2], [3]], ValueError, "keys: expected one dimension"),
        (3, TypeError, "keys: expected an array of record keys, got 3"),
        (None, TypeError, "keys: expected an array of record keys, got None"),
        ({1, 2}, TypeError, r"keys: expected an array of record keys, got \{1, 2\}"),
    ],
)
def test_bad_keys_are_refused_by_their_place(keys, error, text):
    """The error names the entry, what was expected, what came and what to do."""
    with pytest.raises(error, match=text):
        KeysSampler(keys)


@pytest.mark.parametrize(
    ("said", "error", "text"),
    [
        ({"shuffle": True}, ValueError, "seed: expected an int, as shuffle=True needs a seed"),
        ({"shuffle": 1}, TypeError, "shuffle: expected True or False, got 1"),
        ({"num_epochs": 0}, ValueError, "num_epochs: expected 1 or more, got 0"),
        ({"seed": -1}, ValueError, "seed: expected an int from 0"),
        ({"shard_options": 3}, TypeError, "shard_options: expected ShardOptions"),
    ],
)
def test_other_arguments_are_refused_as_an_index_sampler_does(said, error, text):
    """The errors are the same."""
    with pytest.raises(error, match=text):
        KeysSampler([1], **said)


def test_it_keeps_what_loaderkit_relies_on():
    """With more keys than the source has records."""
    check_sampler(KeysSampler([4, 1, 1, 3] * 9, shuffle=True, seed=3), num_records=5)
    check_sampler(KeysSampler([4, 1, 1], num_epochs=3), num_records=5)


def test_a_loader_reads_the_keys():
    """A key may be read more often than the source has records; `epoch(e)` goes past the last one."""
    sampler = KeysSampler([2, 0, 2, 2, 1], shuffle=True, seed=1, num_epochs=1)
    loader = lk.DataLoader(data_source=[10, 11, 12], sampler=sampler, operations=[])
    with iter(loader) as it:
        assert sorted(it) == [10, 11, 12, 12, 12]
    with iter(loader.epoch(3)) as it:
        assert sorted(it) == [10, 11, 12, 12, 12]


def test_keys_beyond_the_source_are_refused_by_the_loader():
    """Before anything is read."""
    with pytest.raises(
        ValueError, match=r"sampler: expected record keys below 3, .* got 7; use keys of this source"
    ):
        lk.DataLoader(data_source=[10, 11, 12], sampler=KeysSampler([1, 7]), operations=[])


def test_a_state_of_other_keys_is_refused():
    """The digest tells them apart."""

    def loader(keys):
        return lk.DataLoader(data_source=range(9), sampler=KeysSampler(keys), operations=[])

    with iter(loader([3, 1, 2])) as it:
        next(it)
        state = it.get_state()
    with iter(loader([3, 1, 2])) as it:
        it.set_state(state)
        assert next(it) == 1
    with iter(loader([3, 1, 4])) as it, pytest.raises(lk.CheckpointMismatchError, match="keys"):
        it.set_state(state)


class DoubledKeys(KeysSampler):
    """A user's subclass, whose keys aren't those that it was given."""

    def record_keys(self, indices):
        return 2 * super().record_keys(indices)


small_keys = st.lists(st.integers(0, 99), min_size=1, max_size=30)


@given(st.lists(st.tuples(small_keys, settings), min_size=1, max_size=4), st.booleans())
def test_a_mixture_reads_each_components_keys_in_its_order(said, beside_others):
    """Alone, and beside samplers that have no keys of their own, or others."""
    components = {f"k{place}": KeysSampler(keys, **one) for place, (keys, one) in enumerate(said)}
    if beside_others:
        components |= {"order": IndexSampler(7, shuffle=True, seed=1), "user's": DoubledKeys([5, 3])}
    offsets = {name: 1000 * place for place, name in enumerate(components)}
    sampler = MixedSampler(components, offsets=offsets, when_exhausted="stop")
    keys = sampler.record_keys(range(min(length_of(sampler) or 60, 60)))
    for name, component in components.items():
        own = keys[keys // 1000 == offsets[name] // 1000] - offsets[name]
        assert own.tolist() == component.record_keys(range(len(own))).tolist()


def test_a_mixture_asks_for_the_place_of_chosen_keys():
    """How many there are doesn't say how many records their source has."""
    with pytest.raises(
        TypeError, match=r"offsets: expected what .* sampler of 'few', a KeysSampler, doesn't say"
    ):
        MixedSampler({"few": KeysSampler([1, 0, 1]), "all": IndexSampler(9)})
