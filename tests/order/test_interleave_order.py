"""The interleaved order against tf.data's loop, written with its names."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from loaderkit._order.interleave import InterleaveOrder


class InterleaveDatasetIterator:
    """What tensorflow/core/kernels/data/interleave_dataset_op.cc does for each record, over lists of lengths."""

    def __init__(self, lengths, cycle_length, block_length):
        self.input, self.cycle_length, self.block_length = (
            iter(enumerate(lengths)),
            cycle_length,
            block_length,
        )
        self.current_elements = [None] * cycle_length
        self.cycle_index = self.block_index = self.num_open = 0
        self.end_of_input = False

    def advance_to_next_in_cycle(self):
        self.block_index = 0
        self.cycle_index = (self.cycle_index + 1) % self.cycle_length

    def get_next(self):
        while not self.end_of_input or self.num_open > 0:
            element = self.current_elements[self.cycle_index]
            if element is not None:
                found = next(element, None)
                if found is not None:
                    self.block_index += 1
                    if self.block_index == self.block_length:
                        self.advance_to_next_in_cycle()
                    return found
                self.current_elements[self.cycle_index] = None
                self.num_open -= 1
                self.advance_to_next_in_cycle()
            elif not self.end_of_input:
                opened = next(self.input, None)
                self.end_of_input = opened is None
                if opened is not None:
                    source, length = opened
                    self.current_elements[self.cycle_index] = iter(
                        [(source, record) for record in range(length)]
                    )
                    self.num_open += 1
            else:
                self.advance_to_next_in_cycle()
        return None

    def all(self):
        return list(iter(self.get_next, None))


def pairs(order, places):
    sources, records = order(np.array(places, np.int64))
    return list(zip(sources.tolist(), records.tolist(), strict=True))


lengths_lists = st.lists(st.integers(0, 4) | st.integers(0, 30), min_size=1, max_size=20).filter(any)


@given(lengths_lists, st.integers(1, 24), st.integers(1, 6) | st.just(1 << 40))
@example([0, 0, 3, 0, 2], 2, 2)
@example([5, 0, 0, 0, 1, 4], 3, 1)
@example([2, 2, 2, 2], 2, 2)
def test_it_is_the_order_of_tf_data(lengths, cycle_length, block):
    """With empty sources, more slots than sources, and lengths that are multiples of a block or aren't."""
    order = InterleaveOrder(np.array(lengths), cycle_length, block)
    expected = InterleaveDatasetIterator(lengths, cycle_length, block).all()
    assert pairs(order, range(len(expected))) == expected
    assert len(expected) == sum(lengths)
    backwards = [*range(len(expected) - 1, -1, -1), 0]
    assert pairs(order, backwards) == [expected[place] for place in backwards]


@pytest.mark.parametrize(
    ("length", "cycle_length", "block", "text"),
    [
        (6, 2, 4, "111122221122333344443344555555"),  # of its documentation
        (3, 4, 2, "112233441234555"),
    ],
)
def test_published_outputs_of_tf_data(length, cycle_length, block, text):
    """Of tf.data.Dataset.range(1, 6).interleave(lambda x: from_tensors(x).repeat(length), cycle_length, block)."""
    sources, _ = InterleaveOrder(np.full(5, length), cycle_length, block)(np.arange(5 * length))
    assert "".join(map(str, sources + 1)) == text


@given(st.lists(st.integers(0, 1 << 57), min_size=1, max_size=20).filter(any), st.integers(1, 24), st.data())
def test_long_sources_are_arithmetic(lengths, cycle_length, data):
    """Places of long orders read different records, in order within each source."""
    total = sum(lengths)
    order = InterleaveOrder(np.array(lengths), cycle_length, data.draw(st.integers(1, 1 << 58)))
    places = data.draw(st.lists(st.integers(0, total - 1), min_size=1, max_size=9, unique=True))
    found = pairs(order, [*places, 0, total - 1])
    assert len({*found[: len(places)]}) == len(places)
    for source, record in found:
        assert 0 <= record < lengths[source]
    by_source = {}
    for place, (source, record) in sorted(zip(places, found, strict=False)):
        assert record > by_source.get(source, -1), place
        by_source[source] = record


def test_many_sources_are_planned_at_once():
    """A hundred thousand of unlike lengths, all open or few; a place costs no more memory than its answer."""
    lengths = np.random.Generator(np.random.Philox(key=0)).integers(0, 1000, size=100_000)
    total = int(lengths.sum())
    for cycle_length in (16, 100_000):
        order = InterleaveOrder(lengths, cycle_length, 3)
        tracemalloc.start()
        sources, records = order(np.arange(total // 2, total // 2 + 1000))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert (records < lengths[sources]).all()
        assert peak < 1 << 20


@pytest.mark.parametrize("cycle_length", [1, 7, 64])
def test_each_record_is_read_once(cycle_length):
    """Of a thousand sources."""
    lengths = np.random.Generator(np.random.Philox(key=1)).integers(0, 50, size=1000)
    sources, records = InterleaveOrder(lengths, cycle_length, 4)(np.arange(lengths.sum()))
    keys = np.cumsum(lengths)[sources] - lengths[sources] + records
    assert np.array_equal(np.sort(keys), np.arange(lengths.sum()))
