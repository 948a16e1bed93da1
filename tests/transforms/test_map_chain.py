"""Consecutive cheap Maps, whose functions are called by one: what comes out, and what fails, is as Map by Map."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import loaderkit as lk
from loaderkit.transforms import map_chain
from loaderkit.transforms.level_runner import LevelRunner, PiecePace, compile_levels
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


class FixedPace(PiecePace):
    """Pieces of one size, whatever the clock says."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def took(self, seconds: float, *, elements: int) -> None:
        pass


def runner_of(operations: list[Any], size: int = 1000) -> LevelRunner:
    (level,) = compile_levels(operations, seed=3)
    return LevelRunner(level, FixedPace(size))


def outcome(run: ElementRun) -> tuple[Any, ...]:
    failed = run.failure
    failure = None if failed is None else (repr(failed.error), failed.label, failed.indices)
    return run.values, list(run.begins), failure


def or_none(value: int) -> int | None:
    return None if value == 13 else value


MAPS = {
    "step": lambda faults: lk.Map(Step(faults)),
    "index": lambda faults: lk.MapWithIndex(lambda index, value: value + index),
    "random": lambda faults: lk.RandomMap(lambda value, rng: value + int(rng.integers(3))),
    "filter": lambda faults: lk.Filter(lambda value: value % 5 != 0),
    "flat": lambda faults: lk.FlatMap(lambda value: [value] * (value % 3), max_fan_out=2),
}


@given(
    count=st.integers(0, 40),
    size=st.integers(1, 50),
    names=st.lists(st.sampled_from([*MAPS, *["step"] * 8]), min_size=4, max_size=9),
    faults=st.lists(
        st.dictionaries(st.integers(0, 50), st.sampled_from([*FAULTS, "none"]), max_size=2),
        min_size=9,
        max_size=9,
    ),
)
def test_joined_calls_give_what_maps_one_after_the_other_give(count, size, names, faults):
    def run() -> ElementRun:
        indices = np.arange(100, 100 + count)
        if not {"filter", "flat"} & {*names}:
            return ElementRun(list(range(count)), Singles(indices))
        return ElementRun(list(range(count)), [*Singles(indices)], [*Singles(indices + 1)])

    operations = [MAPS[name](each) for name, each in zip(names, faults)]
    runner = runner_of(operations, size)
    runner.work(ElementRun([-1000], [(7,)], [(8,)]), (7,))  # tells that they are cheap
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(map_chain, "_LEAST_MAPS", 100)
        expected = runner_of(operations).work(run(), (100,))
    assert outcome(runner.work(run(), (100,))) == outcome(expected)


def test_a_map_that_may_give_none_is_called_alone():
    maps = [lk.Map(Step({})) for _ in range(4)]
    allowed = lk.Map(or_none)
    object.__setattr__(allowed, "_may_give_none", True)
    runner = runner_of([*maps, allowed])
    for _ in range(3):
        assert runner.work(run_of(12), ()).values == [4, 5, 6, 7, 8, 9, 10, 11, 12, None, 14, 15]


def test_each_map_counts_the_elements_that_it_took_and_gave():
    steps = [Step({}), Step({}), Step({12: "error"}), Step({}), Step({})]
    runner = runner_of([lk.Map(step) for step in steps])
    runner.work(run_of(5), ())
    before = [[*counted] for counted in runner.counted]
    runner.work(run_of(20), ())  # the third has 12 of the record 10
    grown = [[now - then for now, then in zip(*each)] for each in zip(runner.counted, before)]
    assert [each[1:] for each in grown] == [[11, 11], [11, 11], [11, 10], [10, 10], [10, 10]]
    assert all(each[0] > 0 for each in grown)


def test_one_piece_in_sixteen_goes_map_by_map():
    order: list[str] = []

    def named(name: str) -> Callable[[int], int]:
        def call(value: int) -> int:
            order.append(name)
            return value

        return call

    runner = runner_of([lk.Map(named(name)) for name in "abcd"])
    ways = []
    for _ in range(40):
        order.clear()
        runner.work(run_of(4), ())
        ways.append("".join(order))
    alone = [number for number, way in enumerate(ways, 1) if way == "aaaabbbbccccdddd"]
    assert alone == [1, 16, 32]
    assert {*ways} == {"aaaabbbbccccdddd", "abcd" * 4}


def test_an_error_names_its_map_and_shows_the_users_function():
    def broken(value: int) -> int:
        return value // (value - 7)

    runner = runner_of([lk.Map(Step({})), lk.Map(Step({})), lk.Map(broken), lk.Map(Step({}))])
    runner.work(ElementRun([1000], Singles(np.array([3]))), ())
    failure = runner.work(run_of(20), ()).failure
    assert (
        failure is not None and failure.label.startswith("operations[2] Map(") and failure.indices == (105,)
    )
    frame = failure.error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    assert frame is not None and frame.tb_frame.f_code.co_name == "broken"
