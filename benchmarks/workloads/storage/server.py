"""Two epochs of records of 100 KB on a web server: on loopback, in a process of its own, 20 ms away.

1.2 GB in tar shards; `--latency` and `--megabytes` set others. obstore reads the shards in order, 1 MiB a request, 32
in flight. Once it drops the bytes, as the server's own limit. Once it writes them to the disk that has loaderkit's
cache, and each record is read from there once: what a first epoch with a cache has to do. loaderkit reads them
shuffled by `ChunkSampler` (chunks of 10 records, about 1 MiB; windows of 64 chunks) through an empty `lk.Cache`, in
batches of 64; the same sampler over the local tar files, without a cache, is beside its second epoch. LitData
shuffles its own format in chunks of 1 MiB, fetched with obstore, MosaicML Streaming its own in a local folder, which
is its second epoch. Without a cache, all records are shuffled, beside obstore with 32 reads of a record in flight.
None has workers but those of which only the first batch is measured.

An epoch's MB/s are bytes of the records over the time from asking for its first batch until its last one is there;
the first epoch's clock starts before the loader is made. *steady* leaves the first quarter of the bytes out. *bytes
sent* are those of the server for the first epoch over those of the shards. *CPU ns/byte* are of the first epoch and of
all processes but the server. First batches are in runs of their own, 600 ms away, so that the round trips, which are
the time divided by that, count the requests in sequence and little of the work beside them.

A folder that was written in a round keeps its files, empty, until the end: ext4 without a journal searches for the
number of a new file past those that were deleted within minutes, which took a fifth of a first epoch's CPU time.
"""

import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np

import loaderkit as lk
from benchmarks.benchmark import Benchmark, Bound, Metrics, Size, cost, plain, speedup
from benchmarks.contender import Contender
from benchmarks.measure import cpu_seconds
from benchmarks.workloads.storage.files import once, tar_set
from benchmarks.workloads.storage.serve import Server, serving

MIB = 1 << 20
FAR_S = 0.6
BATCH, CHUNK, WINDOW, NBYTES, IN_FLIGHT = 64, 10, 64, 100_000, 32

RATE = "MB/s"
COLD, STEADY, WARM = "MB/s, first epoch", "MB/s, steady", "MB/s, second epoch"
TRIPS = "first batch, round trips"
SENT, AGAIN, CPU = "bytes sent", "requests, second epoch + 1", "CPU ns/byte"

DROPS = Contender("obstore in order, 32 in flight", "obstore")
WRITES = Contender("obstore, written and read", "obstore")
SINGLE = Contender("obstore, records, 32 in flight", "obstore")
OURS = Contender("loaderkit, cache", "loaderkit")
UNCACHED = Contender("loaderkit, no cache", "loaderkit")
FIRST = Contender("loaderkit, cache, far away", "loaderkit")
FIRST_2 = Contender("loaderkit, cache, 2 workers, far away", "loaderkit", 2)
UNCACHED_FIRST = Contender("loaderkit, no cache, far away", "loaderkit")
LOCAL = Contender("loaderkit, local tar", "loaderkit")
LITDATA = Contender("litdata", "litdata")
STREAMING = Contender("streaming, local", "streaming")


def timed(batches: Iterable[int], total: int) -> Metrics:
    """Rates of batches that are given as numbers of bytes, about `total` in all; their bytes and seconds."""
    begin, nbytes, seconds, quarter = time.perf_counter(), 0, 0.0, (0.0, 0)
    for batch in batches:
        if not quarter[1] and 4 * nbytes >= total:
            quarter = seconds, nbytes
        nbytes += batch
        seconds = time.perf_counter() - begin
    steady = (nbytes - quarter[1]) / (seconds - quarter[0])
    return {RATE: nbytes / seconds / 1e6, STEADY: steady / 1e6, "nbytes": nbytes, "seconds": seconds}


def client(address: str) -> Any:
    """Of obstore."""
    from obstore.store import HTTPStore

    return HTTPStore(address, client_options={"allow_http": True})


def in_order(address: str, paths: list[Path]) -> Iterator[int]:
    """Whole shards by obstore: one client, 32 threads, ranges of 1 MiB."""
    import obstore

    store = client(address)
    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        yield from pool.map(
            lambda one: len(obstore.get_range(store, one[0].name, start=one[1], length=one[2])),
            ranges_of(paths),
        )


def ranges_of(paths: list[Path]) -> list[tuple[Path, int, int]]:
    """Path, begin and length of each MiB."""
    return [
        (path, low, min(MIB, path.stat().st_size - low))
        for path in paths
        for low in range(0, path.stat().st_size, MIB)
    ]


