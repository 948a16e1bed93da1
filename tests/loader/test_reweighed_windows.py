"""Other weights where a Window's end is known only once its elements are made: live, and over a restart."""

from typing import Any

import numpy as np
import pytest
from hosts import shards, together
from hypothesis import given, settings
from hypothesis import strategies as st
from mixture_twin import MixtureTwin, loader_of, mixture

import loaderkit as lk

HALVES = {"web": 1, "code": 1}
OTHERS = {"web": 0.5, "books": 3}


def parts_of(elements: list[Any]) -> list[list[Any]]:
    """Three parts of a window, the last one maybe empty."""
    return [elements[:2], elements[2:5], elements[5:]]


def flat(value: Any) -> list[int]:
    """All keys in nested lists."""
    return [key for part in value for key in flat(part)] if isinstance(value, list) else [int(value)]


def third_fails(key: int) -> int:
    if key % 3 == 0:
        raise KeyError(int(key))
    return key


KEEP = lk.Filter(lambda key: key % 3)
ROWS = lk.Batch(3, batch_fn=list)
PIPELINES: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "filter": ([KEEP, lk.Window(8, parts_of), ROWS], {}),
    "filtered parts": ([KEEP, lk.Window(8, parts_of), lk.Filter(len), ROWS], {}),
    "skip": ([lk.Map(third_fails), lk.Window(7, parts_of), ROWS], {"on_record_error": "skip"}),
    "inner batch": ([KEEP, lk.Window(8, parts_of), lk.Batch(2, batch_fn=list), ROWS], {}),
    "batch before": ([KEEP, lk.Batch(4, batch_fn=list), lk.Window(3, parts_of), ROWS], {}),
    "batch halved": ([KEEP, lk.Batch(4, batch_fn=list), lk.FlatMap(lambda b: [b[:2], b[2:]]), ROWS], {}),
    "two windows": ([KEEP, lk.Window(8, list), lk.Window(4, parts_of), ROWS], {}),
    "children in a window": (
        [lk.FlatMap(lambda key: [key] * (key % 3 > 0)), lk.Window(6, parts_of), ROWS],
        {},
    ),
}


def make(name: str, weights: Any = HALVES, **how: Any) -> "lk.DataLoader":
    operations, run = PIPELINES[name]
    return loader_of(weights, operations=operations, **run, **how)


def rows_of(it: Any, steps: int) -> list[list[int]]:
    return [flat(row) for _ in range(steps) for row in next(it)]


