"""TFRecord shards in the page cache, records of 100 KB, then of 200 B, shuffled over the whole set.

bare loop: `os.pread` of each record's bytes at random, from places that are known. loaderkit:
`TFRecordDataSource.__getitems__` with 256 shuffled keys a call. tf.data: `TFRecordDataset`, a shuffle buffer of all
records, AUTOTUNE prefetch, its own threads, as numpy. Steady records a second.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import loaderkit as lk
from benchmarks.benchmark import Benchmark, Bound, Size, speedup
from benchmarks.contender import TFDATA, Contender
from benchmarks.workloads.storage.calls import CALL, calls, of_source, pread_calls
from benchmarks.workloads.storage.files import tfrecord_set

RECORDS = {100_000: 1_000, 200: 100_000}
AROUND = 12, 4  # bytes before and after a record: length, its checksum; the record's checksum

PREAD = Contender("bare loop of pread", "bare")
SOURCE = Contender("loaderkit source", "loaderkit")


def record_places(paths: list[Path]) -> list[tuple[int, int, int]]:
    """(shard, bytes, offset) of each record."""
    places = []
    for shard, path in enumerate(paths):
        data, at = path.read_bytes(), 0
        while at < len(data):
            nbytes = int.from_bytes(data[at : at + 8], "little")
            places.append((shard, nbytes, at + AROUND[0]))
            at += AROUND[0] + nbytes + AROUND[1]
    return places


def tfdata_calls(paths: list[Path], records: int) -> Iterator[int]:
    """Batches of lists of bytes; the last, shorter one of an epoch is the next epoch's first."""
    import tensorflow as tf

    dataset: Any = tf.data.TFRecordDataset([str(path) for path in paths])
    dataset = dataset.shuffle(records, reshuffle_each_iteration=True).repeat()
    dataset = dataset.batch(min(CALL, records)).prefetch(tf.data.AUTOTUNE)
    for batch in dataset.as_numpy_iterator():
        yield len(batch)


def benchmark(nbytes: int) -> Benchmark:
    """The benchmark of records of a size."""

    @contextmanager
    def opened(contender: Contender, size: Size) -> Iterator[Iterator[int]]:
        records = size.pick(RECORDS[nbytes], 64)
        paths = tfrecord_set(size.folder / f"tfrecord-{nbytes}", records, nbytes)
        if contender.name == PREAD.name:
            with pread_calls(paths, record_places(paths)) as reads:
                yield reads
        elif contender.name == TFDATA.name:
            yield tfdata_calls(paths, records)
        else:
            yield of_source(lk.TFRecordDataSource([str(path) for path in paths]), records)

    large = nbytes == 100_000
    return Benchmark(
        f"storage: TFRecord, {'100 KB' if large else '200 B'}",
        __doc__ or "",
        (PREAD, SOURCE, TFDATA),
        calls(opened),
        (speedup(SOURCE, PREAD), speedup(SOURCE, TFDATA, bound=Bound(">=", 1.5 if large else 0.7))),
    )


BENCHMARKS = tuple(benchmark(nbytes) for nbytes in RECORDS)
