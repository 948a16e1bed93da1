"""Small records of one source and of four mixed sources, read one by one, and by column.

Records of `small`: `{"x": k, "y": float32[16]}`, 100,000 in one source or 25,000 in each of four, weights 1 to 4,
shuffled; one Map (y * 2), 256 rows a batch, no workers. One by one: sources with `__getitem__` alone. By column: an
ArrayDataSource, or four, and no Map. Grain: `MapDataset.mix` of the same four sources, shuffled and repeated, the same
Map, batched before it is iterated, with its default and tuned read options. Steady records a second.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import loaderkit as lk
from benchmarks import contender as by
from benchmarks.benchmark import PER_SECOND, Benchmark, Bound, Metrics, Size, speedup
from benchmarks.contender import Contender
from benchmarks.measure import take
from benchmarks.pipeline import Pipeline
from benchmarks.workloads.small import BATCH, Records, double

SOURCES = 4
ONE, MIXED = Contender("loaderkit, one source", "loaderkit"), Contender("loaderkit, 4 mixed", "loaderkit")
ONE_COLUMNS = Contender("loaderkit, one source, by column", "loaderkit")
MIXED_COLUMNS = Contender("loaderkit, 4 mixed, by column", "loaderkit")
GRAIN = tuple(
    Contender(
        contender.name.replace("MapDataset", "MapDataset.mix"), "grain", 0, "process", contender.options
    )
    for contender in (by.grain_default(0, "MapDataset"), *by.grain_tuned(0, "MapDataset"))
)


def sources(size: Size, count: int, *, columns: bool) -> dict[str, Any]:
    """So many sources by name, 100,000 records in all."""
    records = size.pick(100_000, 4 * BATCH) // count
    made = [Records(records) for _ in range(count)]
    return {
        f"s{place}": lk.ArrayDataSource(one.columns()) if columns else one for place, one in enumerate(made)
    }


@contextmanager
def opened(contender: Contender, size: Size) -> Iterator[Iterator[Any]]:
    """The contender's batches."""
    columns = contender in (ONE_COLUMNS, MIXED_COLUMNS)
    parts = sources(size, 1 if contender in (ONE, ONE_COLUMNS) else SOURCES, columns=columns)
    weights = {name: place + 1 for place, name in enumerate(parts)}
    if contender.peer == "grain":
        yield _grain(contender, list(parts.values()), list(weights.values()))
        return
    source: Any
    sampler: lk.samplers.Sampler
    if len(parts) == 1:
        (source,) = parts.values()
        sampler = lk.IndexSampler(len(source), shuffle=True, seed=0)
    else:
        source, sampler = lk.mix(parts, weights=weights, shuffle=True, seed=0)
    operations: list[Any] = [lk.Batch(BATCH)] if columns else [lk.Map(double), lk.Batch(BATCH)]
    loader: lk.DataLoader[Any] = lk.DataLoader(data_source=source, sampler=sampler, operations=operations)
    try:
        yield iter(loader)
    finally:
        loader.close()


def _grain(contender: Contender, parts: list[Any], weights: list[int]) -> Iterator[Any]:
    from benchmarks.peers.grain import grain, read_options

    datasets = [
        grain.MapDataset.source(part).shuffle(seed=place).repeat() for place, part in enumerate(parts)
    ]
    mixed = grain.MapDataset.mix(datasets, [float(weight) for weight in weights])
    return iter(mixed.map(double).batch(BATCH).to_iter_dataset(read_options(contender)))


def measure(contender: Contender, size: Size) -> Metrics:
    """Steady records a second."""
    counted = Pipeline({}, batch=BATCH)
    with opened(contender, size) as batches:
        take(batches, counted, seconds=size.seconds / 2, least=1 if size.smoke else 2)
        records, seconds = take(batches, counted, seconds=size.seconds, least=1 if size.smoke else 3)
        return {PER_SECOND: records / seconds}


BENCHMARKS = (
    Benchmark(
        "mixture: reads",
        __doc__ or "",
        (ONE, MIXED, ONE_COLUMNS, MIXED_COLUMNS, *GRAIN),
        measure,
        (
            speedup(MIXED, ONE, bound=Bound(">=", 0.9)),
            speedup(MIXED_COLUMNS, ONE_COLUMNS, bound=Bound(">=", 0.4)),
            speedup(MIXED, *GRAIN, best_of="best of grain MapDataset.mix, 0 workers", bound=Bound(">=", 15)),
        ),
    ),
)
