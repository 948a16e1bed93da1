"""lk.Dataset: which step can't stand behind which, at its line, with the line to write; and other bad input."""

import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loaderkit as lk

ds = lk.Dataset(range(12))


class Chunked(list[Any]):
    chunk_records = 4


def noisy(value: Any, rng: np.random.Generator) -> Any:
    return value + rng.random()


# A step that fits behind the source alone; and as a part of several.
STEPS: dict[str, Callable[[lk.Dataset[Any]], lk.Dataset[Any]]] = {
    "map": lambda it: it.map(abs),
    "random_map": lambda it: it.random_map(noisy),
    "map_with_index": lambda it: it.map_with_index(max),
    "filter": lambda it: it.filter(bool),
    "flat_map": lambda it: it.flat_map(range),
    "window": lambda it: it.window(2, sorted),
    "window_shuffle": lambda it: it.window_shuffle(2),
    "pack": lambda it: it.pack(8),
    "batch": lambda it: it.batch(2),
    "shuffle": lambda it: it.shuffle(),
    "seed": lambda it: it.seed(1),
    "repeat": lambda it: it.repeat(),
    "take": lambda it: it.take(3),
    "skip": lambda it: it.skip(1),
    "slice": lambda it: it[1:9],
    "shard": lambda it: it.shard(0, 2),
    "select": lambda it: it.select([0, 1]),
    "cache": lambda it: it.cache(),
    "apply": lambda it: it.apply([lk.Map(abs)]),
}
PARTS: dict[str, Callable[[lk.Dataset[Any]], lk.Dataset[Any]]] = {
    "concat": lambda it: lk.Dataset.concat([it, ds]),
    "zip": lambda it: lk.Dataset.zip([it, ds], strict=False),
    "interleave": lambda it: lk.Dataset.interleave([it, ds]),
    "mix": lambda it: lk.Dataset.mix({"a": it}, seed=0, when_exhausted="stop"),
}
CHANGING = "flat_map window window_shuffle pack"
CHOOSING = "take skip slice shard select"
# step -> the earlier ones that it can't stand behind, and what the error says besides their names.
REFUSED = {
    "shuffle": {
        "shuffle": "write one .shuffle()",
        "repeat": "write .shuffle() before .repeat()",
        "mix": "shuffle the parts",
        "interleave": "lk.Dataset.concat(parts).shuffle(seed=0)",
        CHANGING: ".window_shuffle(n)",
        "batch": "write .shuffle() before .batch()",
        "map_with_index": "lk.MapDataSource",
    },
    "repeat": {
        "repeat": "write one .repeat()",
        "mix": "write .repeat() behind the parts",
        "interleave": "give num_epochs= to lk.Dataset.interleave",
        "window window_shuffle pack": "write .repeat() before",
        "batch": "loader.epoch(e)",
        "map_with_index": "lk.MapDataSource",
    },
    **{
        step: {
            "map_with_index": "lk.MapDataSource",
            f"filter {CHANGING}": "lk.offline.filtered",
        }
        for step in CHOOSING.split()
    },
    "cache": {
        "map_with_index": "lk.MapDataSource",
        f"filter {CHANGING}": "lk.offline.filtered",
        "random_map": "write .random_map() behind .cache()",
        "repeat": "write .cache() before .repeat()",
        "mix interleave": "write .cache() behind the parts",
        "batch": "write .cache() before .batch()",
    },
    "seed": {"seed": "write it once", "mix": "write it once"},
    **{step: {"batch": "before .batch()"} for step in CHANGING.split()[1:]},
}
REFUSED["skip"] = {**REFUSED["skip"], "batch": "it.seek(n)"}
REFUSED["slice"] = {**REFUSED["slice"], "batch": "it.seek(n)"}
REFUSED["shard"] = {
    **REFUSED["shard"],
    "repeat mix interleave": "loader(shard_options=lk.ShardOptions(i, n))",
    "batch": "write .shard() before .batch()",
}
REFUSED["select"] = {
    **REFUSED["select"],
    "repeat": "write .select() before .repeat()",
    "mix interleave": "write .select() behind the parts",
    "batch": "write .select() before .batch()",
}
NOT_IN_A_PART = {
    f"{CHANGING} batch": "behind",
    "map_with_index": "lk.MapDataSource",
    "filter": "behind",
    "seed": "seed",
}
OF_RECORDS = {"shuffle": "shuffle", "repeat": "parts are records", "mix interleave": "last"}
REFUSED |= dict.fromkeys(("concat", "zip", "interleave"), NOT_IN_A_PART | OF_RECORDS)
REFUSED["interleave"] = {**REFUSED["interleave"], "repeat": "give num_epochs="}
REFUSED["mix"] = NOT_IN_A_PART
SHOWN = {"slice": "[a:b:c]"}


