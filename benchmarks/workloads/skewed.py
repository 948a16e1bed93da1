"""1 record in 50 takes 50 times as long, 2 workers: how much time is lost in waiting for slow records?

A record is its key; the Map works for 0.2 ms of CPU, or 10 ms where key % 50 == 0 (0.396 ms in the mean). Shuffled. The
bare pool is two processes that each work through their own share and never wait for each other. Steady records a
second, over a window twice the usual one.
"""

from collections.abc import Callable

from benchmarks import contender as by
from benchmarks.benchmark import Benchmark, Bound, Size, speedup
from benchmarks.measure import stream
from benchmarks.pipeline import Each, Pipeline
from benchmarks.work import spin

USUAL_S, SLOW_S = 0.2e-3, 10e-3
MANY = "Batch(64): about every batch has a slow record, and batches made ahead even out the rest.\n"
FEW = "Batch(8): one batch in seven has a slow record, and takes seven times as long as the others.\n"


def work(key: int) -> int:
    """The Map: slow for 1 record in 50."""
    spin(SLOW_S if key % 50 == 0 else USUAL_S)
    return key


def pipeline(rows: int) -> Callable[[Size], Pipeline]:
    """The keys and the work, in batches of `rows` rows."""
    return lambda size: Pipeline({"": lambda: range(100_000)}, (Each(work),), size.pick(rows, 4))


BARE_2, OURS_2 = by.bare_parallel(2, "process"), by.ours(2)
GRAIN_2 = (by.grain_default(2), *by.grain_tuned(2), *by.grain_tuned(2, "MapDataset"))
(TORCH_2,) = by.torch(2)

BENCHMARKS = tuple(
    Benchmark(
        f"skewed{name}",
        f"{__doc__}\n{about}",
        (BARE_2, OURS_2, *GRAIN_2, TORCH_2),
        stream(pipeline(rows), windows=2),
        (
            speedup(OURS_2, BARE_2, bound=Bound(">=", 0.9)),
            speedup(OURS_2, TORCH_2, bound=ahead),
            speedup(OURS_2, *GRAIN_2, best_of="best of grain, 2 workers", bound=ahead),
            speedup(BARE_2, *GRAIN_2, best_of="best of grain, 2 workers"),
        ),
    )
    for name, about, rows, ahead in (("", FEW, 8, Bound(">=", 1.2)), (", Batch(64)", MANY, 64, None))
)
