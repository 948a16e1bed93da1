"""The end of a run on any number of hosts: all make the same steps, and together the batches that one would make."""

import json
import warnings
from collections.abc import Iterator
from itertools import cycle, islice
from typing import Any

import numpy as np
import pytest
from hosts import global_batches, joined, shards, take, together
from hypothesis import given
from hypothesis import strategies as st
from internals import variant_of
from pipelines import some
from stream_twin import assert_same, elements, stacked

import loaderkit as lk
from loaderkit._order.sharding import ShardBlocks

pytestmark = pytest.mark.filterwarnings("ignore:iterating again repeats")
SEED = 6


# --- the naive twin ---------------------------------------------------------------------------------------------


def zero_of(leaf: Any) -> Any:
    if isinstance(leaf, dict):
        return {name: zero_of(child) for name, child in leaf.items()}
    if isinstance(leaf, tuple):
        return tuple(map(zero_of, leaf))
    if isinstance(leaf, np.ndarray) and leaf.dtype == object:
        return np.full(leaf.shape, b"", object)
    if isinstance(leaf, bytes | str):
        return type(leaf)()
    return np.zeros_like(leaf)


def marked(row: Any, valid: bool) -> Any:
    return {**row, "valid": valid} if isinstance(row, dict) else (row, valid)


def rows_of(operations: list[Any], count: int, epochs: int, indices: Any) -> list[Any]:
    """What the operations before the last Batch make of those indices."""
    sampler = lk.IndexSampler(count, shuffle=True, seed=SEED, num_epochs=epochs)
    return list(elements(operations, lambda index: sampler[index].record_key, range(count), SEED, indices))


def padded(rows: list[Any], first: Any, to: int) -> list[Any]:
    """Rows with their leaf `valid`, and as many of zeros as lack."""
    return [marked(row, True) for row in rows] + [marked(zero_of(first), False)] * (to - len(rows))


def filled(rows: list[Any], size: int, remainder: str) -> Iterator[list[Any]]:
    """The rows of each global batch of a stream that keeps their number."""
    for low in range(0, len(rows), size):
        step = rows[low : low + size]
        if remainder == "pad":
            step = padded(step, rows[0], size)
        elif len(step) < size and remainder == "wrap":
            step = [*step, *islice(cycle(rows), size - len(step))]
        elif len(step) < size and remainder == "drop":
            return
        yield step


def loader_of(
    shard: lk.ShardOptions, operations: list[Any], count: int, *, epochs: int | None = 1, **options: Any
) -> "lk.DataLoader":
    return lk.DataLoader(
        data_source=range(count),
        sampler=lk.IndexSampler(count, shuffle=True, seed=SEED, num_epochs=epochs),
        operations=operations,
        shard_options=shard,
        agree=False,  # where hosts are taken in turn, none can wait for another
        **options,
    )


SHAPES = {
    "numbers": lambda key: key,
    "arrays": lambda key: np.full((2, 3), key, np.float32),
    "dicts": lambda key: {"x": np.arange(key, key + 2, dtype=np.int16), "y": key % 2 == 0},
    "texts": lambda key: {"text": "ab" * (key % 3), "raw": b"\0" * (key % 4), "pair": (key, 0.5 * key)},
}


# --- pipelines that keep the number of rows -----------------------------------------------------------------------


@given(
    count=st.integers(1, 30),
    epochs=st.integers(1, 2),
    hosts=st.integers(1, 4),
    rows=st.integers(1, 4),
    shape=st.sampled_from(sorted(SHAPES)),
    remainder=st.sampled_from(["pad", "wrap", "drop"]),
    inner=st.sampled_from([0, 0, 2]),
    workers=st.sampled_from([0, 0, 2]),
    task_rows=st.none() | st.integers(1, 9),
)
def test_a_partial_step_is_filled_before_it_is_cut(
    count, epochs, hosts, rows, shape, remainder, inner, workers, task_rows
):
    """pad, wrap and drop: for any number of hosts and workers the global batches are the naive loop's, and equal in
    number; padded rows are zeros of the leaf's kind with `valid` False.
    """
    before = [lk.Map(SHAPES[shape]), lk.RandomMap(lambda row, rng: (row, rng.integers(99)))]
    before += [lk.Batch(inner, remainder="drop")] if inner else []
    twins = rows_of(before, count, epochs, range(count * epochs))
    expected = [stacked(step) for step in filled(twins, rows * hosts, remainder)]
    operations = [*before, lk.Batch(global_batch_size=rows * hosts, remainder=remainder)]

    def make(shard: lk.ShardOptions) -> lk.DataLoader:
        loader = loader_of(
            shard, operations, count, epochs=epochs, worker_count=workers, worker_kind="thread"
        )
        return variant_of(loader, task_rows=task_rows)

    found = global_batches(make, hosts)
    assert_same(found, expected)
    assert all(len(make(shard)) == len(expected) for shard in shards(hosts))


