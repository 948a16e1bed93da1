"""50,000 texts of 500 characters in ArrayRecord with `group_size:1`, shuffled over the whole file, Batch(2048), no Map.

The limit is `ArrayRecordReader.read(keys)`, a raw batched read of each batch's keys. loaderkit gives object arrays of
bytes, the raw read and torch lists, Grain what np.stack of bytes gives. Grain reads one record at a time: it doesn't
use ArrayRecord's batched read. Steady records a second.
"""

import string

import numpy as np

import loaderkit as lk
from benchmarks import contender as by
from benchmarks.benchmark import Benchmark, Bound, Size, speedup
from benchmarks.files import RawReader, array_record_reader, record_file
from benchmarks.measure import stream
from benchmarks.pipeline import Pipeline

BATCH = 2048


def texts(count: int) -> list[bytes]:
    """Random lower-case letters and spaces."""
    letters = np.frombuffer((string.ascii_lowercase + "    ").encode(), np.uint8)
    places = np.random.default_rng(0).integers(0, len(letters), (count, 500))
    return [row.tobytes() for row in letters[places]]


def pipeline(size: Size) -> Pipeline:
    """No steps."""
    count = size.pick(50_000, 100)
    path = record_file(size.folder / "text.array_record", lambda: texts(count))
    return Pipeline(
        {
            "": lambda: array_record_reader(path),
            "bare": lambda: RawReader(path),
            "loaderkit": lambda: lk.ArrayRecordDataSource(str(path)),
        },
        batch=size.pick(BATCH, 10),
        records=count,
    )


RAW = by.bare("raw ArrayRecordReader.read(list)")
OURS, OURS_2 = by.ours(), by.ours(2)
LOADER = (by.grain_default(0), *by.grain_tuned(0))
LOADER_2 = (by.grain_default(2), *by.grain_tuned(2))
DATASET = (by.grain_default(0, "MapDataset"), *by.grain_tuned(0, "MapDataset"))
TORCH, TORCH_2 = by.torch(0, 2)

BENCHMARKS = (
    Benchmark(
        "text",
        __doc__,
        (RAW, OURS, OURS_2, *LOADER, *LOADER_2, *DATASET, TORCH, TORCH_2),
        stream(pipeline),
        (
            speedup(OURS, RAW, bound=Bound(">=", 0.7)),
            speedup(OURS, *LOADER, best_of="best of grain DataLoader, 0 workers", bound=Bound(">=", 20)),
            speedup(OURS, *DATASET, best_of="best of grain MapDataset, 0 workers"),
            speedup(OURS, TORCH),
            speedup(OURS_2, *LOADER_2, best_of="best of grain DataLoader, 2 workers"),
            speedup(OURS_2, TORCH_2),
        ),
    ),
)
