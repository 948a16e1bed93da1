"""Streams take turns element by element, and a next() that waits is woken when its element is ready."""

from collections import deque
from itertools import count
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from loaderkit._engine.outputs import Outputs
from loaderkit._engine.pace import Pace
from loaderkit._engine.scheduler import SchedulerContext
from loaderkit._engine.task import End, Outcome, Ready
from loaderkit.interop.grain._round_robin_scheduler import RoundRobinScheduler


class Scripted:
    """A scheduler that has so many elements at a time, each time only after it was waited for."""

    def __init__(self, number: int, runs: list[tuple[int, int]]) -> None:
        self.number = number
        self.coming = deque(runs)  # (looks that find nothing, elements then)
        self.looked = 0

    def there(self) -> bool:
        return not self.coming or self.looked >= self.coming[0][0]

    def due(self) -> bool:
        return self.there()

    def pop(self) -> Outcome | None:
        if not self.there():
            self.looked += 1
            return None
        if not self.coming:
            return End()
        _, elements = self.coming.popleft()
        self.looked = 0
        return Ready(task=self.number, first=10 * len(self.coming), size=elements)

    def delivered(self, ready: Ready) -> None:
        pass


def context() -> SchedulerContext:
    pace = Pace(workers=1, task_rows=1)
    return SchedulerContext(
        slots=None, reserves=False, bulk=False, outputs=Outputs(), pace=pace, new_id=count().__next__
    )


RUNS = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), max_size=4)


@given(scripts=st.lists(RUNS, min_size=1, max_size=4), first=st.integers(0, 3))
def test_each_gives_one_in_its_turn_and_is_due_whenever_there_is_something(scripts, first):
    made: dict[int, Any] = {number: Scripted(number, runs) for number, runs in enumerate(scripts)}
    turns = RoundRobinScheduler(
        {number: lambda _, mine=mine: mine for number, mine in made.items()}, first, context()
    )
    got = []
    for _ in range(200):
        due = turns.due()
        outcome = turns.pop()
        assert due or outcome is None, "a next() that waits would not have been woken"
        if isinstance(outcome, End):
            break
        if outcome is not None:
            assert outcome.size == 1
            got.append((outcome.task, outcome.first))
            turns.delivered(outcome)
    else:
        raise AssertionError("it never ends")

    left = {
        number: deque(
            10 * (len(runs) - 1 - run) + place for run, (_, size) in enumerate(runs) for place in range(size)
        )
        for number, runs in enumerate(scripts)
    }
    order = deque(sorted(left, key=lambda number: (number < first, number)))
    expected = []
    while order:
        number = order.popleft()
        if left[number]:
            expected.append((number, left[number].popleft()))
            order.append(number)
    assert got == expected
