"""The grammar of pipelines: any source, sampler and operations, on any number of hosts, as one strategy."""

import itertools
import math
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st
from internals import variant_of
from naive_exclusions import NaiveExclusions
from samplers_of import OF_EPOCHS, SEED, TO_THE_END, WITH_LISTS, Sampled
from samplers_of import WORDS as ORDERS
from sources_of import FOLDER, RECORDS, WRITTEN, Source
from words import PADDED, Op, bounds_of

import loaderkit as lk
from loaderkit._base.system.processor_level import present_level
from loaderkit._order.rng import child_of, generator

FAR = 4000


class Endless(BaseException):
    """An example that isn't tried: nearly all of an endless stream is filtered, or all of a stream is bad."""


class Damaged:
    """A source of which some records can't be read; `batched` says whether it reads many at once."""

    def __init__(self, source: Any, bad: frozenset[int], batched: bool) -> None:
        self.source, self.bad = source, bad
        if batched:
            self.__class__ = DamagedBatched

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, key: int) -> Any:
        if key in self.bad:
            raise LookupError(f"record {key} is damaged")
        return self.source[key]

    def fingerprint(self) -> dict[str, Any]:
        return {"records": len(self.source)}


class DamagedBatched(Damaged):
    def __getitems__(self, keys: list[int]) -> list[Any]:
        return [self[key] for key in keys]


