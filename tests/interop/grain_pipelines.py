"""Pipelines said once, for Grain's names wherever they come from: the installed package or ours."""

import functools
import hashlib
import json
import warnings
from collections import OrderedDict, defaultdict
from typing import Any

import numpy as np

# Words of `operations_of`, but for "held": that callable keeps state, which a restore loses.
WORDS = ("plus", "random", "half", "sieve", "fan", "batch2", "batch3", "batch2drop", "sums", "tree")


def legacy(kind: Any, *arguments: Any, **named: Any) -> Any:
    """An operation that goes with 0.3, without its warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return kind(*arguments, **named)


def operations_of(g: Any, words: tuple[str, ...]) -> list[Any]:
    """The operations that the words name, with classes derived from those of a package."""
    flat_map = g.experimental.FlatMapTransform

    class Plus(g.MapTransform):
        def map(self, x):
            return each(lambda leaf: leaf + 1, x)

    class Tree(g.MapTransform):
        def map(self, x):
            return {"b": total(x), "a": [np.float32(total(x)), np.full(2, total(x), np.int16)], "n": None}

    class Nested(g.MapTransform):  # keys in no order, in every kind of container
        def map(self, x):
            inner = {"z": total(x), "a": np.full(2, total(x), np.int16), "E": {}}
            ordered = OrderedDict(q=inner, a=1)
            return {
                "t": (inner, [inner, None]),
                "o": ordered,
                "d": defaultdict(list, z=ordered, b=inner),
                "a": inner,
            }

    class Random(g.RandomMapTransform):
        def random_map(self, x, rng):
            return each(lambda leaf: leaf + rng.integers(1000), x)

    class Half(g.RandomMapTransform):
        def random_map(self, x, rng):  # uses half of a word: the other half belongs to the next draw
            return each(lambda leaf: leaf + rng.integers(0, 100, dtype=np.uint32).astype(np.int64), x)

    class Sieve(g.FilterTransform):
        def filter(self, x):
            return total(x) % 3 != 0

    class Fan(flat_map):
        max_fan_out = 4

        def flat_map(self, x):
            return [x] * (total(x) % 4)

    class Held:  # adds records up while the sum stays below 60; the one too many waits for the next sum
        def __init__(self):
            self.held = None

        def __call__(self, records):
            for record in records:
                if self.held is None or self.held + record.data < 60:
                    self.held = (self.held or 0) + record.data
                    continue
                held, self.held = self.held, record.data
                yield g.Record(record.metadata, held)
            yield g.Record(g.RecordMetadata(0), self.held)

    made = {
        "plus": Plus,
        "held": Held,
        "tree": Tree,
        "nested": Nested,
        "random": Random,
        "half": Half,
        "sieve": Sieve,
        "fan": Fan,
        "batch2": functools.partial(g.Batch, 2),
        "batch3": functools.partial(g.Batch, 3),
        "batch2drop": functools.partial(g.Batch, 2, drop_remainder=True),
        "sums": functools.partial(g.Batch, 2, batch_fn=lambda rows: sum(total(row) for row in rows)),
    }
    return [made[word]() for word in words]


def each(function, x):
    if isinstance(x, dict):
        return {key: each(function, value) for key, value in x.items()}
    if isinstance(x, list):
        return [each(function, value) for value in x]
    return None if x is None else function(x)


def total(x) -> int:
    if isinstance(x, dict):
        return sum(map(total, x.values()))
    if isinstance(x, list):
        return sum(map(total, x))
    return 0 if x is None else int(np.sum(x))


def loader_of(g: Any, config: dict[str, Any], **how: Any) -> Any:
    """A DataLoader of a package."""
    shard = g.ShardOptions(*config["shard"]) if config["shard"] != [0, 1, False] else g.NoSharding()
    sampler = g.IndexSampler(
        config["records"],
        shard_options=shard,
        shuffle=config["shuffle"],
        num_epochs=config["epochs"],
        seed=config["seed"],
    )
    if not config["shuffle"] and config["epochs"] == 1:
        sampler = g.SequentialSampler(config["records"], shard, config["seed"])
    return g.DataLoader(
        data_source=g.RangeDataSource(10, 10 + config["records"], 1),
        sampler=sampler,
        operations=operations_of(g, tuple(config["words"])),
        worker_count=config["workers"],
        read_options=g.ReadOptions(0, 0),
        **how,
    )


def spelled(element: Any) -> str:
    """All that a batch is, as text: keys in order, types, dtypes, shapes and bytes."""
    if isinstance(element, dict):
        kind = "" if type(element) is dict else type(element).__name__
        return kind + "{" + ",".join(f"{key!r}:{spelled(value)}" for key, value in element.items()) + "}"
    if isinstance(element, tuple):
        return "(" + ",".join(map(spelled, element)) + ")"
    if isinstance(element, list):
        return "[" + ",".join(map(spelled, element)) + "]"
    if isinstance(element, np.ndarray):
        if element.dtype.hasobject:  # of which the bytes are addresses
            return f"{element.dtype.str}{element.shape}{spelled(element.tolist())}"
        digest = hashlib.sha256(np.ascontiguousarray(element).tobytes()).hexdigest()
        return f"{element.dtype.str}{element.shape}{digest}"
    return f"{type(element).__name__}({element!r})"


def story(iterator: Any, limit: int) -> list[tuple[str, str]]:
    """The state before each element, and the element, up to a number; an error by its type."""
    told = []
    for _ in range(limit):
        state = iterator.get_state().decode()
        try:
            told.append((state, spelled(next(iterator))))
        except StopIteration:
            told.append((state, "end"))
            break
        except Exception as error:  # noqa: BLE001 - both packages must fail alike
            told.append((state, "error"))
            del error
            break
    return told


def as_lines(told: Any) -> str:
    return json.dumps(told)
