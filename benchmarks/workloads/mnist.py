"""60,000 images of 28x28x1 uint8 and a label, as a Python list of dicts in memory; shuffled, Batch(32), no Map.

Steady records a second. The bare loop is `rows = [data[k] for k in keys]` and np.stack of each leaf. The columnar
contenders hold the same data as two arrays: loaderkit's ArrayDataSource, and a numpy gather of keys from
`IndexSampler.record_keys` in blocks of 16,384, cut in batches.
"""

import numpy as np

from benchmarks import contender as by
from benchmarks.benchmark import Benchmark, Bound, Size, speedup
from benchmarks.measure import stream
from benchmarks.pipeline import Pipeline
from loaderkit import ArrayDataSource

BATCH = 32


def columns(records: int) -> dict[str, np.ndarray]:
    """The data by column: noise of this shape."""
    rng = np.random.default_rng(0)
    return {
        "image": rng.integers(0, 256, (records, 28, 28, 1), np.uint8),
        "label": rng.integers(0, 10, records),
    }


def as_list(records: int) -> list[dict[str, object]]:
    """The data as records."""
    data = columns(records)
    return [{"image": image, "label": int(label)} for image, label in zip(data["image"], data["label"])]


def pipeline(size: Size) -> Pipeline:
    """No steps."""
    records = size.pick(60_000, 4 * BATCH)
    return Pipeline(
        {"": lambda: as_list(records), "columns": lambda: ArrayDataSource(columns(records))},
        batch=BATCH,
        columns=lambda: columns(records),
    )


BARE, GATHER = by.bare(), by.bare("numpy gather", loop="gather")
OURS, OURS_2 = by.ours(), by.ours(2)
COLUMNAR = by.ours(label="columnar", source="columns")
GRAIN = by.grain(0, 2)
TORCH, TORCH_2 = by.torch(0, 2)

BENCHMARKS = (
    Benchmark(
        "mnist",
        __doc__,
        (BARE, GATHER, OURS, OURS_2, COLUMNAR, *GRAIN, TORCH, TORCH_2, by.TFDATA, by.HF),
        stream(pipeline),
        (
            speedup(OURS, BARE, bound=Bound(">=", 0.9)),
            speedup(OURS, *GRAIN, best_of="best of grain, 0 or 2 workers", bound=Bound(">=", 6)),
            speedup(OURS, TORCH),
            speedup(OURS_2, TORCH_2),
            speedup(COLUMNAR, GATHER, bound=Bound(">=", 0.4)),
            speedup(COLUMNAR, by.TFDATA),
            speedup(COLUMNAR, by.HF),
        ),
    ),
)
