"""Two epochs of records of 100 KB that lie 20 ms away: a web server on loopback, in a process of its own.

2,560 records, 256 MB in tar shards. obstore reads the shards in order, 1 MiB a request, 32 in flight, and drops the
bytes: the limit. loaderkit reads them shuffled by `ChunkSampler` (chunks of 10 records, about 1 MiB; windows of 64
chunks) through an empty `lk.Cache`, in batches of 64; the same sampler over the local tar files, without a cache, is
beside its second epoch. LitData shuffles its own format in chunks of 1 MiB, fetched with obstore, MosaicML Streaming
its own in a local folder, which is its second epoch. None has workers.

An epoch's MB/s are bytes of the records over the time from asking for its first batch until its last one is there;
the first epoch's clock starts before the loader is made. A round trip is 20 ms. *bytes sent* are those of the server
for the first epoch over those of the shards.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import loaderkit as lk
from benchmarks.benchmark import Benchmark, Bound, Metrics, Size, plain, speedup
from benchmarks.contender import Contender
from benchmarks.workloads.storage.files import once, tar_set
from benchmarks.workloads.storage.serve import Server, serving

LATENCY_S = 0.02
MIB = 1 << 20
BATCH, CHUNK, WINDOW, NBYTES = 64, 10, 64, 100_000

COLD, WARM = "MB/s, first epoch", "MB/s, second epoch"
TRIPS, SENT, AGAIN = "first batch, round trips", "bytes sent", "requests, second epoch + 1"

OBSTORE = Contender("obstore in order, 32 in flight", "obstore")
OURS = Contender("loaderkit, cache", "loaderkit")
LOCAL = Contender("loaderkit, local tar", "loaderkit")
LITDATA = Contender("litdata", "litdata")
STREAMING = Contender("streaming, local", "streaming")


def timed(batches: Iterable[int]) -> tuple[float, float]:
    """MB/s and the seconds until the first, of batches that are given as numbers of bytes."""
    begin, first, nbytes = time.perf_counter(), 0.0, 0
    for batch in batches:
        first = first or time.perf_counter() - begin
        nbytes += batch
    return nbytes / (time.perf_counter() - begin) / 1e6, first


def in_order(address: str, paths: list[Path]) -> Iterator[int]:
    """Whole shards by obstore: one client, 32 threads, ranges of 1 MiB."""
    import obstore
    from obstore.store import HTTPStore

    store = HTTPStore(address, client_options={"allow_http": True})
    ranges = [
        (path.name, low, min(MIB, path.stat().st_size - low))
        for path in paths
        for low in range(0, path.stat().st_size, MIB)
    ]
    with ThreadPoolExecutor(32) as pool:
        yield from pool.map(
            lambda one: len(obstore.get_range(store, one[0], start=one[1], length=one[2])), ranges
        )


def batches_of(source: lk.TarDataSource) -> Iterator[int]:
    """Bytes of each batch, without end."""
    records = len(source)
    sampler = lk.ChunkSampler(
        records, chunk=CHUNK, window=WINDOW, batch=min(BATCH, records), seed=0, num_epochs=None
    )
    operations = [lk.Batch(min(BATCH, records))]
    with (
        lk.DataLoader(data_source=source, sampler=sampler, operations=operations) as loader,
        iter(loader) as it,
    ):
        for batch in it:
            yield sum(map(len, batch["jpg"]))


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


def ours(server: Server, names: list[str], records: int, set_bytes: int, index: str) -> Metrics:
    """Two epochs through a cache that is empty at first."""
    with TemporaryDirectory() as folder, ExitStack() as stack:
        urls = [server.address + name for name in names]
        before = server.sent()
        begin = time.perf_counter()
        source = lk.TarDataSource(urls, cache=lk.Cache(folder, limit="10GB"), index=index)
        batches = batches_of(source)
        stack.callback(batches.close)  # type: ignore[attr-defined]
        steps = records // min(BATCH, records)
        opened = time.perf_counter() - begin
        nbytes, first = 0, 0.0
        for batch in islice(batches, steps):
            first = first or time.perf_counter() - begin
            nbytes += batch
        cold = nbytes / (time.perf_counter() - begin) / 1e6
        after = server.sent()
        warm, _ = timed(islice(batches, steps))
        again = server.sent()[0] - after[0]
    return {
        COLD: cold,
        WARM: warm,
        TRIPS: (first - opened) / LATENCY_S,
        SENT: (after[1] - before[1]) / set_bytes,
        AGAIN: again + 1,
    }


def local(paths: list[Path], records: int) -> Metrics:
    """The same sampler over the files themselves; the first epoch makes the index."""
    batches = batches_of(lk.TarDataSource([str(path) for path in paths]))
    steps = records // min(BATCH, records)
    timed(islice(batches, steps))
    warm, _ = timed(islice(batches, steps))
    batches.close()  # type: ignore[attr-defined]
    return {WARM: warm}


def record(number: int) -> dict[str, Any]:
    """A record for the formats of the peers."""
    return {"jpg": np.random.default_rng(number).bytes(NBYTES), "cls": number % 10}


def epochs(begin: Callable[[], Iterable[list[Any]]]) -> Metrics:
    """Two epochs of a peer."""

    def sizes() -> Iterator[int]:
        for batch in begin():
            yield sum(len(one["jpg"]) for one in batch)

    cold, first = timed(sizes())
    warm, _ = timed(sizes())
    return {COLD: cold, WARM: warm, TRIPS: first / LATENCY_S}


def measure(contender: Contender, size: Size) -> Metrics:
    """Two epochs of a contender."""
    records = size.pick(2_560, 64)
    paths = tar_set(size.folder / "tar-server", records, NBYTES)
    if contender.name == LITDATA.name:
        from benchmarks.peers import litdata

        folder = once(size.folder / "litdata", lambda path: litdata.write(path, record, records, "1MB"))
        with (
            TemporaryDirectory() as cache,
            serving(folder, LATENCY_S) as server,
            litdata.open_epochs(server.address, Path(cache), BATCH, contender.workers) as begin,
        ):
            return epochs(begin)
    if contender.name == STREAMING.name:
        from benchmarks.peers import streaming

        folder = once(size.folder / "streaming", lambda path: streaming.write(path, record, records, MIB))
        with streaming.open_epochs(folder, BATCH, contender.workers) as begin:
            return {WARM: epochs(begin)[WARM]}
    if contender.name == LOCAL.name:
        return local(paths, records)
    with serving(paths[0].parent, LATENCY_S) as server:
        if contender.name == OBSTORE.name:
            cold, first = timed(in_order(server.address, paths))
            return {COLD: cold, TRIPS: first / LATENCY_S}
        set_bytes, names = sum(path.stat().st_size for path in paths), [path.name for path in paths]
        return ours(
            server, names, records, set_bytes, remote_index(server, names, size.folder / "server.lkx")
        )


BENCHMARKS = (
    Benchmark(
        "storage: server",
        __doc__ or "",
        (OBSTORE, OURS, LOCAL, LITDATA, STREAMING),
        measure,
        (
            speedup(OURS, OBSTORE, metric=COLD, bound=Bound(">=", 0.9)),
            plain(OURS, TRIPS, Bound("<=", 10)),
            plain(OURS, SENT, Bound("<=", 1.05)),
            speedup(OURS, LOCAL, metric=WARM, bound=Bound(">=", 0.95)),
            plain(OURS, AGAIN, Bound("<=", 1)),
            speedup(OURS, LITDATA, metric=COLD, bound=Bound(">=", 2)),
            speedup(OURS, LITDATA, metric=WARM, bound=Bound(">=", 2)),
            speedup(OURS, STREAMING, metric=WARM, bound=Bound(">=", 2)),
        ),
    ),
)