@pytest.mark.parametrize("remainder", ["pad", "wrap", "drop"])
@pytest.mark.parametrize("workers", [0, 2])
def test_every_step_around_the_end_restores_on_any_number_of_hosts(remainder, workers):
    """Saved at each step, the last and the one behind it too, and restored on 1, 2, 3 and 6 hosts: the same rest, and
    at the end none; behind a padded or wrapped step the cursor is the end of the stream.
    """
    operations = [lk.Map(SHAPES["texts"]), lk.Batch(global_batch_size=6, remainder=remainder)]
    whole = global_batches(lambda shard: loader_of(shard, operations, 21), 1)
    loaders = {
        hosts: [
            loader_of(s, operations, 21, worker_count=workers, worker_kind="thread") for s in shards(hosts)
        ]
        for hosts in (1, 2, 3, 6)
    }
    with iter(loaders[2][1]) as saving:
        for step in range(len(whole) + 1):
            state = saving.get_state()
            if step == 4:
                assert (saving.index, remainder) in ((21, "pad"), (21, "wrap"))
            for members in loaders.values():
                rests = []
                for loader in members:
                    with iter(loader) as it:
                        it.set_state(state)
                        rests.append(take(it, None))
                assert_same([joined(list(parts)) for parts in zip(*rests, strict=True)], whole[step:])
            next(saving, None)
    for members in loaders.values():
        for loader in members:
            loader.close()


@pytest.mark.parametrize("kind", [pytest.param("process", marks=pytest.mark.slow), "thread"])
def test_padded_batches_of_workers(kind):
    """Workers make the padded batch, one whose rows are all padding too: the same as without workers."""
    operations = [lk.Map(SHAPES["texts"]), lk.Batch(global_batch_size=8, remainder="pad")]
    operations.append(lk.Map(lambda batch: {**batch, "rows": len(batch["valid"])}))
    for shard in shards(4):
        alone = list(loader_of(shard, operations, 17))
        assert [batch["valid"].sum() for batch in alone] == [2, 2, 1 if shard.shard_index == 0 else 0]
        with loader_of(shard, operations, 17, worker_count=2, worker_kind=kind) as loader:
            assert_same(list(loader), alone)


def test_a_batch_fn_gets_rows_of_zeros():
    """Its rows are padded before, and `valid` is added to what it gives; a dict gets a key, all else becomes a pair."""
    sums = [lk.Map(lambda key: {"x": key + 1, "name": f"n{key}"})]
    seen: list[list[Any]] = []

    def total(rows: list[Any]) -> Any:
        seen.append(rows)
        return {"sum": sum(row["x"] for row in rows)}

    *_, last = loader_of(lk.NoSharding(), [*sums, lk.Batch(4, remainder="pad", batch_fn=total)], 6, epochs=1)
    assert seen[-1][2:] == [{"x": 0, "name": ""}] * 2
    assert last["sum"] == sum(row["x"] for row in seen[-1][:2])
    assert last["valid"].tolist() == [True, True, False, False]
    first, _ = loader_of(lk.NoSharding(), [lk.Batch(4, remainder="pad", batch_fn=sum)], 6)
    assert isinstance(first, tuple) and first[1].tolist() == [True] * 4


def test_evaluation_counts_each_record_once():
    """Summed over all hosts and steps, `valid` is the number of records, and the masked sum is their sum."""
    operations = [lk.Batch(global_batch_size=12, remainder="pad")]
    batches = global_batches(lambda shard: loader_of(shard, operations, 31), 3)
    assert sum(valid.sum() for _, valid in batches) == 31
    assert sum((x * valid).sum() for x, valid in batches) == sum(range(31))


