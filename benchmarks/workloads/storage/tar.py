"""Tar shards in the page cache: records of a picture's bytes (10 KB, then 100 KB) and a label.

bare loop: `os.pread` of each record's bytes at random, from places that are known, and nothing else. loaderkit source:
`TarDataSource.__getitems__` with 256 shuffled keys a call, each record a dict. loaderkit loader: the same through a
`DataLoader` with `Batch(256)`. webdataset reads its shards in order, records are dicts too, nothing is decoded or
shuffled. All in one process, without workers. Steady records a second.
"""

import itertools
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import loaderkit as lk
from benchmarks.benchmark import Benchmark, Bound, Size, speedup
from benchmarks.contender import Contender
from benchmarks.workloads.storage.calls import CALL, calls, of_source, pread_calls
from benchmarks.workloads.storage.files import TAR_BLOCK, tar_set

KB = 1000
RECORDS = {10 * KB: 8_000, 100 * KB: 1_000}

PREAD = Contender("bare loop of pread, at random", "bare")
SOURCE = Contender("loaderkit source, at random", "loaderkit")
LOADER = Contender("loaderkit loader, shuffled, 0 workers", "loaderkit")
WEBDATASET = Contender("webdataset, in order, 0 workers", "webdataset")


def shards(size: Size, nbytes: int) -> tuple[list[Path], int]:
    """The files and the number of their records."""
    records = size.pick(RECORDS[nbytes], 64)
    return tar_set(size.folder / f"tar-{nbytes}", records, nbytes), records


def record_spans(paths: list[Path]) -> list[tuple[int, int, int]]:
    """(shard, bytes, offset) of each record, from the first member's header to the last member's end."""
    spans = []
    for shard, path in enumerate(paths):
        with tarfile.open(path) as file:
            members = file.getmembers()
        for first, last in zip(members[::2], members[1::2], strict=True):
            end = last.offset_data + -(-last.size // TAR_BLOCK) * TAR_BLOCK
            spans.append((shard, end - first.offset, first.offset))
    return spans


def webdataset_calls(paths: list[Path]) -> Iterator[int]:
    """Epochs in order, without end."""
    import webdataset

    while True:
        records = iter(webdataset.WebDataset([str(path) for path in paths], shardshuffle=False))
        while taken := sum(1 for _ in itertools.islice(records, CALL)):
            yield taken


def loader_calls(source: lk.TarDataSource, records: int) -> Iterator[int]:
    """Batches of the loader, in this process."""
    loader = lk.DataLoader(
        data_source=source,
        sampler=lk.IndexSampler(records, shuffle=True, seed=0, num_epochs=None),
        operations=[lk.Batch(min(CALL, records))],
    )
    with loader, iter(loader) as batches:
        for batch in batches:
            yield len(batch["cls"])


def benchmark(nbytes: int) -> Benchmark:
    """The benchmark of records of a size."""

    @contextmanager
    def opened(contender: Contender, size: Size) -> Iterator[Iterator[int]]:
        paths, records = shards(size, nbytes)
        if contender.name == PREAD.name:
            with pread_calls(paths, record_spans(paths)) as reads:
                yield reads
        elif contender.name == WEBDATASET.name:
            yield webdataset_calls(paths)
        else:
            source = lk.TarDataSource([str(path) for path in paths])
            yield (
                of_source(source, records) if contender.name == SOURCE.name else loader_calls(source, records)
            )

    small = nbytes == 10 * KB
    return Benchmark(
        f"storage: tar, {nbytes // KB} KB",
        __doc__ or "",
        (PREAD, SOURCE, LOADER, WEBDATASET),
        calls(opened),
        (
            speedup(SOURCE, PREAD, bound=Bound(">=", 0.75 if small else 0.9)),
            speedup(SOURCE, WEBDATASET, bound=Bound(">=", 8 if small else 4)),
            speedup(LOADER, PREAD),
            speedup(LOADER, WEBDATASET),
        ),
    )


BENCHMARKS = tuple(benchmark(nbytes) for nbytes in RECORDS)
