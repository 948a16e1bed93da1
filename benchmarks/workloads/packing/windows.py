"""Rows packed while documents are read: no plan, documents of a mean of 1,000 tokens in rows of 4,096, Batch(8).

loaderkit: `Pack(4096, window=1024)`, best fit inside windows of 1,024 documents, without workers and with one and two
processes. Grain: `BestFitPackIterDataset` with 64, 256 and 1,024 bins, without workers; the fastest of each round
counts. The documents are those of the packed rows' benchmark, shuffled. Steady rows a second, and the share of tokens
that aren't padding in the rows of that time.
"""

import time
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any

import numpy as np

from benchmarks import contender as by
from benchmarks.benchmark import PER_SECOND, Benchmark, Bound, Comparison, Metrics, Round, Size, speedup
from benchmarks.contender import Contender

from .rows import ROW, Documents, data

MEAN, BATCH, WINDOW = 1_000, 8, 1024
FILL = "fill"

OURS, OURS_1, OURS_2 = by.ours(0), by.ours(1), by.ours(2)
GRAIN = tuple(
    Contender(f"grain best fit, {bins} bins, 0 workers", "grain", options={"bins": bins})
    for bins in (64, 256, 1024)
)


def measure(contender: Contender, size: Size) -> Metrics:
    """Rows a second and their fill, after a warm-up of half the time."""
    documents = Documents(*data(MEAN, size))
    opened = _grain if contender.peer == "grain" else _ours
    with closing(opened(documents, contender, size)) as batches:
        _take(batches, size.seconds / 2)
        rows, used, seconds = _take(batches, size.seconds)
    return {PER_SECOND: rows / seconds, FILL: used / (rows * ROW)}


def _take(batches: Iterator[Any], window: float) -> tuple[int, int, float]:
    rows, used, begin = 0, 0, time.perf_counter()
    while (now := time.perf_counter()) - begin < window or rows < 2 * BATCH:
        segments = next(batches)["tokens_segment_ids"]
        rows += len(segments)
        used += int(np.count_nonzero(segments))
    return rows, used, now - begin


def _ours(documents: Documents, contender: Contender, size: Size) -> Generator[Any, None, None]:
    import loaderkit as lk

    pack = lk.Pack(ROW, window=size.pick(WINDOW, 64), how="best_fit", feature="tokens")
    loader = lk.DataLoader(
        data_source=documents,
        sampler=lk.IndexSampler(len(documents), shuffle=True, seed=0, num_epochs=None),
        operations=[pack, lk.Batch(BATCH)],
        worker_count=contender.workers,
    )
    with loader, iter(loader) as batches:
        yield from batches


def _grain(documents: Documents, contender: Contender, size: Size) -> Generator[Any, None, None]:
    import grain
    from grain.experimental import BestFitPackIterDataset

    shuffled = grain.MapDataset.source(documents).shuffle(seed=0).repeat(None)
    read = shuffled.to_iter_dataset(grain.ReadOptions(num_threads=0, prefetch_buffer_size=0))
    bins = size.pick(contender.options["bins"], 16)
    packed = BestFitPackIterDataset(read, length_struct={"tokens": ROW}, num_packing_bins=bins)
    yield from packed.batch(BATCH)


def _fill_beside(results: Round) -> float:
    best = max((results[one.name][FILL] for one in GRAIN if one.name in results), default=None)
    if best is None:
        raise KeyError(GRAIN[0].name)
    return results[OURS.name][FILL] / best


BENCHMARKS = (
    Benchmark(
        "packing: windows",
        __doc__ or "",
        (OURS, OURS_1, OURS_2, *GRAIN),
        measure,
        (
            speedup(OURS, *GRAIN, best_of="best of grain best fit, 0 workers", bound=Bound(">=", 3)),
            Comparison(
                "fill of loaderkit / best fill of grain", _fill_beside, Bound(">=", 1), beside="grain"
            ),
            speedup(OURS_2, OURS_1, bound=Bound(">=", 1.7)),
        ),
    ),
)
