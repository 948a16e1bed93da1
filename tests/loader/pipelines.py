"""Random pipelines of every operation in any order, and random ways to run them."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from internals import variant_of
from stream_twin import elements

import loaderkit as lk

SEED = 11

# A process takes a third of a second to start: fewer examples than of what starts at once.
few = settings(max_examples=max(2, settings().max_examples // 20))
# Of what runs whole loaders at every step, an example takes a tenth of a second or more.
some = settings(max_examples=max(1, settings().max_examples // 2))


def on_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """The tree with its numbers and numeric arrays changed, all else as it is."""
    if isinstance(tree, dict):
        return {name: on_leaves(function, child) for name, child in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(on_leaves(function, child) for child in tree)
    if isinstance(tree, np.ndarray) and tree.dtype.kind not in "iuf":
        return tree
    return tree if tree is None or isinstance(tree, str | bytes) else function(tree)


def checksum(tree: Any) -> int:
    """A number that depends on all of an element; what decides for Filters, FlatMaps and failures."""
    total = 0
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            stack += node.values()
        elif isinstance(node, list | tuple):
            stack += node
        elif isinstance(node, bytes | str):
            total += len(node)
        elif isinstance(node, np.ndarray) and node.dtype.kind not in "iuf":
            stack += node.tolist()
        elif node is not None:
            total += int(2 * np.sum(node, dtype=np.float64))
    return abs(total)


@dataclass(frozen=True)
class Step:
    """An operation that says what it is when a test fails; `make` gives it to a loader."""

    name: str
    argument: int = 0
    keywords: tuple[tuple[str, Any], ...] = ()

    def make(self) -> Any:
        return MAKERS[self.name](self.argument, **dict(self.keywords))


def _add(by: int) -> Any:
    return lambda tree: on_leaves(lambda leaf: leaf + by, tree)  # bare: it becomes a Map


class Wrap(lk.Map):
    """A subclass that never calls our __init__, and changes the structure."""

    def __init__(self, by: int) -> None:
        self.by = by

    def map(self, element: Any) -> Any:
        return {"in": element, "by": self.by} if self.by % 2 else (element, None, self.by)


def _index(by: int) -> Any:
    return lk.MapWithIndex(lambda index, tree: on_leaves(lambda leaf: leaf + by * index, tree))


def _draw(many: int) -> Any:
    return lk.RandomMap(
        lambda tree, rng: (on_leaves(lambda leaf: leaf + rng.integers(many + 1), tree), rng.random())
    )


def _draw_globally(many: int) -> Any:
    def draw(tree: Any) -> Any:
        return on_leaves(lambda leaf: leaf + random.randrange(many + 1) + np.random.randint(many + 1), tree)

    return lk.transforms.Seeded(draw)


def _filter(by: int) -> Any:
    return lk.Filter(lambda tree: checksum(tree) % (by + 2) != 1)


def _fan(most: int) -> Any:
    def fan(tree: Any) -> Iterator[Any]:
        return (on_leaves(lambda leaf, k=k: leaf + k, tree) for k in range(checksum(tree) % (most + 1)))

    return lk.FlatMap(fan)


def _window(size: int) -> Any:
    """Some of each window's elements, in another order, the first of them twice."""

    def some(trees: list[Any]) -> Iterator[Any]:
        kept = [tree for tree in reversed(trees) if checksum(tree) % 5]
        return (on_leaves(lambda leaf, k=k: leaf + k, tree) for k, tree in enumerate(kept + kept[:1]))

    return lk.Window(size, some)


def _shuffle(size: int) -> Any:
    return lk.WindowShuffle(size)


def _fail(by: int) -> Any:
    def fail(tree: Any) -> Any:
        if checksum(tree) % (11 + by) == 5:
            raise ZeroDivisionError(by)
        return tree

    return lk.Map(fail)


def _batch(size: int, fn: bool = False, drop: bool = False, whole: bool = False) -> Any:
    sizes = {"global_batch_size" if whole else "batch_size": size}
    return lk.Batch(**sizes, drop_remainder=drop, batch_fn=_summed if fn else None)


def _summed(rows: list[Any]) -> Any:
    return {"rows": len(rows), "first": rows[0], "sum": checksum(rows)}


MAKERS: dict[str, Callable[..., Any]] = {
    "add": _add,
    "wrap": Wrap,
    "index": _index,
    "draw": _draw,
    "draw_globally": _draw_globally,
    "filter": _filter,
    "fan": _fan,
    "window": _window,
    "shuffle": _shuffle,
    "fail": _fail,
    "batch": _batch,
}

WINDOWS = ("window", "shuffle")
CHANGING = ("filter", "fan", *WINDOWS)

