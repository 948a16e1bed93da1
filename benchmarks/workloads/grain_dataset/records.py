"""Cheap records of chains, one by one and in batches, by Grain and by the same names here: the engine's part of each.

A list of 200,000 ints: shuffled and repeated; a mixture of three of them by weights, with a draw for each record; and
batches of 32 of the shuffled ones. In one process, with Grain's threads off, which is its fastest here. CPU time of a
record behind the first 2,000; the checksum is of all that were read.
"""

import time
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

import numpy as np

from benchmarks.benchmark import Benchmark, Bound, Comparison, Metrics, Round, Size, plain, shortening
from benchmarks.contender import Contender

RECORDS, BATCH, BEFORE = 200_000, 32, 2_000
US, CHECKSUM = "CPU us/record", "checksum of the records"


def _shuffled(g: Any, seed: int = 1) -> Any:
    return g.MapDataset.source(list(range(RECORDS))).shuffle(seed).repeat()


def _drawn(record: int, rng: np.random.Generator) -> float:
    return record + rng.random()


def _mixture(g: Any) -> Any:
    parts = [_shuffled(g, seed) for seed in (1, 2, 3)]
    return g.MapDataset.mix(parts, [0.5, 0.3, 0.2]).seed(4).random_map(_drawn)


CHAINS: Mapping[str, tuple[Callable[[Any], Any], int]] = {  # with the records of an element
    "shuffled records": (_shuffled, 1),
    "a mixture with draws": (_mixture, 1),
    "batches of 32": (_shuffled, BATCH),
}
LEAST = {"shuffled records": 10, "a mixture with draws": 5, "batches of 32": 5}
OURS = {name: Contender(f"loaderkit {name}", "loaderkit", options={"chain": name}) for name in CHAINS}
GRAIN = {name: Contender(f"grain {name}", "grain", options={"chain": name}) for name in CHAINS}


def measure(contender: Contender, size: Size) -> Metrics:
    """CPU time of one record, and the checksum of all."""
    g: Any
    if contender.peer == "grain":
        import grain as g
    else:
        import loaderkit.interop.grain as g
    make, each = CHAINS[contender.options["chain"]]
    ds = make(g).to_iter_dataset(g.ReadOptions(num_threads=0, prefetch_buffer_size=0))
    iterator = iter(ds.batch(each) if each > 1 else ds)
    checksum = sum(float(np.sum(element)) for element in islice(iterator, BEFORE // each))
    elements = size.pick(60_000, 500) // each
    begin = time.process_time()
    for element in islice(iterator, elements):
        last = element
    spent = time.process_time() - begin
    return {US: spent / (elements * each) * 1e6, CHECKSUM: checksum + float(np.sum(last))}


def _equal(name: str) -> Comparison:
    def value(results: Round) -> float:
        return float(results[OURS[name].name][CHECKSUM] == results[GRAIN[name].name][CHECKSUM])

    return Comparison(f"{name}: those of loaderkit are those of grain", value, Bound(">=", 1), beside="grain")


BENCHMARKS = (
    Benchmark(
        "grain-dataset: records",
        __doc__ or "",
        (*OURS.values(), *GRAIN.values()),
        measure,
        (
            *(
                shortening(OURS[name], GRAIN[name], metric=US, bound=Bound(">=", LEAST[name]))
                for name in CHAINS
            ),
            *map(_equal, CHAINS),
            *(plain(contender, US) for contender in (*OURS.values(), *GRAIN.values())),
        ),
    ),
)
