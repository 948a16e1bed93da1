"""The analysis against simulated pipelines, where what limits them is found by lifting each limit in turn."""

import heapq
import os
import random
from dataclasses import dataclass, replace

import pytest

from loaderkit._engine.stats.counters import OperationCounters, PoolCounters, TrainerCounters, WorkerCounters
from loaderkit._engine.stats.stats import Stats
from loaderkit._loader.inspect.conclusion import (
    Experiments,
    Measured,
    advice_from,
    changes_of,
    is_limiting,
    limit_from,
)

NS = 10**9
STEPS = 240
ROWS = 10  # records of a batch
FREE = 1_000  # workers, processors, or batches ahead, of which there are enough


@dataclass(frozen=True)
class World:
    """A pipeline. Seconds are of a batch.

    waits, computes: of a worker. locked: under a lock that all workers share. step: of the trainer. growth: of what a
    worker computes, for each other worker (memory bandwidth). ahead: batches. processors: half of them are second
    threads of a core where smt is set, and add 30 %. burst: every so many batches, an eighth of them have all the work.
    pause: seconds in which the trainer doesn't ask, twice a run. noise: of each time.
    """

    seed: int
    workers: int
    waits: float
    computes: float
    locked: float
    step: float
    growth: float
    ahead: int
    processors: int
    smt: bool
    burst: int
    pause: float
    noise: float


def drawn(seed):
    """A pipeline of which one thing, drawn first, is far scarcer than the others."""
    draw = random.Random(seed)
    scarce = ("trainer", "waiting", "computing", "processors", "lock", "bursts")[seed % 6]
    work, workers = 0.02, draw.choice([1, 2, 4])
    computes = work * {"waiting": 0.1, "bursts": 0.1, "lock": 0.1}.get(scarce, draw.uniform(0.8, 1.0))
    loader = work / workers  # seconds a batch, if nothing else limits it
    step = loader * {"trainer": draw.uniform(2, 6), "bursts": draw.uniform(1.15, 1.3)}.get(
        scarce, draw.uniform(0.1, 0.4)
    )
    return World(
        seed,
        workers,
        work - computes,
        computes,
        locked=3 * loader if scarce == "lock" else 0.0,
        step=step,
        growth=draw.choice([0.0, 0.02, 0.05]),
        ahead=draw.choice([2, 4]),
        processors={"processors": workers}.get(scarce, 16),
        smt=draw.random() < 0.5 and scarce != "processors",
        burst=64 if scarce == "bursts" else 0,
        pause=draw.choice([0.0, 5.0]),
        noise=draw.choice([0.0, 0.1, 0.3]),
    )


def capacity(world, running):
    """Processors' worth of work that so many threads do together."""
    cores = world.processors / 2 if world.smt else world.processors
    return min(running, cores) + (0.3 * min(max(0.0, running - cores), cores) if world.smt else 0.0)


