"""Memory of a 1 GB source in memory, shuffled, Batch(32), with 4 worker processes.

250,000 records, each 4,096 bytes of uint8, rows of one array: loaderkit's InMemoryDataSource, a Python list for the
others. The sum of the proportional set sizes (PSS, pages shared by n processes count 1/n in each) of the trainer and
all its children, in MB: after 1,000 batches, and after 100,000 or as many as 60 seconds allow (see the column
"batches"). The array from which loaderkit's source was made is freed before.
"""

import time

import numpy as np

from benchmarks import contender as by
from benchmarks.benchmark import Benchmark, Bound, Comparison, Metrics, Size, plain, shortening
from benchmarks.contender import Contender
from benchmarks.measure import open_loader, pss_bytes
from benchmarks.pipeline import Pipeline
from loaderkit import InMemoryDataSource

BATCH = 32
WORKERS = 4
SECONDS = 60.0
EARLY, LATE, BATCHES = "PSS MB early", "PSS MB late", "batches"


def records(count: int) -> list[np.ndarray]:
    """Rows of one array; its memory is freed with the last row."""
    return list(np.random.default_rng(0).integers(0, 256, (count, 4096), np.uint8))


def pipeline(size: Size) -> Pipeline:
    """No steps."""
    count = size.pick(250_000, 4 * BATCH)
    return Pipeline(
        {"": lambda: records(count), "loaderkit": lambda: InMemoryDataSource(records(count))}, batch=BATCH
    )


def measure(contender: Contender, size: Size) -> Metrics:
    """The two sums, and the number of batches."""
    early, late = size.pick(1_000, 2), size.pick(100_000, 4)
    with open_loader(pipeline(size), contender) as loader:
        batches = iter(loader)
        batch = next(batches)
        for _ in range(early - 1):
            batch = next(batches)
        at_first = pss_bytes()
        taken, begin = early, time.monotonic()
        while taken < late and time.monotonic() - begin < SECONDS:
            batch = next(batches)
            taken += 1
        at_last = pss_bytes()
        del batch
    return {EARLY: at_first / 1e6, LATE: at_last / 1e6, BATCHES: float(taken)}


OURS = by.ours(WORKERS)
GRAIN = by.grain_tuned(WORKERS)[0]
(TORCH,) = by.torch(WORKERS)

BENCHMARKS = (
    Benchmark(
        "memory",
        __doc__,
        (OURS, GRAIN, TORCH),
        measure,
        (
            plain(OURS, LATE, Bound("<=", 1_200 + WORKERS * 100)),
            Comparison(
                f"{OURS.name}: late / early (1 is flat)",
                lambda results: results[OURS.name][LATE] / results[OURS.name][EARLY],
                Bound("<=", 1.02),
            ),
            shortening(OURS, GRAIN, metric=LATE),
            shortening(OURS, TORCH, metric=LATE),
        ),
    ),
)
