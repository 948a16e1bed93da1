"""Which documents a step read, which steps read a document, and how often each was read; no record is read.

2,000,000 documents of lognormal lengths with a mean of 1,000 tokens, packed by best fit into rows of 4,096, shuffled
anew in each epoch, in batches of 1,024. *documents*: `loader.documents(step)` of a step late in the run, ms.
*steps_of*: the steps of one document in 8 epochs, ms an epoch. *seen*: `loader.seen` in the middle of the third epoch,
of documents that are rows themselves, to a .npy file: ns for each document and epoch that is looked at, which are two.
The bare pass finds the places of the same documents in two epochs by numpy's `argsort` of a shuffle that is in memory,
counts, and writes as much.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import contender as by
from benchmarks.benchmark import Benchmark, Bound, Metrics, Size, cost, plain
from benchmarks.clock import least_seconds
from benchmarks.contender import Contender

OURS = Contender("loaderkit", "loaderkit")
BARE = by.bare("numpy, shuffles in memory", of="numpy")
ROWS, EPOCHS = 1024, 8
DOCUMENTS, STEPS, SEEN = "documents ms", "steps_of ms/epoch", "seen ns/document and epoch"


def measure(contender: Contender, size: Size) -> Metrics:
    """The least time of several calls."""
    count = size.pick(2_000_000, 20_000)
    if contender.peer != "loaderkit":
        return {SEEN: _least(lambda: _bare(count, size), size) / count / 2 * 1e9}
    import loaderkit as lk

    lengths = np.random.default_rng(0).lognormal(np.log(1000) - 0.5, 1, count).astype(np.int64) + 1
    never_read = np.memmap(size.folder / "never_read", np.uint8, "w+", shape=int(lengths.sum()))
    tokens = lk.TokenDataSource(never_read, np.append(0, lengths.cumsum()))
    rows = lk.PackedDataSource(tokens, lk.plan_packing(tokens.lengths, 4096))
    packed = lk.load(rows, shuffle=True, seed=0, batch_size=min(ROWS, len(rows)))
    each = len(rows) // min(ROWS, len(rows))
    plain_rows = lk.load(range(count), shuffle=True, seed=0, batch_size=ROWS)
    path = size.folder / "seen.npy"
    return {
        DOCUMENTS: _least(lambda: packed.documents(5 * each), size) * 1e3,
        STEPS: _least(lambda: packed.steps_of(key=count // 2, until=EPOCHS * each), size) / EPOCHS * 1e3,
        SEEN: _least(lambda: plain_rows.seen(5 * count // 2 // ROWS, path), size) / count / 2 * 1e9,
    }


def _bare(count: int, size: Size) -> None:
    rng = np.random.default_rng(0)
    places = [np.argsort(rng.permutation(count)) for _ in range(2)]
    counted = np.empty(count, [("count", "<u4"), ("pieces", "<u4"), ("last", "<i8")])
    read = places[1] < count // 2
    counted["count"], counted["pieces"] = 2 + read, 1
    counted["last"] = np.where(read, places[1] + 2 * count, places[0] + count) // ROWS
    np.save(size.folder / "bare.npy", counted)


def _least(call: Callable[[], Any], size: Size) -> float:
    return least_seconds(call, size.pick(5, 1))


BENCHMARKS = (
    Benchmark(
        "language: lineage",
        __doc__ or "",
        (OURS, BARE),
        measure,
        (
            plain(OURS, DOCUMENTS, Bound("<=", 3)),
            plain(OURS, STEPS, Bound("<=", 5)),
            plain(OURS, SEEN, Bound("<=", 80)),
            cost(OURS, BARE, metric=SEEN),
        ),
    ),
)
