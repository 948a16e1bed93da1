"""lk.Dataset: any chain gives what its steps mean, one after the other, and is the loader that is written by hand."""

import inspect
import pickle
import random
import re
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from itertools import count, islice, zip_longest
from typing import Any

import naive_chain
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from internals import settings_of
from naive_chain import DEAD, Chain

import loaderkit as lk
from loaderkit._loader.options import LoaderOptions
from loaderkit._order.mixing import component_seed

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*each epoch has the order in which"),
    pytest.mark.filterwarnings("ignore:the last step has too few rows"),
]
MOST = 9  # elements that are compared


def digest(*values: Any) -> int:
    return zlib.crc32(repr(values).encode())


def drawn(number: int, value: Any, rng: np.random.Generator) -> int:
    return digest(number, value, int(rng.integers(1 << 30)))


def kept(number: int, value: Any) -> bool:
    return digest(number, value) % 3 > 0


def children(number: int, value: Any) -> list[int]:
    return [digest(number, value, k) for k in range(digest(value) % 3)]


def joined(number: int, values: list[Any]) -> list[int]:
    return [digest(number, values, k) for k in range(1 + digest(values) % 2)]


def permuted(values: list[Any], rng: np.random.Generator) -> list[Any]:
    return [values[k] for k in rng.permutation(len(values)).tolist()]


Both = tuple[lk.Dataset[Any], Chain]


def source(records_in_all: int, number: int) -> Both:
    records = [digest(number, k) for k in range(records_in_all)]
    return lk.Dataset(records), Chain(lambda e, seed: [lambda *_, one=one: one for one in records])


def few(by: int) -> int | None:
    return None if by > 3 else by


