"""Time to the first batch with 2 workers, of the jpeg pipeline (64 photographs decoded and augmented).

The clock starts before the source is opened and the loader made, with the library imported and no worker running, and
stops with the first batch. The second iterator is made by `iter()` of the same loader, after the first one has given
one batch and was dropped; its clock runs from `iter()` to its first batch. Milliseconds.
"""

import time

from benchmarks import contender as by
from benchmarks.benchmark import Benchmark, Bound, Comparison, Metrics, Size, cost, shortening
from benchmarks.contender import Contender
from benchmarks.measure import open_loader, warm_up_library
from benchmarks.workloads.jpeg import pipeline

FIRST, SECOND = "first batch ms", "second iterator's first batch ms"


def measure(contender: Contender, size: Size) -> Metrics:
    """Both times."""
    warm_up_library(contender)
    work = pipeline(size)
    begin = time.perf_counter()
    with open_loader(work, contender) as loader:
        batches = iter(loader)
        next(batches)
        first = time.perf_counter() - begin
        del batches
        begin = time.perf_counter()
        batches = iter(loader)
        next(batches)
        second = time.perf_counter() - begin
        del batches
    return {FIRST: first * 1e3, SECOND: second * 1e3}


OURS_2 = by.ours(2)
OURS_2_THREADS = by.ours(2, "thread")
DEFAULT_2, TUNED_2 = by.grain_default(2), by.grain_tuned(2)
GRAIN_2 = (DEFAULT_2, *TUNED_2, by.grain_default(2, "MapDataset"), *by.grain_tuned(2, "MapDataset"))
(TORCH_2,) = by.torch(2)

BENCHMARKS = (
    Benchmark(
        "start",
        __doc__,
        (by.bare(), OURS_2, OURS_2_THREADS, *GRAIN_2, TORCH_2),
        measure,
        (
            cost(OURS_2, *GRAIN_2, metric=FIRST, best_of="best of grain, 2 workers", bound=Bound("<=", 0.6)),
            Comparison(
                f"{OURS_2.name}: second iterator / first (less is better)",
                lambda results: results[OURS_2.name][SECOND] / results[OURS_2.name][FIRST],
                Bound("<=", 0.1),
            ),
            shortening(OURS_2, *GRAIN_2, metric=FIRST, best_of="best of grain, 2 workers"),
            shortening(OURS_2, *GRAIN_2, metric=SECOND, best_of="best of grain, 2 workers"),
            shortening(OURS_2, TORCH_2, metric=FIRST),
            shortening(OURS_2, TORCH_2, metric=SECOND),
        ),
    ),
)
