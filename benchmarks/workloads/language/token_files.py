"""Packed rows of 4,096 tokens from 64 token files beside those from one file, with the same documents.

24,000,000 uint16 tokens as `lk.write` writes them, in documents of lognormal lengths with a mean of 1,000; batches of
32 rows, shuffled, by the columns of `PackedDataSource`. The bare loop copies the pieces of each row from one mapped
array. Steady rows a second.
"""

import os
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import contender as by
from benchmarks.benchmark import PER_SECOND, Benchmark, Bound, Metrics, Size, speedup
from benchmarks.contender import Contender
from benchmarks.workloads.packing.rows import BATCH, ROW, bare_rows, data, rate_of

FILES = 64
MANY = Contender(f"loaderkit, {FILES} files", "loaderkit", options={"files": FILES})
ONE = Contender("loaderkit, 1 file", "loaderkit", options={"files": 1})
BARE = by.bare()


def token_files(files: int, size: Size) -> Path:
    """A folder of so many token files, made by the first contender that asks."""
    import loaderkit as lk

    folder = size.folder / f"token files {files}"
    if not folder.exists():
        source = lk.TokenDataSource(*data(1000, size))
        partial = folder.with_suffix(".partial")
        lk.write(source, partial, format="tokens", shards=files)
        os.replace(partial, folder)
    return folder


def measure(contender: Contender, size: Size) -> Metrics:
    """Rows a second, after a warm-up of half the time."""
    import loaderkit as lk

    tokens, offsets = data(1000, size)
    files = contender.options.get("files")
    source: Any = (
        lk.TokenDataSource(tokens, offsets) if files is None else lk.TokenDataSource(token_files(files, size))
    )
    plan = lk.plan_packing(source.lengths, ROW, worker_count=0)
    if files is None:
        batches = bare_rows(np.load(tokens, mmap_mode="r"), np.load(offsets), plan)
    else:
        batches = _columns(lk.PackedDataSource(source, plan))
    with closing(batches):
        return {PER_SECOND: rate_of(batches, size)}


def _columns(rows: Any) -> Any:
    order = np.random.default_rng(0).permutation(len(rows))
    step = 0
    while True:
        yield rows.take(order[np.arange(step, step + BATCH) % len(order)])
        step += BATCH


BENCHMARKS = (
    Benchmark(
        "language: token files",
        __doc__ or "",
        (MANY, ONE, BARE),
        measure,
        (speedup(MANY, ONE, bound=Bound(">=", 0.9)), speedup(ONE, BARE)),
    ),
)
