"""Restoring mixtures at step 10^9, once the table of their weights is built, and the size of their states.

`set_state` on a fresh iterator and the `next()` after it, in milliseconds; the median of 20 fresh iterators of one
loader without workers, Batch(256), records from memory. 10 components and one stage; 1,000 components and 1,000 live
stages, each of which changes ten weights, in the first 1,000 steps; the run seeks to step 10^9 then.
"""

from typing import Any

import numpy as np

import loaderkit as lk
from benchmarks.benchmark import Benchmark, Bound, Metrics, Size, plain
from benchmarks.contender import Contender
from benchmarks.workloads.resume import median_times, times

BATCH = 256
STEP = 10**9
RESTORE, FIRST, BYTES = "set_state ms at step 10^9", "first batch ms at step 10^9", "state bytes"
FEW = Contender("10 components, 1 stage", "loaderkit")
MANY = Contender("1,000 components, 1,000 stages", "loaderkit")


def loader_of(components: int) -> tuple[lk.DataLoader[Any], dict[str, int]]:
    """A loader of so many components of 1,000 records each, and their weights."""
    sources = {f"c{place:04}": lk.RangeDataSource(0, 1_000, 1) for place in range(components)}
    drawn = np.random.default_rng(0).integers(
        1, 10, components
    )  # small sums: the run builds a table for each stage
    weights = dict(zip(sources, drawn.tolist(), strict=True))
    source, sampler = lk.mix(sources, weights=weights, shuffle=True, seed=0)
    return lk.DataLoader(data_source=source, sampler=sampler, operations=[lk.Batch(BATCH)]), weights


def measure(contender: Contender, size: Size) -> Metrics:
    """Both times, and the size of the state."""
    many = contender.name == MANY.name
    loader, weights = loader_of(size.pick(1_000, 20) if many else 10)
    iterator = iter(loader)
    for stage in range(size.pick(999, 5) if many else 0):
        next(iterator)
        for name in list(weights)[10 * stage % len(weights) :][:10]:
            weights[name] = weights[name] % 9 + 1
        iterator.reweigh(weights)
    next(iterator)
    iterator.seek(STEP)  # the stages stay: they hold from their indices on
    state = iterator.get_state()
    iterator.close()
    times(loader, state)  # builds the table of the last stage
    restore, first = median_times(loader, state, size)
    return {RESTORE: restore, FIRST: first, BYTES: float(len(state))}


BENCHMARKS = (
    Benchmark(
        "mixture: restore",
        __doc__ or "",
        (FEW, MANY),
        measure,
        (
            plain(FEW, RESTORE, Bound("<=", 50)),
            plain(FEW, FIRST),
            plain(MANY, RESTORE, Bound("<=", 50)),
            plain(MANY, FIRST),
            plain(MANY, BYTES, Bound("<=", 1_000_000)),
        ),
    ),
)
