"""k = 0, 10 and 50 Maps of x + 1 on scalars: what each Map costs beyond the call itself.

The source is `range(1_000_000)`, shuffled, Batch(256), 0 workers. Microseconds a record for each k, and (k = 50 less
k = 0) / 50 as microseconds a Map. The bare loop is `for f in functions: x = f(x)` for each record, and np.stack: its
own microseconds a Map are the bare call, which is subtracted.
"""

from benchmarks import contender as by
from benchmarks.benchmark import Benchmark, Bound, Comparison, Metrics, Size, shortening
from benchmarks.contender import Contender
from benchmarks.measure import steady
from benchmarks.pipeline import Each, Pipeline

LENGTHS = (0, 10, 50)
BATCH = 256
A_MAP = "us a Map"


def add_one(x: int) -> int:
    """One Map."""
    return x + 1


def measure(contender: Contender, size: Size) -> Metrics:
    """Microseconds a record for each length, and a Map."""
    took = {k: microseconds(k, contender, size) for k in LENGTHS}
    return {**{named(k): us for k, us in took.items()}, A_MAP: (took[50] - took[0]) / 50}


def named(k: int) -> str:
    """The metric for that many Maps."""
    return f"us a record, k = {k}"


def microseconds(k: int, contender: Contender, size: Size) -> float:
    """Microseconds a record with k Maps."""
    pipeline = Pipeline({"": lambda: range(1_000_000)}, (Each(add_one),) * k, BATCH)
    seen = steady(pipeline, contender, size)
    return seen.seconds / seen.records * 1e6


BARE, OURS = by.bare(), by.ours()
TUNED = by.grain_tuned(0)
DATASET = by.grain_tuned(0, "MapDataset")
(TORCH,) = by.torch(0)

BENCHMARKS = (
    Benchmark(
        "chain",
        __doc__,
        (BARE, OURS, by.grain_default(0), *TUNED, *DATASET, TORCH),
        measure,
        (
            Comparison(
                f"{OURS.name} less {BARE.name}: {A_MAP}",
                lambda results: results[OURS.name][A_MAP] - results[BARE.name][A_MAP],
                Bound("<=", 0.3),
            ),
            *(shortening(OURS, BARE, metric=named(k)) for k in LENGTHS),
            shortening(
                OURS,
                *TUNED,
                metric=named(0),
                best_of="best of grain DataLoader tuned, 0 workers",
                bound=Bound(">=", 10),
            ),
            *(
                shortening(OURS, *TUNED, metric=named(k), best_of="best of grain DataLoader tuned, 0 workers")
                for k in LENGTHS[1:]
            ),
            *(shortening(OURS, TORCH, metric=named(k)) for k in LENGTHS),
        ),
    ),
)
