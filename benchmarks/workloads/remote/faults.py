"""A worker on another host is lost in the middle: how long is the longest wait for a batch?

As "remote, arrays, 0.5 ms". One of the two keepers, the processes that have the workers of a host, is killed, and the
longest `next()` of the following seconds is taken; a task is about 16 ms.
"""

import time

import psutil

from benchmarks.benchmark import Benchmark, Bound, Metrics, Size, plain
from benchmarks.contender import Contender
from benchmarks.measure import open_loader, warm_up_library
from benchmarks.workloads.remote.rates import elsewhere, wait_for_all, worked_arrays

KEEPER = "loaderkit._runtime.remote.keeper"
LONGEST = "longest next() ms"


def keepers() -> list[psutil.Process]:
    """Of the loader."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            found += [process] if any(KEEPER in word for word in process.cmdline()) else []
        except psutil.Error:
            continue
    return found


def measure(contender: Contender, size: Size) -> Metrics:
    """The longest `next()` after the loss."""
    warm_up_library(contender)
    pipeline = worked_arrays(size)
    with open_loader(pipeline, contender) as loader:
        batches = iter(loader)
        wait_for_all(batches, pipeline, size)
        for keeper in keepers()[:1]:
            keeper.kill()
        longest, end = 0.0, time.monotonic() + 2 * size.seconds
        while time.monotonic() < end or not longest:
            begin = time.perf_counter()
            next(batches)
            longest = max(longest, time.perf_counter() - begin)
    return {LONGEST: 1e3 * longest}


LOSES = elsewhere()

BENCHMARKS = (
    Benchmark(
        "remote, a host is lost", __doc__, (LOSES,), measure, (plain(LOSES, LONGEST, Bound("<=", 1032)),)
    ),
)
