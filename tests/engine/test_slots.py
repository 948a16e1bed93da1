"""The allocator: free ranges and taken slots partition the arena, whatever is asked and given back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderkit._engine.slots import FIRST_SEGMENT, PAGE, Slots, round_up

# What is done: sizes to alloc, or (which slot, how much of it stays: nothing or a part).
STEPS = st.lists(
    st.integers(0, 3 * FIRST_SEGMENT)
    | st.integers(0, 40 * PAGE)
    | st.tuples(st.integers(0, 99), st.integers(0, 9)),
    max_size=60,
)


class Arena:
    """An allocator, and the ranges that it ought to have out, in the simplest books there are."""

    def __init__(self, budget=None):
        self.segments = []
        self.budget = budget
        self.slots = Slots(self._grow)
        self.out = []

    def _grow(self, nbytes):
        if self.budget is not None and sum(self.segments) + nbytes > self.budget:
            raise MemoryError
        self.segments.append(nbytes)

    def step(self, step):
        if isinstance(step, int):
            self.out.append(self.slots.alloc(step))
        elif self.out:
            which, tenths = step
            slot = self.out.pop(which % len(self.out))
            if tenths:
                self.out.append(self.slots.trim(slot, slot.nbytes * tenths // 10))
            else:
                self.slots.free(slot)

    def free(self):
        """The gaps between the slots that are out, segment by segment."""
        gaps, begin = [], 0
        for size in self.segments:
            place = begin
            for slot in sorted(self.out, key=lambda slot: slot.offset):
                if begin <= slot.offset < begin + size:
                    gaps.append((place, slot.offset - place))
                    place = slot.offset + slot.nbytes
            gaps.append((place, begin + size - place))
            begin += size
        return [gap for gap in gaps if gap[1]]


@given(STEPS)
def test_slots_and_free_ranges_partition_the_segments_and_no_two_free_ranges_touch(steps):
    """What isn't out is free, in ranges as long as can be: what is left is exactly the gaps between the slots."""
    arena = Arena()
    for step in steps:
        arena.step(step)
        assert arena.slots._free == arena.free()
        assert arena.slots.used == sum(slot.nbytes for slot in arena.out)
        assert arena.slots.nbytes == sum(arena.segments)


@given(STEPS)
def test_a_slot_is_whole_pages_of_one_segment_and_says_which(steps):
    """A worker maps a segment once, by what the slot says of it."""
    arena = Arena()
    for step in steps:
        arena.step(step)
    begins = [sum(arena.segments[:k]) for k in range(len(arena.segments))]
    for slot in arena.out:
        assert slot.offset % PAGE == slot.nbytes % PAGE == 0
        assert (slot.segment, slot.segment_nbytes) in list(zip(begins, arena.segments))
        assert slot.segment <= slot.offset <= slot.offset + slot.nbytes <= slot.segment + slot.segment_nbytes


@given(STEPS, st.integers(0, 40 * PAGE))
def test_the_smallest_range_that_fits_is_taken_and_a_segment_is_added_only_where_none_does(steps, nbytes):
    """Best fit: large ranges stay for large requests, and a warm slot is handed out again."""
    arena = Arena()
    for step in steps:
        arena.step(step)
    fitting = [size for _, size in arena.free() if size >= max(round_up(nbytes), PAGE)]
    free = dict(arena.free())
    segments = len(arena.segments)
    slot = arena.slots.alloc(nbytes)
    if fitting:
        assert free[slot.offset] == min(fitting)
        assert len(arena.segments) == segments
    else:
        assert slot.offset == sum(arena.segments[:-1])


@given(STEPS)
def test_all_given_back_is_one_range_a_segment(steps):
    arena = Arena()
    for step in steps:
        arena.step(step)
    for slot in arena.out:
        arena.slots.free(slot)
    assert arena.slots.used == 0
    assert [size for _, size in arena.slots._free] == arena.segments


def test_segments_double_and_a_large_slot_has_one_of_its_own_size():
    """Each segment costs every process a descriptor: there are few."""
    arena = Arena()
    for nbytes in (1, FIRST_SEGMENT, 1, 100 * FIRST_SEGMENT):
        arena.slots.alloc(nbytes)
    assert arena.segments == [FIRST_SEGMENT, 2 * FIRST_SEGMENT, 100 * FIRST_SEGMENT]


def test_where_there_is_no_room_to_double_what_is_needed_may_still_fit():
    arena = Arena(budget=FIRST_SEGMENT + 3 * PAGE)
    arena.slots.alloc(FIRST_SEGMENT)
    assert arena.slots.alloc(3 * PAGE).nbytes == 3 * PAGE
    assert arena.segments == [FIRST_SEGMENT, 3 * PAGE]


def test_no_memory_is_an_error_that_changes_nothing():
    arena = Arena(budget=10 * PAGE)
    slot = arena.slots.alloc(6 * PAGE)
    with pytest.raises(MemoryError):
        arena.slots.alloc(5 * PAGE)
    assert arena.slots.used == 6 * PAGE
    arena.slots.free(slot)
    assert arena.slots.alloc(6 * PAGE) == slot


def test_a_slot_is_taken_back_once_and_in_the_size_it_has():
    """A second owner of the same bytes would show as wrong data much later: here it is an error at once."""
    arena = Arena()
    slot = arena.slots.alloc(3 * PAGE)
    left = arena.slots.trim(slot, PAGE + 1)
    assert left.nbytes == 2 * PAGE
    with pytest.raises(ValueError, match="isn't handed out"):
        arena.slots.free(slot)
    with pytest.raises(ValueError, match="isn't handed out"):
        arena.slots.trim(slot, PAGE)
    arena.slots.free(left)
    with pytest.raises(ValueError, match="isn't handed out"):
        arena.slots.free(left)


def test_a_slot_keeps_a_page_however_little_is_in_it():
    arena = Arena()
    slot = arena.slots.trim(arena.slots.alloc(0), 0)
    assert slot.nbytes == PAGE


def test_who_waits_for_memory_sees_that_some_came_back():
    arena = Arena()
    slot = arena.slots.alloc(2 * PAGE)
    seen = [arena.slots.returns]
    slot = arena.slots.trim(slot, PAGE)
    seen.append(arena.slots.returns)
    arena.slots.free(slot)
    seen.append(arena.slots.returns)
    assert len(set(seen)) == 3
