"""Record keys of an order by chunks, nothing else: no data is read.

`record_keys` of consecutive indices in blocks of 100,000, of 1,281,024 records: `ChunkSampler(chunk=16, window=4096)`,
with 8 lanes too, beside a shuffled `IndexSampler`. CPU time of the fastest of seven passes over 200,000 indices.
`python -m benchmarks chunk-order` measures how well these orders mix.
"""

import time

import numpy as np

import loaderkit as lk
from benchmarks.benchmark import Benchmark, Bound, Metrics, Size, cost
from benchmarks.contender import Contender

RECORDS = 1_281_024
KEY = "CPU ns a key"
PASSES = 7
FULL = Contender("IndexSampler, shuffled", "loaderkit")
CHUNKS = Contender("ChunkSampler", "loaderkit")
LANES = Contender("ChunkSampler, 8 lanes", "loaderkit")


def measure(contender: Contender, size: Size) -> Metrics:
    """Nanoseconds of CPU time a key."""
    lanes, window = (8, 512) if contender.name == LANES.name else (1, 4096)
    sampler: lk.IndexSampler | lk.ChunkSampler = (
        lk.IndexSampler(RECORDS, shuffle=True, seed=0)
        if contender.name == FULL.name
        else lk.ChunkSampler(RECORDS, chunk=16, window=window, lanes=lanes, batch=1024, seed=0)
    )
    block, total = size.pick(100_000, 1_000), size.pick(200_000, 2_000)
    indices = np.arange(total)

    def seconds() -> float:
        begin = time.process_time()
        for low in range(0, total, block):
            sampler.record_keys(indices[low : low + block])
        return time.process_time() - begin

    return {KEY: min(seconds() for _ in range(PASSES)) / total * 1e9}


BENCHMARKS = (
    Benchmark(
        "storage: keys",
        __doc__ or "",
        (FULL, CHUNKS, LANES),
        measure,
        (
            cost(CHUNKS, FULL, metric=KEY, bound=Bound("<=", 4)),
            cost(LANES, FULL, metric=KEY, bound=Bound("<=", 4)),
        ),
    ),
)
