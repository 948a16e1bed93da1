"""Packed rows of a token file that lies 20 ms away: a web server on loopback, in a process of its own.

24 million tokens of uint16 in documents of lognormal lengths with a mean of 1,000 tokens, planned by best fit in blocks
of 1,024 documents into rows of 4,096. Batches of 32 rows through a loader without workers. *ranges*: 1,920 rows from
anywhere; each piece of a document is a range, those of the next batches are in flight at once. *cache*: an epoch
through an empty `lk.Cache`, which fetches chunks of 1 MiB, ordered by a `ChunkSampler` that mixes four blocks.

*bytes sent / used* are the server's bytes after the source was made, over those of the tokens in the rows that were
read. Rows/s count from asking for the first batch until the last one is there.
"""

import time
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.benchmark import PER_SECOND, Benchmark, Bound, Metrics, Size, plain, speedup
from benchmarks.contender import Contender
from benchmarks.workloads.packing.rows import BATCH, ROW, data
from benchmarks.workloads.storage.serve import serving

LATENCY_S = 0.02
MEAN, BLOCK, WINDOW = 1000, 1024, 4
SENT, REQUESTS = "bytes sent / used", "requests/row"

RANGES = Contender("loaderkit, ranges", "loaderkit")
CACHE = Contender("loaderkit, cache", "loaderkit")
LOCAL = Contender("loaderkit, local file", "loaderkit")


def measure(contender: Contender, size: Size) -> Metrics:
    """Some batches of packed rows, or an epoch."""
    import loaderkit as lk

    tokens, offsets = data(MEAN, size)
    plan = lk.plan_packing(np.diff(np.load(offsets)), ROW, block=BLOCK, worker_count=0)
    some = np.random.default_rng(0).permutation(len(plan))[: size.pick(60, 2) * BATCH]
    if contender.name == LOCAL.name:
        return {
            PER_SECOND: _read(*_some(lk.PackedDataSource(lk.TokenDataSource(tokens, offsets), plan), some))
        }
    with serving(tokens.parent, LATENCY_S) as server, TemporaryDirectory() as folder:
        cache = lk.Cache(Path(folder), limit="1GB") if contender.name == CACHE.name else None
        documents = lk.TokenDataSource(server.address + tokens.name, offsets, cache=cache)
        rows = lk.PackedDataSource(documents, plan)
        requests, sent = server.sent()
        source, sampler = _some(rows, some) if cache is None else (rows, _blocks(rows))
        rate = _read(source, sampler)
        now = server.sent()
    used = 2 * int(plan.rows(some if cache is None else np.arange(len(plan))).lengths.sum())
    return {
        PER_SECOND: rate,
        SENT: (now[1] - sent) / used,
        REQUESTS: (now[0] - requests) / len(source),
    }


def _some(rows: Any, some: np.ndarray) -> tuple[Any, Any]:
    import loaderkit as lk

    return lk.SubsetDataSource(rows, some), lk.SequentialSampler(len(some))


def _blocks(rows: Any) -> Any:
    import loaderkit as lk

    return lk.ChunkSampler(len(rows), chunk=rows.chunk_records, window=WINDOW, seed=0, num_epochs=1)


def _read(source: Any, sampler: Any) -> float:
    """Rows a second."""
    import loaderkit as lk

    loader = lk.DataLoader(
        data_source=source, sampler=sampler, operations=[lk.Batch(BATCH, drop_remainder=False)]
    )
    with loader, closing(iter(loader)) as batches:
        begin = time.perf_counter()
        rows = sum(len(batch["tokens"]) for batch in batches)
        return rows / (time.perf_counter() - begin)


BENCHMARKS = (
    Benchmark(
        "packing: rows of a server",
        __doc__ or "",
        (RANGES, CACHE, LOCAL),
        measure,
        (
            plain(RANGES, SENT, Bound("<=", 1.1)),
            plain(CACHE, SENT, Bound("<=", 1.1)),
            plain(RANGES, REQUESTS),
            plain(CACHE, REQUESTS),
            speedup(RANGES, LOCAL),
            speedup(CACHE, LOCAL),
        ),
    ),
)
