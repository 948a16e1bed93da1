"""What feeds give: the same records however many are asked for at once, and errors only in their place."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import loaderkit as lk
from loaderkit._order.sharding import ShardOptions
from loaderkit._plan.batching import Batching
from loaderkit._plan.feeds import StepFeed, WholeWindows
from loaderkit._plan.schedule import Schedule
from loaderkit._plan.segments import Segments
from loaderkit.samplers import SequentialSampler

BATCHING = Batching(inner=(), rows=4, remainder="keep", batched=True)


def feed_of(segments: Segments, num_steps: int | None) -> StepFeed:
    schedule = Schedule(SequentialSampler(50), BATCHING, ShardOptions(0, 1), start=0, stop=50)
    return StepFeed(schedule, segments, 0, 50, num_steps)


@given(
    skips=st.lists(st.tuples(st.integers(0, 4), st.integers(1, 3)), max_size=3),
    sizes=st.lists(st.integers(1, 9), min_size=1),
    num_steps=st.none() | st.integers(1, 9),
)
def test_steps_are_the_same_however_many_are_asked_for_at_once(skips, sizes, num_steps) -> None:
    """Also where a step doesn't begin behind the one before it, as after skip() and a seek back."""
    segments, step = Segments(((0, 0, 4),)), 0
    for further, left_out in skips:
        step += further
        segments = segments.skip(step, segments.seek(step, 4), left_out)
    one_by_one = feed_of(segments, num_steps)
    expected = []
    while (part := one_by_one.next()) is not None:
        expected += part.indices.tolist()
    at_once, found = feed_of(segments, num_steps), []
    for size in [*sizes, *[1] * 50]:
        part = at_once.next(size)
        found += [] if part is None else part.indices.tolist()
    assert found == expected


class Failing:
    """Gives records one at a time, and fails at an index, again and again."""

    def __init__(self, at: int) -> None:
        self.at, self.index = at, 0

    def next(self, count: int) -> tuple[np.ndarray, np.ndarray] | None:
        if self.index == self.at:
            raise KeyError(self.at)
        self.index += 1
        one = np.array([self.index - 1])
        return one, one


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("asked", [1, 4, 20])
@pytest.mark.parametrize("at", [0, 5, 6, 7])
def test_windows_before_an_error_are_whole_and_come_first(size: int, asked: int, at: int) -> None:
    """A window that is cut would be another one: the error stands in its place."""
    windows, found = WholeWindows(Failing(at), size), []
    while len(found) < at // size * size:
        indices, _ = windows.next(asked)
        assert len(indices) % size == 0
        found += indices.tolist()
    assert found == [*range(at // size * size)]
    for _ in range(2):
        with pytest.raises(KeyError):
            windows.next(asked)


def test_every_step_of_a_run_can_be_gone_to_and_so_can_its_end() -> None:
    """After the last step there is nothing, and nothing is there to be sought."""
    it = iter(lk.load(range(40), batch_size=4, num_steps=3))
    for step in range(4):
        it.seek(step)
        assert [batch[0] for batch in it] == [4 * s for s in range(step, 3)]
    with pytest.raises(IndexError, match="step: 4 doesn't exist, the run ends after num_steps=3"):
        it.seek(4)
