"""The grammar of pipelines: any source, sampler and operations, on any number of hosts, as one strategy."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from hypothesis import strategies as st
from words import Op

import loaderkit as lk
from loaderkit._loader.loader import variant_of
from loaderkit._order.rng import child_of, generator

SEED = 11
FAR = 4000


class Endless(BaseException):
    """An example that isn't tried: nearly all of an endless stream is filtered."""


RECORDS = {
    "numbers": lambda key: key,
    "arrays": lambda key: {"x": np.arange(3, dtype=np.float32) + key, "key": key},
    "mixed": lambda key: (key / 2, "abc"[: key % 3], b"\0" * (key % 2), [np.int16(key % 100)]),
}


@dataclass(frozen=True)
class Pipeline:
    """All that a stream depends on, and nothing of how it is run."""

    records: str
    count: int
    shuffle: bool
    epochs: int | None
    ops: tuple[Op, ...]
    hosts: int = 1
    streams: int = 1
    num_steps: int | None = None
    drop_remainder: bool = False
    policy: str = "raise"

    # --- what the reference asks ---

    start = 0

    @property
    def stop(self) -> int | None:
        return None if self.epochs is None else self.count * self.epochs

    def key(self, index: int) -> int:
        if next(self.tried) > FAR:
            raise Endless  # a stream without end of which nearly all is filtered
        key = self.sampler[index].record_key
        assert key is not None
        return key

    def read(self, key: int) -> Any:
        return RECORDS[self.records](key)

    def rng(self, ordinal: int, begin: tuple[int, ...]) -> np.random.Generator:
        return generator(SEED, ordinal, begin[0], child_of(begin[1:]))

    # --- what a loader gets ---

    @cached_property
    def tried(self) -> Iterator[int]:
        return itertools.count()

    @cached_property
    def sampler(self) -> Any:
        return lk.IndexSampler(self.count, shuffle=self.shuffle, seed=SEED, num_epochs=self.epochs)

    @cached_property
    def source(self) -> Any:
        return [self.read(key) for key in range(self.count)]

    @cached_property
    def operations(self) -> list[Any]:
        return [op.make() for op in self.ops]

    def on_hosts(self, hosts: int) -> "Pipeline":
        """The same stream on another number of hosts; a batch_size becomes that of the global batch."""
        last = max((place for place, op in enumerate(self.ops) if op.kind == "batch"), default=None)
        ops = [*self.ops]
        if last is not None and not ops[last].whole:
            ops[last] = replace(ops[last], by=ops[last].by * self.hosts, whole=True)
        return replace(self, hosts=hosts, ops=tuple(ops))


@dataclass(frozen=True)
class Running:
    """How a pipeline is run, none of which may show."""

    workers: int = 0
    kind: str = "thread"
    prefetch: int = 2
    task_rows: int | None = None
    read_threads: int = 0

    def loader(self, p: Pipeline, shard: lk.ShardOptions) -> lk.DataLoader:
        loader = lk.DataLoader(
            data_source=p.source,
            sampler=p.sampler,
            operations=p.operations,
            worker_count=self.workers,
            worker_kind=self.kind,
            prefetch_batches=self.prefetch,
            read_options=lk.ReadOptions(num_threads=self.read_threads),
            shard_options=shard,
            logical_streams=p.streams,
            num_steps=p.num_steps,
            on_record_error=p.policy,
            agree=False,
        )
        return variant_of(loader, task_rows=self.task_rows)


def runnings(kind: str = "thread") -> st.SearchStrategy[Running]:
    return st.builds(
        Running,
        workers=st.integers(1, 2) if kind == "process" else st.sampled_from([0, 0, 1, 2]),
        kind=st.just(kind),
        prefetch=st.integers(1, 4),
        task_rows=st.none() | st.integers(1, 7),
        read_threads=st.sampled_from([0, 0, 0, 2]),
    )


ROW = st.builds(Op, st.sampled_from(["add", "wrap", "index", "draw"]), st.integers(1, 5))
CHANGING = st.builds(Op, st.sampled_from(["filter", "fan", "window", "shuffle"]), st.integers(1, 3))
BATCH = ("batch", "batch", "summed")
INNER = st.builds(Op, st.sampled_from(BATCH), st.integers(1, 3), st.sampled_from(["keep", "drop"]))
REMAINDERS = st.sampled_from(["keep", "drop", "pad", "wrap"])


@st.composite
def pipelines(draw: st.DrawFn, changing: bool) -> Pipeline:
    """Any pipeline; changing: whether operations may change the number of rows. One in ten may be refused."""
    kinds = [ROW, ROW, INNER] + [CHANGING] * 2 * changing
    if draw(st.integers(0, 4)) == 4:
        kinds.append(st.builds(Op, st.just("fail"), st.integers(0, 20)))
    odd = draw(st.integers(0, 9)) == 9
    if odd:
        kinds.append(st.builds(Op, st.just("batch"), st.integers(1, 3), REMAINDERS, st.booleans()))
    ops = draw(st.lists(st.one_of(kinds), max_size=4))
    hosts = draw(st.sampled_from([1, 1, 2, 3]))
    streams = 1 if not changing else draw(st.integers(1, 6)) if odd else hosts * draw(st.integers(1, 2))
    if draw(st.integers(0, 5)):
        whole = draw(st.booleans())
        fit = 1 if odd else math.lcm(streams, hosts)
        rows = draw(st.integers(1, 3)) * (fit if whole else -(-fit // hosts))
        ops.append(Op(draw(st.sampled_from(BATCH)), rows, draw(REMAINDERS), whole))
        behind = [ROW, ROW] + [CHANGING] * changing * (streams == 1 or odd)
        ops += draw(st.lists(st.one_of(behind), max_size=1))
    return Pipeline(
        records=draw(st.sampled_from(sorted(RECORDS))),
        count=draw(st.integers(1, 20)),
        shuffle=draw(st.booleans()),
        epochs=draw(st.sampled_from([1, 1, 2, None])),
        ops=tuple(ops),
        hosts=hosts,
        streams=streams,
        num_steps=draw(st.none() | st.integers(1, 8)),
        drop_remainder=draw(st.sampled_from([False, False, True])),
    )
