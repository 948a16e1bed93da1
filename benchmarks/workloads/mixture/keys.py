"""Record keys of mixtures, nothing else: no data is read.

Shuffled `IndexSampler`s of 100,000 to 1,000,000 records, weights 1, 2, 3 ... (10 components) or lognormal ones (1,000).
`record_keys` of 262,144 consecutive indices in blocks of 16,384, the size in which a loader plans. loaderkit's orders
take turns in one process; of each the fastest of seven passes counts, in CPU time. Grain: `MapDataset.mix` of shuffled
`MapDataset.range`s of the same sizes and weights, `mixed[index]`, its only way to ask, for 5,000 indices.
"""

import time
from collections.abc import Callable
from typing import Literal

import numpy as np

import loaderkit as lk
from benchmarks.benchmark import Benchmark, Bound, Comparison, Metrics, Round, Size
from benchmarks.contender import Contender

OURS = Contender("loaderkit, 0 workers", "loaderkit")
GRAIN = Contender("grain MapDataset.mix, 0 workers", "grain")

ONE, TEN, TEN_SHUFFLED, THOUSAND = (
    "ns a key, one IndexSampler",
    "ns a key, 10 components",
    "ns a key, 10 components, order='shuffled'",
    "ns a key, 1,000 components",
)
BLOCK = 16_384
PASSES = 7


def lengths_of(count: int) -> list[int]:
    """Records of each component, 100,000 to 1,000,000."""
    return [100_000 + 900_000 * place // max(1, count - 1) for place in range(count)]


def mixture(count: int, order: Literal["even", "shuffled"] = "even") -> lk.samplers.MixedSampler:
    """A mixture of so many shuffled components."""
    weights = (
        np.random.default_rng(0).lognormal(0, 1, count).round(3) if count > 10 else np.arange(1, count + 1)
    )
    components = {
        f"c{place:04}": lk.IndexSampler(records, shuffle=True, seed=place)
        for place, records in enumerate(lengths_of(count))
    }
    return lk.samplers.MixedSampler(
        components, weights=dict(zip(components, weights.tolist(), strict=True)), order=order, seed=0
    )


def measure(contender: Contender, size: Size) -> Metrics:
    """Nanoseconds of CPU time a key."""
    return _grain(size) if contender.peer == "grain" else _ours(size)


def _ours(size: Size) -> Metrics:
    block, total = size.pick(BLOCK, 256), size.pick(16 * BLOCK, 512)
    samplers: dict[str, lk.samplers.Sampler] = {
        ONE: lk.IndexSampler(1_000_000, shuffle=True, seed=0),
        TEN: mixture(10),
        TEN_SHUFFLED: mixture(10, "shuffled"),
        THOUSAND: mixture(size.pick(1_000, 20)),
    }
    fastest = dict.fromkeys(samplers, float("inf"))
    for _ in range(PASSES):
        for name, sampler in samplers.items():
            record_keys = sampler.record_keys  # type: ignore[attr-defined]  # optional in the protocol
            fastest[name] = min(fastest[name], _seconds(record_keys, block, total))
    return {name: seconds / total * 1e9 for name, seconds in fastest.items()}


def _seconds(record_keys: Callable[[np.ndarray], np.ndarray], block: int, total: int) -> float:
    indices = np.arange(total) + 10**9
    begin = time.process_time()
    for low in range(0, total, block):
        record_keys(indices[low : low + block])
    return time.process_time() - begin


def _grain(size: Size) -> Metrics:
    import grain.python as grain

    datasets = [
        grain.MapDataset.range(records).shuffle(seed=place).repeat()
        for place, records in enumerate(lengths_of(10))
    ]
    mixed = grain.MapDataset.mix(datasets, [float(weight) for weight in range(1, 11)])
    count = size.pick(5_000, 50)
    fastest = float("inf")
    for _ in range(3):
        begin = time.process_time()
        for index in range(count):
            mixed[index]
        fastest = min(fastest, time.process_time() - begin)
    return {TEN: fastest / count * 1e9}


def _rate(of: str, to: str, at_least: float | None) -> Comparison:
    return Comparison(
        f"{to} / {of} (more is better)",
        lambda results: results[OURS.name][to] / results[OURS.name][of],
        None if at_least is None else Bound(">=", at_least),
    )


def _more(results: Round) -> float:
    return results[OURS.name][THOUSAND] - results[OURS.name][TEN]


def _beside_grain(results: Round) -> float:
    return results[GRAIN.name][TEN] / results[OURS.name][TEN]


BENCHMARKS = (
    Benchmark(
        "mixture: keys",
        __doc__ or "",
        (OURS, GRAIN),
        measure,
        (
            _rate(TEN, ONE, 0.6),
            _rate(TEN_SHUFFLED, ONE, None),
            Comparison("ns a key more of 1,000 components than of 10", _more, Bound("<=", 150)),
            Comparison(
                f"{OURS.name} / {GRAIN.name}, keys/s", _beside_grain, Bound(">=", 150), beside="grain"
            ),
        ),
    ),
)