def refused(step: str, earlier: str) -> str | None:
    """What the error says, None where the step fits."""
    return next((text for names, text in REFUSED.get(step, {}).items() if earlier in names.split()), None)


@pytest.mark.filterwarnings("ignore:.*each epoch has the order in which")
@pytest.mark.parametrize("step", [*STEPS, *PARTS])
def test_a_step_behind_another_fits_or_says_what_to_write(step):
    """Each pair of steps: the error is raised at the line of the later one, names both, and gives the line."""
    make = (STEPS | PARTS)[step]
    for earlier, begin in (STEPS | PARTS).items():
        chain = begin(
            ds if earlier in PARTS or "pack" not in (step, earlier) else lk.Dataset([np.arange(3)] * 12)
        )
        if earlier == "shuffle" and step in CHOOSING.split():
            chain = ds.shuffle(0)
        said = refused(step, earlier)
        if said is None:
            assert repr(make(chain)), f"{step} behind {earlier}"
            continue
        with pytest.raises(ValueError, match=re.escape(said)) as raised:
            make(chain)
        shown, behind = SHOWN.get(step, f".{step}("), SHOWN.get(earlier, earlier)
        assert str(raised.value).startswith(shown) and behind in str(raised.value), f"{step} behind {earlier}"


class Copied(list[Any]):
    """A list that may get longer."""


def grown() -> "lk.Dataset[Any]":
    records = Copied([1, 2, 3])
    chain = lk.Dataset(records).map(abs)
    records.append(4)
    return chain


