"""Chunks that 16 simulated hosts read of a mixture of four sources, counted by arithmetic: no data is read.

65,536 records in each source, chunks of 64, weights 1 to 4, 256 rows a step over all hosts, one epoch of the largest
component. A host reads a chunk once for each window in which it needs one of its records. Chunks read by all hosts
together, over the chunks that one host alone would read: with `lanes=16`, and without lanes.
"""

import numpy as np

import loaderkit as lk
from benchmarks.benchmark import Benchmark, Bound, Metrics, Size, plain
from benchmarks.contender import Contender

HOSTS, BATCH, CHUNK, WINDOW = 16, 256, 64, 4
READ = "chunks read by 16 hosts / by one"
LANES = Contender("lanes=16", "loaderkit")
NO_LANES = Contender("no lanes", "loaderkit")


class Chunked(lk.RangeDataSource):
    """Numbers that say they are read by chunks."""

    chunk_records = CHUNK


def measure(contender: Contender, size: Size) -> Metrics:
    """How many times the chunks are read."""
    records = size.pick(65_536, 8_192)
    sources = {f"s{place}": Chunked(0, records, 1) for place in range(4)}
    weights = {name: place + 1 for place, name in enumerate(sources)}
    lanes = HOSTS if contender.name == LANES.name else 1
    _, sampler = lk.mix(
        sources, weights=weights, shuffle=True, seed=0, lanes=lanes, batch=BATCH, window=WINDOW
    )
    indices = np.arange(records * 10 // 4 // BATCH * BATCH)
    chunks = sampler.record_keys(indices) // CHUNK
    hosts = indices % BATCH // (BATCH // HOSTS)
    in_all = len(np.unique(chunks))
    read = len(np.unique(hosts * (4 * records) + chunks))
    return {READ: read / in_all}


BENCHMARKS = (
    Benchmark(
        "mixture: chunks",
        __doc__ or "",
        (LANES, NO_LANES),
        measure,
        (plain(LANES, READ, Bound("<=", 1.05)), plain(NO_LANES, READ)),
    ),
)
