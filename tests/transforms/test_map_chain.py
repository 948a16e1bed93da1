"""Consecutive cheap Maps, whose functions are called by one: what comes out, and what fails, is as Map by Map."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import loaderkit as lk
from loaderkit.transforms import map_chain
from loaderkit.transforms.level_runner import LevelRunner, compile_levels
from loaderkit.transforms.run import ElementRun, Singles
from loaderkit.transforms.stages import RaisedBy

FAULTS = {
    "error": ValueError("of the user"),
    "stop": StopIteration(),
    "of a part": RaisedBy("operations[9] Map(part)", KeyError("part")),
}


class Step:
    """Adds a number, but has a fault at some values."""

    def __init__(self, faults: dict[int, str]) -> None:
        self.faults = faults

    def __call__(self, value: int) -> int | None:
        fault = self.faults.get(value)
        if fault == "none":
            return None
        if fault is not None:
            raise FAULTS[fault]
        return value + 1


@pytest.fixture(autouse=True)
def _every_function_is_cheap(monkeypatch):
    monkeypatch.setattr(map_chain, "_CHEAP_NS", 10**15)


def run_of(count: int) -> ElementRun:
    return ElementRun(list(range(count)), Singles(np.arange(100, 100 + count)))


def runner_of(steps: list[Step]) -> LevelRunner:
    (level,) = compile_levels([lk.Map(step) for step in steps], seed=None)
    return LevelRunner(level)


def outcome(run: ElementRun) -> tuple[Any, ...]:
    failed = run.failure
    failure = None if failed is None else (repr(failed.error), failed.label, failed.indices)
    return run.values, list(run.begins), failure


@given(
    count=st.integers(0, 40),
    faults=st.lists(
        st.dictionaries(st.integers(0, 50), st.sampled_from([*FAULTS, "none"]), max_size=2),
        min_size=4,
        max_size=7,
    ),
)
def test_joined_calls_give_what_maps_one_after_the_other_give(count, faults):
    steps = [Step(each) for each in faults]
    runner = runner_of(steps)
    runner.work(ElementRun([-1000], Singles(np.array([7]))), ())  # tells that they are cheap
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(map_chain, "_LEAST_MAPS", 100)
        expected = runner_of(steps).work(run_of(count), ())
    assert outcome(runner.work(run_of(count), ())) == outcome(expected)


def test_elements_are_counted_for_each_map_and_their_time_is_shared():
    runner = runner_of([Step({}) for _ in range(5)])
    for _ in range(40):
        runner.work(run_of(100), ())
    assert [counted[1:] for counted in runner.counted] == [[4000, 4000]] * 5
    assert all(counted[0] > 0 for counted in runner.counted)


def test_one_piece_in_some_is_measured_map_by_map():
    order: list[str] = []

    def named(name: str) -> Callable[[int], int]:
        return lambda value: order.append(name) or value

    (level,) = compile_levels([lk.Map(named(name)) for name in "abcd"], seed=None)
    runner = LevelRunner(level)
    ways = []
    for _ in range(40):
        order.clear()
        runner.work(run_of(4), ())
        ways.append("".join(order) == "abcd" * 4)
    assert ways[0] is False and ways.count(True) > 30 and ways[2:].count(False) >= 2


def test_an_error_names_its_map_and_shows_the_users_function():
    def broken(value: int) -> int:
        return value // (value - 7)

    runner = runner_of([Step({}), Step({}), broken, Step({})])  # type: ignore[list-item]
    runner.work(ElementRun([1000], Singles(np.array([3]))), ())
    failure = runner.work(run_of(20), ()).failure
    assert (
        failure is not None and failure.label.startswith("operations[2] Map(") and failure.indices == (105,)
    )
    frame = failure.error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    assert frame is not None and frame.tb_frame.f_code.co_name == "broken"