def written(address: str, paths: list[Path], folder: str) -> Iterator[int]:
    """As `in_order`; each range is written to a file, and read from it by records."""
    import obstore

    store = client(address)
    files = {path: os.open(Path(folder) / path.name, os.O_RDWR | os.O_CREAT) for path in paths}

    def fetch(one: tuple[Path, int, int]) -> tuple[Path, int, int]:
        path, low, length = one
        os.pwrite(files[path], memoryview(obstore.get_range(store, path.name, start=low, length=length)), low)
        return one

    try:
        with ThreadPoolExecutor(IN_FLIGHT) as pool:
            for path, low, length in pool.map(fetch, ranges_of(paths)):
                records = range(low, low + length, NBYTES)
                yield sum(len(os.pread(files[path], min(NBYTES, low + length - at), at)) for at in records)
    finally:
        for descriptor in files.values():
            os.close(descriptor)


def single(address: str, paths: list[Path]) -> Iterator[int]:
    """Ranges of a record's size in random order."""
    import obstore

    store = client(address)
    ranges = [(path.name, low) for path in paths for low in range(0, path.stat().st_size - NBYTES, NBYTES)]
    order = np.random.default_rng(0).permutation(len(ranges)).tolist()
    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        yield from pool.map(
            lambda place: len(
                obstore.get_range(store, ranges[place][0], start=ranges[place][1], length=NBYTES)
            ),
            order,
        )


def batches_of(source: lk.TarDataSource, *, shuffle: bool = False, workers: int = 0) -> Generator[int]:
    """Bytes of each batch, without end; shuffled by chunks, or all together."""
    records = len(source)
    batch = min(BATCH, records)
    sampler: Any = lk.ChunkSampler(records, chunk=CHUNK, window=WINDOW, batch=batch, seed=0, num_epochs=None)
    if shuffle:
        sampler = lk.IndexSampler(records, shuffle=True, seed=0, num_epochs=None)
    with (
        lk.DataLoader(
            data_source=source, sampler=sampler, operations=[lk.Batch(batch)], worker_count=workers
        ) as loader,
        iter(loader) as it,
    ):
        for each in it:
            yield sum(map(len, each["jpg"]))


def remote_index(server: Server, names: list[str], path: Path) -> str:
    """The index as `loaderkit index` makes it of the shards on the server, with their ETags."""
    from loaderkit.formats._index.build import build_index
    from loaderkit.formats._index.shard_set import ShardSet
    from loaderkit.formats.tar.scanner import TarFormat

    if not path.exists():
        build_index(
            ShardSet([server.address + name for name in names]), TarFormat(), str(path), worker_count=0
        )
    return str(path)


@contextmanager
def emptied(folder: Path) -> Iterator[str]:
    """A new folder within one, whose files are emptied at the end and not deleted."""
    folder.mkdir(exist_ok=True)
    made = mkdtemp(dir=folder)
    try:
        yield made
    finally:
        for parent, _, names in os.walk(made):
            for name in names:
                os.truncate(os.path.join(parent, name), 0)


def first_batch(contender: Contender, server: Server, names: list[str], folder: str, index: str) -> Metrics:
    """The first batch of a loader whose cache, if it has one, is empty."""
    begin = time.perf_counter()
    cache = None if contender == UNCACHED_FIRST else lk.Cache(folder, limit="100GB")
    source = lk.TarDataSource([server.address + name for name in names], cache=cache, index=index)
    with closing(batches_of(source, shuffle=cache is None, workers=contender.workers)) as batches:
        next(batches)
        return {TRIPS: (time.perf_counter() - begin) / server.latency_s}


def ours(
    contender: Contender, server: Server, names: list[str], set_bytes: int, folder: str, index: str
) -> Metrics:
    """Two epochs through a cache that is empty at first; without one an epoch."""
    urls = [server.address + name for name in names]
    before, cpu = server.sent(), cpu_seconds()
    begin = time.perf_counter()
    cache = None if contender == UNCACHED else lk.Cache(folder, limit="100GB")
    source = lk.TarDataSource(urls, cache=cache, index=index)
    with closing(batches_of(source, shuffle=cache is None)) as batches:
        opened = time.perf_counter() - begin
        steps = len(source) // min(BATCH, len(source))
        cold = timed(islice(batches, steps), set_bytes)
        nbytes = cold["nbytes"]
        metrics = {COLD: nbytes / (opened + cold["seconds"]) / 1e6, STEADY: cold[STEADY]}
        metrics[CPU] = (cpu_seconds() - cpu) / nbytes * 1e9
        if contender == UNCACHED:
            return metrics
        after = server.sent()
        warm = timed(islice(batches, steps), set_bytes)
        again = server.sent()[0] - after[0]
    return {**metrics, WARM: warm[RATE], SENT: (after[1] - before[1]) / set_bytes, AGAIN: again + 1}


