"""SliceSampler: the indices of a part of another sampler, with what that one says of how it reads."""

import re

import numpy as np
import pytest

import loaderkit as lk
from loaderkit.samplers import SliceSampler
from loaderkit.samplers.optional import components_of, lanes_of, next_uses_of, window_of

WHOLE = lk.IndexSampler(10, shuffle=True, seed=3)
CHUNKS = lk.ChunkSampler(64, chunk=4, window=2, lanes=2, batch=8, seed=0)
MIXED = lk.samplers.MixedSampler(
    {"a": lk.IndexSampler(5, num_epochs=2), "b": lk.IndexSampler(9)},
    weights={"a": 1, "b": 2},
    when_exhausted="stop",
)


@pytest.mark.parametrize(("start", "stop"), [(0, 4), (7, 25), (3, None)])
def test_an_index_reads_what_the_sampler_reads_there(start, stop):
    """One by one and in bulk, to the end."""
    sampler = SliceSampler(WHOLE, start, stop)
    indices = np.arange(25 if stop is None else stop - start)
    assert sampler.record_keys(indices).tolist() == WHOLE.record_keys(indices + start).tolist()
    assert sampler[2].record_key == WHOLE[start + 2].record_key and sampler[2].index == 2
    assert SliceSampler(lk.SequentialSampler(9), 4, None).record_keys(range(5)).tolist() == [4, 5, 6, 7, 8]
    assert len(SliceSampler(lk.SequentialSampler(9), 4, None)) == 5


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: SliceSampler(lk.SequentialSampler(9), 9, None), "start: expected an int from 0 to 8, got 9"),
        (lambda: SliceSampler(lk.SequentialSampler(9), 2, 10), "stop: expected an int from 3 to 9, got 10"),
        (lambda: SliceSampler(lk.SequentialSampler(9), 2, 2), "stop: expected an int from 3 to 9, got 2"),
        (lambda: SliceSampler(3, 0, 1), "sampler: expected one"),
        (
            lambda: SliceSampler(lk.samplers.LengthBucketSampler([1, 2], [4], 2, shuffle=False), 0, 1),
            "plans whole batches; give num_steps=",
        ),
    ],
)
def test_bad_input_is_an_error_with_what_is_expected(make, text):
    with pytest.raises((ValueError, TypeError), match=re.escape(text)):
        make()


def test_it_reads_as_the_sampler_does():
    """Windows and lanes of chunks, components, the seed; lanes only where the slice begins with a step."""
    sliced = SliceSampler(CHUNKS, 16, None)
    assert (window_of(sliced), lanes_of(sliced), sliced.batch, sliced.seed) == ((2, 4), 2, 8, 0)
    assert lanes_of(SliceSampler(CHUNKS, 17, None)) == 1
    uses = next_uses_of(sliced)
    keys = sliced.record_keys(range(40))
    assert uses is not None and (uses(keys, 3) == CHUNKS.next_uses(keys, 19) - 16).all()
    mixed = components_of(SliceSampler(MIXED, 3, 12))
    assert mixed is not None and mixed.names == ("a", "b") and mixed.offsets == MIXED.offsets
    assert mixed.numbers(np.arange(4)).tolist() == MIXED.component_numbers(range(3, 7)).tolist()


@pytest.mark.parametrize("index", range(9))
def test_a_bad_record_of_a_mixture_is_replaced_by_one_of_its_component(index):
    """As the mixture does it, as far as its next records lie in the slice or behind it."""
    sliced = SliceSampler(MIXED, 3, 12)
    of_mixture = MIXED.instead(index + 3, 0, 20) - 3
    found = sliced.instead(index, 0, 20)
    assert found.tolist() == of_mixture[: len(found)].tolist() and (found >= 0).all() and len(found)
    assert (
        sliced.keys_instead(np.full(len(found), index), found).tolist()
        == MIXED.keys_instead(np.full(len(found), index + 3), found + 3).tolist()
    )


def test_another_slice_or_other_weights_are_another_state():
    """A saved state tells them apart."""
    other = lk.samplers.MixedSampler(MIXED.components, weights={"a": 1, "b": 1}, when_exhausted="stop")
    slices = [
        SliceSampler(MIXED, 3, 12),
        SliceSampler(MIXED, 3, 11),
        SliceSampler(other, 3, 12),
        SliceSampler(MIXED, 2, 12),
    ]
    prints = [str(each.fingerprint()) for each in slices]
    assert len({*prints}) == len(prints) and slices[0] == SliceSampler(MIXED, 3, 12)