@dataclass(frozen=True)
class Pipeline:
    """All that a stream depends on, and nothing of how it is run."""

    source: Source
    sampled: Sampled
    ops: tuple[Op, ...]
    hosts: int = 1
    streams: int = 1
    num_steps: int | None = None
    drop_remainder: bool = False
    policy: str = "raise"
    bad: frozenset[int] = frozenset()
    batched: bool = False
    epoch: int | None = None
    listed: frozenset[int] = frozenset()  # record keys that are left out
    list_folders: list[str] = field(default_factory=list)  # one at most, shared by copies: a list has a time

    @property
    def seeds_globals(self) -> bool:
        """Whether an operation uses the generators that all threads share."""
        return any(op.word == "legacy" for op in self.ops)

    @cached_property
    def changes(self) -> bool:
        """Whether the number of rows is known only once they are made."""
        return self.policy == "skip" or any(op.kind in ("filter", "flat_map", "window") for op in self.ops)

    # --- its operations: before the last Batch, that Batch, and those behind it ---

    @cached_property
    def before(self) -> list[Op]:
        return self._numbered[: self._last]

    @cached_property
    def last(self) -> Op | None:
        return next(iter(self._numbered[self._last :]), None)

    @cached_property
    def behind(self) -> list[Op]:
        return self._numbered[self._last + 1 :]

    @cached_property
    def inner(self) -> list[Op]:
        return [op for op in self.before if op.kind == "batch"]

    @cached_property
    def of_records(self) -> list[Op]:
        """Those that come before the first Batch or Window."""
        return [*itertools.takewhile(lambda op: op.kind not in ("batch", "window"), self.before)]

    @cached_property
    def of_rows(self) -> list[Op]:
        return self.before[len(self.of_records) :]

    @cached_property
    def rows(self) -> int:
        """The rows of a step over all hosts."""
        return self.hosts if self.last is None else self.last.by * (1 if self.last.whole else self.hosts)

    @cached_property
    def group(self) -> int:
        """The records of a row."""
        return math.prod(op.by for op in self.inner)

    @cached_property
    def _last(self) -> int:
        places = [place for place, op in enumerate(self.ops) if op.kind == "batch"]
        return places[-1] if places else len(self.ops)

    @cached_property
    def _numbered(self) -> list[Op]:
        """All, and which of those that draw each is."""
        ordinals = itertools.accumulate((op.draws for op in self.ops), initial=0)
        return [replace(op, ordinal=number) for op, number in zip(self.ops, ordinals, strict=False)]

    # --- what the reference asks ---

    def indices(self, first: int) -> Iterable[int]:
        return itertools.count(first) if self.stop is None else range(first, self.stop)

    @property
    def start(self) -> int:
        return 0 if self.epoch is None else self.epoch * self._epoch_length

    @cached_property
    def stop(self) -> int | None:
        if self.epoch is not None:
            return self.start + self._epoch_length
        try:
            length = len(self.sampler)
            keys = self.sampler.record_keys(range(length)).tolist() if self.listed else ()
            return length - sum(key in self.listed for key in keys)
        except TypeError:
            return None

    def key(self, index: int) -> int:
        if next(self._tried) > FAR:
            raise Endless
        if self.listed:
            return self._walk[index]
        key = self.sampler[index].record_key
        assert key is not None
        return int(key)

    def read(self, key: int) -> Any:
        if key in self.bad:
            raise LookupError(key)
        return self.records[key]

    def rng(self, op: Op, begin: tuple[int, ...]) -> Callable[[], list[np.random.Generator]]:
        """Gives the generator of an element anew, in a list; none for an operation that doesn't draw."""
        return lambda: [generator(SEED, op.ordinal, begin[0], child_of(begin[1:]))] if op.draws else []

    def instead(self, index: int) -> Iterator[tuple[int, int]]:
        """What a row may read instead of a bad record: the place that a state keeps, and the record key."""
        if hasattr(self.sampler, "instead"):
            places = self.sampler.instead(index, 0, self.patience)
            yield from zip(
                places, self.sampler.keys_instead(np.full_like(places, index), places), strict=True
            )
            return
        start, stop = self.start, self.stop
        if self.pads_to_longest:  # others of its step
            start += (index - start) // self.rows * self.rows
            stop = start + self.planned((start - self.start) // self.rows)[1]
        for place in range(index + 1, index + 1 + self.patience):
            if stop is not None:
                place = start + (place - start) % (stop - start)
            if place == index:
                return
            yield place, self.key(place)

    def planned(self, step: int) -> tuple[int, int, int] | None:
        """Where the plan says the shapes: which bucket a step is of, its records, and the rows of a whole one."""
        if self.pads_to_longest:
            return self._longest_of(step)
        if self.sampled.word != "buckets":
            return None
        first = [self.start + step * self.sampler.global_batch_size]
        if self.stop is not None and first[0] >= self.stop:
            return None
        bucket = int(self.sampler.shapes(first)[0])
        return bucket, int(self.sampler.rows_of(first)[0]), self.sampler.sizes[bucket]

    @property
    def pads_to_longest(self) -> bool:
        return self.last is not None and self.last.word == "longest"

    def _longest_of(self, step: int) -> tuple[int, int, int] | None:
        if step not in self._longest:
            first = self.start + step * self.rows
            indices = range(
                first, first + self.rows if self.stop is None else min(first + self.rows, self.stop)
            )
            longest = max((self._lengths[self.key(index)] for index in indices), default=0)
            multiple = self.last.multiple
            self._longest[step] = (-(-longest // multiple) * multiple, len(indices), self.rows)
        return self._longest[step] if self._longest[step][1] else None

    @cached_property
    def _longest(self) -> dict[int, tuple[int, int, int]]:
        return {}

    def of_step(self, op: Op, step: int) -> Op:
        """A Batch with the bucket of a step, where it pads and the plan says it."""
        known = self.planned(step) if op.word in PADDED else None
        return replace(op, bucket=known[0]) if known else op

    def stand_in(self, index: int) -> Any:
        return stand_in(KeyError(), self.sampler[index])

    @property
    def patience(self) -> int:
        """How many bad records in a row are too many."""
        twice = 2 * len(self.records)
        return twice if self.stop is None else min(twice, self.stop - self.start)

    @cached_property
    def _walk(self) -> list[int]:
        naive = NaiveExclusions(self.sampler)
        naive.exclude(0, {"": {*self.listed}})
        return naive.keys(FAR if self.stop is None else self.stop)

    @property
    def exclude(self) -> str | None:
        """The folder of a list, where there is one."""
        if not self.listed:
            return None
        if not self.list_folders:
            self.list_folders.append(tempfile.mkdtemp(dir=FOLDER[0]))
            lk.offline.block_list(self.data_source, self.list_folders[0], keys=self.listed, reason="a test")
        return self.list_folders[0]

    @cached_property
    def losses(self) -> dict[int, int]:
        return {}

    @cached_property
    def _tried(self) -> Iterator[int]:
        return itertools.count()

    # --- what a loader gets ---

    @cached_property
    def records(self) -> list[Any]:
        records = self.source.records
        if not self.names_parts or len(records) < 3:
            return records
        ends = [len(records) // 3, 2 * len(records) // 3]
        return [{**one, "of": np.int32(bisect_right(ends, key))} for key, one in enumerate(records)]

    @property
    def names_parts(self) -> bool:
        """Whether each record, which is a dict then, gets the number of its part."""
        return self.sampled.word == "named"

    @cached_property
    def sampler(self) -> Any:
        return self.sampled.pair([0] * len(self.records), self._lengths)[1]

    @cached_property
    def data_source(self) -> Any:
        made = self.source.make()
        made = Damaged(made, self.bad, self.batched) if self.bad or self.batched else made
        return self.sampled.pair(made, self._lengths)[0]

    @cached_property
    def _lengths(self) -> list[int]:
        return [
            len(one["tokens"]) if isinstance(one, dict) and "tokens" in one else key * key % 7 + key % 2
            for key, one in enumerate(self.records)
        ]

    @property
    def _epoch_length(self) -> int:
        return int(getattr(self.sampler, "epoch_length", self.sampler.num_records))

    @cached_property
    def operations(self) -> list[Any]:
        return [op.make(self._lengths) for op in self.ops]

    def as_chain(self) -> "lk.Dataset[Any] | None":
        """The same as steps; None where they don't say the order, or have no window of batches."""
        sampler, ds = self.sampler, lk.Dataset(self.data_source)
        part = sampler if isinstance(sampler, lk.samplers.SliceSampler) else None
        order = sampler if part is None else part.sampler
        batched = [*itertools.dropwhile(lambda kind: kind != "batch", (op.kind for op in self.ops))]
        if type(order) is not lk.IndexSampler or "window" in batched:
            return None
        ds = ds.shuffle(order.seed) if order.shuffle else ds.seed(order.seed)
        ds = ds.repeat(order.num_epochs)
        return (ds if part is None else ds[part.start : part.stop]).apply(self.operations)

    def on_hosts(self, hosts: int) -> "Pipeline":
        """The same stream on another number of hosts; a batch_size becomes that of the global batch."""
        ops = [*self.ops]
        if self.last is not None and not self.last.whole:
            ops[self._last] = replace(ops[self._last], by=self.rows, whole=True)
        return replace(self, hosts=hosts, ops=tuple(ops))


def stand_in(error: Exception, metadata: lk.RecordMetadata) -> Any:
    """A function of the user's: an element that says what it was asked with."""
    assert metadata.rng is not None or metadata.index is not None
    return -(10**4 * metadata.index + 10 * (metadata.record_key or 0))


@dataclass(frozen=True)
class Running:
    """How a pipeline is run, none of which may show."""

    workers: int = 0
    kind: str = "thread"
    cpu: str | None = None
    prefetch: int = 2
    task_rows: int | None = None
    read_threads: int = 0
    ahead: int = 500
    retry: bool = False
    verify: bool = False
    max_memory: int | None = None
    chain: bool = False  # whether it is written as steps, where they say its order

    def loader(self, p: Pipeline, shard: lk.ShardOptions, *, agree: bool = False) -> "lk.DataLoader":
        written = p.as_chain() if self.chain else None
        make = partial(lk.DataLoader, data_source=p.data_source, sampler=p.sampler, operations=p.operations)
        loader = (make if written is None else written.loader)(
            worker_count=self.workers,
            worker_kind=self.kind,
            cpu=self.cpu,
            prefetch_batches=self.prefetch,
            read_options=lk.ReadOptions(
                self.read_threads, self.ahead, lk.Retry(2, 0, errors=(LookupError,)) if self.retry else None
            ),
            verify=self.verify,
            max_memory=self.max_memory,
            shard_options=shard,
            logical_streams=p.streams,
            num_steps=p.num_steps,
            exclude=p.exclude,
            on_record_error=stand_in if p.policy == "call" else p.policy,
            agree=agree,
        )
        loader = variant_of(loader, task_rows=self.task_rows)
        return loader if p.epoch is None else loader.epoch(p.epoch)


def runnings(kind: str = "thread") -> st.SearchStrategy[Running]:
    return st.builds(
        Running,
        workers=st.integers(1, 2) if kind == "process" else st.sampled_from([0, 0, 1, 2]),
        kind=st.just(kind),
        cpu=st.sampled_from([None, present_level()]) if kind == "process" else st.none(),
        prefetch=st.integers(1, 4),
        task_rows=st.none() | st.integers(1, 7),
        read_threads=st.sampled_from([0, 0, 0, 2]),
        ahead=st.sampled_from([500, 3]),
        retry=st.booleans(),
        verify=st.booleans(),
        max_memory=st.sampled_from([None, None, 0]),
        chain=st.booleans(),
    )


ROW = st.builds(Op, st.sampled_from(["add", "wrap", "index", "draw", "legacy"]), st.integers(1, 5))
FAIL = st.builds(Op, st.just("fail"), st.integers(0, 20))
CHANGING = st.builds(
    Op, st.sampled_from(["filter", "fan", "window", "shuffle"]), st.sampled_from([2, 3, 4, 1])
)
BATCH = ("batch", "batch", "summed")
INNER = st.builds(Op, st.sampled_from(BATCH), st.integers(1, 3), st.sampled_from(["keep", "drop"]))
COUNTS = st.sampled_from([1, 2, 3, 5, 7, 9, 11, 12, 13, 14, 16, 17, 19, 20, 23])
REMAINDERS = st.sampled_from(["keep", "drop", "pad", "wrap"])


@st.composite
def sources(draw: st.DrawFn) -> Source:
    """Any source, up to two wrappers around it, with at least one record."""
    source = Source(draw(st.sampled_from([*sorted(RECORDS), *["tokens"] * 6])), draw(COUNTS))
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        assume(source.records)
        words = ["subset", "sliced", "concat", "mapped", "zipped", "cached"]
        words += ["windows"] * (
            source.word in ("numbers", "dicts", "columns", "memory", "range", "arrays", *WRITTEN)
        )
        words += ["packed"] * 6 * (source.word == "tokens" and source.count > 1)
        source = Source(draw(st.sampled_from(words)), 0, draw(st.integers(1, 3)), source)
    assume(source.records)
    return source


@st.composite
def samplers(draw: st.DrawFn) -> Sampled:
    word = draw(st.sampled_from(["index", "buckets", *ORDERS]))
    epochs = {"sequential": 1, "staged": None, "of_lanes": None}
    often = epochs.get(word, draw(st.sampled_from([1, 2, 2, None])))
    return Sampled(word, draw(st.integers(1, 4)), draw(st.booleans()), often)


@st.composite
def in_buckets(draw: st.DrawFn, ops: list[Op], sampled: Sampled, hosts: int) -> tuple[list[Op], Sampled]:
    """The operations with one Batch, of the sampler's rows."""
    rows = hosts * draw(st.sampled_from([1, 2, 3, 4]))
    batch = Op("batch", rows, draw(st.sampled_from(["keep", "pad", "pad", "wrap"])), True)
    rest = [op for op in ops if op.kind != "batch"]
    rest.insert(draw(st.integers(max(0, len(rest) - 1), len(rest))), batch)
    return rest, replace(sampled, by=rows)


@st.composite
def of_tokens(draw: st.DrawFn, ops: list[Op], *, changing: bool) -> tuple[list[Op], Source]:
    """The operations with one that takes tokens among them, and a source that has some."""
    source = Source("tokens", draw(st.sampled_from([2, 7, 11, 13, 16])))
    if draw(st.booleans()):
        source = Source(draw(st.sampled_from(["subset", "sliced", "concat", "cached"])), 0, 1, source)
    word = draw(st.sampled_from(["pad_to", "pad_batch"] + (["pack"] * 3 if changing else ["longest"] * 2)))
    if word not in PADDED:
        return [Op(word, draw(st.integers(1, 5))), *ops], source
    last = max((place for place, op in enumerate(ops) if op.kind == "batch"), default=None)
    if last is None:
        return ops, source
    kept = [op for op in ops[:last] if op.word not in ("wrap", "draw") and op.kind != "batch"]
    return [*kept, replace(ops[last], word=word), *ops[last + 1 :]], source


@st.composite
def of_unlike_parts(draw: st.DrawFn, ops: list[Op], sampled: Sampled) -> tuple[list[Op], Source]:
    """The operations over parts of other dtypes, mostly behind one that makes them alike."""
    word = draw(st.sampled_from(["dicts", "memory", "tar", "parquet"]))
    source = Source("unlike", 0, 1, Source(word, draw(st.integers(5, 9))))
    first = next((op for op in ops if op.kind == "batch"), None)
    told = first is not None and first.word == "batch" and sampled.word in TO_THE_END
    if told and all(op.word in ("add", "index", "legacy") for op in ops[: ops.index(first)]):
        return [Op("alike")][: draw(st.integers(0, 1))] + ops, source
    return [Op("alike"), *ops], source


@st.composite
def data_of(
    draw: st.DrawFn, ops: list[Op], sampled: Sampled, policy: str, *, changing: bool
) -> tuple[list[Op], Source, Sampled]:
    """A source with operations and a sampler that fit it."""
    if policy == "call":  # its elements are numbers, and so must be those that they stand beside
        first = next((place for place, op in enumerate(ops) if op.kind in ("batch", "window")), len(ops))
        ops = [op for place, op in enumerate(ops) if place >= first or op.word not in ("wrap", "draw")]
        sampled = replace(sampled, word="mixed") if sampled.word == "named" else sampled
        return ops, Source("numbers", draw(COUNTS)), sampled
    source = draw(sources())
    if draw(st.integers(0, 5)) >= (2 if sampled.word == "buckets" else 4):
        ops, source = draw(of_tokens(ops, changing=changing))
    elif draw(st.integers(0, 11)) == 11:
        ops, source = draw(of_unlike_parts(ops, sampled))
    if sampled.word == "named" and not isinstance(source.records[0], dict):
        source = Source("mapped", 0, 1, source)
    return ops, source, sampled


@st.composite
def pipelines(draw: st.DrawFn, changing: bool) -> Pipeline:
    """Any pipeline; changing: whether operations may change the number of rows. One in ten may be refused."""
    policy = draw(st.sampled_from(["raise", "raise", "replace", "call"] + ["skip"] * changing))
    kinds = [ROW, ROW, INNER] + [CHANGING] * 2 * changing + [FAIL] * (draw(st.integers(0, 4)) == 4)
    odd = draw(st.integers(0, 9)) == 9
    if odd:
        kinds.append(st.builds(Op, st.just("batch"), st.integers(1, 3), REMAINDERS, st.booleans()))
    sampled = draw(samplers().filter(lambda it: odd or not changing or it.word != "buckets"))
    num_steps = draw(st.sampled_from([None, None, None, 1, 3, 5, 8]))
    ops = draw(st.lists(st.one_of(kinds), max_size=3))
    if changing and draw(st.integers(0, 7)):
        ops.insert(draw(st.integers(0, len(ops))), draw(CHANGING))
    hosts = draw(st.sampled_from([1, 1, 2, 3]))
    streams = (
        1 if not changing else draw(st.integers(1, 6)) if odd else hosts * draw(st.sampled_from([1, 1, 2]))
    )
    finite = streams > 1 and sampled.epochs is not None
    if draw(st.integers(0, 3)) or finite:
        whole = draw(st.booleans())
        fit = 1 if odd else math.lcm(streams, hosts)
        rows = draw(st.integers(1, 3)) * (fit if whole else -(-fit // hosts))
        # What streams that end at different steps allow.
        ends = ["pad", "pad", "drop", "wrap"] if num_steps else ["pad"]
        rest = draw(st.sampled_from(ends) if finite and not odd else REMAINDERS)
        ops.append(Op(draw(st.sampled_from(BATCH)), rows, rest, whole))
        behind = [ROW, ROW] + [CHANGING] * changing * (streams == 1 or odd)
        ops += draw(st.lists(st.one_of(behind), max_size=1))
    elif streams > hosts and not odd:
        streams = hosts
    if sampled.word == "buckets":
        if not odd:
            ops, sampled = draw(in_buckets(ops, sampled, hosts))
        sampled = replace(sampled, bounds=bounds_of(sampled.by))
    ops, source, sampled = draw(data_of(ops, sampled, policy, changing=changing))
    if any(op.word == "legacy" for op in ops):
        hosts, streams = (1, max(1, streams // hosts)) if changing else (hosts, streams)
    keys = st.integers(0, len(source.records) - 1)
    epoch = None
    if sampled.epochs is None and sampled.word in OF_EPOCHS:
        epoch = draw(st.sampled_from([None, 0, 2]))
    listed: frozenset[int] = frozenset()
    if sampled.word in WITH_LISTS and policy == "raise" and epoch is None and draw(st.integers(0, 2)) == 2:
        listed = draw(st.frozensets(keys, max_size=len(source.records) - 1))
    return Pipeline(
        source=source,
        sampled=sampled,
        ops=tuple(ops),
        hosts=hosts,
        streams=streams,
        num_steps=num_steps,
        drop_remainder=draw(st.sampled_from([False, False, True])),
        policy=policy,
        bad=draw(st.frozensets(keys, max_size=3))
        if source.word != "unlike" and (policy != "raise" or draw(st.integers(0, 3)) == 3)
        else frozenset(),
        batched=draw(st.booleans()) and source.word != "unlike",  # whose parts it hides
        epoch=epoch,
        listed=listed,
    )
