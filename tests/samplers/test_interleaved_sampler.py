"""The sampler of interleaved sources: keys and epochs, values, what it refuses."""

import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderkit._order.interleave import InterleaveOrder
from loaderkit.samplers import InterleavedSampler, KeysSampler
from loaderkit.testing import check_sampler

lengths_lists = st.lists(st.integers(0, 9), min_size=1, max_size=12).filter(any)
settings = st.fixed_dictionaries(
    {
        "cycle_length": st.none() | st.integers(1, 14),
        "block_length": st.integers(1, 4),
        "num_epochs": st.none() | st.integers(1, 3),
        "seed": st.none() | st.integers(0, (1 << 64) - 1),
    }
)


@given(lengths_lists, settings, st.lists(st.integers(0, 10_000), max_size=20))
def test_keys_are_those_of_one_source_after_the_other(lengths, said, indices):
    """The order is the same in each epoch."""
    sampler = InterleavedSampler(lengths, **said)
    assert sampler.num_records == sum(lengths)
    if said["num_epochs"]:
        assert len(sampler) == said["num_epochs"] * sum(lengths)
        indices = [index % len(sampler) for index in indices]
    order = InterleaveOrder(np.array(lengths), said["cycle_length"] or len(lengths), said["block_length"])
    sources, records = order(np.array(indices, np.int64) % sum(lengths))
    expected = [
        sum(lengths[:source]) + record
        for source, record in zip(sources.tolist(), records.tolist(), strict=True)
    ]
    got = sampler.record_keys(np.array(indices, np.int64))
    assert got.dtype == np.int64
    assert got.tolist() == expected == [sampler[index].record_key for index in indices]


@given(lengths_lists, settings)
def test_samplers_are_values(lengths, said):
    """Equal when said alike, hashable, picklable, unchangeable; the fingerprint differs where the stream may."""
    sampler = InterleavedSampler(lengths, **said)
    copy = pickle.loads(pickle.dumps(sampler))
    assert copy == sampler
    assert hash(copy) == hash(sampler)
    assert repr(copy) == repr(sampler)
    assert copy.record_keys(range(sum(lengths))).tolist() == sampler.record_keys(range(sum(lengths))).tolist()
    with pytest.raises(AttributeError):
        sampler.seed = 3
    with pytest.raises(ValueError, match="read-only"):
        copy.lengths[0] = 3
    fingerprint = sampler.fingerprint()
    assert json.loads(json.dumps(fingerprint)) == fingerprint == copy.fingerprint()
    for other in (
        InterleavedSampler([*lengths, 1], **said),
        InterleavedSampler([lengths[0] + 1, *lengths[1:]], **said),
        InterleavedSampler(lengths, **{**said, "block_length": said["block_length"] + 1}),
        InterleavedSampler(lengths, **{**said, "num_epochs": (said["num_epochs"] or 0) + 1}),
    ):
        assert other != sampler
        assert other.fingerprint() != fingerprint
    assert sampler != KeysSampler(lengths)


def test_more_slots_than_sources_are_the_same_stream():
    """A run may go on with them."""
    first, second, third = (
        InterleavedSampler([3, 4], cycle_length=cycle, num_epochs=1) for cycle in (None, 2, 9)
    )
    assert first.fingerprint() == second.fingerprint() == third.fingerprint()
    assert first.fingerprint() != InterleavedSampler([3, 4], cycle_length=1, num_epochs=1).fingerprint()


@pytest.mark.parametrize(
    ("said", "error", "text"),
    [
        (
            {"lengths": []},
            ValueError,
            "lengths: expected 1 to .* records in all, got 0; an empty source can't be sampled",
        ),
        ({"lengths": [0, 0]}, ValueError, "lengths: expected 1 to .* records in all, got 0"),
        (
            {"lengths": [1 << 61, 1 << 61]},
            ValueError,
            r"lengths: expected 1 to 2\*\*62 - 1 records in all, got 46",
        ),
        (
            {"lengths": [3, -1]},
            ValueError,
            r"lengths\[1\]: expected an int from 0 to .*, got -1; give len\(source\)",
        ),
        ({"lengths": [3, 1.5]}, TypeError, r"lengths\[1\]: expected an int, got 1.5"),
        ({"lengths": 3}, ValueError, "lengths: expected one dimension, got 3"),
        ({"lengths": [[3]]}, ValueError, "lengths: expected one dimension"),
        (
            {"cycle_length": 0},
            ValueError,
            "cycle_length: expected an int from 1 .*, got 0; give None to have all",
        ),
        ({"cycle_length": 1.0}, TypeError, "cycle_length: expected an int, got 1.0"),
        ({"block_length": 0}, ValueError, "block_length: expected an int from 1 .*, got 0; give 1 to change"),
        ({"block_length": None}, TypeError, "block_length: expected an int, got None; give 1"),
        ({"num_epochs": 0}, ValueError, "num_epochs: expected 1 or more, got 0"),
        ({"seed": -1}, ValueError, "seed: expected an int from 0"),
        ({"shard_options": 3}, TypeError, "shard_options: expected ShardOptions"),
    ],
)
def test_bad_arguments_are_refused_by_name(said, error, text):
    """The error names the argument, what was expected, what came and what to do."""
    with pytest.raises(error, match=text):
        InterleavedSampler(**{"lengths": [3, 4], "num_epochs": 1, **said})


def test_it_keeps_what_loaderkit_relies_on():
    """With one epoch and without end."""
    check_sampler(
        InterleavedSampler([4, 0, 9, 30], cycle_length=2, block_length=3, num_epochs=1), num_records=43
    )
    check_sampler(InterleavedSampler([4, 0, 9], num_epochs=None, seed=3), num_records=13)


def test_the_order_is_part_of_the_stream():
    """It never changes: it is tf.data's."""
    keys = InterleavedSampler([3, 0, 5, 2], cycle_length=2, block_length=2, num_epochs=1).record_keys(
        range(10)
    )
    assert keys.tolist() == [0, 1, 2, 3, 4, 8, 9, 5, 6, 7]
