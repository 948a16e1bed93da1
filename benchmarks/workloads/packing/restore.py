"""Restoring planned kinds at step 10^9: packed rows of 4,096 tokens, and batches of records of like length.

`set_state` on a fresh iterator and the `next()` after it, in milliseconds; the median of 20 fresh iterators of one
loader without workers, whose run has been moved to that step by `seek`. 20,000 documents of a mean of 1,000 tokens in
memory; Batch(8) of packed rows, or PadBatch(64) with four boundaries.
"""

from typing import Any

import numpy as np

import loaderkit as lk
from benchmarks.benchmark import Benchmark, Bound, Metrics, Size, plain
from benchmarks.contender import Contender
from benchmarks.workloads.resume import median_times

STEP = 10**9
RESTORE, FIRST = "set_state ms at step 10^9", "first batch ms at step 10^9"
BOUNDARIES = [512, 1024, 2048, 4096]
PACKED = Contender("packed rows", "loaderkit")
BUCKETS = Contender("length buckets", "loaderkit")


def loader_of(contender: Contender, size: Size) -> lk.DataLoader[Any]:
    """The contender's loader."""
    rng = np.random.default_rng(0)
    drawn = rng.lognormal(np.log(1000) - 0.5, 1, size.pick(20_000, 500)).astype(np.int64)
    lengths = np.clip(drawn, 1, BOUNDARIES[-1])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    source = lk.TokenDataSource(np.zeros(int(offsets[-1]), np.uint16), offsets)
    if contender.name == PACKED.name:
        rows = lk.PackedDataSource(source, lk.plan_packing(source.lengths, BOUNDARIES[-1]))
        sampler = lk.IndexSampler(len(rows), shuffle=True, seed=0)
        return lk.DataLoader(data_source=rows, sampler=sampler, operations=[lk.Batch(8)])
    return lk.DataLoader(
        data_source=source,
        sampler=lk.samplers.LengthBucketSampler(lengths, BOUNDARIES, 64, shuffle=True, seed=0),
        operations=[lk.PadBatch(global_batch_size=64, boundaries={"tokens": BOUNDARIES})],
    )


def measure(contender: Contender, size: Size) -> Metrics:
    """Both times."""
    loader = loader_of(contender, size)
    iterator = iter(loader)
    iterator.seek(STEP)
    state = iterator.get_state()
    iterator.close()
    restore, first = median_times(loader, state, size)
    return {RESTORE: restore, FIRST: first}


BENCHMARKS = (
    Benchmark(
        "packing: restore",
        __doc__ or "",
        (PACKED, BUCKETS),
        measure,
        (
            plain(PACKED, RESTORE, Bound("<=", 50)),
            plain(PACKED, FIRST),
            plain(BUCKETS, RESTORE, Bound("<=", 50)),
            plain(BUCKETS, FIRST),
        ),
    ),
)
