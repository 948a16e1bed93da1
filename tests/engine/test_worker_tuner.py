"""The number of workers follows a pipeline's need, and comes to rest; the pipeline is arithmetic, as is its time."""

import math
import random
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from loaderkit._engine.worker_tuner import Figures, WorkerTuner

MINUTE = 60
HOUR = 60 * MINUTE


@dataclass
class Pipeline:
    """A trainer that takes `demand` records a second, and workers that make `speed` each, together at most `cap`."""

    most: int
    demand: float
    speed: float
    cap: float = math.inf
    noise: float = 0.0
    seed: int = 0
    delayed: float = 0.0  # of the workers' time
    at: float = 0.0
    counted: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0, 0.0, 0.0])
    changes: list[tuple[float, int]] = field(default_factory=list)

    def __post_init__(self):
        self.tuner = WorkerTuner(self.most)
        self.random = random.Random(self.seed)

    def run(self, seconds):
        """Looks twice a second; the numbers of workers since then."""
        numbers = []
        for _ in range(2 * seconds):
            workers = self.tuner.workers
            self.at += 0.5
            demand = self.demand * self.random.uniform(1 - self.noise, 1 + self.noise)
            supply = min(workers * self.speed, self.cap) * self.random.uniform(1 - self.noise, 1 + self.noise)
            rate = min(demand, supply)
            busy = 1.0 if supply <= demand else demand / supply
            passed = [1 - rate / demand, busy * workers, self.delayed * workers, rate, 100 * workers]
            self.counted = [sum_ + 0.5 * each for sum_, each in zip(self.counted, passed, strict=True)]
            blocked, busy, delayed, records, tasks = self.counted
            choice = self.tuner.look(Figures(self.at, blocked, busy, delayed, int(records), int(tasks)))
            if choice is not None:
                assert choice.workers == self.tuner.workers != workers
                self.changes.append((self.at, choice.workers))
            assert 1 <= self.tuner.workers <= self.most
            numbers.append(self.tuner.workers)
        return numbers

    @property
    def enough(self):
        """The fewest that make what the trainer takes."""
        return min(self.most, math.ceil(self.demand / self.speed))

    def changes_since(self, at):
        return sum(when > at for when, _ in self.changes)


machines = st.integers(1, 128)
ratios = st.floats(0.02, 200.0)  # workers that the trainer would keep busy
noises = st.sampled_from([0.0, 0.02, 0.05])
seeds = st.integers(0, 99)


@given(machines, ratios, noises, seeds)
def test_a_minute_is_enough_to_find_enough_workers(most, ratio, noise, seed):
    """And not many more than enough."""
    pipeline = Pipeline(most, demand=1e5, speed=1e5 / ratio, noise=noise, seed=seed)
    pipeline.run(MINUTE)
    at_rest = pipeline.run(MINUTE)
    assert min(at_rest) >= math.floor(pipeline.enough * 0.93)
    assert max(at_rest) <= max(2, math.ceil(pipeline.enough * 1.5) + 1)


@given(machines, ratios, st.none() | st.floats(1.0, 60.0), noises, seeds)
def test_the_number_comes_to_rest(most, ratio, cap, noise, seed):
    """Also where more workers make no more: an hour has a few tries, later ones have fewer."""
    speed = 1e5 / ratio
    pipeline = Pipeline(most, 1e5, speed, math.inf if cap is None else cap * speed, noise, seed)
    pipeline.run(HOUR)
    assert len(pipeline.changes) <= 40
    pipeline.run(HOUR)
    assert pipeline.changes_since(HOUR) <= 20


@given(st.integers(4, 128), st.floats(1.0, 40.0), noises, seeds)
def test_workers_that_bring_nothing_are_given_up(most, cap, noise, seed):
    """They share a disk, or a lock: most of the time there are as many as bring something."""
    pipeline = Pipeline(most, demand=1e6, speed=100.0, cap=100 * cap, noise=noise, seed=seed)
    pipeline.run(5 * MINUTE)
    numbers = sorted(pipeline.run(30 * MINUTE))
    assert numbers[len(numbers) // 2] <= max(2, 2 * math.ceil(cap))


@given(st.integers(2, 128), st.floats(2.0, 100.0), noises, seeds)
def test_the_number_follows_a_trainer_that_gets_slower_and_faster(most, ratio, noise, seed):
    pipeline = Pipeline(most, demand=1e5, speed=1e5 / ratio, noise=noise, seed=seed)
    pipeline.run(2 * MINUTE)
    pipeline.demand /= 10
    pipeline.run(10 * MINUTE)
    assert pipeline.tuner.workers <= max(2, math.ceil(2 * pipeline.enough))
    pipeline.demand *= 10
    pipeline.run(MINUTE)
    assert pipeline.tuner.workers >= math.floor(0.93 * pipeline.enough)


@given(machines, st.floats(4.0, 40.0))
def test_processors_that_are_all_in_use_get_no_more_workers(most, ratio):
    pipeline = Pipeline(most, demand=1e5, speed=1e5 / ratio, delayed=0.4)
    pipeline.run(MINUTE)
    assert pipeline.changes == []


def test_what_is_not_known_changes_nothing():
    """A pause of the trainer, tasks that take long, workers that start: no period ends there."""
    tuner = WorkerTuner(8)
    assert tuner.look(Figures(0.0, 0.0, 0.0, 0.0, 0, 0)) is None
    assert tuner.look(Figures(600.0, 599.0, 1200.0, None, 7, 7)) is None  # seven tasks in ten minutes
    assert tuner.look(Figures(601.0, 600.0, 1202.0, None, 90, 90, starting=1)) is None
    assert (
        tuner.look(Figures(601.5, 600.5, 1203.0, None, 900, 900)) is None
    )  # half a second since all are ready
    assert tuner.look(Figures(602.5, 601.5, 1205.0, None, 1800, 1800)).workers == 4