def simulate(world, workers, *, step=None):
    """The run of so many workers: records a second, and its figures."""
    draw = random.Random(world.seed)
    step = world.step if step is None else step
    grown = world.computes * (1 + world.growth * (min(workers, 32) - 1))
    stretch = 1.0
    for _ in range(50):  # threads that compute at once, and how much slower each of them is for it
        running = workers * grown * stretch / (grown * stretch + world.waits + 1e-12)
        stretch = 0.5 * stretch + 0.5 * max(1.0, running / max(capacity(world, running), 1e-12))
    on_processor = min(stretch, max(1.0, stretch * world.processors / max(running, world.processors)))
    free, lock, taken, now = [0.0] * min(workers, 200), 0.0, [], 0.0
    heapq.heapify(free)
    busy = waiting = paused = 0.0
    blocked = 0
    ends = []
    for batch in range(STEPS):
        while len(ends) < min(batch + world.ahead + len(free), STEPS):
            number = len(ends)
            asked = taken[number - world.ahead - len(free)] if number >= world.ahead + len(free) else 0.0
            begun = max(heapq.heappop(free), asked)
            work = (grown * stretch + world.waits) * max(0.1, draw.gauss(1, world.noise))
            if world.burst:
                work *= 8 * (number % world.burst < world.burst / 8) + 0.01
            end = begun + work
            if world.locked:
                lock = end = max(end, lock) + world.locked
            busy += end - begun
            ends.append(max(end, ends[-1] if ends else 0.0))
            heapq.heappush(free, end)
        if ends[batch] > now:
            waiting, blocked, now = waiting + ends[batch] - now, blocked + 1, ends[batch]
        taken.append(now)
        now += step
        if world.pause and batch in (STEPS // 3, STEPS // 2):
            paused, now = paused + world.pause, now + world.pause
    wall, records = now * len(free), STEPS * ROWS
    share = world.locked / (grown * stretch + world.waits + world.locked) if world.locked else 0.0
    computing = busy * (1 - share) * grown / (grown * stretch + world.waits)
    worker = WorkerCounters(
        0,
        "process",
        working=int(busy * NS / len(free)),
        starving=int(max(0.0, wall - busy) * NS / len(free)),
        cpu=int(computing * on_processor * NS / len(free)),
        delayed=int(computing * (stretch - on_processor) * NS / len(free)),
        tasks=STEPS,
        records=records // len(free) or 1,
        operations=(
            OperationCounters("operations[0] Decode", int(0.9 * busy * NS / len(free)), records, records),
        ),
    )
    trainer = TrainerCounters(
        elapsed=int(now * NS),
        waiting=int(waiting * NS),
        paused=int(paused * NS),
        elements=STEPS,
        blocked_calls=blocked,
    )
    pool = PoolCounters(tuple(replace(worker, number=number) for number in range(len(free))))
    return records / (now - paused), Stats(trainer, pool)


def true_limit(world):
    """What limits it: that of which more makes it faster, looked for in this order; None where it is a close call.

    Without pauses, which fill the queue but don't count.
    """
    world = replace(world, pause=0.0)
    here, alone = simulate(world, world.workers)[0], ROWS / world.step
    lifted = {
        "trainer": alone / here,
        "bursts": simulate(replace(world, ahead=FREE), world.workers)[0] / here,
        "workers": simulate(world, 2 * world.workers)[0] / here,
        "processors": simulate(replace(world, processors=FREE, growth=0.0, smt=False), 2 * world.workers)[0]
        / here,
        "operation": simulate(replace(world, locked=0.0), world.workers)[0] / here,
    }
    if lifted["trainer"] < 1.03:
        return "trainer"
    for kind in ("bursts", "workers", "processors", "operation"):
        if lifted["trainer"] < 1.15 or 1.05 < lifted[kind] < 1.25:
            return None
        if lifted[kind] >= 1.25:
            return kind
    return None


def experiments_with(world, *, demand=True):
    """What `loader.explain` measures of it, each rate off by 1 % or so."""
    draw = random.Random(world.seed + 1)

    def measured(workers, **settings):
        rate, stats = simulate(world, workers, **settings)
        return Measured(rate * draw.gauss(1, 0.01), stats)

    counts = sorted({max(1, world.workers // 2), world.workers, 2 * world.workers})
    quick = {} if demand else {"step": 1e-6}
    return Experiments(
        world.workers,
        world.processors,
        0,
        {count: measured(count, **quick) for count in counts},
        measured(world.workers, step=1e-6),
        demand=ROWS / world.step * draw.gauss(1, 0.01) if demand else None,
    )


def clear_worlds(count):
    """The first worlds whose limit is no close call."""
    found, seed = [], 0
    while len(found) < count:
        if (limit := true_limit(world := drawn(seed))) is not None:
            found.append((world, limit))
        seed += 1
    return found


# To find fifty took a second of each process that collects the tests.
WORLDS = clear_worlds(50 if os.environ.get("HYPOTHESIS_PROFILE") == "nightly" else 15)


def test_every_limit_is_among_the_worlds():
    assert {limit for _, limit in WORLDS} == {"trainer", "bursts", "workers", "processors", "operation"}


@pytest.mark.parametrize(("world", "limit"), WORLDS, ids=[f"{world.seed}-{limit}" for world, limit in WORLDS])
def test_the_limit_is_found_and_no_rate_is_promised_that_does_not_come(world, limit):
    made = experiments_with(world)
    found, changes = limit_from(made), changes_of(made)
    assert found.kind == limit
    assert is_limiting(made) is (limit != "trainer")
    if limit == "trainer":
        assert advice_from(made, found, changes) == ""
    for change in changes:
        true = simulate(world, int(change.what.partition("=")[2]))[0]
        if change.known == "at most":
            assert true <= 1.05 * change.rate
        else:
            assert true == pytest.approx(change.rate, rel=0.05 if change.known == "measured" else 0.15)
        assert change.gain == pytest.approx(change.rate / made.here.rate)


@pytest.mark.parametrize("world", [world for world, _ in WORLDS[:10]], ids=lambda world: str(world.seed))
def test_without_a_demand_there_is_no_gain(world):
    made = experiments_with(world, demand=False)
    assert is_limiting(made) is None
    assert all(change.gain is None for change in changes_of(made))
