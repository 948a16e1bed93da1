"""tf.train.Example from TFRecord shards in the page cache, decoded, in order and shuffled over the whole set.

A record is an image's bytes (100 KB) or 24 numbers (some 200 B), a label and a name. loaderkit: a loader with two
workers, as tf.data has two processors, and one without, its operations `lk.decode.Example` and a Batch of 256. tf.data:
`TFRecordDataset`, shuffled by a buffer of all records, batches of 256, `tf.io.parse_example` on each, its own threads,
AUTOTUNE, as numpy. Steady records a second, and CPU time of all threads and processes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import loaderkit as lk
from benchmarks.benchmark import CPU, Benchmark, Bound, Size, shortening, speedup
from benchmarks.contender import Contender
from benchmarks.workloads.storage.calls import CALL, calls
from benchmarks.workloads.storage.files import SHARDS, once, payloads

RECORDS = {100_000: 1_000, 200: 40_000}
NUMBERS = 24

ORDERS = ("shuffled", "in order")
OURS, OURS_2 = (
    [
        Contender(f"loaderkit, {workers} workers, {order}", "loaderkit", workers, options={"order": order})
        for order in ORDERS
    ]
    for workers in (0, 2)
)
TFDATA = [
    Contender(f"tf.data, its own threads, {order}", "tfdata", options={"order": order}) for order in ORDERS
]


def message(tag: int, data: bytes) -> bytes:
    """A field of a protocol buffer that is bytes or a message."""
    length, prefix = len(data), bytearray([tag << 3 | 2])
    while length > 127:
        prefix.append(length & 127 | 128)
        length >>= 7
    return bytes([*prefix, length]) + data


def example(number: int, payload: bytes, nbytes: int) -> bytes:
    """A serialized tf.train.Example, its features in the order in which TensorFlow writes a map."""
    features = {
        "label": message(3, message(1, bytes([number % 100]))),
        "name": message(1, message(1, b"%08d" % number)),
    }
    if nbytes > 10_000:
        features["image"] = message(1, message(1, payload))
    else:
        values = np.frombuffer(payload[:NUMBERS], np.uint8).astype("<f4")
        features["values"] = message(2, message(1, values.tobytes()))
    entries = (message(1, message(1, name.encode()) + message(2, value)) for name, value in features.items())
    return message(1, b"".join(entries))


def example_set(folder: Path, records: int, nbytes: int) -> list[Path]:
    """Shards `0.tfrecord`, ... of Examples."""

    def make(folder: Path) -> None:
        for shard in range(SHARDS):
            given = payloads(records // SHARDS, nbytes, shard)
            lk.write(
                (example(number, payload, nbytes) for number, payload in enumerate(given)),
                folder / f"{shard}.tfrecord",
            )

    return sorted(once(folder, make).glob("*.tfrecord"))


def tfdata_calls(paths: list[Path], records: int, nbytes: int, *, shuffled: bool) -> Iterator[int]:
    """Decoded batches; the last, shorter one of an epoch is the next epoch's first."""
    import tensorflow as tf

    dataset: Any = tf.data.TFRecordDataset([str(path) for path in paths])
    if shuffled:
        dataset = dataset.shuffle(records, reshuffle_each_iteration=True)
    spec = {"label": tf.io.FixedLenFeature((), tf.int64), "name": tf.io.FixedLenFeature((), tf.string)}
    if nbytes > 10_000:
        spec["image"] = tf.io.FixedLenFeature((), tf.string)
    else:
        spec["values"] = tf.io.FixedLenFeature((NUMBERS,), tf.float32)
    dataset = dataset.repeat().batch(min(CALL, records))
    dataset = dataset.map(lambda batch: tf.io.parse_example(batch, spec), num_parallel_calls=tf.data.AUTOTUNE)
    for batch in dataset.prefetch(tf.data.AUTOTUNE).as_numpy_iterator():
        yield len(batch["label"])


def loader_calls(
    paths: list[Path], records: int, nbytes: int, *, shuffled: bool, workers: int
) -> Iterator[int]:
    """Decoded batches, without end."""
    features: dict[str, Any] = {"label": np.int64, "name": bytes}
    features |= {"image": bytes} if nbytes > 10_000 else {"values": (np.float32, (NUMBERS,))}
    loader = lk.DataLoader(
        data_source=lk.TFRecordDataSource([str(path) for path in paths]),
        sampler=lk.IndexSampler(records, shuffle=shuffled, seed=0, num_epochs=None),
        operations=[lk.decode.Example(features), lk.Batch(min(CALL, records))],
        worker_count=workers,
    )
    with iter(loader) as batches:
        for batch in batches:
            yield len(batch["label"])


def benchmark(nbytes: int) -> Benchmark:
    """The benchmark of records of a size."""

    @contextmanager
    def opened(contender: Contender, size: Size) -> Iterator[Iterator[int]]:
        records = size.pick(RECORDS[nbytes], 64)
        paths = example_set(size.folder / f"examples-{nbytes}", records, nbytes)
        shuffled = contender.options["order"] == ORDERS[0]
        if contender.peer == "tfdata":
            yield tfdata_calls(paths, records, nbytes, shuffled=shuffled)
        else:
            yield loader_calls(paths, records, nbytes, shuffled=shuffled, workers=contender.workers)

    large = nbytes == 100_000
    bound = Bound(">=", 1.2 if large else 0.8)
    return Benchmark(
        f"example, {'100 KB' if large else '200 B'}",
        __doc__ or "",
        (*OURS, *OURS_2, *TFDATA),
        calls(opened),
        (
            *(speedup(ours, theirs, bound=bound) for ours, theirs in zip(OURS_2, TFDATA)),
            *(speedup(ours, theirs) for ours, theirs in zip(OURS, TFDATA)),
            *(shortening(ours, theirs, metric=CPU) for ours, theirs in zip(OURS_2 + OURS, TFDATA * 2)),
        ),
    )


BENCHMARKS = tuple(benchmark(nbytes) for nbytes in RECORDS)
