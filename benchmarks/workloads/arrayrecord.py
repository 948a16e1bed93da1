"""200,000 records of 100 bytes in ArrayRecord, parsed to `{"x": float32[24], "label": int}`; shuffled, Batch(256).

The bare loop reads a batch's keys by one `__getitems__` of ArrayRecord's own data source, parses each record and stacks
each leaf. Grain reads one record at a time; torch uses `__getitems__` too. Steady records a second.
"""

import numpy as np

import loaderkit as lk
from benchmarks import contender as by
from benchmarks.benchmark import Benchmark, Bound, Size, speedup
from benchmarks.files import array_record_reader, record_file
from benchmarks.measure import stream
from benchmarks.pipeline import Each, Pipeline

BATCH = 256


def parse(record: bytes) -> dict[str, object]:
    """24 float32 numbers and an int32 label."""
    return {"x": np.frombuffer(record, np.float32, 24), "label": int.from_bytes(record[96:], "little")}


def records(count: int) -> list[bytes]:
    """100 bytes each."""
    rng = np.random.default_rng(0)
    x, labels = rng.random((count, 24), np.float32), rng.integers(0, 1000, count, np.int32)
    return [row.tobytes() + label.tobytes() for row, label in zip(x, labels)]


def pipeline(size: Size) -> Pipeline:
    """Parse."""
    count = size.pick(200_000, 100)
    path = record_file(size.folder / "small.array_record", lambda: records(count))
    return Pipeline(
        {
            "": lambda: array_record_reader(path),
            "loaderkit": lambda: lk.ArrayRecordDataSource(str(path)),
        },
        (Each(parse),),
        size.pick(BATCH, 10),
        records=count,
    )


BARE = by.bare("bare __getitems__ loop")
OURS, OURS_2 = by.ours(), by.ours(2)
TUNED, TUNED_2 = by.grain_tuned(0), by.grain_tuned(2)
DATASET = by.grain_tuned(0, "MapDataset")
TORCH, TORCH_2 = by.torch(0, 2)

BENCHMARKS = (
    Benchmark(
        "arrayrecord",
        __doc__,
        (BARE, OURS, OURS_2, by.grain_default(0), *TUNED, *TUNED_2, *DATASET, TORCH, TORCH_2),
        stream(pipeline),
        (
            speedup(OURS, BARE, bound=Bound(">=", 0.7)),
            speedup(OURS, *TUNED, best_of="best of grain DataLoader tuned, 0 workers", bound=Bound(">=", 10)),
            speedup(OURS, *DATASET, best_of="best of grain MapDataset tuned, 0 workers"),
            speedup(OURS, TORCH),
            speedup(OURS_2, *TUNED_2, best_of="best of grain DataLoader tuned, 2 workers"),
            speedup(OURS_2, TORCH_2),
        ),
    ),
)
