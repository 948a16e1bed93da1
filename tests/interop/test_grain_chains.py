"""Chains of Grain's Dataset API: their elements and states, for any number of workers of Grain's and of ours."""

import itertools
import json
import subprocess
import sys
import warnings

import numpy as np
import pytest
from grain_chains_golden import CHAINS as GOLDEN_CHAINS
from grain_chains_golden import FILE, MOST
from grain_golden import digest
from grain_trees import CHAINS, built, passed
from hypothesis import given
from hypothesis import strategies as st

import loaderkit.interop.grain as grain
from loaderkit.errors import StateError
from loaderkit.interop.grain.dataset.running import EngineIterator

GOLDEN = json.loads(FILE.read_text())["chains"]
Range = grain.MapDataset.range


def streams(ds, layout: int, workers: int = 0):
    """What Grain gives with `layout` workers, made by `workers` of ours."""
    options = grain.MultiprocessingOptions(layout, worker_count=workers)
    return ds.mp_prefetch(options)


def in_json(state):
    return json.loads(json.dumps(state))


# --- beside Grain -------------------------------------------------------------------------------------------------


@given(CHAINS, st.integers(0, 3), st.integers(0, 12))
def test_elements_and_states_are_those_of_grain(installed_grain, spec, layout, at):
    """A state that either has saved is one that both go on from, with the same elements.

    Grain's threads take the streams that its processes would take, and don't send elements.
    """
    import grain as theirs

    def made(g):
        try:
            ds = built(g, spec)
            if g is grain:
                return streams(ds, layout) if layout else ds
            return g.experimental.multithread_prefetch(ds, layout, 1) if layout else ds
        except (ValueError, ZeroDivisionError):
            return None

    def rest(g, state):
        iterator = iter(made(g))
        iterator.set_state(in_json(state))
        return passed(iterator, 25 - at, sent=layout > 0)[0]

    if made(theirs) is None:
        assert made(grain) is None
        return
    want, their_states = passed(iter(made(theirs)), 25, sent=layout > 0)
    got, our_states = passed(iter(made(grain)), 25)
    assert got == want
    if want[-1] == "error":
        return
    at = min(at, len(want) - 1)
    assert rest(grain, their_states[at]) == rest(theirs, our_states[at]) == want[at:]


def test_grain_s_checkpoint_handler_takes_our_iterators(installed_grain, tmp_path):
    """Where the program has imported Grain, ours are DatasetIterators of Grain's too; ours takes Grain's."""
    import grain as theirs
    from grain.checkpoint import CheckpointHandler

    ds, same = (g.MapDataset.range(9).shuffle(1).to_iter_dataset().batch(2) for g in (grain, theirs))
    iterator = iter(ds)
    next(iterator)
    assert isinstance(iterator, theirs.DatasetIterator)
    assert isinstance(iterator, grain.DatasetIterator)
    CheckpointHandler().save(tmp_path, iterator)
    again = grain.checkpoint.CheckpointHandler().restore(tmp_path, iter(same))
    for restored in (again, CheckpointHandler().restore(tmp_path, iter(ds))):
        np.testing.assert_array_equal(next(restored), [*ds][1])


def test_data_sets_of_the_installed_grain_are_sources(installed_grain):
    """A MapDataset is a data source, an IterDataset comes before steps of ours."""
    import grain as theirs

    tree = theirs.MapDataset.range(6).shuffle(3)
    assert [*grain.MapDataset.source(tree).map(abs)] == [*tree]
    limited = grain.experimental.LimitIterDataset(tree.to_iter_dataset(), 4)
    assert [*limited] == [*tree][:4]


def test_elastic_batches_are_those_of_grain(installed_grain):
    """Of any number of hosts, and from a state that any of them has saved."""
    import grain as theirs

    def batches(g, host, hosts, state):
        shard = g.sharding.ShardOptions(shard_index=host, shard_count=hosts)
        it = iter(g.experimental.ElasticIterator(g.MapDataset.range(40).shuffle(1).repeat(2), 8, shard))
        it.set_state(state)
        return [batch.tolist() for batch in itertools.islice(it, 6)], it.get_state()

    for hosts in (1, 2, 4):
        for host in range(hosts):
            told = [batches(g, host, hosts, {"global_next_index": 16}) for g in (grain, theirs)]
            assert told[0] == told[1]


