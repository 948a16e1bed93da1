"""Arrays read by column: 1,000,000 records of `{"x": int64, "y": float32[16]}`, shuffled, Batch(256), 0 workers.

loaderkit reads an ArrayDataSource. The numpy gather takes keys of `IndexSampler.record_keys` in blocks of 16,384, one
`array[keys]` a column and block, cut in batches. Grain and torch read the same arrays record by record: they have no
columnar source. Steady records a second.
"""

from benchmarks import contender as by
from benchmarks.benchmark import Benchmark, Bound, Size, speedup
from benchmarks.measure import stream
from benchmarks.pipeline import Pipeline
from benchmarks.workloads.small import BATCH, Records
from loaderkit import ArrayDataSource


def pipeline(size: Size) -> Pipeline:
    """No steps."""
    records = size.pick(1_000_000, 4 * BATCH)
    return Pipeline(
        {
            "": lambda: Records(records),
            "loaderkit": lambda: ArrayDataSource(Records(records).columns()),
        },
        batch=BATCH,
        columns=lambda: Records(records).columns(),
    )


GATHER = by.bare("numpy gather", loop="gather")
OURS = by.ours()
GRAIN = (*by.grain_tuned(0), *by.grain_tuned(0, "MapDataset"))
(TORCH,) = by.torch(0)

BENCHMARKS = (
    Benchmark(
        "columnar",
        __doc__,
        (GATHER, OURS, *GRAIN, TORCH, by.TFDATA, by.HF),
        stream(pipeline),
        (
            speedup(OURS, GATHER, bound=Bound(">=", 0.6)),
            speedup(OURS, *GRAIN, best_of="best of grain tuned, 0 workers"),
            speedup(OURS, TORCH),
            speedup(OURS, by.TFDATA),
            speedup(OURS, by.HF),
        ),
    ),
)
