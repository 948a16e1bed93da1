"""Spans of records one after the other, beside a loop over them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import loaderkit as lk
from loaderkit._order.mixing import fold
from loaderkit._order.permutation import Permutation
from loaderkit.samplers import SpanSampler
from loaderkit.testing import check_sampler


def naive_keys(spans, seed, epochs):
    keys = []
    for epoch in range(epochs):
        first = 0
        for number, size in enumerate(spans):
            order = np.arange(size)
            if seed is not None:
                order = Permutation(size, fold(fold(seed, epoch), number))(order)
            keys += (order + first).tolist()
            first += size
    return keys


@given(
    st.lists(st.integers(1, 40) | st.integers(250, 300), min_size=1, max_size=5),
    st.none() | st.integers(0, 2**64 - 1),
    st.integers(1, 3),
    st.data(),
)
def test_each_span_is_read_before_the_next_one(spans, seed, epochs, data):
    """Each in an order of its own in each epoch, and any index alone, in any order; `positions_of` is the way back."""
    sampler = SpanSampler(spans, shuffle=seed is not None, seed=seed, num_epochs=epochs)
    expected = np.array(naive_keys(spans, seed, epochs))
    assert np.array_equal(sampler.record_keys(np.arange(len(sampler))), expected)
    some = np.array(data.draw(st.lists(st.integers(0, len(sampler) - 1), min_size=1, max_size=20)))
    assert np.array_equal(sampler.record_keys(some), expected[some])
    for epoch in range(epochs):
        keys = expected[epoch * sum(spans) : (epoch + 1) * sum(spans)]
        assert np.array_equal(sampler.positions_of(keys, epoch), np.arange(len(keys)))
    assert sampler.positions_of([sum(spans)], 0).tolist() == [-1]


def test_it_keeps_what_is_asked_of_a_sampler():
    check_sampler(SpanSampler((5, 300, 1), shuffle=True, seed=3, num_epochs=2))


def test_a_million_spans_ahead_costs_the_same():
    """No table of an order: sizes as of 10**9 documents."""
    sampler = SpanSampler([10**9, 10**9], shuffle=True, seed=0, num_epochs=None)
    keys = sampler.record_keys([10**9 - 1, 10**9, 5 * 10**9])
    assert keys[0] < 10**9 <= keys[1]
    assert sampler.positions_of(keys[2:], 2).tolist() == [10**9]


@pytest.mark.parametrize(
    ("spans", "text"),
    [
        ([], "spans: expected the records of one span or more, got []"),
        (3, "spans: expected the records of one span or more, got 3"),
        ([3, 0], "spans[1]: expected an int from 1 to 2**62 - 1, got 0"),
        ([3.5], "spans[0]: expected an int, got 3.5"),
    ],
)
def test_what_is_no_span(spans, text):
    with pytest.raises((TypeError, ValueError)) as raised:
        SpanSampler(spans)
    assert text in str(raised.value)


def test_sources_with_epochs_are_read_span_by_span():
    """By `lk.load`, by a chain and by `lk.mix`, which refuses lanes."""
    lengths = np.random.default_rng(0).integers(1, 9, 60)
    corpus = lk.TokenDataSource(np.arange(lengths.sum()), np.concatenate([[0], np.cumsum(lengths)]))
    rows = lk.PackedDataSource(corpus, lk.plan_packing(lengths, 16, epochs=3))
    expected = SpanSampler(rows.epoch_lengths, shuffle=True, seed=4, num_epochs=1)
    assert repr(expected) in repr(lk.load(rows, shuffle=True, seed=4, num_epochs=1))
    assert repr(expected) in repr(lk.Dataset(rows).shuffle(4).repeat(1).loader())
    behind = lk.MapDataSource(lk.CachedDataSource(rows), dict)
    assert repr(expected) in repr(lk.load(behind, shuffle=True, seed=4, num_epochs=1))
    _, sampler = lk.mix({"rows": rows, "more": range(9)}, shuffle=True, seed=4)
    assert sampler.components["rows"].spans == rows.epoch_lengths
    with pytest.raises(ValueError, match=r"lanes: expected 1 for PackedDataSource.*3 epochs .* got 2"):
        lk.mix({"rows": rows}, shuffle=True, seed=4, lanes=2, batch=4)
    assert lk.SubsetDataSource(rows, [3, 1]).epoch_lengths is None


def test_a_sampler_that_mixes_epochs_is_told():
    """Each document would be read by the plans of all epochs before the first one ends."""
    corpus = lk.TokenDataSource(np.arange(600, dtype=np.uint16), np.arange(0, 601, 6))
    rows = lk.PackedDataSource(corpus, lk.plan_packing(corpus.lengths, 32, epochs=2))
    with pytest.warns(UserWarning, match=r"IndexSampler mixes the rows of all 2 epochs .*SpanSampler"):
        lk.DataLoader(data_source=rows, sampler=lk.IndexSampler(len(rows), shuffle=True, seed=0))
    lk.DataLoader(data_source=rows, sampler=lk.samplers.SpanSampler(rows.epoch_lengths, shuffle=True, seed=0))
