"""Time to the first batch with 2 workers, of the jpeg pipeline (64 photographs decoded and augmented).

The clock starts before the source is opened and the loader made, with the library imported and no worker running, and
stops with the first batch. The second iterator is made by `iter()` of the same loader, after the first one has given
one batch and was dropped; its clock runs from `iter()` to its first batch. "After start()" is another loader, whose
`start()` was called half a second before its clock begins at `iter()`. The decoding is half of what the bare loop, one
process, takes for the second batch. Milliseconds.
"""

import time

from benchmarks import contender as by
from benchmarks.benchmark import Benchmark, Bound, Comparison, Metrics, Round, Size, cost, shortening
from benchmarks.contender import Contender
from benchmarks.measure import open_loader, warm_up_library
from benchmarks.workloads.jpeg import pipeline

FIRST, SECOND = "first batch ms", "second iterator's first batch ms"
STARTED = "first batch ms after start()"
_AHEAD_SECONDS = 0.5


def measure(contender: Contender, size: Size) -> Metrics:
    """The times."""
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
    times = {FIRST: first * 1e3, SECOND: second * 1e3}
    if contender == OURS_2:
        with open_loader(work, contender) as loader:
            loader.start()
            time.sleep(_AHEAD_SECONDS)
            begin = time.perf_counter()
            next(iter(loader))
            times[STARTED] = (time.perf_counter() - begin) * 1e3
    return times


def second_over_first(results: Round) -> float:
    """What the second iterator takes beyond the decoding, as a share of what the first takes beyond it."""
    decoding = results[BARE.name][SECOND] / 2
    return (results[OURS_2.name][SECOND] - decoding) / (results[OURS_2.name][FIRST] - decoding)


BARE, OURS_2 = by.bare(), by.ours(2)
OURS_2_THREADS = by.ours(2, "thread")
DEFAULT_2, TUNED_2 = by.grain_default(2), by.grain_tuned(2)
GRAIN_2 = (DEFAULT_2, *TUNED_2, by.grain_default(2, "MapDataset"), *by.grain_tuned(2, "MapDataset"))
(TORCH_2,) = by.torch(2)

BENCHMARKS = (
    Benchmark(
        "start",
        __doc__,
        (BARE, OURS_2, OURS_2_THREADS, *GRAIN_2, TORCH_2),
        measure,
        (
            cost(OURS_2, *GRAIN_2, metric=FIRST, best_of="best of grain, 2 workers", bound=Bound("<=", 0.6)),
            Comparison(
                f"{OURS_2.name}: second iterator / first, both beyond the decoding (less is better)",
                second_over_first,
                Bound("<=", 0.1),
            ),
            Comparison(
                f"{OURS_2.name} after start() / {TORCH_2.name} (1 / first batch ms)",
                lambda results: results[TORCH_2.name][FIRST] / results[OURS_2.name][STARTED],
                Bound(">=", 1),
            ),
            shortening(OURS_2, *GRAIN_2, metric=FIRST, best_of="best of grain, 2 workers"),
            shortening(OURS_2, *GRAIN_2, metric=SECOND, best_of="best of grain, 2 workers"),
            shortening(OURS_2, TORCH_2, metric=FIRST),
            shortening(OURS_2, TORCH_2, metric=SECOND),
        ),
    ),
)