# bad input -> the error, and what it says
BAD: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "no record": (
        lambda: lk.Dataset([]),
        ValueError,
        "source: expected one record or more, got a list of 0 records",
    ),
    "no source": (lambda: lk.Dataset(iter([1])), TypeError, "source: expected an object with __len__"),
    "a path": (lambda: lk.Dataset("a.tar"), TypeError, "write lk.open('a.tar')"),
    "take nothing": (lambda: ds.take(0), ValueError, "count: expected 1 or more, got 0"),
    "skip all": (lambda: ds.skip(12), ValueError, ".skip(): expected one or more to be left, got none of 12"),
    "slice nothing": (
        lambda: ds[5:5],
        ValueError,
        "[a:b:c]: expected one or more to be left, got none of 12",
    ),
    "select nothing": (lambda: ds.select([]), ValueError, ".select(): expected one or more"),
    "select what isn't there": (
        lambda: ds.select([12]),
        IndexError,
        "expected an int from -12 to 11, got 12",
    ),
    "shard beyond": (lambda: ds.shard(3, 3), ValueError, "shard_index: expected an int from 0 to 2, got 3"),
    "skip a whole stream": (
        lambda: ds.repeat(2).skip(24),
        ValueError,
        ".skip(): expected one or more to be left, got none of 24",
    ),
    "stride of a stream": (lambda: ds.repeat()[::2], ValueError, "write it before .repeat()"),
    "filter behind the last step": (
        lambda: ds.batch(2).take(2).filter(bool),
        ValueError,
        ".filter(): expected it before .take(), got it behind: it counts the steps of the loader",
    ),
    "batch behind the last step": (
        lambda: ds.batch(2).take(2).batch(2),
        ValueError,
        ".batch(): expected it before",
    ),
    "take of batches that may be fewer": (
        lambda: ds.filter(bool).batch(2, drop_remainder=True).take(2),
        ValueError,
        "give num_steps=2 to loader()",
    ),
    "num_steps twice": (
        lambda: ds.batch(2).take(2).loader(num_steps=1),
        TypeError,
        "the chain has .take(2), got 1",
    ),
    "a part of a global batch": (
        lambda: ds.batch(2, remainder="pad").batch(2),
        ValueError,
        "expected remainder='keep' or 'drop' before the last batch",
    ),
    "drawing without a seed": (
        lambda: ds.random_map(noisy).loader(),
        ValueError,
        "RandomMap(noisy): expected a seed in the chain, got none; write .seed(0)",
    ),
    "an order without a seed": (lambda: ds.shuffle().loader(), ValueError, ".shuffle(): expected a seed"),
    "choosing without a seed": (lambda: ds.shuffle()[:5], ValueError, "write .shuffle(seed=0)"),
    "two seeds": (lambda: ds.seed(1).shuffle(2), ValueError, ".shuffle(2): expected one seed, got a second"),
    "two seeds, other way": (lambda: ds.shuffle(2).seed(1), ValueError, ".shuffle() has 2; write it once"),
    "no seed": (lambda: ds.seed(None), TypeError, ".seed(): expected an int, got None"),
    "parts that shuffle without a seed": (
        lambda: lk.Dataset.mix({"a": ds.shuffle().repeat()}),
        ValueError,
        ".mix(): expected a seed, as 'a' has .shuffle(), got none",
    ),
    "a part that ends": (lambda: lk.Dataset.mix({"a": ds}), ValueError, "write .repeat() behind the part"),
    "lanes without a shuffle": (
        lambda: lk.Dataset.mix({"a": ds.repeat()}, lanes=2),
        ValueError,
        ".mix(): expected .shuffle() of 'a'",
    ),
    "lanes in a part": (
        lambda: lk.Dataset.mix(
            {"a": lk.Dataset(Chunked(range(12))).shuffle(window=2, lanes=2).repeat()}, seed=0
        ),
        ValueError,
        "give lanes= to lk.Dataset.mix",
    ),
    "lanes of a mixture without a window": (
        lambda: lk.Dataset.mix({"a": lk.Dataset(Chunked(range(12))).shuffle().repeat()}, seed=0, lanes=2),
        ValueError,
        "expected window= in .shuffle() of 'a'",
    ),
    "lanes of a mixture without a batch": (
        lambda: lk.Dataset.mix({"a": ds.shuffle().repeat()}, seed=0, lanes=2).loader(),
        ValueError,
        "expected .batch() in the chain, got none",
    ),
    "lanes without a window": (lambda: ds.shuffle(0, lanes=2), ValueError, "expected window= too"),
    "lanes without a batch": (
        lambda: lk.Dataset(Chunked(range(12))).shuffle(0, window=2, lanes=2).loader(),
        ValueError,
        "expected .batch() in the chain, got none",
    ),
    "a window without chunks": (
        lambda: ds.shuffle(0, window=2),
        ValueError,
        "a source that says its chunk_records",
    ),
    "parts of another length": (lambda: lk.Dataset.zip([ds, range(3)]), ValueError, "strict=False"),
    "no part": (lambda: lk.Dataset.concat([]), ValueError, ".concat(): expected one part or more, got none"),
    "a chain in place of parts": (lambda: lk.Dataset.concat(ds), TypeError, "write lk.Dataset.concat([...])"),
    "parts without names": (
        lambda: lk.Dataset.mix([ds]),
        TypeError,
        "a mapping of name to chain, got a list",
    ),
    "parts behind a chain": (
        lambda: ds.map(abs).concat([ds]),
        TypeError,
        "which would be left out; write lk.Dataset",
    ),
    "another operation": (
        lambda: ds.map(lk.RandomMap(noisy)),
        TypeError,
        ".map(): expected a function or a Map, got RandomMap(noisy); write .random_map(RandomMap(noisy))",
    ),
    "an operation and options": (
        lambda: ds.flat_map(lk.FlatMap(range), max_fan_out=3),
        TypeError,
        "give max_fan_out to the operation",
    ),
    "a mask": (lambda: ds[np.ones(12, bool)], TypeError, "got ndarray array([ True"),
    "places": (
        lambda: ds[[1, 2]],
        TypeError,
        "ds[i]: expected an int or a slice, got list [1, 2]; write .select(",
    ),
    "a split of a chain": (
        lambda: lk.random_split(ds, [6, 6], seed=0),
        TypeError,
        "split its source, and write a chain",
    ),
    "no function": (lambda: ds.map(3), TypeError, "Map: expected a function of (element), got 3"),
    "prefetch": (lambda: ds.prefetch(2), AttributeError, "use instead: .loader(prefetch_batches=...)"),
    "mp_prefetch": (lambda: ds.mp_prefetch, AttributeError, "use instead: .loader(worker_count=...)"),
    "to_iter_dataset": (lambda: ds.to_iter_dataset, AttributeError, "use instead: .loader(), or iter(ds)"),
    "tf.data's order": (lambda: ds.shard(4, 1), ValueError, "got 4; tf.data has the two the other way round"),
    "tf.data's first shard": (lambda: ds.shard(4, 0), ValueError, "write .shard(shard_index, shard_count)"),
    "another library's argument": (
        lambda: ds.loader(num_workers=2),
        TypeError,
        "write instead: .loader(worker_count=...)",
    ),
    "a source for loader": (lambda: ds.loader(sampler=None), TypeError, "expected the chain to say sampler"),
    "a chain as a source": (
        lambda: lk.DataLoader(data_source=ds, sampler=lk.SequentialSampler(12)),
        TypeError,
        "data_source: expected a data source, got a Dataset; write ds.loader(...) for its loader",
    ),
    "a step of a loader": (lambda: ds.loader().map(abs), AttributeError, "'map'"),
    "a change of a chain": (lambda: setattr(ds, "name", 3), AttributeError, "each step gives a new one"),
    "a source that got longer": (
        lambda: grown().loader(),
        ValueError,
        "to have 3 records, as when the chain was written, got 4",
    ),
    "the length of a stream without end": (lambda: len(ds.repeat()), TypeError, "endless"),
    "a list of a stream without end": (
        lambda: list(ds.repeat()),
        ValueError,
        "num_epochs=1",
    ),
    "the length behind a filter": (
        lambda: len(ds.filter(bool)),
        TypeError,
        "Filter(bool) changes the number of rows",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_says_what_to_write(name):
    make, kind, text = BAD[name]
    with pytest.raises(kind, match=re.escape(text)):
        make()


def test_a_function_that_holds_a_loader_cannot_be_sent_to_a_worker():
    """It is named, and where it is known: when iteration starts."""
    other = ds.loader()
    chain = ds.map(lambda value: next(iter(other)))
    with (
        chain.loader(worker_count=1) as loader,
        pytest.raises(lk.errors.TransportError, match=r"operations\[0\]"),
    ):
        iter(loader)


def test_a_state_of_another_chain_is_refused_with_both_sides():
    with iter(ds.shuffle(0).batch(2).loader()) as it:
        next(it)
        state = it.get_state()
    with (
        iter(ds.shuffle(1).repeat(2).batch(3).loader()) as it,
        pytest.raises(lk.CheckpointMismatchError) as raised,
    ):
        it.set_state(state)
    assert all(word in str(raised.value) for word in ("seed", "0", "1", "num_epochs"))


@pytest.mark.parametrize(
    "chain",
    [
        lk.Dataset([3, -1, 2]).map(abs).shuffle(seed=0).batch(2),
        lk.Dataset.mix({"a": ds.shuffle().repeat(), "b": ds.repeat()}, seed=0).take(9),
        lk.Dataset.interleave([ds, ds.random_map(noisy)], num_epochs=1, seed=3),
    ],
)
def test_a_chain_can_be_copied_and_sent(chain):
    """It is a value: the same code, the same elements."""
    copied = pickle.loads(pickle.dumps(chain))
    assert repr(copied) == repr(chain) and copied.summary() == chain.summary()
    assert [np.asarray(each).tolist() for each in copied] == [np.asarray(each).tolist() for each in chain]
