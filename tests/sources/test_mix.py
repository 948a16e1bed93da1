"""lk.mix: several sources by weight, as one source and its sampler."""

import pickle
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import loaderkit as lk
from loaderkit.sources.id_column import IdColumnDataSource

SOURCES = {
    "web": [f"web {k}" for k in range(7)],
    "code": [f"code {k}" for k in range(5)],
    "books": ["book 0"],
}


def chunked(records, chunk=10):
    """A source in memory that is read by chunks, as files are."""
    source = lk.RangeDataSource(0, records, 1)
    source.chunk_records = chunk
    return source


def owners(source, sampler, count):
    """The names of the components of the first indices."""
    return [source[key].split()[0] for key in sampler.record_keys(range(count)).tolist()]


@given(
    st.dictionaries(st.sampled_from(["web", "code", "books"]), st.integers(0, 9), min_size=1).filter(
        lambda weights: any(weights.values())
    ),
    st.booleans(),
)
def test_a_mixture_reads_each_source_in_its_own_order(weights, shuffle):
    """Every prefix has records by weight, and the records of a name are those of the name's sampler alone."""
    source, sampler = lk.mix(SOURCES, weights, shuffle=shuffle, seed=3)
    assert source.names == sampler.names == ("web", "code", "books")
    records = [source[key] for key in sampler.record_keys(range(60)).tolist()]
    total = sum(weights.values())
    for n in range(60):
        counts = Counter(record.replace("book ", "books ").split()[0] for record in records[:n])
        for name, weight in weights.items():
            assert abs(counts[name] - Fraction(n * weight, total)) < 1
    for name, own in SOURCES.items():
        theirs = [record for record in records if record.startswith(name[:4])]
        alone = sampler.components[name].record_keys(range(len(theirs))).tolist()
        assert theirs == [own[key] for key in alone]
        assert not theirs or shuffle or theirs[: len(own)] == own[: len(theirs)]


def test_a_source_that_is_read_by_chunks_ends_too():
    sources = {"web": chunked(40), "books": [*range(8)]}
    source, sampler = lk.mix(sources, shuffle=True, seed=1, num_epochs=1, window=2, when_exhausted="drop")
    keys = sampler.record_keys(range(len(sampler))).tolist()
    assert sorted(keys) == [*range(len(source))]


def test_a_source_that_is_added_changes_no_other_order():
    """Seeds follow from names, not from places; another seed and another name give another order."""
    few, many = (lk.mix({n: range(99) for n in names}, shuffle=True, seed=5)[1] for names in ("ab", "xba"))
    for name in "ab":
        assert few.components[name] == many.components[name]
    seeds = {few.components["a"].seed, few.components["b"].seed, many.components["x"].seed}
    seeds |= {lk.mix({"a": range(99)}, shuffle=True, seed=6)[1].components["a"].seed}
    assert len(seeds) == 4


def test_epochs_by_name():
    """A number for all, or for some; the others have no end."""
    _, sampler = lk.mix(SOURCES, num_epochs={"books": 2}, when_exhausted="drop")
    assert [sampler.components[name].num_epochs for name in sampler.names] == [None, None, 2]
    source, sampler = lk.mix(
        SOURCES, {"web": 1, "code": 1, "books": 3}, num_epochs=2, when_exhausted="drop", seed=1
    )
    assert len(sampler) == 2 * len(source)
    counts = Counter(sampler.record_keys(range(len(sampler))).tolist())
    assert set(counts.values()) == {2} and len(counts) == len(source)


