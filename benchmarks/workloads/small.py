"""Small records of a Python source, so that nearly all the cost is the loader's.

Read: `source[k]` gives `{"x": k, "y": float32[16]}` (a Python int, a row of one array). Map: y * 2. Shuffled, 256 rows
a batch. Steady records a second, CPU of all processes, and time to the first batch. The bare loop is
`rows = [f(source[k]) for k in keys]` and np.stack of each leaf; the sharp one makes x by a single np.array call. torch
gives tensors, all others numpy arrays.
"""

from typing import Any

import numpy as np

from benchmarks import contender as by
from benchmarks.benchmark import Benchmark, Bound, Size, speedup
from benchmarks.measure import stream
from benchmarks.pipeline import Draw, Each, Pipeline, Step

BATCH = 256


class Records:
    """`{"x": k, "y": row k}`.

    Args:
        records: how many.
    """

    def __init__(self, records: int) -> None:
        self.y = np.random.default_rng(0).random((records, 16), np.float32)

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, key: int) -> dict[str, object]:
        return {"x": key, "y": self.y[key]}

    def columns(self) -> dict[str, np.ndarray]:
        """The same data by column."""
        return {"x": np.arange(len(self)), "y": self.y}


def double(record: dict[str, Any]) -> dict[str, Any]:
    """One Map."""
    return {"x": record["x"], "y": record["y"] * 2}


def jitter(record: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """One RandomMap that draws one number."""
    return {"x": record["x"], "y": record["y"] * np.float32(rng.random())}


def pipeline(size: Size, step: Step) -> Pipeline:
    """100,000 records and one step."""
    records = size.pick(100_000, 2 * BATCH)
    return Pipeline(
        {"": lambda: Records(records)},
        (step,),
        BATCH,
        columns=lambda: Records(records).columns(),
        graph=double if step == Each(double) else None,
    )


BARE, SHARP = by.bare(), by.bare("bare loop, sharp", loop="sharp")
OURS, OURS_2 = by.ours(), by.ours(2)
TORCH, TORCH_2 = by.torch(0, 2)
GRAIN = by.grain(0, 2)
TUNED, TUNED_2 = by.grain_tuned(0), by.grain_tuned(2)
DATASET, DATASET_2 = by.named(GRAIN, "MapDataset", "0 w"), by.named(GRAIN, "MapDataset", "2 w")

BENCHMARKS = (
    Benchmark(
        "small",
        __doc__,
        (BARE, SHARP, OURS, OURS_2, *GRAIN, TORCH, TORCH_2, by.TFDATA, by.HF),
        stream(lambda size: pipeline(size, Each(double))),
        (
            speedup(OURS, BARE, bound=Bound(">=", 1.0)),
            speedup(OURS, SHARP),
            speedup(OURS, *TUNED, best_of="best of grain DataLoader tuned, 0 workers", bound=Bound(">=", 20)),
            speedup(BARE, *TUNED, best_of="best of grain DataLoader tuned, 0 workers"),
            speedup(OURS, *DATASET, best_of="best of grain MapDataset, 0 workers"),
            speedup(OURS, TORCH, bound=Bound(">=", 1.0)),
            speedup(OURS, by.HF),
            speedup(OURS_2, OURS, bound=Bound(">=", 1.2)),
            speedup(
                OURS_2, *TUNED_2, best_of="best of grain DataLoader tuned, 2 workers", bound=Bound(">=", 20)
            ),
            speedup(OURS_2, *DATASET_2, best_of="best of grain MapDataset, 2 workers"),
            speedup(OURS_2, TORCH_2),
            speedup(OURS_2, by.TFDATA),
        ),
    ),
    Benchmark(
        "small, random",
        """As small, with one RandomMap that draws one number (y * rng.random()) in place of the Map.

The bare loop re-keys one generator by the record's index. torch draws from one generator a worker, which isn't a
function of the record: less work, and not repeatable.
""",
        (BARE, OURS, OURS_2, *TUNED, TORCH, TORCH_2),
        stream(lambda size: pipeline(size, Draw(jitter))),
        (
            speedup(OURS, BARE, bound=Bound(">=", 0.7)),
            speedup(OURS, *TUNED, best_of="best of grain DataLoader tuned, 0 workers"),
            speedup(OURS, TORCH),
            speedup(OURS_2, TORCH_2),
        ),
    ),
)
