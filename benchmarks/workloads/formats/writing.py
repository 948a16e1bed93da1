"""Records of 10 KB into one file of each format, beside the writer of the library that has the format.

40 MB of noise, which no format can compress, with a label each, from memory: `lk.write` of a generator without workers;
webdataset's TarWriter; pyarrow's ParquetWriter with a row group for 64 rows; array_record's writer with group_size:1,
which has the records' bytes and nothing to encode; TensorFlow's TFRecordWriter with tf.train.Example; a loop of json
with the bytes in base64. What ends each run is on the disk for loaderkit alone, which syncs it. Records a second.
"""

import base64
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import loaderkit as lk
from benchmarks.benchmark import CPU, PER_SECOND, Benchmark, Bound, Metrics, Size, cost, speedup
from benchmarks.contender import Contender
from benchmarks.measure import cpu_seconds

EXTENSIONS = ("tar", "tfrecord", "parquet", "array_record", "jsonl")
OURS = {name: Contender(f"loaderkit {name}", "loaderkit", options={"format": name}) for name in EXTENSIONS}
PEERS = {
    "tar": Contender("webdataset TarWriter", "webdataset", options={"format": "tar"}),
    "tfrecord": Contender("tf.io.TFRecordWriter", "tfdata", options={"format": "tfrecord"}),
    "parquet": Contender("pyarrow ParquetWriter", "bare", options={"format": "parquet"}),
    "array_record": Contender("array_record's writer", "bare", options={"format": "array_record"}),
    "jsonl": Contender("json loop", "bare", options={"format": "jsonl"}),
}
WORKERS = tuple(Contender(f"convert, {count} workers", "loaderkit", count) for count in (0, 1, 2))
SOURCE_WORKERS = tuple(Contender(f"lk.write, {count} workers", "loaderkit", count) for count in (0, 1, 2))


def records_of(count: int) -> list[dict[str, Any]]:
    """The records: an image's bytes and a label."""
    rng = np.random.default_rng(0)
    return [{"jpg": rng.bytes(10_000), "cls": row % 10} for row in range(count)]


def measure_writer(contender: Contender, size: Size) -> Metrics:
    """Files until the window is over, after one that doesn't count."""
    records = records_of(size.pick(4_000, 64))
    name = contender.options["format"]
    path = str(size.folder / f"written-{os.getpid()}.{name}")
    size.folder.mkdir(parents=True, exist_ok=True)

    def once() -> None:
        if contender.peer == "loaderkit":
            lk.write(iter(records), path, overwrite=True)
        else:
            _by_peer(name, path, records)

    once()
    found = _rates(once, len(records), size)
    os.unlink(path)
    return found


def _rates(once: Any, records: int, size: Size) -> Metrics:
    cpu, begin, runs = cpu_seconds(), time.perf_counter(), 0
    while (seconds := time.perf_counter() - begin) < size.seconds or not runs:
        once()
        runs += 1
    return {PER_SECOND: runs * records / seconds, CPU: (cpu_seconds() - cpu) / (runs * records) * 1e6}


def _by_peer(name: str, path: str, records: list[dict[str, Any]]) -> None:
    if name == "tar":
        import webdataset  # type: ignore[import-untyped]

        with webdataset.TarWriter(path) as writer:
            for key, record in enumerate(records):
                writer.write({"__key__": f"{key:09d}", **record})
    elif name == "tfrecord":
        import tensorflow as tf

        with tf.io.TFRecordWriter(path) as writer:
            for record in records:
                feature = {
                    "jpg": tf.train.Feature(bytes_list=tf.train.BytesList(value=[record["jpg"]])),
                    "cls": tf.train.Feature(int64_list=tf.train.Int64List(value=[record["cls"]])),
                }
                example = tf.train.Example(features=tf.train.Features(feature=feature))
                writer.write(example.SerializeToString())
    elif name == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = pa.schema([("jpg", pa.binary()), ("cls", pa.int64())])
        with pq.ParquetWriter(path, schema) as writer:
            for low in range(0, len(records), 64):
                writer.write_table(pa.Table.from_pylist(records[low : low + 64], schema))
    elif name == "array_record":
        from array_record.python.array_record_module import ArrayRecordWriter

        writer = ArrayRecordWriter(path, "group_size:1")
        for record in records:
            writer.write(record["jpg"])
        writer.close()
    else:
        with open(path, "w") as file:
            for record in records:
                text = base64.b64encode(record["jpg"]).decode()
                file.write(json.dumps({**record, "jpg": text}) + "\n")


def tar_file(folder: Path, records: int) -> Path:
    """An archive of the records, indexed."""
    path = folder / f"records-{records}.tar"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        lk.write(_repeated(records), path)
    with lk.TarDataSource(path) as source:
        source[0]
    return path


def _repeated(count: int) -> Iterator[dict[str, Any]]:
    records = records_of(min(count, 1_000))
    return (records[key % len(records)] for key in range(count))


def measure_workers(contender: Contender, size: Size) -> Metrics:
    """One run over the archive, into four ArrayRecord files in memory where the system has a folder for it."""
    from loaderkit.cli import main

    records = size.pick(100_000, 64)
    path = tar_file(size.folder, records)
    memory = Path("/dev/shm")
    target = (memory if memory.is_dir() else size.folder) / f"loaderkit-written-{os.getpid()}"

    def once() -> None:
        if contender.name.startswith("convert"):
            options = ["--to", "array_record", "--shards", "4", "-p", str(contender.workers), "--json"]
            if main(["convert", str(path), str(target), *options]):
                raise RuntimeError("convert failed")
        else:
            with lk.TarDataSource(path) as source:
                lk.write(source, target, format="array_record", shards=4, worker_count=contender.workers)
        shutil.rmtree(target)

    return _rates(once, records, Size(0, size.smoke, size.folder))


BENCHMARKS = (
    Benchmark(
        "formats: writers",
        __doc__ or "",
        tuple(each for name in EXTENSIONS for each in (OURS[name], PEERS[name])),
        measure_writer,
        tuple(speedup(OURS[name], PEERS[name]) for name in EXTENSIONS),
    ),
    Benchmark(
        "formats: writing with workers",
        "1 GB of records of 10 KB and a label, from one tar archive in the page cache into four ArrayRecord files in\n"
        "memory, with the start of the workers: `loaderkit convert` and `lk.write`.",
        (*WORKERS, *SOURCE_WORKERS),
        measure_workers,
        (
            speedup(WORKERS[2], WORKERS[1], bound=Bound(">=", 1.7)),
            # On a busy machine it says whether a lower speed is the machine's: 1 means that no work was added.
            cost(WORKERS[2], WORKERS[1], metric=CPU),
            speedup(WORKERS[2], WORKERS[0]),
            speedup(SOURCE_WORKERS[2], SOURCE_WORKERS[1]),
            speedup(SOURCE_WORKERS[2], SOURCE_WORKERS[0]),
        ),
    ),
)
