"""Packed rows of 4,096 tokens with three leaves, and with all that fine-tuning takes.

24,000,000 uint16 tokens in documents of lognormal lengths with a mean of 1,000; batches of 32 rows, shuffled.
*3 leaves*: tokens, segment ids and positions, beside Grain, which packs shuffled documents by `FirstFitPackIterDataset`
with 64 bins while it reads them, and beside a bare loop that copies a piece at a time. *fine-tuning*: of a token file
with columns, targets with their segment ids and positions, a mask by `loss=`, a float32 weight and a number of the
document too. Nanoseconds are CPU time of a token in a row, padding included.
"""

import os
import time
from contextlib import closing
from typing import Any

import numpy as np

from benchmarks import contender as by
from benchmarks.benchmark import PER_SECOND, Benchmark, Bound, Metrics, Size, plain, speedup
from benchmarks.contender import Contender
from benchmarks.workloads.packing.rows import BATCH, ROW, bare_rows, data, grain_rows, rate_of

NS = "CPU ns/token"
THREE = Contender("loaderkit, 3 leaves", "loaderkit")
TUNING = Contender("loaderkit, fine-tuning", "loaderkit", options={"columns": True})
GRAIN = Contender("grain first fit, 3 leaves", "grain")
BARE = by.bare()


def measure(contender: Contender, size: Size) -> Metrics:
    """Rows a second, after a warm-up of half the time, and CPU time."""
    tokens, offsets = data(1000, size)
    if contender.peer == "grain":
        batches = grain_rows(tokens, offsets)
    elif contender.peer == "bare":
        import loaderkit as lk

        places = np.load(offsets)
        plan = lk.plan_packing(np.diff(places), ROW, worker_count=0)
        batches = bare_rows(np.load(tokens, mmap_mode="r"), places, plan)
    else:
        batches = _ours(size, columns="columns" in contender.options)
    with closing(batches):
        rate = rate_of(batches, size)
        begin, count = time.process_time(), size.pick(40, 1)
        for _ in range(count):
            next(batches)
        return {PER_SECOND: rate, NS: (time.process_time() - begin) / (count * BATCH * ROW) * 1e9}


def _ours(size: Size, *, columns: bool) -> Any:
    import loaderkit as lk

    source = lk.TokenDataSource(*data(1000, size))
    options: dict[str, Any] = {}
    if columns:
        path = size.folder / "columns.tokens"
        if not path.exists():
            lk.write(lk.MapDataSource(source, _with_columns), partial := path.with_suffix(".partial.tokens"))
            os.replace(partial, path)
        source = lk.TokenDataSource(path)
        options = {
            "targets": True,
            "mask": "mask",
            "loss": "counts",
            "columns": ["weight"],
            "per_document": ["source"],
        }
    rows = lk.PackedDataSource(source, lk.plan_packing(source.lengths, ROW, worker_count=0), **options)
    order, step = np.random.default_rng(0).permutation(len(rows)), 0
    while True:
        yield rows.take(order[np.arange(step, step + BATCH) % len(order)])
        step += BATCH


def _with_columns(record: dict[str, Any]) -> dict[str, Any]:
    tokens = record["tokens"]
    weight = np.full(len(tokens), 0.5, np.float32)
    return {
        "tokens": np.array(tokens),
        "counts": tokens % 3 > 0,
        "weight": weight,
        "source": np.int32(tokens[0] % 7),
    }


BENCHMARKS = (
    Benchmark(
        "language: packing with 3 leaves",
        __doc__ or "",
        (THREE, TUNING, GRAIN, BARE),
        measure,
        (
            plain(THREE, NS, Bound("<=", 4.7)),
            plain(TUNING, NS),
            speedup(THREE, GRAIN, bound=Bound(">=", 5)),
            speedup(THREE, BARE, bound=Bound(">=", 0.7)),
        ),
    ),
)