@pytest.mark.parametrize("name", PIPELINES)
@settings(max_examples=3 * settings().max_examples // 10 or 1)  # each makes sixty steps with its pipeline
@given(step=st.integers(1, 12), streams=st.sampled_from([1, 3]))
def test_a_restart_with_other_weights_goes_on_as_reweigh_does(name: str, step: int, streams: int) -> None:
    """At any step, with any number of logical streams; and each record of the mixture is read once."""
    with iter(make(name, logical_streams=streams)) as live:
        before = rows_of(live, step)
        saved = live.get_state()
        assert live.reweigh(OTHERS) == step
        begin = live.sampler.stages.entries[-1].first_index
        after = rows_of(live, 12)
    with iter(make(name, OTHERS, logical_streams=streams)) as again:
        with pytest.raises(lk.CheckpointMismatchError, match=f"weights hold from index {begin:,} on"):
            again.set_state(saved)
        again.set_state(saved, allow={"mixture"})
        assert again.sampler.stages.entries[-1].first_index == begin
        got = rows_of(again, 1)
        there = again.get_state()  # maybe before the weights that were allowed have begun
        assert got + rows_of(again, 11) == after
        again.set_state(there)
        assert got + rows_of(again, 11) == after
    twin = MixtureTwin(HALVES)
    twin.reweigh(begin, OTHERS)
    read = [key for row in before + after for key in row]
    kept = [key for key in twin.keys(5 * len(read)) if key % 3]
    if streams == 1:
        assert read == kept[: len(read)]
    else:
        least = kept[: len(read) // 2]
        assert all(read.count(key) >= least.count(key) for key in {*least})


@pytest.mark.parametrize("name", PIPELINES)
def test_hosts_restart_with_other_weights_as_one_process_reweighs(name: str) -> None:
    """Each finishes the windows of all of them under the weights of before, so they agree on where others begin."""

    def run(host: int, hosts: Any, weights: Any, states: Any = None, steps: int = 5) -> tuple[Any, bytes]:
        operations, how = PIPELINES[name]
        wide = [*operations[:-1], lk.Batch(global_batch_size=6, batch_fn=list)]
        loader = loader_of(weights, operations=wide, logical_streams=2, shard_options=hosts[host], **how)
        with iter(loader) as it:
            if states is not None:
                it.set_state(states, allow={"mixture"})
            return [[flat(row) for row in next(it)] for _ in range(steps)], it.get_state()

    hosts = shards(2)
    states = [state for _, state in together(lambda host: run(host, hosts, HALVES), 2)]
    hosts = shards(2)
    parts = together(lambda host: run(host, hosts, OTHERS, states, 20), 2)
    operations, how = PIPELINES[name]
    wide = [*operations[:-1], lk.Batch(global_batch_size=6, batch_fn=list)]
    with iter(loader_of(HALVES, operations=wide, logical_streams=2, **how)) as one:
        for _ in range(5):
            next(one)
        one.reweigh(OTHERS)
        alone = [[flat(row) for row in next(one)] for _ in range(20)]
    assert [first + second for first, second in zip(parts[0][0], parts[1][0], strict=True)] == alone


def test_packed_rows_of_filtered_documents_are_finished_under_the_weights_of_before() -> None:
    """The rows of the window that is begun are those of a run that keeps its weights."""
    documents = [np.full(1 + key % 5, key, np.int32) for key in range(120)]

    def loader(weights: Any) -> lk.DataLoader:
        return lk.DataLoader(
            data_source=[{"tokens": tokens} for tokens in documents],
            sampler=mixture(weights),
            operations=[
                lk.Filter(lambda record: len(record["tokens"]) > 1),
                lk.Pack(16, window=24),
                lk.Batch(2),
            ],
        )

    with iter(loader(HALVES)) as it:
        next(it)
        saved = it.get_state()
        kept = [next(it)["tokens"] for _ in range(2)]
    with iter(loader(OTHERS)) as again:
        again.set_state(saved, allow={"mixture"})
        begin = again.sampler.stages.entries[-1].first_index
        assert begin > again.index + 24
        np.testing.assert_equal([next(again)["tokens"] for _ in range(2)], kept)
        assert {key // 70 for _ in range(9) for key in np.ravel(next(again)["tokens"]) if key} == {0, 1}


def test_windows_that_never_end_together_are_refused_with_a_reason() -> None:
    """Of two Windows, one is always in the middle of its elements: the error says so, and nothing moves."""
    odd_once = lk.Window(4, lambda keys: keys[:1] if 0 in keys else keys[:2])
    source = lk.RangeDataSource(0, 10**6, 1)
    samplers = {"web": lk.SequentialSampler(10**5), "code": lk.SequentialSampler(10**5)}

    def loader(weights: Any) -> lk.DataLoader:
        sampler = lk.samplers.MixedSampler(samplers, weights=weights, when_exhausted="stop")
        operations = [
            lk.Filter(lambda key: key % 3 != 1),
            odd_once,
            lk.Window(2, lambda pair: [*pair, pair]),
            ROWS,
        ]
        return lk.DataLoader(data_source=source, sampler=sampler, operations=operations)

    with iter(loader(HALVES)) as it:
        next(it)
        saved = it.get_state()
        with pytest.raises(
            ValueError, match=r"none that do from index .* make the size of each Window a multiple"
        ):
            it.reweigh({"web": 1})
        assert it.get_state() == saved
    with iter(loader({"web": 1})) as again:
        with pytest.raises(
            lk.errors.StateError, match="mixture: weights: expected Windows and FlatMaps whose elements end"
        ):
            again.set_state(saved, allow={"mixture"})
        assert again.step == 0
