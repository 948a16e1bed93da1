"""numpy arrays of 2, 8 and 32 MiB from one worker process to the consumer, and no other work.

Each record is a view of one uint8 array, held by the worker; there is no Batch, so an element is one array. GiB a
second at the consumer, which holds each array until the next one arrives and doesn't read it. The bare loop is the
least that moves an array: a process that copies it into a ring of four slots of shared memory, with one byte in a pipe
each way. torch gives tensors. For comparison, SPDL's documents state 3.2 to 6 GiB/s for its pool of shared segments, on
another machine.
"""

import time

import numpy as np

from benchmarks import contender as by
from benchmarks.benchmark import Benchmark, Bound, Metrics, Size, speedup
from benchmarks.contender import Contender
from benchmarks.measure import steady
from benchmarks.peers.bare_parallel import relay
from benchmarks.pipeline import Pipeline

MIB = (2, 8, 32)


class Same:
    """The same array for every key."""

    def __init__(self, mib: int) -> None:
        self.array = np.full(mib << 20, 7, np.uint8)

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, key: int) -> np.ndarray:
        return (
            self.array.view()
        )  # a new object each time: several references to one object would travel as one


def measure(contender: Contender, size: Size) -> Metrics:
    """GiB a second for each size."""
    rate = relayed if contender.peer == "bare" else delivered
    return {named(mib): rate(mib, contender, size) * mib / 1024 for mib in MIB}


def named(mib: int) -> str:
    """The metric for arrays of that size."""
    return f"GiB/s, {mib} MiB"


def delivered(mib: int, contender: Contender, size: Size) -> float:
    """Arrays a second from a loader."""
    seen = steady(Pipeline({"": lambda: Same(mib)}, shuffle=False), contender, size)
    return seen.records / seen.seconds


def relayed(mib: int, contender: Contender, size: Size) -> float:
    """Arrays a second through a ring of shared memory."""
    with relay(Same(mib).array, slots=4) as arrays:
        for _ in range(8):
            next(arrays)
        count, begin = 0, time.perf_counter()
        while (now := time.perf_counter()) - begin < size.seconds or not count:
            next(arrays)
            count += 1
    return count / (now - begin)


BARE = Contender("bare ring of shared memory, 1 process", "bare", 1)
OURS = by.ours(1)
GRAIN = (by.grain_default(1), *by.grain_tuned(1), *by.grain_tuned(1, "MapDataset"))
(TORCH,) = by.torch(1)

BENCHMARKS = (
    Benchmark(
        "transport",
        __doc__,
        (BARE, OURS, *GRAIN, TORCH),
        measure,
        tuple(
            comparison
            for metric in map(named, MIB)
            for comparison in (
                speedup(OURS, BARE, metric=metric),
                speedup(OURS, TORCH, metric=metric, bound=Bound(">=", 2)),
                speedup(OURS, *GRAIN, metric=metric, best_of="best of grain, 1 worker", bound=Bound(">=", 2)),
            )
        ),
    ),
)
