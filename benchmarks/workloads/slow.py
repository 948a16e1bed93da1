"""A source that waits 20 ms a record, as an object store does: Batch(32), no Map, 1 worker.

Steady records a second. The bare loop reads in a pool of 32 threads with one batch and the next in flight, in the
calling process. loaderkit is given `ReadOptions(num_threads=32)`, Grain the same and its defaults (16 threads). torch
has no reads in flight: it reads one record after the other. 32 reads in flight make 1,600 records a second at most.
"""

import time

from benchmarks import contender as by
from benchmarks.benchmark import Benchmark, Bound, Size, speedup
from benchmarks.contender import Contender
from benchmarks.measure import stream
from benchmarks.pipeline import Pipeline

THREADS = 32
WAIT_S = 0.02


class ObjectStore:
    """Its records are their keys."""

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, key: int) -> int:
        time.sleep(WAIT_S)
        return key


def pipeline(size: Size) -> Pipeline:
    """No steps."""
    return Pipeline({"": ObjectStore}, batch=size.pick(32, 4))


BARE = by.bare("32 reads in flight, no loader", loop="flight", threads=THREADS)
OURS = by.ours(1, reads_in_flight=THREADS)
GRAIN = (
    by.grain_default(1),
    Contender(
        "grain DataLoader (32,500), 1 worker",
        "grain",
        1,
        options={"api": "DataLoader", "read": (THREADS, 500), "worker_buffer_size": 2},
    ),
)
(TORCH,) = by.torch(1)

BENCHMARKS = (
    Benchmark(
        "slow",
        __doc__,
        (BARE, OURS, *GRAIN, TORCH),
        stream(pipeline, windows=2),
        (
            speedup(OURS, BARE, bound=Bound(">=", 0.8)),
            speedup(OURS, *GRAIN, best_of="best of grain, 1 worker"),
            speedup(OURS, TORCH),
        ),
    ),
)
