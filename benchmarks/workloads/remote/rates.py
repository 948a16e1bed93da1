"""Two workers on "other" hosts, which are processes of this one behind our TCP connections, and one here.

Steady records a second, over a window four times the usual one, which begins once all workers are there. All share the
processors of this machine with the trainer, so the ratio to as many workers here says what the connections cost.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import contender as by
from benchmarks.benchmark import (
    CPU,
    FIRST,
    PER_SECOND,
    Benchmark,
    Bound,
    Comparison,
    Metrics,
    Round,
    Size,
    speedup,
)
from benchmarks.contender import Contender
from benchmarks.measure import cpu_seconds, open_loader, rows_of, take, warm_up_library
from benchmarks.pipeline import Each, Pipeline
from benchmarks.work import spin
from benchmarks.workloads import images, jpeg

PATIENCE_S = 60.0
DELAYS_MS = (1, 10, 50)


def worked(record: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """0.5 ms of work that changes nothing."""
    spin(0.5e-3)
    return record


def bare_arrays(size: Size) -> Pipeline:
    """1,000 images of 224x224x3 uint8, as in `images`, and no work."""
    return images.pipeline(size)


def worked_arrays(size: Size) -> Pipeline:
    """The same with 0.5 ms of work each."""
    pipeline = images.pipeline(size)
    return Pipeline(pipeline.sources, (Each(worked),), pipeline.batch)


def waited(key: int) -> np.ndarray:
    """2 ms in which no processor works, so that the workers alone limit the rate."""
    time.sleep(2e-3)
    return np.full(128, key)


def waiting(size: Size) -> Pipeline:
    """Rows of 1 KB that are waited for."""
    return Pipeline({"": lambda: range(100_000)}, (Each(waited),), size.pick(64, 4))


def wait_for_all(batches: Any, pipeline: Pipeline, size: Size) -> None:
    """Takes batches until both workers elsewhere are there, and until their first tasks have come."""
    limit = time.monotonic() + (0 if size.smoke else PATIENCE_S)
    while sum(worker.kind == "remote" for worker in batches.stats().pool.workers) < 2:
        take(batches, pipeline, seconds=0.1, least=1)
        if time.monotonic() > limit:
            break
    take(batches, pipeline, seconds=size.seconds, least=1)


def rate(make: Callable[[Size], Pipeline]) -> Callable[[Contender, Size], Metrics]:
    """As `measure.stream`, with a warm-up that lasts until all workers are there."""

    def measure(contender: Contender, size: Size) -> Metrics:
        warm_up_library(contender)
        pipeline = make(size)
        begin = time.perf_counter()
        with open_loader(pipeline, contender) as loader:
            batches = iter(loader)
            rows_of(next(batches), pipeline)
            first_s = time.perf_counter() - begin
            if "remote" in contender.options:
                wait_for_all(batches, pipeline, size)
            else:
                take(batches, pipeline, seconds=size.seconds, least=1)
            cpu = cpu_seconds()
            records, seconds = take(batches, pipeline, seconds=4 * size.seconds, least=1)
            spent = cpu_seconds() - cpu
        return {PER_SECOND: records / seconds, CPU: spent / records * 1e6, FIRST: first_s * 1e3}

    return measure


def later(of: Contender, to: Contender, bound: Bound) -> Comparison:
    """By how many milliseconds the first batch comes later."""

    def value(results: Round) -> float:
        return results[of.name][FIRST] - results[to.name][FIRST]

    return Comparison(f"{of.name} - {to.name} ({FIRST})", value, bound)


def elsewhere(delay_ms: float | None = None) -> Contender:
    """A worker here, and two elsewhere."""
    label = "+ 2 elsewhere" + ("" if delay_ms is None else f", {delay_ms} ms later")
    delay_s = None if delay_ms is None else delay_ms / 1e3
    return by.ours(1, label=label, remote=2, delay_s=delay_s)


OURS_1, OURS_3, ELSEWHERE = by.ours(1), by.ours(3), elsewhere()
UNDELAYED, DELAYED = elsewhere(0), tuple(map(elsewhere, DELAYS_MS))

BENCHMARKS = (
    *(
        Benchmark(
            f"remote, {name}",
            f"{__doc__}\n{about}",
            (OURS_1, OURS_3, ELSEWHERE),
            rate(make),
            (
                speedup(ELSEWHERE, OURS_3, bound=Bound(">=", at_least)),
                later(ELSEWHERE, OURS_1, Bound("<=", 100)),
            ),
        )
        for name, about, make, at_least in (
            ("photographs", "The pipeline of `jpeg`.\n", jpeg.pipeline, 0.9),
            ("arrays, 0.5 ms", "The arrays of `images`, with 0.5 ms of work each.\n", worked_arrays, 0.8),
            ("arrays", "The arrays of `images`: nothing but copies.\n", bare_arrays, 0.6),
        )
    ),
    Benchmark(
        "remote, far away",
        f"""{__doc__}
Rows of 1 KB that take 2 ms, in which no processor works, so that the workers alone limit the rate. A relay delivers
each byte 1, 10 and 50 ms later, in both directions; "0 ms later" is the relay alone.
""",
        (UNDELAYED, *DELAYED),
        rate(waiting),
        tuple(speedup(each, UNDELAYED, bound=Bound(">=", 0.9)) for each in DELAYED),
    ),
)