# --- without Grain ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("golden", GOLDEN, ids=[f"{it['chain'][0]}-{it['workers']}" for it in GOLDEN])
def test_chains_are_those_of_the_files(golden):
    """Every element, and every state goes on: here as in Grain's worker processes."""
    ds = built(grain, golden["chain"])
    ds = streams(ds, golden["workers"]) if golden["workers"] else ds
    want = golden["sha256"]
    for place, state in {"0": iter(ds).get_state(), **golden["states"]}.items():
        iterator = iter(ds)
        iterator.set_state(state)
        given = [digest(element) for element in itertools.islice(iterator, MOST - int(place))]
        assert [*given, "end"][: len(want) - int(place)] == want[int(place) :]


def test_workers_make_the_same_elements():
    """Two processes of ours give what none gives: chains that the engine makes, and one that runs in order."""
    chains = {each["chain"][0]: each for each in GOLDEN if each["workers"] == 2}
    for golden in (chains["map"], chains["random_map"]):
        ds = built(grain, golden["chain"])
        iterator = iter(streams(ds, 2, workers=2))
        given = [digest(element) for element in itertools.islice(iterator, MOST)]
        assert [*given, "end"][:MOST] == golden["sha256"]
        iterator.close()


def test_the_files_are_of_these_chains():
    """Who changes a chain makes the file again."""
    named = [(each["chain"], each["workers"]) for each in GOLDEN]
    assert named == [(chain, workers) for chain, counts in GOLDEN_CHAINS for workers in counts]


class Counting:
    """A source that counts its reads."""

    def __init__(self):
        self.reads = 0

    def __len__(self):
        return 1000

    def __getitem__(self, key):
        self.reads += 1
        return key


@pytest.mark.parametrize("layout", [0, 3])
def test_a_restore_far_away_reads_no_more_than_a_near_one(layout):
    """At 10**9 as at 10, and to say a state reads nothing."""
    reads = []
    for index in (10, 10**9):
        source = Counting()
        tree = grain.MapDataset.mix(
            [grain.MapDataset.source(source).shuffle(seed).repeat() for seed in (1, 2)], [1, 2]
        )
        ds = tree.to_iter_dataset().batch(2).map(np.sum)
        ds = streams(ds, layout) if layout else ds
        iterator, state = iter(ds), {"next_index": index}
        if layout:
            state = {**iterator.get_state(), "iterators_in_use_states": [state] * layout}
        iterator.set_state(state)
        assert (iterator.get_state(), source.reads) == (state, 0)
        next(iterator)
        reads.append(source.reads)
    assert reads[0] == reads[1]


def test_a_restored_state_brings_its_number_of_streams():
    """As a state of Grain's DataLoader here."""
    ds = Range(20).to_iter_dataset().batch(3)
    three = iter(streams(ds, 3))
    for _ in range(4):
        next(three)
    for other in (ds, streams(ds, 2)):
        iterator = iter(other)
        iterator.set_state(three.get_state())
        assert iterator.get_state() == three.get_state()
    np.testing.assert_array_equal(next(iterator), next(three))


@pytest.mark.parametrize(
    ("state", "error", "text"),
    [
        ({"next_index": 99}, IndexError, "next_index: expected 0 to 20, got 99"),
        ({"next_index": -1}, IndexError, "next_index"),
        ({"next_index": "a"}, StateError, "next_index"),
        ({"parent": {"next_index": 2}, "counter": 2}, StateError, "expected an object with next_index, got"),
        ({"global_next_index": 2}, StateError, "it is of other steps"),
    ],
)
def test_a_state_of_another_chain_is_an_error(state, error, text):
    """And the iterator stays where it was."""
    iterator = iter(Range(20).to_iter_dataset().batch(2))
    next(iterator)
    with pytest.raises(error, match=text):
        iterator.set_state(state)
    assert iterator.get_state() == {"next_index": 2}


def test_a_count_that_doesn_t_fit_is_an_error():
    """Draws behind to_iter_dataset are counted: a state that says two places is of another chain."""
    iterator = iter(Range(20).to_iter_dataset().random_map(max, seed=1))
    with pytest.raises(StateError, match="expected index_for_rng=3, which the state before it says, got 4"):
        iterator.set_state({"parent": {"next_index": 3}, "index_for_rng": 4})


