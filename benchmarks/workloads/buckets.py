"""Batches of records of like length: what a key costs, and how much of the batches is padding. No data is read.

1,000,000 lengths, lognormal (mean of the logarithm 6, deviation 0.9), cut to 1..4,096; batches of 256. loaderkit:
`LengthBucketSampler` with eight boundaries, `record_keys` of consecutive indices in blocks of 100,000 and `shapes` of
steps. Beside it random batches padded to their longest record, with the keys of numpy's permutation; and batches as
torch users make them: `torch.randperm`, runs of 50 batches sorted by length, padded to the longest of each batch.

The fill of an epoch is the sum of all lengths over that of the padded rows. The best fill for the boundaries has each
record padded to the boundary of its own bucket, as if batches could have any size. A shape is a length to which some
batch of an epoch is padded: jax.jit compiles a step for each. Times are of the fastest of five passes.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.benchmark import Benchmark, Bound, Comparison, Metrics, Round, Size
from benchmarks.clock import least_seconds
from benchmarks.contender import Contender

BOUNDARIES = (128, 256, 384, 512, 768, 1024, 2048, 4096)
ROWS = 256
SORTED_BATCHES = 50  # of a run
PASSES = 5
EPOCHS = (0, 1, 2)

OURS = Contender("loaderkit, 0 workers", "loaderkit")
RANDOM = Contender("random batches padded to their longest", "bare")
TORCH = Contender("torch randperm, runs of 50 batches sorted", "torch")

NANOSECONDS, FILL, OF_BEST, SHAPES = "ns/index", "fill", "fill / best for the boundaries", "shapes"


def measure(contender: Contender, size: Size) -> Metrics:
    """What an index costs, and the fill and shapes of an epoch."""
    lengths = np.random.default_rng(0).lognormal(6, 0.9, size.pick(1_000_000, 10_000))
    lengths = np.clip(lengths, 1, BOUNDARIES[-1]).astype(np.int64)
    if contender.peer == "loaderkit":
        return _ours(lengths, size)
    keys, nanoseconds = (_random if contender.peer == "bare" else _torch)(lengths)
    firsts = np.arange(0, len(keys), ROWS)
    longest = np.maximum.reduceat(lengths[keys], firsts)
    rows = np.diff(np.append(firsts, len(keys)))
    return {
        NANOSECONDS: nanoseconds,
        FILL: float(lengths.sum() / (longest * rows).sum()),
        SHAPES: float(len(np.unique(longest))),
    }


def _nanoseconds(run: Callable[[], Any], indices: int) -> float:
    return least_seconds(run, PASSES) / indices * 1e9


def _ours(lengths: np.ndarray, size: Size) -> Metrics:
    from loaderkit.samplers import LengthBucketSampler

    sampler = LengthBucketSampler(lengths, BOUNDARIES, ROWS, shuffle=True, seed=0)
    indices = np.arange(size.pick(100_096, 1_024))

    def plan() -> None:
        sampler.record_keys(indices)
        sampler.shapes(indices[::ROWS])
        sampler.rows_of(indices[::ROWS])

    bounds = np.array(BOUNDARIES)
    fills, seen = [], 0
    for epoch in EPOCHS:
        firsts = epoch * sampler.epoch_length + np.arange(0, sampler.epoch_length, ROWS)
        padded = bounds[sampler.shapes(firsts)]
        fills.append(lengths.sum() / (padded * sampler.rows_of(firsts)).sum())
        seen = max(seen, len(np.unique(padded)))
    best = lengths.sum() / bounds[np.searchsorted(bounds, lengths)].sum()
    return {
        NANOSECONDS: _nanoseconds(plan, len(indices)),
        FILL: float(min(fills)),
        OF_BEST: float(min(fills) / best),
        SHAPES: float(seen),
    }


def _random(lengths: np.ndarray) -> tuple[np.ndarray, float]:
    rng = np.random.default_rng(0)
    return rng.permutation(len(lengths)), _nanoseconds(lambda: rng.permutation(len(lengths)), len(lengths))


def _torch(lengths: np.ndarray) -> tuple[np.ndarray, float]:
    import torch

    known = lengths.tolist()

    def keys() -> list[int]:
        order = torch.randperm(len(known)).tolist()
        runs = (
            order[low : low + SORTED_BATCHES * ROWS] for low in range(0, len(order), SORTED_BATCHES * ROWS)
        )
        return [key for run in runs for key in sorted(run, key=known.__getitem__, reverse=True)]

    return np.array(keys()), _nanoseconds(keys, len(known))


def _of_ours(metric: str, bound: Bound) -> Comparison:
    return Comparison(f"{OURS.name}: {metric}", lambda results: results[OURS.name][metric], bound)


def _fill_beside(other: Contender, beside: str | None, at_least: float | None) -> Comparison:
    def value(results: Round) -> float:
        return results[OURS.name][FILL] / results[other.name][FILL]

    bound = None if at_least is None else Bound(">=", at_least)
    return Comparison(f"{OURS.name} / {other.name}: {FILL}", value, bound, beside=beside)


BENCHMARKS = (
    Benchmark(
        "buckets",
        __doc__,
        (OURS, RANDOM, TORCH),
        measure,
        (
            _of_ours(NANOSECONDS, Bound("<=", 150)),
            _of_ours(OF_BEST, Bound(">=", 0.98)),
            _fill_beside(RANDOM, None, None),
            _fill_beside(TORCH, "torch", None),
        ),
    ),
)
