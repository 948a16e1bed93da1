"""The streams that every later version must give again: `python golden_streams.py` writes the files that are missing.

A change of an algorithm that moves a byte here is another `stream_version`, and gets files of its own beside these.
"""

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import loaderkit as lk

GOLDEN = Path(__file__).parents[1] / "golden" / "streams"
SAVED_AT = 7
BATCHES = 100


def noise(element: Any, rng: np.random.Generator) -> Any:
    # Raw words: what numpy makes of them may change in another of its minor versions, they may not.
    return {"x": element, "noise": rng.bit_generator.random_raw() >> 1}


def shuffled(**running: Any) -> "lk.DataLoader":
    return lk.DataLoader(
        data_source=lk.RangeDataSource(0, 1000, 1),
        sampler=lk.IndexSampler(1000, shuffle=True, seed=17),
        operations=[lk.RandomMap(noise), lk.Batch(global_batch_size=32)],
        **running,
    )


def nested_epoch(**running: Any) -> "lk.DataLoader":
    columns = {
        "image": np.arange(6000 * 12, dtype=np.uint8).reshape(6000, 4, 3),
        "label": np.arange(6000, dtype=np.int16),
    }
    return lk.DataLoader(
        data_source=lk.ArrayDataSource(columns),
        sampler=lk.IndexSampler(6000, shuffle=True, seed=2**64 - 1, num_epochs=2),
        operations=[
            lk.MapWithIndex(lambda index, row: {**row, "index": index}),
            lk.Batch(3),
            lk.RandomMap(noise),
            lk.Batch(8, drop_remainder=True),
        ],
        shard_options=lk.ShardOptions(1, 2),
        **running,
    ).epoch(5)


def chunked(**running: Any) -> "lk.DataLoader":
    return lk.DataLoader(
        data_source=lk.RangeDataSource(0, 1003, 1),
        sampler=lk.ChunkSampler(1003, chunk=10, window=6, lanes=4, batch=32, seed=11),
        operations=[lk.RandomMap(noise), lk.Batch(global_batch_size=32)],
        shard_options=lk.ShardOptions(1, 2),
        **running,
    )


def changing(**running: Any) -> "lk.DataLoader":
    return lk.DataLoader(
        data_source=lk.RangeDataSource(0, 777, 1),
        sampler=lk.IndexSampler(777, shuffle=True, seed=3),
        operations=[
            lk.FlatMap(lambda key: [key] * (key % 4)),
            lk.RandomMap(noise),
            lk.FlatMap(lambda row: [{**row, "half": half} for half in range(2)]),
            lk.Filter(lambda row: (row["noise"] + row["half"]) % 3),
            lk.Batch(12),
        ],
        logical_streams=4,
        **running,
    )


def elements(**running: Any) -> "lk.DataLoader":
    return lk.DataLoader(
        data_source=lk.InMemoryDataSource(
            [(key, "text" * (key % 3), b"\0" * (key % 4)) for key in range(50)]
        ),
        sampler=lk.IndexSampler(50, shuffle=True, seed=0, num_epochs=20),
        operations=[lk.Filter(lambda row: row[0] % 7), lk.RandomMap(noise)],
        **running,
    )


def bucketed(**running: Any) -> "lk.DataLoader":
    lengths = np.arange(500) * 37 % 65
    return lk.DataLoader(
        data_source=[np.full(length, key, np.int32) for key, length in enumerate(lengths)],
        sampler=lk.samplers.LengthBucketSampler(
            lengths, [16, 32, 64], 24, batch_sizes=[24, 16, 8], shuffle=True, seed=9
        ),
        operations=[
            lk.RandomMap(noise),
            lk.PadBatch(
                global_batch_size=24, boundaries={"x": [16, 32, 64]}, mask={"x": "mask"}, remainder="pad"
            ),
        ],
        shard_options=lk.ShardOptions(1, 2),
        **running,
    )


def mixed(**running: Any) -> "lk.DataLoader":
    web, code = (lk.IndexSampler(n, shuffle=True, seed=n) for n in (700, 300))
    weights = [
        (0, {"web": 0.7, "code": 0.3}),
        (200, {"web": 0.123456789, "books": 3}),
        (1500, {"code": 1, "books": 2}),
    ]
    return lk.DataLoader(
        data_source=lk.RangeDataSource(0, 1100, 1),
        sampler=lk.samplers.MixedSampler(
            {"web": web, "code": code, "books": lk.IndexSampler(100)}, weights=weights, seed=5
        ),
        operations=[lk.RandomMap(noise), lk.Batch(global_batch_size=32)],
        **running,
    )


def mixed_dropping(**running: Any) -> "lk.DataLoader":
    parts = {
        name: lk.IndexSampler(n, shuffle=True, seed=n, num_epochs=3)
        for name, n in (("a", 999), ("b", 501), ("c", 7))
    }
    return lk.DataLoader(
        data_source=lk.RangeDataSource(0, 1507, 1),
        sampler=lk.samplers.MixedSampler(parts, order="shuffled", when_exhausted="drop", seed=2**63),
        operations=[lk.Filter(lambda key: key % 5), lk.RandomMap(noise), lk.Batch(12, drop_remainder=True)],
        logical_streams=2,
        num_steps=110,
        **running,
    )


def spans(**running: Any) -> "lk.DataLoader":
    return lk.DataLoader(
        data_source=lk.RangeDataSource(0, 1300, 1),
        sampler=lk.samplers.SpanSampler([700, 100, 500], shuffle=True, seed=23),
        operations=[lk.RandomMap(noise), lk.Batch(global_batch_size=32)],
        shard_options=lk.ShardOptions(1, 2),
        **running,
    )


STREAMS = {
    make.__name__: make
    for make in (shuffled, nested_epoch, chunked, bucketed, changing, elements, mixed, mixed_dropping, spans)
}


def digest(values: Iterator[Any]) -> str:
    """One sha256 of elements: structure, types, dtypes, shapes and bytes of all leaves."""
    total = hashlib.sha256()
    for value in values:
        _add(total, value)
    return total.hexdigest()


def _add(total: Any, value: Any) -> None:
    if isinstance(value, dict):
        total.update(repr(sorted(value)).encode())
        for name in sorted(value):
            _add(total, value[name])
    elif isinstance(value, list | tuple):
        total.update(f"{type(value).__name__} {len(value)}".encode())
        for item in value:
            _add(total, item)
    elif isinstance(value, np.ndarray):
        total.update(f"{value.dtype.str} {value.shape}".encode())
        total.update(value.tobytes())
    else:
        total.update(f"{type(value).__name__} {value!r}".encode())


def take(it: Iterator[Any], many: int) -> Iterator[Any]:
    return (next(it) for _ in range(many))


def record(name: str) -> dict[str, Any]:
    """What is kept of a stream: its first batches, a state a few steps in, and the batches behind that."""
    it = iter(STREAMS[name]())
    first = digest(take(it, SAVED_AT))
    state = it.get_state().decode()
    return {"first": first, "state": state, "rest": digest(take(it, BATCHES))}


if __name__ == "__main__":
    for name in STREAMS:
        path = GOLDEN / f"stream_1_{name}.json"
        if not path.exists():
            path.write_text(json.dumps(record(name), indent=1) + "\n")
            sys.stdout.write(f"{path}\n")