def test_a_none_among_elements_that_are_counted_is_an_error_with_advice():
    """Without a filter it can't be known how many elements were there before; with one the draws run in order."""
    ds = Range(9).map(lambda x: None if x == 4 else x)
    assert [*ds] == [0, 1, 2, 3, 5, 6, 7, 8]
    for counting in (ds.to_iter_dataset().batch(2), ds.to_iter_dataset().map_with_index(max)):
        with pytest.raises(ValueError, match=r"at index 4.*write \.filter\("):
            list(counting)
    filtered = ds.filter(lambda x: x is not None).to_iter_dataset()
    assert [*filtered.batch(5)][1].tolist() == [6, 7, 8]
    assert [*filtered.map_with_index(lambda index, x: index)] == [*range(8)]


def test_a_class_of_the_users_runs_in_order_and_one_warning_says_so():
    """The steps before it, and a state, are as ever; workers divide what it reads."""

    class Pairs(grain.IterDataset):
        def __init__(self, parent):
            super().__init__(parent)

        def __iter__(self):
            return PairsIterator(iter(self._parent))

    class PairsIterator(grain.DatasetIterator):
        def __next__(self):
            return next(self._parent), next(self._parent)

        def get_state(self):
            return self._parent.get_state()

        def set_state(self, state):
            self._parent.set_state(state)

    numbers = Range(12).to_iter_dataset()
    with pytest.warns(UserWarning, match="Pairs: its elements, and the steps after it, are made in order"):
        ds = Pairs(numbers.map(lambda x: x + 1)).map(sum)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert next(iter(Pairs(numbers))) == (0, 1)
    assert [*ds] == [3, 7, 11, 15, 19, 23]
    iterator = iter(ds)
    next(iterator)
    again = iter(ds)
    again.set_state(iterator.get_state())
    assert [*again] == [7, 11, 15, 19, 23]
    assert isinstance(iter(numbers.map(abs)), EngineIterator)
    assert [*streams(ds, 2, workers=1)] == [4 + 0, 6, 12, 14, 20, 22]


def test_a_source_of_the_users_in_order_is_divided_by_its_set_slice():
    """Without it there is nothing that several workers could each have a part of."""

    class Whole(grain.IterDataset):
        sl = slice(None)

        def __iter__(self):
            return iter(Range(6).to_iter_dataset()) if self.sl == slice(None) else iter(Range(6)[self.sl])

    class Divided(Whole):
        def set_slice(self, sl, sequential_slice=False):
            self.sl = sl

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [*streams(Divided(), 2)] == [*range(6)]
        assert [*streams(Whole(), 1)] == [*range(6)]
        with pytest.raises(ValueError, match="expected steps over IterDatasets, or a method set_slice"):
            iter(streams(Whole(), 2))


def test_what_comes_behind_mp_prefetch_runs_here():
    """Such as device_put: it may touch JAX."""
    jax = pytest.importorskip("jax")
    ds = streams(Range(6).to_iter_dataset().batch(2), 1, workers=1)
    put = grain.experimental.device_put(ds, jax.devices()[0])
    assert [(type(each).__module__.partition(".")[0], each.tolist()) for each in put][-1] == (
        "jaxlib",
        [4, 5],
    )


def test_grain_isn_t_imported():
    """Neither by the names nor by a data set that is read."""
    script = (
        "import sys; import loaderkit.interop.grain as grain; import loaderkit.interop.grain.experimental\n"
        "assert [*grain.MapDataset.range(4).shuffle(1).to_iter_dataset().batch(4)]\n"
        "assert 'grain' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=300)


def test_a_layout_that_can_t_be_is_an_error():
    """A strict zip whose parts differ in a stream runs in order, and then a state of other streams is refused."""
    ds = grain.experimental.ZipIterDataset([Range(4).to_iter_dataset(), Range(4).to_iter_dataset().batch(1)])
    assert len([*ds]) == 4
    with pytest.raises(ValueError, match=r"shorter|longer"):
        list(grain.experimental.ZipIterDataset([Range(4).to_iter_dataset(), Range(3).to_iter_dataset()]))


def test_one_stream_made_by_all_cpus_is_the_configuration_that_is_picked():
    """So elements don't depend on the machine."""
    config = grain.experimental.pick_performance_config(
        Range(3).to_iter_dataset(), ram_budget_mb=1, max_workers=3, max_buffer_size=None
    )
    assert config.multiprocessing_options.num_workers == 1
    assert 1 <= config.multiprocessing_options.processes <= 3
