"""A run goes through the stages of a level piece by piece: it gives what it would as a whole, and holds less."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

import loaderkit as lk
from benchmarks.work import spin
from loaderkit.transforms.level_runner import LevelRunner, PiecePace, compile_levels
from loaderkit.transforms.run import ElementRun, Singles


class Drawn(PiecePace):
    """Sizes from a list, over and over, whatever the clock says."""

    def __init__(self, sizes: list[int]) -> None:
        super().__init__()
        self.sizes = sizes
        self.size = sizes[0]

    def took(self, seconds: float, *, elements: int) -> None:
        self.sizes = [*self.sizes[1:], self.sizes[0]]
        self.size = self.sizes[0]


class FailsOn:
    """Adds one, but raises of some values."""

    def __init__(self, values: set[int]) -> None:
        self.values = values

    def __call__(self, value: int) -> int:
        if value in self.values:
            raise ValueError(f"not {value}")
        return value + 1


def drawn(value: int, rng: np.random.Generator) -> int:
    return value + int(rng.integers(100)) * 1000


def small(value: int) -> bool:
    return value % 5 != 0


def twice(value: int) -> list[int]:
    return [value] * (value % 3)


OPERATIONS = {
    "map": lambda fails: lk.Map(FailsOn(fails)),
    "random": lambda fails: lk.RandomMap(drawn),
    "index": lambda fails: lk.MapWithIndex(lambda index, value: value + index),
    "filter": lambda fails: lk.Filter(small),
    "flat": lambda fails: lk.FlatMap(twice, max_fan_out=2),
}


def runner_of(names: list[str], fails: list[set[int]], sizes: list[int]) -> LevelRunner:
    operations = [OPERATIONS[name](values) for name, values in zip(names, fails, strict=True)]
    (level,) = compile_levels(operations, seed=3)
    return LevelRunner(level, Drawn(sizes))


def run_of(count: int, *, changing: bool) -> ElementRun:
    indices = np.arange(100, 100 + count)
    if not changing:
        return ElementRun(list(range(count)), Singles(indices), None)
    begins = [(index,) for index in indices.tolist()]
    return ElementRun(list(range(count)), begins, [(index + 1,) for (index,) in begins])


@given(
    count=st.integers(0, 30),
    names=st.lists(st.sampled_from(sorted(OPERATIONS)), min_size=2, max_size=4),
    fails=st.lists(st.sets(st.integers(0, 30), max_size=2), min_size=4, max_size=4),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    children=st.lists(st.integers(0, 2), min_size=4, max_size=4),
)
@example(count=30, names=["map", "map"], fails=[{20}, {5}, set(), set()], sizes=[4], children=[0] * 4)
@example(count=30, names=["flat", "flat"], fails=[set()] * 4, sizes=[1, 4], children=[1, 1, 0, 0])
def test_a_run_in_pieces_gives_what_it_gives_as_a_whole(count, names, fails, sizes, children):
    changing = "filter" in names or "flat" in names
    fails = fails[: len(names)]
    # Where a stream is entered again: behind so many children, in each FlatMap.
    start = (100, *children[: names.count("flat")])
    whole = runner_of(names, fails, [count + 1]).work(run_of(count, changing=changing), start)
    made = runner_of(names, fails, sizes).work(run_of(count, changing=changing), start)
    failed, failure = whole.failure, made.failure
    assert made.values == whole.values
    assert list(made.begins) == list(whole.begins)
    assert (made.ends is None) == (whole.ends is None)
    assert made.ends is None or list(made.ends) == list(whole.ends)
    assert (failure is None) == (failed is None)
    if failure is not None:
        assert (str(failure.error), failure.label, failure.indices) == (
            str(failed.error), failed.label, failed.indices
        )  # fmt: skip


@given(costs=st.lists(st.floats(1e-9, 10.0), min_size=1, max_size=20))
def test_the_size_of_a_piece_settles_wherever_it_was_driven_to(costs):
    """A pause of the machine makes pieces small for a while; calls that cost nothing make them large."""
    pace = PiecePace()
    for cost in costs:
        pace.took(cost, elements=pace.size)
        assert pace.size >= 1
    for _ in range(80):
        pace.took(pace.size * 10e-6, elements=pace.size)
    assert 2 <= pace.size <= 10  # of 10 us each: 25 to 100 us
    for _ in range(80):
        pace.took(pace.size * 1e-3, elements=pace.size)
    assert pace.size == 1


class Decoded:
    """A large element between two operations; knows how many of it there are."""

    alive = most = 0

    def __init__(self, value: int) -> None:
        self.value = value
        Decoded.alive += 1
        Decoded.most = max(Decoded.most, Decoded.alive)
        spin(1e-3)

    def __del__(self) -> None:
        Decoded.alive -= 1


def test_elements_that_take_longer_than_those_before_go_in_smaller_pieces():
    """Also if a whole run has become one piece: no piece is as large as the aim was then."""
    pace = PiecePace()
    fast = LevelRunner(*compile_levels([lk.Map(abs), lk.Map(abs)], seed=None), pace)
    for _ in range(20):
        fast.work(ElementRun([1] * 64, Singles(np.arange(64)), None), ())
    assert pace.size > 64
    Decoded.alive = Decoded.most = 0
    slow = LevelRunner(*compile_levels([lk.Map(Decoded), lk.Map(type)], seed=None), pace)
    slow.work(ElementRun([1] * 64, Singles(np.arange(64)), None), ())
    assert pace.size == 1


def test_what_takes_long_is_not_made_for_a_whole_batch_before_the_next_operation_sees_it():
    Decoded.alive = Decoded.most = 0
    loader = lk.DataLoader(
        data_source=range(64),
        sampler=lk.SequentialSampler(64),
        operations=[lk.Map(Decoded), lk.Map(lambda made: made.value), lk.Batch(64)],
    )
    (batch,) = loader
    np.testing.assert_array_equal(batch, np.arange(64))
    assert Decoded.alive == 0
    assert Decoded.most <= 5  # a first piece of four, and one on its way
