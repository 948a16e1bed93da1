"""1,000 images of 224x224x3 uint8 in memory and a label; shuffled, Batch(64) (9.6 MB), no Map, 2 workers.

Steady records a second. Then the consumer's CPU time in `next()` on a batch that is ready: it waits 0.3 s after each
batch, and the thread's CPU clock runs around the call alone; the median of 15. "loaderkit" reads the same Python source
as the others, record by record; "loaderkit columnar" an ArrayDataSource of the same arrays. The bare loop with 2
processes stacks each batch in both of them and drops it: as much as two processors can copy, with nothing handed over.
With one buffer each it writes every batch to the same memory, which stays in the caches; with four each, together, to
as many as a loader has in turn: six batches of 9.6 MB that workers make or have made, and two that the user has.
"""

import statistics
import time

import numpy as np

from benchmarks import contender as by
from benchmarks.benchmark import Benchmark, Bound, Metrics, Size, plain, speedup
from benchmarks.contender import Contender
from benchmarks.measure import open_loader, steady
from benchmarks.pipeline import Pipeline
from loaderkit import ArrayDataSource

BATCH = 64
READY = "CPU us of next() on a ready batch"


class Images:
    """`{"image": uint8 (224, 224, 3), "label": int}`."""

    def __init__(self, records: int) -> None:
        rng = np.random.default_rng(0)
        self.images = rng.integers(0, 256, (records, 224, 224, 3), np.uint8)
        self.labels = rng.integers(0, 1000, records)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, key: int) -> dict[str, object]:
        return {"image": self.images[key], "label": int(self.labels[key])}

    def columns(self) -> dict[str, np.ndarray]:
        """The same data by column."""
        return {"image": self.images, "label": self.labels}


def pipeline(size: Size) -> Pipeline:
    """No steps."""
    records = size.pick(1_000, BATCH)
    return Pipeline(
        {
            "": lambda: Images(records),
            "columns": lambda: ArrayDataSource(Images(records).columns()),
        },
        batch=BATCH,
        columns=lambda: Images(records).columns(),
    )


def measure(contender: Contender, size: Size) -> Metrics:
    """The steady rate, then a loader's `next()` on ready batches."""
    metrics = steady(pipeline(size), contender, size).metrics()
    return metrics if contender.peer == "bare" else {**metrics, READY: ready_next(contender, size)}


def ready_next(contender: Contender, size: Size) -> float:
    """Median CPU microseconds of the calling thread in `next()`, when the batch has been ready for a while."""
    spent = []
    with open_loader(pipeline(size), contender) as loader:
        batches = iter(loader)
        batch = next(batches)
        for _ in range(size.pick(17, 2)):
            batch = next(batches)
            time.sleep(size.pick(300, 1) / 1000)
            begin = time.thread_time()
            batch = next(batches)
            spent.append(time.thread_time() - begin)
        del batch
    return statistics.median(spent[-15:]) * 1e6


BARE, BARE_2 = by.bare(), by.bare_parallel(2, "process")
HOT_2, ROTATING_2 = by.bare_parallel(2, "process", buffers=1), by.bare_parallel(2, "process", buffers=4)
OURS_2, COLUMNAR_2 = by.ours(2), by.ours(2, label="columnar", source="columns")
TUNED_2 = by.grain_tuned(2)
DATASET_2 = (by.grain_default(2, "MapDataset"), *by.grain_tuned(2, "MapDataset"))
(TORCH_2,) = by.torch(2)

BENCHMARKS = (
    Benchmark(
        "images",
        __doc__,
        (
            BARE,
            BARE_2,
            HOT_2,
            ROTATING_2,
            OURS_2,
            COLUMNAR_2,
            by.grain_default(2),
            *TUNED_2,
            *DATASET_2,
            TORCH_2,
            by.TFDATA,
        ),
        measure,
        (
            speedup(
                OURS_2, *TUNED_2, best_of="best of grain DataLoader tuned, 2 workers", bound=Bound(">=", 20)
            ),
            speedup(OURS_2, *DATASET_2, best_of="best of grain MapDataset, 2 workers"),
            speedup(OURS_2, TORCH_2),
            speedup(COLUMNAR_2, TORCH_2),
            speedup(COLUMNAR_2, by.TFDATA),
            speedup(OURS_2, BARE_2),
            speedup(OURS_2, HOT_2),
            speedup(OURS_2, ROTATING_2, bound=Bound(">=", 0.95)),
            speedup(COLUMNAR_2, ROTATING_2),
            speedup(OURS_2, BARE),
            speedup(BARE_2, *TUNED_2, best_of="best of grain DataLoader tuned, 2 workers"),
            plain(OURS_2, READY, Bound("<=", 60)),
            plain(COLUMNAR_2, READY, Bound("<=", 60)),
        ),
    ),
)
