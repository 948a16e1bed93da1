"""The plan of the feeder: each chunk once while it is needed, in the order of need, within the room."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from loaderkit._runtime.feeder.coming_chunks import ComingChunks


class Keys:
    """A feed of given record keys."""

    def __init__(self, keys):
        self.keys, self.at = np.asarray(keys, np.int64), 0

    def next(self, count):
        begin, self.at = self.at, min(self.at + min(count, 7), len(self.keys))
        if begin == self.at:
            return None
        return np.arange(begin, self.at), self.keys[begin : self.at]


class Tens:
    """Chunks of ten records."""

    starts = (0,)

    def numbers(self, record_keys):
        return record_keys // 10

    def first_keys(self, numbers):
        return numbers * 10


@given(st.lists(st.integers(0, 99), max_size=60), st.integers(1, 4), st.integers(1, 12))
def test_chunks_come_due_in_the_order_of_need(keys, count, room):
    coming = ComingChunks([Keys(keys)], Tens(), None, most_ahead=1000)
    fetched = []
    given_out = 0
    while not coming.ended:
        due = coming.due(count, [room])
        assert len(due) <= count
        fetched += (due // 10).tolist()
        needed = {key // 10 for key in keys[given_out:]}
        assert len(needed & set(fetched)) <= room
        if not due.size:
            given_out += 1
            coming.give([given_out])
            assert given_out <= len(keys) + 1
    first_needs = list(dict.fromkeys(key // 10 for key in keys))
    # What was needed and given out before there was room is left out.
    assert fetched == [number for number in first_needs if number in fetched]
    if room >= 10:
        assert fetched == first_needs


def test_what_is_planned_is_needed_before_all_else():
    coming = ComingChunks([Keys([5, 15, 25, 15, 35])], Tens(), lambda keys, index: 1000 - keys, 1000)
    coming.due(4, [10])
    coming.give([4])
    uses = coming.next_use(np.array([0, 1, 3, 7]))
    assert uses[2] < uses[3] < uses[1] < uses[0]  # planned; then as the sampler says: 930, 990, 1000
    by_use = ComingChunks([Keys([5, 15, 25, 15, 35])], Tens(), None, 1000)
    by_use.due(4, [10])
    by_use.give([4])
    uses = by_use.next_use(np.array([0, 1, 2, 3]))
    assert uses[3] < uses[1] < uses[2] < uses[0]  # chunk 1 was used last


def test_a_sampler_that_fails_ends_the_plan():
    class Failing:
        def next(self, count):
            raise ValueError("the sampler's own")

    coming = ComingChunks([Failing()], Tens(), None, most_ahead=10)
    assert coming.due(4, [10]).size == 0
    assert coming.ended