def test_the_other_arguments_reach_the_sampler():
    """Stages, a pattern, an order, what ends it, shards."""
    shards = lk.ShardOptions(0, 2)
    _, sampler = lk.mix(
        SOURCES, [(0, {"web": 1}), (8, {"code": 1})], order="shuffled", seed=1, shard_options=shards
    )
    assert (sampler.order, sampler.shard_options, sampler.seed) == ("shuffled", shards, 1)
    assert [stage.first_index for stage in sampler.stages.entries] == [0, 8]
    source, sampler = lk.mix(SOURCES, pattern=["web", "web", 1])
    assert owners(source, sampler, 6) == ["web", "web", "code"] * 2


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_say_their_sources(workers):
    """By column and row by row, in this process and in workers: ids, and the same elements."""
    n = {"web": 70, "code": 30}
    rows = {
        name: [{"x": k + 100 * place} for k in range(count)] for place, (name, count) in enumerate(n.items())
    }
    columns = {
        name: lk.ArrayDataSource({"x": np.array([row["x"] for row in own])}) for name, own in rows.items()
    }
    seen = []
    for sources in (rows, columns):
        source, sampler = lk.mix(sources, {"web": 0.7, "code": 0.3}, shuffle=True, seed=0, id_key="source")
        assert isinstance(source, IdColumnDataSource)
        operations = [lk.Batch(20)]
        with iter(
            lk.DataLoader(data_source=source, sampler=sampler, operations=operations, worker_count=workers)
        ) as it:
            batches = [next(it) for _ in range(10)]
            saved = it.get_state()
            after = next(it)
            it.set_state(saved)
            assert next(it)["x"].tolist() == after["x"].tolist()
        for batch in batches:
            assert batch["source"].dtype == np.int32
            assert batch["source"].tolist() == [int(x >= 100) for x in batch["x"]]
            assert batch["source"].tolist().count(0) == 14
        seen.append([batch["x"].tolist() for batch in batches])
    assert seen[0] == seen[1]


def test_chunks_of_sources_that_have_them():
    """A window mixes chunks; a source without chunks is shuffled record by record."""
    sources = {"remote": chunked(1000), "local": [*range(30)]}
    _, sampler = lk.mix(sources, shuffle=True, seed=0, window=3)
    remote, local = (sampler.components[name] for name in sampler.names)
    assert (remote.chunk, remote.window, remote.lanes, remote.num_epochs) == (10, 3, 1, None)
    assert type(local) is lk.IndexSampler and local.shuffle
    assert type(lk.mix(sources, shuffle=True, seed=0)[1].components["remote"]) is lk.IndexSampler
    _, sampler = lk.mix(sources, shuffle=True, seed=0, window=3, lanes=2, batch=8)
    remote, local = (sampler.components[name] for name in sampler.names)
    assert (remote.lanes, remote.batch, remote.chunk, local.chunk, local.lanes) == (2, 2, 10, 1, 2)
    keys = sampler.record_keys(range(64))
    assert len({key for key in keys.tolist() if key >= 1000}) == 30  # an epoch of the list


HOSTS = 16


