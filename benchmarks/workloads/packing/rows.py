"""Batches of packed rows from a mapped file of 24,000,000 uint16 tokens: rows of 4,096, shuffled, Batch(32).

Lengths of documents are lognormal with a mean of {mean} tokens. Each batch has tokens, segment ids and positions. The
bare loop has the pieces of each row as lists, and copies a piece at a time, three assignments each, into new arrays.
loaderkit's source reads the plan of the rows; "columns" are its `take` alone, without a loader. Grain packs shuffled
documents by `FirstFitPackIterDataset` with 64 bins while it reads them. Steady rows a second.
"""

import os
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import contender as by
from benchmarks.benchmark import PER_SECOND, Benchmark, Bound, Metrics, Size, speedup
from benchmarks.contender import Contender

ROW, BATCH, BINS = 4096, 32, 64

BARE = by.bare()
COLUMNS = Contender("loaderkit columns, 0 workers", "loaderkit", options={"columns": True})
OURS, OURS_2 = by.ours(0), by.ours(2)
GRAIN = Contender("grain first fit, 0 workers", "grain")


def data(mean: int, size: Size) -> tuple[Path, Path]:
    """The files of tokens and of offsets, made by the first contender that asks."""
    tokens, offsets = size.folder / f"tokens_{mean}.npy", size.folder / f"offsets_{mean}.npy"
    if not offsets.exists():
        rng = np.random.default_rng(0)
        documents = size.pick(24_000_000, 600_000) // mean
        lengths = np.maximum(1, rng.lognormal(np.log(mean) - 0.5, 1, documents).astype(np.int64))
        np.save(tokens, rng.integers(0, 50_000, lengths.sum(), dtype=np.uint16))
        partial_offsets = offsets.with_suffix(".partial.npy")
        np.save(partial_offsets, np.concatenate([[0], np.cumsum(lengths)]))
        os.replace(partial_offsets, offsets)
    return tokens, offsets


def measure(contender: Contender, size: Size, *, mean: int) -> Metrics:
    """Rows a second, after a warm-up of half the time."""
    tokens, offsets = data(mean, size)
    open_batches = grain_rows if contender.peer == "grain" else partial(_planned, contender)
    with closing(open_batches(tokens, offsets)) as batches:
        return {PER_SECOND: rate_of(batches, size)}


def rate_of(batches: Iterator[Any], size: Size) -> float:
    """Rows a second of batches of `BATCH` rows, after a warm-up of half the time."""
    _take(batches, size.seconds / 2)
    count, seconds = _take(batches, size.seconds)
    return count * BATCH / seconds


def _take(batches: Iterator[Any], window: float) -> tuple[int, float]:
    taken, begin = 0, time.perf_counter()
    while (now := time.perf_counter()) - begin < window or taken < 2:
        next(batches)
        taken += 1
    return taken, now - begin


def _planned(contender: Contender, tokens: Path, offsets: Path) -> Generator[Any, None, None]:
    import loaderkit as lk

    source = lk.TokenDataSource(tokens, offsets)
    plan = lk.plan_packing(source.lengths, ROW, worker_count=0)
    rows = lk.PackedDataSource(source, plan)
    sampler = lk.IndexSampler(len(rows), shuffle=True, seed=0, num_epochs=None)
    if contender.peer == "bare":
        yield from bare_rows(np.load(tokens, mmap_mode="r"), np.load(offsets), plan)
    elif contender.options.get("columns"):
        keys, step = sampler.record_keys(np.arange(len(rows))), 0
        while True:
            yield rows.take(keys[np.arange(step, step + BATCH) % len(keys)])
            step += BATCH
    else:
        loader = lk.DataLoader(
            data_source=rows, sampler=sampler, operations=[lk.Batch(BATCH)], worker_count=contender.workers
        )
        with loader, iter(loader) as batches:
            yield from batches


def bare_rows(mapped: np.ndarray, offsets: np.ndarray, plan: Any) -> Generator[Any, None, None]:
    """Batches of packed rows by a loop that copies a piece at a time."""
    tokens, places = np.asarray(mapped), np.arange(ROW, dtype=np.int32)
    order = np.random.default_rng(0).permutation(len(plan))
    pieces = plan.rows(order)
    begins = (offsets[pieces.documents] + pieces.starts).tolist()
    lengths, counts = pieces.lengths.tolist(), pieces.counts.tolist()
    row = number = 0
    while True:
        ids, segments, positions = (
            np.zeros((BATCH, ROW), dtype) for dtype in (np.uint16, np.int32, np.int32)
        )
        for line in range(BATCH):
            place = 0
            for segment in range(1, counts[row] + 1):
                begin, end = begins[number], place + lengths[number]
                ids[line, place:end] = tokens[begin : begin + lengths[number]]
                segments[line, place:end] = segment
                positions[line, place:end] = places[: lengths[number]]
                place, number = end, number + 1
            row += 1
            if row == len(counts):
                row = number = 0
        yield {"tokens": ids, "tokens_segment_ids": segments, "tokens_positions": positions}


class Documents:
    """The documents of the file, cut to a row."""

    def __init__(self, tokens: Path, offsets: Path) -> None:
        self._tokens, self._offsets = np.asarray(np.load(tokens, mmap_mode="r")), np.load(offsets)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, key: int) -> dict[str, np.ndarray]:
        begin, end = self._offsets[key], self._offsets[key + 1]
        return {"tokens": self._tokens[begin : min(end, begin + ROW)]}


def grain_rows(tokens: Path, offsets: Path) -> Generator[Any, None, None]:
    """Batches of rows that Grain packs of shuffled documents while it reads them."""
    import grain
    from grain.experimental import FirstFitPackIterDataset

    documents = grain.MapDataset.source(Documents(tokens, offsets)).shuffle(seed=0).repeat(None)
    read = documents.to_iter_dataset(grain.ReadOptions(num_threads=0, prefetch_buffer_size=0))
    packed = FirstFitPackIterDataset(read, length_struct={"tokens": ROW}, num_packing_bins=BINS)
    yield from packed.batch(BATCH)


def _benchmark(mean: int, times_grain: float) -> Benchmark:
    measured: Callable[[Contender, Size], Metrics] = partial(measure, mean=mean)
    return Benchmark(
        f"packing: rows of documents of {mean:,} tokens",
        (__doc__ or "").format(mean=f"{mean:,}"),
        (BARE, COLUMNS, OURS, OURS_2, GRAIN),
        measured,
        (
            speedup(COLUMNS, BARE, bound=Bound(">=", 0.7)),
            speedup(OURS, BARE),
            speedup(OURS_2, BARE),
            speedup(OURS, GRAIN, bound=Bound(">=", times_grain)),
        ),
    )


BENCHMARKS = (_benchmark(1000, 5), _benchmark(200, 10))