def places(by: int) -> list[int]:
    return [by, 0, by, by // 2]


def keep(number: int, value: Any) -> Any:
    return value if kept(number, value) else DEAD


# A step of the chain, and what it means.
STEPS: dict[str, tuple[Callable[..., lk.Dataset[Any]], Callable[..., Chain]]] = {
    "map": (lambda ds, by, n: ds.map(partial(digest, n)), lambda it, by, n: it.each(partial(digest, n))),
    "random_map": (
        lambda ds, by, n: ds.random_map(partial(drawn, n)),
        lambda it, by, n: it.each(partial(drawn, n), draws=True),
    ),
    "map_with_index": (
        lambda ds, by, n: ds.map_with_index(partial(digest, n)),
        lambda it, by, n: it.each(partial(digest, n), index=True),
    ),
    "filter": (lambda ds, by, n: ds.filter(partial(kept, n)), lambda it, by, n: it.each(partial(keep, n))),
    "flat_map": (
        lambda ds, by, n: ds.flat_map(partial(children, n)),
        lambda it, by, n: it.windows(1, lambda one: children(n, *one)),
    ),
    "window": (
        lambda ds, by, n: ds.window(by, partial(joined, n)),
        lambda it, by, n: it.windows(by, partial(joined, n)),
    ),
    "window_shuffle": (
        lambda ds, by, n: ds.window_shuffle(by),
        lambda it, by, n: it.windows(by, permuted, draws=True),
    ),
    "batch": (
        lambda ds, by, n: ds.batch(by, batch_fn=list),
        lambda it, by, n: it.windows(by, lambda rows: [rows], whole=True),
    ),
    "shuffle": (lambda ds, by, n: ds.shuffle(few(by)), lambda it, by, n: it.shuffle(few(by))),
    "seed": (lambda ds, by, n: ds.seed(by), lambda it, by, n: replace(it, seed=by)),
    "repeat": (lambda ds, by, n: ds.repeat(few(by)), lambda it, by, n: it.repeat(few(by))),
    "take": (lambda ds, by, n: ds.take(by), lambda it, by, n: it.choose(slice(0, by))),
    "skip": (lambda ds, by, n: ds.skip(by), lambda it, by, n: it.choose(slice(by, None))),
    "slice": (lambda ds, by, n: ds[by : 3 * by], lambda it, by, n: it.choose(slice(by, 3 * by))),
    "stride": (lambda ds, by, n: ds[::-by], lambda it, by, n: it.choose(slice(None, None, -by))),
    "shard": (lambda ds, by, n: ds.shard(by - 1, by), lambda it, by, n: it.choose(slice(by - 1, None, by))),
    "select": (lambda ds, by, n: ds.select(places(by)), lambda it, by, n: it.choose(places(by))),
    "cache": (lambda ds, by, n: ds.cache(), lambda it, by, n: it),
}
WORDS = st.sampled_from([*STEPS, "shuffle", "shuffle", "repeat", "random_map"])


def several(draw: Any, depth: int, number: int) -> Both:
    """Chains side by side, one behind the other or mixed."""
    how = draw(st.sampled_from(["concat", "zip", "mix", "mix"]))
    drawn_parts = [draw(chains(depth + 1, number + 100 * k)) for k in range(1, draw(st.integers(1, 3)) + 1)]
    names = "abc"[: len(drawn_parts)]
    parts, naive = (
        {name: both[side] for name, both in zip(names, drawn_parts, strict=True)} for side in (0, 1)
    )
    if how == "concat":
        return lk.Dataset.concat(parts), naive_chain.concat(naive)
    if how == "zip":
        made = lk.Dataset.zip([*parts.values()], strict=False)
        return made, naive_chain.beside({str(k): part for k, part in enumerate(naive.values())})
    weights, ends = dict(zip(names, [2, 1, 3], strict=False)), draw(st.sampled_from(["stop", "drop", None]))
    mixed = lk.Dataset.mix(parts, weights, seed=7, when_exhausted=ends)
    order = settings_of(mixed.loader()).sampler.component_numbers
    last = None if (length := mixed_length(mixed)) is None else length

    def numbers() -> Any:
        indices = count() if last is None else range(last)
        return (int(order([index])[0]) for index in indices)

    return mixed, naive_chain.mix(naive, 7, numbers)


def mixed_length(ds: "lk.Dataset[Any]") -> int | None:
    try:
        return len(settings_of(ds.loader()).sampler)  # type: ignore[arg-type]
    except TypeError:
        return None


@st.composite
def chains(draw: st.DrawFn, depth: int = 0, number: int = 0) -> Both:
    """A chain of up to seven steps; a step that is refused is left out."""
    both = source(draw(st.sampled_from([1, 2, 5, 8, 11])), number)
    if depth < 2 and draw(st.integers(0, 3)) == 3:
        with suppress(ValueError):
            both = several(draw, depth, number)
    steps = st.lists(st.tuples(WORDS, st.integers(1, 5)), min_size=depth == 0, max_size=9 - 5 * (depth > 0))
    for place, (word, by) in enumerate(draw(steps), number):
        of_chain, means = STEPS[word]
        try:
            made = of_chain(both[0], by, place)
        except (ValueError, IndexError):
            continue
        both = made, means(both[1], by, place)
    return both


def outcome(stream: Any) -> list[Any]:
    return [*islice(stream, MOST)]


@settings(max_examples=60 * settings().max_examples // 25)
@given(chains(), st.data())
def test_a_chain_gives_what_its_steps_mean(both, data):
    """Step by step, as a plain interpreter takes them: with any workers, and resumed at any step."""
    ds, naive = both
    with suppress(ValueError):  # there is a seed
        ds, naive = ds.seed(3), replace(naive, seed=3)
    expected = naive.values(MOST)
    assume(
        len(expected) == MOST or "repeat" not in repr(ds)
    )  # a filter may leave nothing of a stream without end
    workers = data.draw(st.sampled_from([0, 0, 2]))
    loader = ds.loader(worker_count=workers, worker_kind="thread", prefetch_batches=3)
    with loader, iter(loader) as it:
        assert outcome(it) == expected, ds
    step = data.draw(st.integers(0, len(expected)))
    with ds.loader() as loader, iter(loader) as it:
        assert outcome(islice(it, step)) == expected[:step]
        state = it.get_state()
    with ds.loader() as loader, iter(loader) as it:
        it.set_state(state)
        assert outcome(it)[: MOST - step] == expected[step:]
    # Behind a batch functions see the rows of one host; where rows change their number hosts have streams of their own.
    if re.search(r"batch\([24], batch_fn=list\)$", repr(ds)) and not ds._form.changes_rows:
        shards = [lk.ShardOptions(host, 2) for host in range(2)]
        of_hosts = [outcome(ds.loader(shard_options=shard, agree=False)) for shard in shards]
        assert [[*first, *second] for first, second in zip_longest(*of_hosts, fillvalue=[])] == expected


N = 20
DATA = [{"x": np.float32(k)} for k in range(N)]
NAMED = {"web": DATA[:12], "code": DATA[12:]}


def scaled(element: dict[str, Any]) -> dict[str, Any]:
    return {"x": element["x"] * 2}


def noisy(element: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    return {"x": element["x"] + rng.random()}


class Chunked(list[Any]):
    """A source that says by what it is read."""

    chunk_records = 4


CHUNKED = Chunked(DATA)
index = partial(lk.IndexSampler, N)
web_seed, code_seed = (component_seed(5, name) for name in NAMED)


def equal_parts(source: Any) -> "lk.Dataset[Any]":
    return lk.Dataset(source).shuffle().repeat()


# the chain, and the loader of the same that is written by hand: source, sampler and operations
BY_HAND: dict[str, tuple[Callable[[], lk.Dataset[Any]], Callable[[], tuple[Any, Any, list[Any]]]]] = {
    "records": (lambda: lk.Dataset(DATA), lambda: (DATA, index(num_epochs=1), [])),
    "epochs": (
        lambda: lk.Dataset(DATA).map(scaled).shuffle(seed=3).repeat(2).random_map(noisy).batch(4),
        lambda: (
            DATA,
            index(shuffle=True, seed=3, num_epochs=2),
            [lk.Map(scaled), lk.RandomMap(noisy), lk.Batch(global_batch_size=4)],
        ),
    ),
    "without end": (
        lambda: lk.Dataset(DATA).seed(3).random_map(noisy).repeat().batch(2).batch(4, remainder="pad"),
        lambda: (
            DATA,
            index(seed=3),
            [lk.RandomMap(noisy), lk.Batch(2), lk.Batch(global_batch_size=4, remainder="pad")],
        ),
    ),
    "windows of chunks": (
        lambda: lk.Dataset(CHUNKED).shuffle(1, window=2, lanes=2).repeat().batch(8),
        lambda: (
            CHUNKED,
            lk.ChunkSampler(N, chunk=4, window=2, lanes=2, batch=8, seed=1),
            [lk.Batch(global_batch_size=8)],
        ),
    ),
    "chosen records": (
        lambda: lk.Dataset(DATA).skip(2).shard(1, 3),
        lambda: (
            lk.SubsetDataSource(lk.SubsetDataSource(DATA, range(2, N)), slice(1, None, 3)),
            lk.IndexSampler(6, num_epochs=1),
            [],
        ),
    ),
    "a part of a stream": (
        lambda: lk.Dataset(DATA).repeat().skip(5).take(3),
        lambda: (DATA, lk.samplers.SliceSampler(index(), 5, 8), []),
    ),
    "cache": (
        lambda: lk.Dataset(DATA).map(scaled).cache().shuffle(0),
        lambda: (
            lk.CachedDataSource(lk.MapDataSource(DATA, scaled)),
            index(shuffle=True, seed=0, num_epochs=1),
            [],
        ),
    ),
    "parts": (
        lambda: lk.Dataset.concat([lk.Dataset(DATA).map(scaled), lk.Dataset.zip({"a": DATA, "b": DATA})]),
        lambda: (
            lk.ConcatDataSource([lk.MapDataSource(DATA, scaled), lk.ZipDataSource({"a": DATA, "b": DATA})]),
            lk.IndexSampler(2 * N, num_epochs=1),
            [],
        ),
    ),
    "mixture": (
        lambda: lk.Dataset.mix(
            {name: equal_parts(part) for name, part in NAMED.items()},
            {"web": 3, "code": 1},
            seed=5,
            id_key="of",
        ),
        lambda: (*lk.mix(NAMED, {"web": 3, "code": 1}, shuffle=True, seed=5, id_key="of"), []),
    ),
    "mixture that ends": (
        lambda: lk.Dataset.mix(
            {name: lk.Dataset(part).repeat(2) for name, part in NAMED.items()}, seed=5, when_exhausted="drop"
        ),
        lambda: (*lk.mix(NAMED, seed=5, num_epochs=2, when_exhausted="drop"), []),
    ),
    "mixture of lanes": (
        lambda: lk.Dataset.mix(
            {"web": lk.Dataset(CHUNKED).shuffle(window=2).repeat(), "code": equal_parts(DATA)},
            seed=5,
            lanes=2,
        ).batch(4),
        lambda: (
            *lk.mix({"web": CHUNKED, "code": DATA}, shuffle=True, seed=5, lanes=2, batch=4, window=2),
            [lk.Batch(global_batch_size=4)],
        ),
    ),
    "in turn": (
        lambda: lk.Dataset.interleave(NAMED, block_length=2, num_epochs=3, seed=1),
        lambda: (*lk.interleave(NAMED, block_length=2, num_epochs=3, seed=1), []),
    ),
}


def looked_at(value: Any) -> Any:
    """A source or an operation by its class and all that it keeps."""
    if isinstance(value, lk.transforms.Transformation) or type(value).__name__.endswith("DataSource"):
        state = value.__getstate__() if hasattr(value, "__getstate__") else vars(value)
        return type(value), looked_at(state)
    if isinstance(value, dict):
        return {name: looked_at(each) for name, each in value.items()}
    if isinstance(value, list | tuple) and value is not DATA:
        return [looked_at(each) for each in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize("name", BY_HAND)
def test_a_chain_is_the_loader_that_is_written_by_hand(name):
    """In every field; so what holds for a loader holds for it, at the same cost, and a state of one is of the other."""
    chain, by_hand = BY_HAND[name]
    source, sampler, operations = by_hand()
    options: dict[str, Any] = {"prefetch_batches": 5, "agree": False}
    loader = lk.DataLoader(data_source=source, sampler=sampler, operations=operations, **options)
    one, other = settings_of(chain().loader(**options)), settings_of(loader)
    for field in fields(other):
        assert looked_at(getattr(one, field.name)) == looked_at(getattr(other, field.name)), field.name
    with iter(loader) as it, iter(chain().loader()) as of_chain:
        next(it)
        of_chain.set_state(it.get_state())
        assert of_chain.step == 1


def test_the_options_of_a_loader_are_all_there():
    """And no other one: a type checker knows them."""
    said = inspect.signature(lk.DataLoader).parameters.keys()
    assert LoaderOptions.__annotations__.keys() == said - {"data_source", "sampler", "operations"}


def test_a_chain_adds_no_call_to_next():
    """As many frames to the user's source as from a loader written by hand."""
    depths = []

    class Deep(list[Any]):
        def __getitem__(self, key: Any) -> Any:
            depths.append(len(inspect.stack(0)))
            return super().__getitem__(key)

    by_hand = lk.DataLoader(
        data_source=Deep(range(9)), sampler=lk.SequentialSampler(9), operations=[lk.Batch(2)]
    )
    for loader in (by_hand, lk.Dataset(Deep(range(9))).batch(2).loader()):
        with iter(loader) as it:
            next(it)
    assert len({*depths}) == 1 and len(depths) == 4


def test_what_is_chosen_of_shuffled_records_is_chosen_once():
    """Two parts have no record in common in any epoch, and the first is what the shuffle gives first."""
    shuffled = lk.Dataset(range(100)).shuffle(seed=0)
    first, second = shuffled[:20], shuffled[20:].shuffle(seed=1).repeat(3)
    order = [*shuffled]
    assert [*first] == order[:20]
    assert {*order[:20]}.isdisjoint(second) and len([*second]) == 240
    assert [*shuffled.select([3, 1])] == [order[3], order[1]]


def test_what_is_chosen_of_many_shuffled_records_needs_no_table():
    """Of a billion records the keys are arithmetic."""
    loader = lk.Dataset(lk.RangeDataSource(10**9)).shuffle(seed=0)[10**8 :: 3].loader()
    assert len(loader) == 3 * 10**8 and len(pickle.dumps(settings_of(loader).source)) < 2000


def test_repeating_what_was_chosen_says_that_the_order_is_the_same():
    with pytest.warns(
        UserWarning, match=r"\.repeat\(\): each epoch has the order in which .* write \.shuffle"
    ) as told:
        lk.Dataset(range(9)).shuffle(seed=0)[:5].repeat()
    assert told[0].filename == __file__


def test_parts_draw_by_their_own_names():
    """Another part, before or behind, changes nothing of what a part draws at an index; errors name the part."""

    def of(*names: str) -> list[Any]:
        parts = {name: lk.Dataset([{"x": 0.0}] * 4).random_map(noisy) for name in names}
        return [one["x"] for one in lk.Dataset.concat(parts).seed(0)]

    assert of("a", "b")[:4] == of("a", "c")[:4] == of("a")
    assert of("a", "b") != of("b", "a") and len({*of("a", "b")}) == 8

    def broken(element: Any, rng: Any) -> Any:
        raise RuntimeError("broken")

    parts = {"a": lk.Dataset([1]), "b": lk.Dataset([2]).random_map(broken)}
    mixed = lk.Dataset.mix(parts, seed=0, when_exhausted="drop")
    with pytest.raises(RuntimeError) as raised:
        list(mixed)
    assert "b: RandomMap(broken)" in "".join(raised.value.__notes__)


def legacy(element: dict[str, Any]) -> dict[str, Any]:
    return {"x": element["x"] + random.random()}


def test_processes_and_mixtures_in_mixtures():
    """What draws, what was chosen and what was cut goes to worker processes; weights change in mid-run."""
    chosen = lk.Dataset(DATA).shuffle(3)[4:].shuffle().map(lk.transforms.Seeded(legacy)).repeat()
    inner = lk.Dataset.mix({"a": chosen, "b": lk.Dataset(DATA).repeat().skip(3)}, seed=1)
    ds = lk.Dataset.mix(
        {"c": inner, "d": lk.Dataset(DATA).random_map(noisy).repeat()}, {"c": 2, "d": 1}, seed=0
    )

    def values(workers: int) -> list[Any]:
        with ds.batch(4).loader(worker_count=workers) as loader, iter(loader) as it:
            first = [next(it)["x"].tolist() for _ in range(3)]
            it.reweigh({"d": 1})
            return first + [next(it)["x"].tolist() for _ in range(3)]

    assert values(1) == values(0)
    assert len({float(x) for batch in values(0) for x in batch}) > 20


def test_the_number_of_a_part_that_draws():
    """An id column is there with and without draws."""
    parts = {"a": lk.Dataset(DATA), "b": lk.Dataset(DATA).random_map(noisy)}
    mixed = lk.Dataset.mix(parts, seed=0, id_key="of", when_exhausted="stop")
    assert [int(element["of"]) for element in mixed.take(4)] == [0, 1, 0, 1]


def test_a_step_is_looked_at_by_its_number():
    """From the front and the back, at once in a long stream; not where rows change their number."""
    far = lk.Dataset(lk.RangeDataSource(10**9)).repeat().map(float).batch(4)
    assert far[10**9].tolist() == [0, 1, 2, 3] and far[10**9 + 1].tolist() == [4, 5, 6, 7]
    small = lk.Dataset(range(10)).batch(4)
    assert small[1].tolist() == [4, 5, 6, 7] and small[-1].tolist() == [8, 9]
    with pytest.raises(IndexError, match="expected i below 3"):
        small[3]
    with pytest.raises(IndexError, match="expected i from -3 on"):
        small[-4]
    with pytest.raises(TypeError, match=r"ds\[i\]: expected steps that keep the number"):
        small.filter(bool)[0]


def test_a_second_loop_over_a_shuffled_chain_says_that_its_order_is_the_same():
    """As a loader says it; a chain that goes on, or isn't shuffled, has nothing to say."""
    once = lk.Dataset(range(6)).shuffle(seed=0)
    first = list(once)
    with pytest.warns(UserWarning, match=r"write \.repeat\(\)"):
        assert list(once) == first
    for chain in (lk.Dataset(range(6)), once.repeat(2)):
        assert list(chain) == list(chain)


def test_a_seeded_transform_may_be_written_as_a_map_or_a_random_map():
    """One stream: it is the same operation."""
    seeded = lk.transforms.Seeded(legacy)
    one, other = (getattr(lk.Dataset(DATA).seed(3), step)(seeded) for step in ("map", "random_map"))
    assert repr([*one]) == repr([*other])