def test_rows_of_every_step_are_told():
    """records(step) names the real rows of a padded step, and those that a wrapped one repeats."""
    keys = [m.record_key for m in loader_of(lk.NoSharding(), [lk.Batch(4)], 10).records(2)]
    for remainder, more in (("pad", []), ("wrap", [0, 1])):
        loader = loader_of(lk.ShardOptions(1, 2), [lk.Batch(2, remainder=remainder)], 10)
        first = [m.record_key for m in loader.records(0)]
        assert [m.record_key for m in loader.records(2)] == keys + [first[place] for place in more]
        it = iter(loader)
        it.seek(2)
        assert len(take(it, None)) == 1
        it.seek(3)
        assert take(it, None) == []
        with pytest.raises(IndexError):
            it.seek(4)


# --- pipelines that change it -------------------------------------------------------------------------------------

CHANGING = [
    lk.FlatMap(lambda key: [key] * (key % 3)),
    lk.RandomMap(lambda key, rng: {"key": np.int32(key), "draw": rng.integers(1000)}),
    lk.Filter(lambda row: row["draw"] % 4 > 0),
]


def streams_of(operations: list[Any], count: int, epochs: int, streams: int, size: int) -> list[list[Any]]:
    """The rows of each logical stream, to its end."""
    q = size // streams
    members = [[i for i in range(count * epochs) if i // q % streams == s] for s in range(streams)]
    return [rows_of(operations, count, epochs, indices) for indices in members]


def padded_steps(streams: list[list[Any]], size: int) -> list[Any]:
    """The global batches: an equal share of each stream, zeros behind the end of one, up to the longest."""
    own = size // len(streams)
    some = next((row for rows in streams for row in rows), None)
    steps = -(-max(map(len, streams)) // own)
    return [
        stacked([row for rows in streams for row in padded(rows[t * own : (t + 1) * own], some, own)])
        for t in range(steps)
    ]


@given(
    count=st.integers(0, 40),
    epochs=st.integers(1, 2),
    hosts=st.integers(1, 4),
    each=st.integers(1, 2),
    own=st.integers(1, 3),
    workers=st.sampled_from([0, 0, 1, 2]),
    task_rows=st.none() | st.integers(1, 9),
)
def test_streams_that_run_dry_are_padded_up_to_the_longest(
    count, epochs, hosts, each, own, workers, task_rows
):
    """With pad, hosts whose streams are dry hand out masked batches, and all end where the last one does: the global
    batches are those of the naive loop, for any number of hosts and workers.
    """
    streams, size, count = hosts * each, hosts * each * own, count + 1
    operations = [*CHANGING, lk.Batch(global_batch_size=size, remainder="pad")]

    def make(shard: lk.ShardOptions) -> lk.DataLoader:
        loader = loader_of(
            shard,
            operations,
            count,
            epochs=epochs,
            logical_streams=streams,
            worker_count=workers,
            worker_kind="thread",
        )
        return variant_of(loader, task_rows=task_rows)

    expected = padded_steps(streams_of(CHANGING, count, epochs, streams, size), size)
    assert_same(global_batches(make, hosts), expected)


HISTORIES = st.lists(st.tuples(st.sampled_from([1, 2, 3, 6]), st.integers(0, 4)), max_size=6)


@pytest.mark.slow
@some
@given(history=HISTORIES, workers=st.sampled_from([0, 0, 2]), count=st.integers(20, 60))
def test_any_history_of_host_counts_gives_the_same_batches(history, workers, count):
    """Stopped after any number of steps, behind the end of some streams too, and restarted on any number of hosts that
    divides the streams: together the uninterrupted run, step by step, and its end.
    """
    operations = [*CHANGING, lk.Batch(global_batch_size=12, remainder="pad")]
    expected = padded_steps(streams_of(CHANGING, count, 1, 6, 12), 12)
    found: list[Any] = []
    states: list[bytes] = []
    for hosts, steps in [*history, (3, None)]:
        members = shards(hosts)

        def work(
            host: int,
            members: Any = members,
            steps: Any = steps,
            states: Any = states,
            done: int = len(found),
        ) -> Any:
            options = {"logical_streams": 6, "worker_count": workers, "worker_kind": "thread"}
            with loader_of(members[host], operations, count, **options) as loader, iter(loader) as it:
                if states:
                    it.set_state(states)
                assert it.step == done
                return take(it, steps), it.get_state()

        parts, states = map(list, zip(*together(work, hosts), strict=True))
        found += [joined(list(step)) for step in zip(*parts, strict=True)]
    assert_same(found, expected)
    assert all(json.loads(state)["step"] == len(expected) for state in states)


@pytest.mark.slow
@some
@given(
    history=st.lists(
        st.tuples(st.sampled_from([1, 2, 4]), st.sampled_from([4, 8, 12]), st.integers(0, 4)), max_size=6
    ),
    flat=st.booleans(),
)
def test_what_was_consumed_of_each_stream_is_a_prefix_of_it(history, flat):
    """After any history of host counts and global batches, of an endless sampler: no row of a stream is left out, none
    comes twice, and the order is the stream's.
    """
    before = CHANGING if flat else CHANGING[1:]
    q, consumed, state, step = None, [[] for _ in range(4)], None, 0
    for hosts, size, steps in history:
        q = q or size // 4
        iterators = [
            iter(
                loader_of(
                    shard, [*before, lk.Batch(global_batch_size=size)], 50, epochs=None, logical_streams=4
                )
            )
            for shard in shards(hosts)
        ]
        for it in iterators:
            if state is not None:
                it.set_state(state, allow={"global_batch_size"})
        for _ in range(steps):
            rows = joined([next(it) for it in iterators])["draw"].tolist()
            for s in range(4):
                consumed[s] += rows[s * size // 4 : (s + 1) * size // 4]
        step += steps
        state = [it.get_state() for it in iterators]
        assert {it.step for it in iterators} == {step}
        for it in iterators:
            it.close()
    for s, rows in enumerate(consumed):
        members = (i for i in range(50 * 40) if i // (q or 1) % 4 == s)
        stream = elements(before, _key_of, range(50), SEED, members)
        assert rows == [row["draw"] for row in islice(stream, len(rows))]


def _key_of(index: int) -> int:
    return lk.IndexSampler(50, shuffle=True, seed=SEED)[index].record_key


def test_a_ramp_of_the_batch_size_is_in_the_state():
    """allow={"global_batch_size"} starts a segment, on other hosts too; records(step) keeps its answer across it."""

    def loader(shard: lk.ShardOptions, size: int) -> lk.DataLoader:
        return loader_of(shard, [lk.Batch(global_batch_size=size)], 40, epochs=None)

    small = [iter(loader(shard, 4)) for shard in shards(2)]
    rows = [np.concatenate([next(it) for it in small]).tolist() for _ in range(3)]
    large = [iter(loader(shard, 12)) for shard in shards(4)]
    for it in large:
        with pytest.raises(lk.CheckpointMismatchError, match=r"lk\.Batch\(global_batch_size=4\)"):
            it.set_state(small[1].get_state())
        it.set_state(small[1].get_state(), allow={"global_batch_size"})
    rows += [np.concatenate([next(it) for it in large]).tolist() for _ in range(2)]
    assert json.loads(large[3].get_state())["segments"] == [[0, 0, 4], [3, 12, 12]]
    keys = lk.IndexSampler(40, shuffle=True, seed=SEED).record_keys(np.arange(36)).tolist()
    assert [row for step in rows for row in step] == keys
    for step, expected in enumerate(rows):
        assert [m.record_key for m in large[2].records(step)] == expected


# --- the steps of the whole run -----------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("batch", [lk.Batch(4), lk.Batch(4, remainder="pad"), None], ids=str)
def test_num_steps_ends_a_run(batch, workers):
    """The run ends there, resumed ones included, though the sampler is endless; len says so."""
    options = {"epochs": None, "num_steps": 5, "worker_count": workers, "worker_kind": "thread"}
    with loader_of(lk.NoSharding(), [batch] if batch else [], 10, **options) as loader:
        assert len(loader) == 5
        with iter(loader) as it:
            whole = take(it, None)
            assert len(whole) == it.step == 5
            assert next(it, None) is None
            it.seek(3)
            assert_same(take(it, None), whole[3:])
            state = it.get_state()
            it.set_state(state)
            assert take(it, None) == []
            with pytest.raises(IndexError, match="num_steps=5"):
                it.seek(6)
            with pytest.raises(IndexError, match="num_steps=5"):
                it.records(5)
    assert len(loader_of(lk.NoSharding(), [lk.Batch(4)], 10, num_steps=99)) == 3


@pytest.mark.slow
@some
@given(
    hosts=st.sampled_from([1, 2]),
    workers=st.sampled_from([0, 2]),
    steps=st.integers(1, 30),
    saved=st.integers(0, 29),
)
def test_a_dry_stream_begins_again_until_the_steps_are_made(hosts, workers, steps, saved):
    """wrap with num_steps: each stream is an endless repetition of itself, also across a restore."""
    operations = [*CHANGING, lk.Batch(global_batch_size=8, remainder="wrap")]
    streams = streams_of(CHANGING, 24, 1, 4, 8)
    endless = [cycle(rows) for rows in streams]
    expected = [stacked([row for rows in endless for row in islice(rows, 2)]) for _ in range(steps)]
    options = {"logical_streams": 4, "num_steps": steps, "worker_count": workers, "worker_kind": "thread"}
    loaders = [loader_of(shard, operations, 24, **options) for shard in shards(hosts)]
    assert {len(loader) for loader in loaders} == {steps}
    parts = []
    for loader in loaders:
        with loader, iter(loader) as it, iter(loader) as again:
            head = take(it, saved)
            again.set_state(it.get_state())
            parts.append(head + take(again, None))
    assert_same([joined(list(step)) for step in zip(*parts, strict=True)], expected)


def test_one_stream_wraps_without_num_steps():
    """With one stream the last step alone is filled up, from the stream's first rows."""
    operations = [*CHANGING, lk.Batch(7, remainder="wrap")]
    (rows,) = streams_of(CHANGING, 50, 1, 1, 7)
    found = list(loader_of(lk.NoSharding(), operations, 50))
    assert len(rows) % 7
    assert_same(found, [stacked(step) for step in filled(rows, 7, "wrap")])


def test_a_stream_that_ends_too_early_is_an_error_with_drop():
    """drop with num_steps: behind the last step that all streams have comes an error, which names the stream."""
    operations = [*CHANGING, lk.Batch(8, remainder="drop")]
    streams = streams_of(CHANGING, 24, 1, 4, 8)
    shortest = min(map(len, streams)) // 2
    it = iter(loader_of(lk.NoSharding(), operations, 24, logical_streams=4, num_steps=shortest))
    assert len(take(it, None)) == shortest
    it = iter(loader_of(lk.NoSharding(), operations, 24, logical_streams=4, num_steps=50))
    assert len(take(it, shortest)) == shortest
    with pytest.raises(ValueError, match=r"logical stream \d has too few rows .*remainder='wrap'"):
        next(it)


# --- hosts that stop, and what can't be ---------------------------------------------------------------------------

PADDED = [lk.Filter(lambda key: key < 3), lk.Batch(global_batch_size=2, remainder="pad")]


def test_a_silent_host_is_named_by_the_time_out():
    """A host that never asks for an element is named; the one that waits stays where it is and may ask again."""
    here, _ = shards(2, timeout=0.1)
    it = iter(loader_of(here, PADDED, 40, logical_streams=2))
    rows = take_until_it_waits(it)
    for _ in range(2):
        with pytest.raises(TimeoutError, match=r"within 0\.1 s processes 1 didn't announce"):
            next(it)
    assert it.step == len(rows)


def take_until_it_waits(it: Any) -> list[Any]:
    rows = []
    while True:
        try:
            rows.append(next(it))
        except TimeoutError:
            return rows


@pytest.mark.parametrize("leave", ["fails", "closes", "goes elsewhere"])
def test_a_host_that_leaves_is_waited_for_by_nobody(leave):
    """Its error, its close(), or its going to another place, is told to those that would wait, at once."""
    failing = leave == "fails"
    here, there = shards(2, timeout=20)

    def fail(key: int) -> int:
        if failing:
            raise ZeroDivisionError
        return key

    bad = iter(loader_of(there, [lk.Map(fail), *PADDED], 40, logical_streams=2, worker_count=0))
    if failing:
        with pytest.raises(ZeroDivisionError):
            next(bad)
    else:
        next(bad)
    if leave == "goes elsewhere":
        bad.set_state(bad.get_state())
    else:
        bad.close()
    good = iter(loader_of(here, [lk.Map(lambda key: key), *PADDED], 40, logical_streams=2))
    with pytest.raises(RuntimeError, match="processes 1 stopped before the end of their data"):
        take(good, None)


def test_a_host_without_any_row():
    """Its batches are masked from the first on, and look like those of the others; without any row there is none."""
    operations = [lk.Map(SHAPES["texts"]), lk.Filter(lambda row: row["pair"][0] == 5)]
    operations.append(lk.Batch(global_batch_size=4, remainder="pad"))

    def make(shard: lk.ShardOptions) -> lk.DataLoader:
        return loader_of(shard, operations, 20, logical_streams=4)

    (batch,) = global_batches(make, 4)
    (row,) = np.flatnonzero(batch["valid"])
    assert batch["text"][row] == SHAPES["texts"](5)["text"]
    assert [batch["raw"][place] for place in range(4) if place != row] == [b""] * 3
    none = [lk.Filter(lambda _: False), lk.Batch(global_batch_size=4, remainder="pad")]
    assert global_batches(lambda shard: loader_of(shard, none, 20, logical_streams=4), 2) == []


def test_looking_ahead_takes_no_part():
    """element_spec of one host alone waits for no other, and passes of all hosts don't mix afterwards."""
    members = shards(2, timeout=5)
    loaders = [loader_of(shard, PADDED, 40, logical_streams=2) for shard in members]
    assert loaders[0].element_spec[0].shape == (1,)
    for _ in range(2):
        counts = together(lambda host: len(list(loaders[host])), 2)
        assert counts[0] == counts[1] > 0


@pytest.mark.parametrize(
    ("operations", "options", "says"),
    [
        ([lk.Filter(bool), lk.Batch(4)], {"logical_streams": 2}, r"Batch\(\.\.\., remainder='pad'\)"),
        (
            [lk.Filter(bool), lk.Batch(4, remainder="drop")],
            {"logical_streams": 2},
            r"DataLoader\(num_steps=\.\.\.\)",
        ),
        (
            [lk.Filter(bool), lk.Batch(4, remainder="wrap")],
            {"logical_streams": 2},
            r"DataLoader\(num_steps=\.\.\.\)",
        ),
        ([lk.Batch(3), lk.Batch(2, remainder="wrap")], {}, "remainder='drop' in the earlier Batches"),
    ],
    ids=str,
)
def test_ends_that_cant_be(operations, options, says):
    """What has no end that all hosts could share is an error when iteration starts, with what to write."""
    with pytest.raises(ValueError, match=says):
        iter(loader_of(lk.NoSharding(), operations, 50, **options))


def test_hosts_that_have_no_store_cant_agree():
    """Padded row-changing pipelines on several hosts need one; where nothing has to be agreed, they don't."""
    with pytest.raises(ValueError, match=r"shard_options=lk\.ShardByJaxProcess\(\)"):
        iter(loader_of(lk.ShardOptions(0, 2), PADDED, 50, logical_streams=2))
    assert next(iter(loader_of(lk.ShardOptions(0, 2), PADDED, 50, logical_streams=2, epochs=None)))


def test_who_holds_all_rows_asks_nobody():
    """A process whose devices hold every block of the batch knows the end alone."""

    class AllBlocks:
        def resolve(self) -> ShardBlocks:
            return ShardBlocks(blocks=(0, 1), shard_count=2, writers=(0, 0))

    everything = list(loader_of(AllBlocks(), PADDED, 50, logical_streams=2))
    assert_same(everything, list(loader_of(lk.NoSharding(), PADDED, 50, logical_streams=2)))


def test_an_element_with_a_leaf_named_valid():
    """Padding would hide it: an error that says so, and names the Batch."""
    it = iter(loader_of(lk.NoSharding(), [lk.Map(lambda _: {"valid": 1}), lk.Batch(2, remainder="pad")], 5))
    with pytest.raises(ValueError, match=r'leaf "valid".*rename') as caught:
        next(it)
    assert any("remainder='pad'" in note for note in caught.value.__notes__)


def test_only_the_last_batch_pads_or_wraps():
    """An earlier one takes keep or drop."""
    for remainder in ("pad", "wrap"):
        with pytest.raises(ValueError, match=r"operations\[0\]: .* before the last Batch"):
            loader_of(lk.NoSharding(), [lk.Batch(2, remainder=remainder), lk.Batch(2)], 5)


def test_keep_is_the_one_exception_to_equal_steps():
    """With fewer rows than shards the last shards make one step fewer, and say so; pad, wrap and drop never do."""
    for remainder, lengths in (("keep", [2, 1]), ("drop", [1, 1]), ("pad", [2, 2]), ("wrap", [2, 2])):
        loaders = [loader_of(shard, [lk.Batch(4, remainder=remainder)], 9) for shard in shards(2)]
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            assert [len(take(iter(loader), None)) for loader in loaders] == lengths
        assert any("one step fewer" in str(warning.message) for warning in said) == (remainder == "keep")
