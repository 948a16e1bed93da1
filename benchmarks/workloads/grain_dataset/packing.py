"""Documents packed while they are read, by Grain's packers and by those of the same names here, with the same rows.

8,192 documents of int32 tokens in memory, lengths lognormal with a mean of 500, in rows of 2,048, 64 bins, shuffled;
first fit of one feature and of two, and best fit. `MapDataset.source(...).to_iter_dataset()`, the packer, no batch, in
one process, with Grain's threads off. CPU time of a document from the first `next()` to the end, its reading included;
the checksum is of all rows. *reading* is the same without a packer.
"""

import time
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.benchmark import Benchmark, Bound, Comparison, Metrics, Round, Size, plain, shortening
from benchmarks.contender import Contender

ROW, MEAN, BINS = 2048, 500, 64
US, CHECKSUM = "CPU us/document", "checksum of the rows"
STEPS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "first fit": ("FirstFitPackIterDataset", ("inputs",)),
    "first fit, 2 features": ("FirstFitPackIterDataset", ("inputs", "targets")),
    "best fit": ("BestFitPackIterDataset", ("inputs",)),
    "reading": ("", ("inputs",)),
}
OURS = {step: Contender(f"loaderkit {step}", "loaderkit", options={"step": step}) for step in STEPS}
GRAIN = {step: Contender(f"grain {step}", "grain", options={"step": step}) for step in STEPS}


def documents_of(count: int, features: tuple[str, ...]) -> list[dict[str, Any]]:
    """Documents with these features, the same in every process."""
    rng = np.random.default_rng(0)
    lengths = np.minimum(rng.lognormal(np.log(MEAN) - 0.5, 1, count).astype(int) + 1, ROW)
    return [
        {name: np.arange(place, place + length, dtype=np.int32) for name in features}
        for place, length in enumerate(lengths.tolist())
    ]


def measure(contender: Contender, size: Size) -> Metrics:
    """CPU time of one document, in a second pass, and the checksum of the rows of a first."""
    packer, features = STEPS[contender.options["step"]]
    documents = documents_of(size.pick(8192, 256), features)
    ds = _data_set(contender.peer, documents, packer, features)
    checksum = 0
    for row in ds:
        for name in sorted(row):
            checksum = zlib.crc32(row[name], checksum)
    begin = time.process_time()
    for _ in ds:
        pass
    return {US: (time.process_time() - begin) / len(documents) * 1e6, CHECKSUM: float(checksum)}


def _data_set(peer: str, documents: list[dict[str, Any]], packer: str, features: tuple[str, ...]) -> Any:
    g: Any
    if peer == "grain":
        import grain as g
    else:
        import loaderkit.interop.grain as g
    ds = g.MapDataset.source(documents).to_iter_dataset(g.ReadOptions(num_threads=0, prefetch_buffer_size=0))
    if not packer:
        return ds
    lengths = dict.fromkeys(features, ROW)
    return getattr(g.experimental, packer)(ds, length_struct=lengths, num_packing_bins=BINS, seed=0)


def _equal(step: str) -> Comparison:
    def value(results: Round) -> float:
        return float(results[OURS[step].name][CHECKSUM] == results[GRAIN[step].name][CHECKSUM])

    return Comparison(f"{step}: rows of loaderkit are those of grain", value, Bound(">=", 1), beside="grain")


BENCHMARKS = (
    Benchmark(
        "grain-dataset: packing",
        __doc__ or "",
        (*OURS.values(), *GRAIN.values()),
        measure,
        (
            shortening(OURS["first fit"], GRAIN["first fit"], metric=US, bound=Bound(">=", 5)),
            shortening(
                OURS["first fit, 2 features"], GRAIN["first fit, 2 features"], metric=US, bound=Bound(">=", 5)
            ),
            shortening(OURS["best fit"], GRAIN["best fit"], metric=US, bound=Bound(">=", 5)),
            *map(_equal, STEPS),
            *(plain(contender, US) for contender in (*OURS.values(), *GRAIN.values())),
        ),
    ),
)