RECORDS: dict[str, Callable[[int], Any]] = {
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
    epochs: int
    steps: tuple[Step, ...]
    operations: tuple[Any, ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "operations", tuple(step.make() for step in self.steps))

    @property
    def source(self) -> list[Any]:
        return [RECORDS[self.records](key) for key in range(self.count)]

    @property
    def sampler(self) -> lk.IndexSampler:
        return lk.IndexSampler(self.count, shuffle=self.shuffle, seed=SEED, num_epochs=self.epochs)

    @property
    def row_changing(self) -> bool:
        return any(step.name in CHANGING for step in self.steps)

    @property
    def draws_globally(self) -> bool:
        return any(step.name == "draw_globally" for step in self.steps)

    def twin(self) -> Iterator[Any]:
        sampler = self.sampler
        return elements(
            list(self.operations), lambda i: sampler[i].record_key, self.source, SEED, range(self.used)
        )

    @property
    def used(self) -> int:
        """How many records are looked at: where rows are counted ahead, those that a Batch drops never are."""
        counts = [self.count * self.epochs]
        batches = [] if self.row_changing else [op for op in self.operations if isinstance(op, lk.Batch)]
        sizes = [batch.batch_size or batch.global_batch_size for batch in batches]
        for batch, size in zip(batches, sizes, strict=True):
            counts.append(counts[-1] // size if batch.remainder == "drop" else -(-counts[-1] // size))
        used = counts.pop()
        for size in reversed(sizes):
            used = min(used * size, counts.pop())
        return used


@dataclass(frozen=True)
class Running:
    """How a pipeline is run, none of which may show."""

    workers: int = 0
    kind: str = "thread"
    prefetch: int = 2
    task_rows: int | None = None
    read_threads: int = 0

    def loader(self, pipeline: Pipeline, source: Any = None, **options: Any) -> "lk.DataLoader":
        """The loader of a pipeline that is run in this way; over another source, if one is given."""
        # Threads share the global generators with each other, and a loader refuses that.
        workers = 0 if self.kind == "thread" and pipeline.draws_globally else self.workers
        loader = lk.DataLoader(
            data_source=pipeline.source if source is None else source,
            sampler=pipeline.sampler,
            operations=pipeline.operations,
            worker_count=workers,
            worker_kind=self.kind,
            prefetch_batches=self.prefetch,
            read_options=lk.ReadOptions(num_threads=self.read_threads),
            **options,
        )
        return variant_of(loader, task_rows=self.task_rows)


def batch_steps(last: bool) -> st.SearchStrategy[Step]:
    keywords = st.fixed_dictionaries({}, optional={"fn": st.booleans(), "drop": st.booleans()})
    if last:
        keywords = st.fixed_dictionaries(
            {}, optional={"fn": st.booleans(), "drop": st.booleans(), "whole": st.booleans()}
        )
    return st.builds(
        lambda size, words: Step("batch", size, tuple(words.items())), st.integers(1, 4), keywords
    )


ROW_STEPS = st.builds(
    Step, st.sampled_from(["add", "wrap", "index", "draw", "draw_globally"]), st.integers(1, 9)
)
CHANGING_STEPS = st.builds(Step, st.sampled_from(CHANGING), st.integers(1, 3))
FAILING_STEPS = st.builds(Step, st.just("fail"), st.integers(0, 20))


@st.composite
def pipelines(draw: st.DrawFn, failing: bool = True, changing: bool | None = None) -> Pipeline:
    """Any pipeline of up to seven operations. changing: whether it must change the number of rows, None for either."""
    kinds = [ROW_STEPS, ROW_STEPS, batch_steps(last=False)]
    if changing is None:
        changing = draw(st.booleans())
    if changing:
        kinds.append(CHANGING_STEPS)
    if failing and draw(st.integers(0, 3)) == 3:
        kinds.append(FAILING_STEPS)
    steps = draw(st.lists(st.one_of(kinds), max_size=6))
    if changing and not any(step.name in CHANGING for step in steps):
        steps.insert(draw(st.integers(0, len(steps))), draw(CHANGING_STEPS))
    if draw(st.booleans()):
        last = max((place for place, step in enumerate(steps) if step.name == "batch"), default=0)
        steps.insert(draw(st.integers(min(last + 1, len(steps)), len(steps))), draw(batch_steps(last=True)))
    last = max((place for place, step in enumerate(steps) if step.name == "batch"), default=len(steps))
    behind = [Step("filter", step.argument) if step.name in WINDOWS else step for step in steps[last:]]
    steps = steps[:last] + behind  # a Window behind the last Batch is refused
    return Pipeline(
        records=draw(st.sampled_from(sorted(RECORDS))),
        count=draw(st.integers(1, 25)),
        shuffle=draw(st.booleans()),
        epochs=draw(st.integers(1, 3)),
        steps=tuple(steps),
    )


def runnings(kind: str | None = None) -> st.SearchStrategy[Running]:
    """Any way to run; without a kind, inline and threads, which start at once."""
    return st.builds(
        Running,
        workers=st.integers(0 if kind is None else 1, 3),
        kind=st.just(kind or "thread"),
        prefetch=st.integers(1, 5),
        task_rows=st.none() | st.integers(1, 12),
        read_threads=st.sampled_from([0, 0, 0, 2]),
    )
