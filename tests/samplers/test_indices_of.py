"""Where records are read: the way back of `record_keys`, of every sampler, beside a look at each index."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import loaderkit as lk
from loaderkit.samplers import InterleavedSampler, KeysSampler, MixedSampler, SliceSampler, WeightedSampler
from loaderkit.samplers.optional import indices_of, positions_of, reads_of
from loaderkit.samplers.protocol import epoch_length_of, length_of, record_keys_of

LOOKED_AT = 400


class Own:
    """A user's sampler, which says neither epochs nor places."""

    def __init__(self, n):
        self.n = n

    def __getitem__(self, index):
        return lk.RecordMetadata(index, index * index % self.n)


@st.composite
def of_epochs(draw, lanes=None, *, ends=True):
    """Samplers of epochs; sizes below and above those that are ranked by a table."""
    n, seed = draw(st.integers(1, 40) | st.integers(250, 300)), draw(st.integers(0, 2**64 - 1))
    epochs = draw(st.none() | st.integers(1, 3)) if ends else None
    kind = "chunks" if lanes else draw(st.sampled_from(["sequential", "index", "chunks", "keys", "turns"]))
    match kind:
        case "sequential" if ends:
            return lk.SequentialSampler(n)
        case "chunks":
            lanes = lanes or draw(st.integers(1, 5))
            sizes = {"chunk": draw(st.integers(1, 2 * n)), "window": draw(st.integers(1, 9))}
            batch = lanes * draw(st.integers(1, 4))
            return lk.ChunkSampler(n, **sizes, lanes=lanes, batch=batch, seed=seed, num_epochs=epochs)
        case "keys":
            keys = np.random.default_rng(seed).permutation(2 * n)[:n]
            return KeysSampler(keys, shuffle=draw(st.booleans()), seed=seed, num_epochs=epochs)
        case "turns":
            lengths = draw(st.lists(st.integers(0, 30), min_size=1, max_size=12).filter(any))
            turns = {
                "cycle_length": draw(st.none() | st.integers(1, 6)),
                "block_length": draw(st.integers(1, 7)),
            }
            return InterleavedSampler(lengths, **turns, num_epochs=epochs)
    return lk.IndexSampler(n, shuffle=draw(st.booleans()), seed=seed, num_epochs=epochs)


@st.composite
def mixtures(draw):
    """With stages, ends, lanes, and components at places of their own."""
    rule, lanes = draw(st.sampled_from([(None, 1), ("stop", 1), ("drop", 1), (None, 3)]))
    parts = of_epochs(lanes if lanes > 1 else None, ends=rule is not None)
    names = "abc"[: draw(st.integers(1, 3))]
    components = {
        name: Own(7) if draw(st.integers(0, 5)) == 5 and lanes == 1 else draw(parts) for name in names
    }
    if lanes > 1:
        components = {
            name: lk.ChunkSampler(
                each.num_records, chunk=3, window=2, lanes=lanes, batch=lanes, seed=each.seed
            )
            for name, each in components.items()
        }
    weights = st.dictionaries(st.sampled_from(names), st.integers(1, 5), min_size=1)
    sampler = MixedSampler(
        components,
        weights=draw(weights),
        when_exhausted=rule,
        order=draw(st.sampled_from(["even", "shuffled"])),
        seed=draw(st.integers(0, 9)),
        offsets=draw(st.sampled_from([None, dict.fromkeys(names, 5)])) or dict.fromkeys(names, 300),
        lanes=lanes,
        batch=lanes * 4 if lanes > 1 else None,
    )
    for index in draw(st.lists(st.integers(0, 60), max_size=3)):
        if sampler._limit > index + 4 * lanes:
            sampler = sampler.reweighed(index, draw(weights))
    return sampler


@st.composite
def samplers(draw):
    """Of any kind, and parts of them."""
    kinds = [of_epochs(), mixtures(), st.just(Own(9)), st.just(WeightedSampler([1, 0, 4, 2], seed=3))]
    sampler = draw(st.one_of(kinds))
    length = length_of(sampler)
    if draw(st.booleans()) and (length is None or length > 1):
        start = draw(st.integers(0, min(50, length - 1 if length else 50)))
        stop = draw(st.none() | st.integers(start + 1, length or 400))
        sampler = SliceSampler(sampler, start, stop)
    return sampler


@given(samplers(), st.data())
def test_the_indices_of_keys_are_those_at_which_they_are_read(sampler, data):
    """All of a range, ascending, each with its key's place; keys that are never read, or asked for twice, too."""
    length = length_of(sampler)
    stop = LOOKED_AT if length is None else min(length, LOOKED_AT)
    read = record_keys_of(sampler, np.arange(stop))
    keys = np.array(
        data.draw(st.lists(st.sampled_from(read.tolist()) | st.integers(0, 999), max_size=9)), np.int64
    )
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, stop + 9)] * 2)))
    which, indices = indices_of(sampler, keys, start, min(end, LOOKED_AT))
    found = [(place, at) for at in range(start, min(end, stop)) for place in np.flatnonzero(keys == read[at])]
    assert indices.tolist() == [at for _, at in found]
    assert sorted(zip(indices.tolist(), which.tolist())) == sorted((at, place) for place, at in found)


@given(of_epochs(), st.integers(0, 2))
def test_positions_are_the_way_back_of_an_epoch(sampler, epoch):
    """Of all its keys; of others they are -1."""
    n, find = epoch_length_of(sampler), positions_of(sampler)
    keys = sampler.endless().record_keys(np.arange(epoch * n, (epoch + 1) * n))
    assert find(keys, epoch).tolist() == list(range(n))
    assert find([-1, keys.max() + 1], epoch).tolist() == [-1, -1]


def test_keys_that_an_epoch_reads_twice_have_no_one_place():
    """An error names one."""
    with pytest.raises(ValueError, match="got 3 more than once"):
        KeysSampler([7, 3, 3]).positions_of([7], 0)


@given(samplers(), st.data())
def test_reads_are_counted_as_a_look_at_each_index_counts_them(sampler, data):
    """In spans that touch, lie apart, and have whole epochs within."""
    length = length_of(sampler)
    stop = LOOKED_AT if length is None else min(length, LOOKED_AT)
    read = record_keys_of(sampler, np.arange(stop))
    keys = np.array([*{*read.tolist()}, 999], np.int64)
    ends = sorted(data.draw(st.lists(st.integers(0, stop + 9), min_size=2, max_size=6)))
    spans = [(low, min(high, LOOKED_AT)) for low, high in zip(ends[::2], ends[1::2])]
    counts, last = reads_of(sampler, keys, spans)
    inside = [at for low, high in spans for at in range(low, min(high, stop))]
    assert counts.tolist() == [sum(read[at] == key for at in inside) for key in keys]
    assert last.tolist() == [max((at for at in inside if read[at] == key), default=-1) for key in keys]
