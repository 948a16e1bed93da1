"""Records of JSON Lines by chunks, of compressed files and of the plain one, and samples of MDS beside its own library.

A record is an id and 400 characters of Python's own sources; there are 40,000. Files: plain, as `lk.write` writes
`x.jsonl.zst`, and one member of gzip. loaderkit reads batches of 256 in the order of `lk.ChunkSampler`, chunks of about
1 MiB and windows of 4, without workers, from the page cache. MDS: the same records, 256 at a time in order, by
`lk.formats.MdsDataSource` and one by one by `StreamingDataset`. Records a second, after a warm-up of half the time.
"""

import gzip
import os
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.benchmark import PER_SECOND, Benchmark, Bound, Metrics, Size, speedup
from benchmarks.contender import Contender

RECORDS, SMOKE, CHARACTERS, BATCH, WINDOW = 40_000, 600, 400, 256, 4
PLAIN, ZSTD, GZIP = (
    Contender(f"loaderkit {name}", "loaderkit", options={"file": name})
    for name in ("x.jsonl", "x.jsonl.zst", "x.jsonl.gz")
)
# Its writer makes the files of both.
MDS = Contender("loaderkit MDS", "streaming", options={"file": "mds", "reads": "loaderkit"})
STREAMING = Contender("StreamingDataset", "streaming", options={"file": "mds", "reads": "streaming"})


def records(size: Size) -> Iterator[dict[str, Any]]:
    """The records of all files."""
    sources = sorted(Path(os.__file__).parent.glob("*.py"))
    whole = "".join(path.read_text(encoding="utf-8", errors="replace") for path in sources)
    for key in range(size.pick(RECORDS, SMOKE)):
        at = key * CHARACTERS % (len(whole) - CHARACTERS)
        yield {"id": key, "text": whole[at : at + CHARACTERS]}


def data(name: str, size: Size) -> Path:
    """A file, or the folder of MDS, made by the first contender that asks."""
    path = size.folder / name
    if path.exists():
        return path
    if name == "mds":
        from streaming import MDSWriter

        with MDSWriter(out=str(path), columns={"id": "int", "text": "str"}) as out:
            for record in records(size):
                out.write(record)
    elif name == "x.jsonl.gz":
        path.write_bytes(gzip.compress(data("x.jsonl", size).read_bytes()))
    else:
        import loaderkit as lk

        lk.write(records(size), path)
    return path


def measure(contender: Contender, size: Size) -> Metrics:
    """Records a second."""
    name = contender.options["file"]
    path = data(name, size)
    batches = (
        _theirs(path)
        if contender.options.get("reads") == "streaming"
        else _ours(path, in_order=name == "mds")
    )
    _count(batches, size.seconds / 2)
    count, seconds = _count(batches, size.seconds)
    return {PER_SECOND: count / seconds}


def _ours(path: Path, *, in_order: bool) -> Iterator[list[Any]]:
    import loaderkit as lk

    source = lk.open(path)
    indices = np.arange(len(source))
    if not in_order:
        sampler = lk.ChunkSampler(
            len(source), chunk=min(source.chunk_records, len(source)), window=WINDOW, seed=0
        )
        indices = sampler.record_keys(indices)
    while True:
        for begin in range(0, len(indices), BATCH):
            yield source.__getitems__(indices[begin : begin + BATCH])


def _theirs(path: Path) -> Iterator[list[Any]]:
    from streaming import StreamingDataset

    source = StreamingDataset(local=str(path), shuffle=False, batch_size=BATCH)
    while True:
        samples = iter(source)
        while batch := [*islice(samples, BATCH)]:
            yield batch


def _count(batches: Iterator[list[Any]], seconds: float) -> tuple[int, float]:
    count, begun = 0, time.perf_counter()
    while (past := time.perf_counter() - begun) < seconds:
        count += len(next(batches))
    return count, past


BENCHMARKS = (
    Benchmark(
        "language: compressed text",
        __doc__ or "",
        (PLAIN, ZSTD, GZIP),
        measure,
        (
            speedup(ZSTD, PLAIN, bound=Bound(">=", 0.8)),
            speedup(GZIP, PLAIN, bound=Bound(">=", 0.8)),
        ),
    ),
    Benchmark(
        "language: MDS",
        __doc__ or "",
        (MDS, STREAMING),
        measure,
        (speedup(MDS, STREAMING, bound=Bound(">=", 1.0)),),
    ),
)