def test_hosts_of_a_mixture_by_lanes_read_each_chunk_once():
    """Distinct pairs of host and chunk over an epoch of the largest source, beside the chunks: 1.05 at most."""
    sizes = {"a": 32_000, "b": 16_000, "c": 12_000, "d": 4_000}
    sources = {name: chunked(records, 50) for name, records in sizes.items()}
    weights = {"a": 0.5, "b": 0.25, "c": 0.1875, "d": 0.0625}
    source, sampler = lk.mix(sources, weights, shuffle=True, seed=0, lanes=HOSTS, batch=256, window=2)
    indices = np.arange(64_000)
    keys, hosts = sampler.record_keys(indices), indices % 256 // (256 // HOSTS)
    pairs = np.unique(hosts * 10_000 + keys // 50)
    chunks = np.unique(pairs % 10_000)
    assert len(chunks) == len(source) // 50
    assert len(pairs) <= 1.05 * len(chunks)
    _, alone = lk.mix(sources, weights, shuffle=True, seed=0)
    apart = np.unique(hosts * 10_000 + alone.record_keys(indices) // 50)
    assert len(apart) > 10 * len(chunks)


def test_a_name_may_be_any_string():
    """Also one that UTF-8 can't write, such as a file's name on disk."""
    _, sampler = lk.mix({"\udcff": range(9)}, shuffle=True, seed=0)
    assert sorted(sampler.record_keys(range(9)).tolist()) == [*range(9)]


def test_it_travels():
    """A pickle gives the same keys and records."""
    made = lk.mix({"a": [{"x": 1}, {"x": 2}], "b": [{"x": 3}]}, {"a": 1, "b": 2}, id_key="of")
    source, sampler = pickle.loads(pickle.dumps(made))
    keys = sampler.record_keys(range(6)).tolist()
    assert keys == made[1].record_keys(range(6)).tolist()
    assert [source[key] for key in keys] == [made[0][key] for key in keys]


@pytest.mark.parametrize(
    ("arguments", "options", "error", "says"),
    [
        (
            [[range(3)]],
            {},
            TypeError,
            r'sources: expected a mapping of name .*give names, such as {"web": \.\.\.',
        ),
        ([{}], {}, ValueError, "sources: expected one data source or more, got an empty mapping"),
        (
            [{"a": 3}],
            {},
            TypeError,
            r"sources\['a'\]: expected a data source, got the int 3",
        ),
        (
            [{"a": [1]}],
            {"shuffle": True, "seed": 0, "window": 1.5},
            TypeError,
            "window: expected an int, got 1.5; give how many chunks",
        ),
        ([{"a": []}], {}, ValueError, r"sources\['a'\]: expected one record or more, got none; leave this"),
        ([{"a": [1]}, {"b": 1}], {}, ValueError, r"weights: expected names of components, got 'b'"),
        ([{"a": [1]}, {"a": 0}], {}, ValueError, r"weights: expected a positive weight"),
        (
            [{"a": "x.jsonl"}],
            {},
            TypeError,
            r"sources\['a'\]: expected a data source, got 'x.jsonl', which would be read char.*write lk\.open",
        ),
        (
            [{"a": lk.mix({"b": [1]})}],
            {},
            TypeError,
            r"sources\['a'\]: expected a data source, got a pair of a source and a MixedSampler; write source, sampler",
        ),
        ([{"a": [1], "b": [2]}, [0.5, 0.5]], {}, TypeError, r"weights: .*; write \{'a': ..., 'b': ...\}$"),
        ([{"a": [1]}, np.ones(1)], {}, TypeError, r"weights: .*; write \{'a': ...\}$"),
        ([{"a": [1]}, {0: {"a": 1}}], {}, TypeError, r"weights: .*; write list\(weights.items\(\)\)"),
        ([{"a": [1]}, {"a": "0.6"}], {}, TypeError, r"weights\['a'\]: .*got '0.6'; write 0.6$"),
        (
            [{"a": [1]}, [(5, {"a": 1})]],
            {},
            ValueError,
            r"one at index 0, got 5; write \[\(0, \{...\}\), ...\]",
        ),
        (
            [{"a": [1]}],
            {"probabilities": [1]},
            TypeError,
            r"mix\(\) has no argument probabilities; write instead: weights",
        ),
        (
            [{"a": [1]}],
            {"stopping_strategy": "x"},
            TypeError,
            'write instead: num_epochs=1, when_exhausted="stop"',
        ),
        ([[1], [2], [3]], {}, TypeError, r"mix\(\) takes keyword arguments: mix\(\{name: source\}, weights="),
        (
            [{"a": [1]}],
            {"when_exhausted": "first_exhausted"},
            ValueError,
            "got 'first_exhausted'; write 'stop' to end",
        ),
        ([{"a": [1]}], {"shuffle": True}, ValueError, r"seed: expected an int, as shuffle=True needs a seed"),
        ([{"a": [1]}], {"shuffle": 1}, TypeError, "shuffle: expected True or False, got 1"),
        ([{"a": [1]}], {"num_epochs": 0}, ValueError, "num_epochs: expected 1 or more, got 0"),
        (
            [{"a": [1]}],
            {"num_epochs": {"b": 1}},
            ValueError,
            r"num_epochs: expected names of sources, got 'b'",
        ),
        (
            [{"a": [1]}],
            {"num_epochs": 1},
            ValueError,
            "when_exhausted: expected 'stop' or 'drop', because comp",
        ),
        (
            [{"a": [1]}],
            {"lanes": 2, "batch": 4},
            ValueError,
            "shuffle: expected True, as lanes=2 is of a shuffle",
        ),
        (
            [{"a": [1]}],
            {"window": 2},
            ValueError,
            "shuffle: expected True, as window=2 is of a shuffle by chunks",
        ),
        (
            [{"a": [1, 2]}],
            {"lanes": 2, "shuffle": True, "seed": 0},
            ValueError,
            "batch: expected a multiple of lanes=2, got None; give how many indices a step of all hosts takes",
        ),
        (
            [{"a": chunked(99)}],
            {"lanes": 2, "batch": 4, "shuffle": True, "seed": 0},
            ValueError,
            r"window: expected how many chunks a lane mixes at a time, as lanes=2 and sources\['a'\] is read by",
        ),
        ([{"a": [1]}], {"id_key": 3}, TypeError, "id_key: expected a text, got 3"),
    ],
)
def test_what_it_refuses(arguments, options, error, says):
    """With what to write instead."""
    with pytest.raises(error, match=says):
        lk.mix(*arguments, **options)
