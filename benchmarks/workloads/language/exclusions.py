"""A million records of a billion left out: planning a key, and restoring a run, beside the same without them.

Keys of a shuffled `IndexSampler(10**9)` in blocks of 16,384 consecutive indices, the best of 30, in nanoseconds. The
restore is `set_state` of a state of step 1,000, with a list of 10^6 keys, and the first batch of 256 behind it, on an
iterator of a loader that is open; the median of 5, in milliseconds.
"""

import statistics
import tempfile
import time
from typing import Any

import numpy as np

from benchmarks.benchmark import Benchmark, Bound, Metrics, Size, cost, plain
from benchmarks.contender import Contender

RECORDS, LISTED, BLOCK = 10**9, 10**6, 1 << 14
KEY, RESTORE = "ns/key", "restore ms"

PLAIN = Contender("loaderkit, nothing left out", "loaderkit", options={"listed": 0})
EXCLUDING = Contender("loaderkit, 10^6 of 10^9 left out", "loaderkit", options={"listed": LISTED})


def measure(contender: Contender, size: Size) -> Metrics:
    """Both times."""
    import loaderkit as lk

    listed = contender.options["listed"] and size.pick(LISTED, 100)
    source = lk.RangeDataSource(0, RECORDS, 1)
    with tempfile.TemporaryDirectory(dir=size.folder) as folder:
        if listed:
            keys = np.random.default_rng(0).choice(RECORDS, listed, replace=False)
            lk.offline.block_list(source, folder, keys=keys, reason="measured")
        with lk.load(source, shuffle=True, seed=0, batch_size=256, exclude=folder) as loader:
            it = iter(loader)
            it.seek(1000)
            state = it.get_state()
            restores = [_restored(iter(loader), state) for _ in range(size.pick(5, 1))]
            indices = np.arange(BLOCK) + RECORDS // 3
            keys_of: Any = it.sampler
            blocks = [_seconds(lambda: keys_of.record_keys(indices)) for _ in range(size.pick(30, 1))]
    return {KEY: min(blocks) / BLOCK * 1e9, RESTORE: statistics.median(restores) * 1e3}


def _restored(it: Any, state: bytes) -> float:
    def restore() -> None:
        it.set_state(state)
        next(it)

    return _seconds(restore)


def _seconds(work: Any) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


BENCHMARKS = (
    Benchmark(
        "language: records left out",
        __doc__ or "",
        (EXCLUDING, PLAIN),
        measure,
        (
            cost(EXCLUDING, PLAIN, metric=KEY, bound=Bound("<=", 1.5)),
            plain(EXCLUDING, RESTORE, bound=Bound("<=", 200.0)),
        ),
    ),
)
