"""Time to get shuffled record keys, nothing else: no data is read.

loaderkit: `IndexSampler(n, shuffle=True).record_keys(indices)` for consecutive indices, in blocks of 100,000 and in
calls of 256. Grain: `IndexSampler(n, shuffle=True)[index].record_key`, its only interface. Neither holds the keys in
memory. For comparison two that do: numpy's `Generator.permutation(n).tolist()` and torch's `randperm(n).tolist()`, made
once an epoch and counted. n is 1,000,000, and 2^20 + 1, where a bijection visits the most numbers that aren't keys. The
rate is of the fastest of five passes over 200,000 indices (Grain: 20,000).
"""

from collections.abc import Callable

import numpy as np

from benchmarks.benchmark import Benchmark, Bound, Comparison, Metrics, Round, Size
from benchmarks.clock import least_seconds
from benchmarks.contender import Contender

SIZES = {"n = 10^6": 1_000_000, "n = 2^20 + 1": (1 << 20) + 1}
PASSES = 5

OURS = Contender("loaderkit, 0 workers", "loaderkit")
GRAIN = Contender("grain IndexSampler, 0 workers", "grain")
NUMPY = Contender("numpy permutation, all keys held", "bare")
TORCH = Contender("torch randperm, all keys held", "torch")

BLOCKS, CALLS = "keys/s in blocks of 100,000", "keys/s in calls of 256"


def fastest(run: Callable[[], object], keys: int) -> float:
    """Keys a second in the fastest pass."""
    return keys / least_seconds(run, PASSES)


def measure(contender: Contender, size: Size) -> Metrics:
    """Keys a second for each n."""
    rates = {"bare": _numpy, "loaderkit": _ours, "grain": _grain, "torch": _torch}[contender.peer]
    return {
        f"{name}, {n_name}": rate
        for n_name, n in SIZES.items()
        for name, rate in rates(n if not size.smoke else n // 1000, size).items()
    }


def _ours(n: int, size: Size) -> Metrics:
    from loaderkit import IndexSampler

    sampler = IndexSampler(n, shuffle=True, seed=0, num_epochs=None)
    indices = np.arange(size.pick(200_000, 2_000))

    def in_calls_of(k: int) -> Callable[[], object]:
        return lambda: [sampler.record_keys(indices[low : low + k]) for low in range(0, len(indices), k)]

    return {
        BLOCKS: fastest(in_calls_of(size.pick(100_000, 1_000)), len(indices)),
        CALLS: fastest(in_calls_of(256), len(indices)),
    }


def _grain(n: int, size: Size) -> Metrics:
    import grain.python as grain

    sampler = grain.IndexSampler(n, shard_options=grain.NoSharding(), shuffle=True, seed=0, num_epochs=None)
    count = size.pick(20_000, 200)
    rate = fastest(lambda: [sampler[index].record_key for index in range(count)], count)
    return {BLOCKS: rate, CALLS: rate}


def _numpy(n: int, size: Size) -> Metrics:
    rng = np.random.default_rng(0)
    rate = fastest(lambda: rng.permutation(n).tolist(), n)
    return {BLOCKS: rate, CALLS: rate}


def _torch(n: int, size: Size) -> Metrics:
    import torch

    rate = fastest(lambda: torch.randperm(n).tolist(), n)
    return {BLOCKS: rate, CALLS: rate}


def _beside_grain(name: str, n_name: str, at_least: float | None) -> Comparison:
    metric = f"{name}, {n_name}"

    def value(results: Round) -> float:
        return results[OURS.name][metric] / results[GRAIN.name][metric]

    bound = None if at_least is None else Bound(">=", at_least)
    return Comparison(f"{OURS.name} / {GRAIN.name}: {metric}", value, bound, beside="grain")


BENCHMARKS = (
    Benchmark(
        "plan",
        __doc__,
        (OURS, GRAIN, NUMPY, TORCH),
        measure,
        (
            _beside_grain(BLOCKS, "n = 10^6", 100),
            _beside_grain(CALLS, "n = 10^6", 30),
            _beside_grain(BLOCKS, "n = 2^20 + 1", None),
            _beside_grain(CALLS, "n = 2^20 + 1", None),
        ),
    ),
)
