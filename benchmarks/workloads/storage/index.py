"""Making the index of 8 tar shards in the page cache with 8,000 records of 10 KB, of two files each, in one process.

loaderkit: `build_index`, which scans every header, hashes samples of the shards, writes the file and opens it. tarfile:
`getmembers()` of every shard, the standard library's scan, which writes nothing. Records a second.
"""

import tarfile
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.benchmark import Benchmark, Bound, Size, speedup
from benchmarks.contender import Contender
from benchmarks.workloads.storage.calls import calls
from benchmarks.workloads.storage.tar import KB, shards

OURS = Contender("loaderkit index, 1 process", "loaderkit")
TARFILE = Contender("tarfile.getmembers, 1 process", "bare")


@contextmanager
def opened(contender: Contender, size: Size) -> Iterator[Iterator[int]]:
    """The whole set, again and again."""
    paths, records = shards(size, 10 * KB)

    def listed() -> Iterator[int]:
        while True:
            for path in paths:
                with tarfile.open(path) as file:
                    yield len(file.getmembers()) // 2

    def indexed() -> Iterator[int]:
        from loaderkit.formats._index.build import build_index
        from loaderkit.formats._index.shard_set import ShardSet
        from loaderkit.formats.tar.scanner import TarFormat

        destination = str(size.folder / "index-of-benchmark.lkx")
        while True:
            build_index(ShardSet([str(path) for path in paths]), TarFormat(), destination, worker_count=0)
            yield records

    yield listed() if contender.name == TARFILE.name else indexed()


BENCHMARKS = (
    Benchmark(
        "storage: index",
        __doc__ or "",
        (TARFILE, OURS),
        calls(opened),
        (speedup(OURS, TARFILE, bound=Bound(">=", 3)),),
    ),
)