def local(paths: list[Path]) -> Metrics:
    """The same sampler over the files themselves; the first epoch makes the index."""
    source = lk.TarDataSource([str(path) for path in paths])
    with closing(batches_of(source)) as batches:
        steps = len(source) // min(BATCH, len(source))
        timed(islice(batches, steps), 1)
        return {WARM: timed(islice(batches, steps), 1)[RATE]}


def obstores(contender: Contender, server: Server, paths: list[Path], set_bytes: int, folder: str) -> Metrics:
    """A bare loop."""
    cpu = cpu_seconds()
    if contender == DROPS:
        batches = in_order(server.address, paths)
    elif contender == WRITES:
        batches = written(server.address, paths, folder)
    else:
        batches = single(server.address, paths)
    found = timed(batches, set_bytes)
    spent = cpu_seconds() - cpu
    return {COLD: found[RATE], STEADY: found[STEADY], CPU: spent / found["nbytes"] * 1e9}


def record(number: int) -> dict[str, Any]:
    """A record for the formats of the peers."""
    return {"jpg": np.random.default_rng(number).bytes(NBYTES), "cls": number % 10}


def epochs(begin: Callable[[], Iterable[list[Any]]], set_bytes: int) -> Metrics:
    """Two epochs of a peer."""

    def sizes() -> Iterator[int]:
        for batch in begin():
            yield sum(len(one["jpg"]) for one in batch)

    cold = timed(sizes(), set_bytes)
    return {COLD: cold[RATE], STEADY: cold[STEADY], WARM: timed(sizes(), set_bytes)[RATE]}


def measure(contender: Contender, size: Size) -> Metrics:
    """What is compared of a contender."""
    records = size.pick(size.megabytes * 10**6 // NBYTES, 4 * BATCH)
    set_bytes = records * NBYTES
    paths = tar_set(size.folder / "tar-server", records, NBYTES)
    if contender.name == STREAMING.name:
        from benchmarks.peers import streaming

        folder = once(size.folder / "streaming", lambda path: streaming.write(path, record, records, MIB))
        with streaming.open_epochs(folder, BATCH, contender.workers) as begin:
            return {WARM: epochs(begin, set_bytes)[WARM]}
    if contender.name == LOCAL.name:
        return local(paths)
    with emptied(size.folder / "written") as written_to:
        if contender.name == LITDATA.name:
            from benchmarks.peers import litdata

            folder = once(size.folder / "litdata", lambda path: litdata.write(path, record, records, "1MB"))
            with (
                serving(folder, size.latency_s) as server,
                litdata.open_epochs(server.address, Path(written_to), BATCH, contender.workers) as begin,
            ):
                return epochs(begin, set_bytes)
        names = [path.name for path in paths]
        index = size.folder / "server.lkx"
        if contender.peer == "loaderkit" and not index.exists():
            with serving(paths[0].parent, 0.0) as other:
                remote_index(other, names, index)
        if contender.name.endswith("far away"):  # of which a smoke run has fewer workers
            with serving(paths[0].parent, size.latency_s if size.smoke else FAR_S) as server:
                return first_batch(contender, server, names, written_to, str(index))
        with serving(paths[0].parent, size.latency_s) as server:
            if contender.peer == "obstore":
                return obstores(contender, server, paths, set_bytes, written_to)
            stored = sum(path.stat().st_size for path in paths)
            return ours(contender, server, names, stored, written_to, str(index))


BENCHMARKS = (
    Benchmark(
        "storage: server",
        __doc__ or "",
        (DROPS, WRITES, OURS, LOCAL, SINGLE, UNCACHED, FIRST, FIRST_2, UNCACHED_FIRST, LITDATA, STREAMING),
        measure,
        (
            speedup(OURS, WRITES, metric=COLD, bound=Bound(">=", 0.85)),
            speedup(OURS, WRITES, metric=STEADY),
            cost(OURS, WRITES, metric=CPU),
            speedup(OURS, DROPS, metric=COLD),
            plain(FIRST, TRIPS, Bound("<=", 3)),
            plain(FIRST_2, TRIPS, Bound("<=", 6)),
            plain(UNCACHED_FIRST, TRIPS, Bound("<=", 3)),
            plain(OURS, SENT, Bound("<=", 1.05)),
            speedup(OURS, LOCAL, metric=WARM, bound=Bound(">=", 0.9)),
            plain(OURS, AGAIN, Bound("<=", 1)),
            speedup(UNCACHED, SINGLE, metric=STEADY, bound=Bound(">=", 0.9)),
            speedup(OURS, LITDATA, metric=COLD, bound=Bound(">=", 2)),
            speedup(OURS, LITDATA, metric=WARM, bound=Bound(">=", 2)),
            speedup(OURS, STREAMING, metric=WARM, bound=Bound(">=", 2)),
        ),
    ),
)
