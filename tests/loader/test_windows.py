"""Windows: any number of elements out of a few consecutive ones, with nothing carried from window to window."""

import json
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hosts import global_batches, shards, take, together
from internals import settings_of, variant_of
from stream_twin import assert_same, stacked, through

import loaderkit as lk
from loaderkit._plan.stream_shape import reads_windows
from loaderkit.transforms.parameters import parameters_of
from loaderkit.transforms.shape import shape_of

pytestmark = pytest.mark.filterwarnings("ignore:iterating again repeats")
SEED = 5
T = 6


class WatchedSource:
    """Document k has k * 7 % 9 tokens, from 16 * k on; counts how often each is read."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.read: Counter[int] = Counter()

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, record_key: int) -> dict[str, np.ndarray]:
        key = int(record_key)
        self.read[key] += 1
        return document(key)


def document(key: int) -> dict[str, np.ndarray]:
    return {"tokens": 16 * key + 1 + np.arange(key * 7 % 9, dtype=np.int32)}


def nonempty(element: dict[str, np.ndarray]) -> bool:
    return len(element["tokens"]) > 0


def halves(element: dict[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    half = len(element["tokens"]) // 2
    return [{"tokens": element["tokens"][:half]}, {"tokens": element["tokens"][half:]}]


def drawn(element: dict[str, np.ndarray], rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {**element, "draw": rng.integers(1 << 30, size=2)}


PACK = lk.Pack(T, window=4)
ALL_LEAVES = lk.Pack(T, window=5, how="first_fit", names="maxtext", mask="counted", targets=True, pad=-1)
WINDOWED: dict[str, list[Any]] = {
    "pack": [PACK],
    "pack, drawn": [PACK, lk.RandomMap(drawn)],
    "first fit, filtered": [lk.Filter(nonempty), ALL_LEAVES, lk.RandomMap(drawn)],
    "concatenated": [lk.FlatMap(halves), lk.Pack(T, window=5, how="concat_then_split")],
    "shuffled": [lk.FlatMap(halves), lk.WindowShuffle(7), lk.Filter(nonempty), PACK],
    "shuffled first": [lk.RandomMap(drawn), lk.WindowShuffle(5), PACK, lk.WindowShuffle(3)],
    "few": [lk.Window(3, lambda documents: documents[:1] * 2 if len(documents) == 3 else []), PACK],
}


def loader_of(
    operations: list[Any], shard: Any = None, *, count: int = 40, epochs: int | None = 1, **options: Any
) -> "lk.DataLoader":
    options.setdefault("worker_kind", "thread")
    task_rows = options.pop("task_rows", None)
    loader = lk.DataLoader(
        data_source=options.pop("source", None) or WatchedSource(count),
        sampler=lk.IndexSampler(count, shuffle=True, seed=SEED, num_epochs=epochs),
        operations=operations,
        shard_options=shard or lk.NoSharding(),
        agree=False,
        **options,
    )
    return variant_of(loader, task_rows=task_rows)


# --- the naive twin: each logical stream by itself ------------------------------------------------------------------


def streams_of(operations: list[Any], count: int, epochs: int, streams: int, size: int) -> list[list[Any]]:
    sampler = lk.IndexSampler(count, shuffle=True, seed=SEED, num_epochs=epochs)
    q = size // streams
    return [
        [
            value
            for _, value in through(
                operations,
                (
                    ((i,), document(sampler[i].record_key))
                    for i in range(count * epochs)
                    if i // q % streams == stream
                ),
                SEED,
            )
        ]
        for stream in range(streams)
    ]


def padded_steps(streams: list[list[Any]], size: int) -> list[Any]:
    own = size // len(streams)
    some = next(row for rows in streams for row in rows)
    zeros = {**{name: np.zeros_like(leaf) for name, leaf in some.items()}, "valid": False}
    steps = -(-max(map(len, streams)) // own)
    return [
        stacked(
            [
                {**rows[place], "valid": True} if place < len(rows) else zeros
                for rows in streams
                for place in range(t * own, (t + 1) * own)
            ]
        )
        for t in range(steps)
    ]


@pytest.mark.parametrize("name", WINDOWED)
def test_every_step_restores_on_other_hosts(name):
    """Saved at every step on two hosts and restored on one, two or four, with and without workers: the same rest."""
    operations = [*WINDOWED[name], lk.Batch(global_batch_size=4, remainder="pad")]
    expected = padded_steps(streams_of(WINDOWED[name], 40, 1, 4, 4), 4)
    members = shards(2)

    def save(host: int) -> list[bytes]:
        with loader_of(operations, members[host], logical_streams=4) as loader, iter(loader) as it:
            return [it.get_state(), *(it.get_state() for _ in it)]

    states = list(zip(*together(save, 2), strict=True))
    for step in range(0, len(states), 3):
        hosts, workers = (1, 2, 4)[step % 3], step // 3 % 3

        def make(shard: lk.ShardOptions, step: int = step, workers: int = workers) -> Any:
            loader = loader_of(operations, shard, logical_streams=4, worker_count=workers)
            return Restored(loader, [*states[step]])

        assert_same(global_batches(make, hosts), expected[step:])


class Restored:
    """A loader of which each iterator begins at a state."""

    def __init__(self, loader: "lk.DataLoader", saved: Any) -> None:
        self.loader, self.saved = loader, saved

    def __enter__(self) -> "Restored":
        return self

    def __exit__(self, *error: object) -> None:
        self.loader.close()

    def __iter__(self) -> Any:
        it = iter(self.loader)
        it.set_state(self.saved)
        return it


@pytest.mark.parametrize("remainder", ["wrap", "drop"])
@pytest.mark.parametrize("name", WINDOWED)
def test_wrapped_and_dropped_ends_restore(name, remainder):
    """Streams that begin again until num_steps, or end in a dropped batch: any step restores with any workers, and two
    hosts give what one gives.
    """
    for steps in (None, 23 if remainder == "wrap" else 2):
        operations = [*WINDOWED[name], lk.Batch(global_batch_size=4, remainder=remainder)]
        streams = 1 if steps is None else 2
        options = {"count": 24, "num_steps": steps, "logical_streams": streams}
        with loader_of(operations, **options) as loader, iter(loader) as it:
            batches, states = [], [it.get_state()]
            for batch in it:
                batches.append(batch)
                states.append(it.get_state())
        assert len(batches) == steps or steps is None
        for step in range(0, len(states), 4):
            with loader_of(operations, **options, worker_count=step % 3, task_rows=step % 5 + 1) as loader:
                it = iter(loader)
                it.set_state(states[step])
                assert_same(take(it, None), batches[step:])
        if steps is not None:
            found = global_batches(lambda shard: loader_of(operations, shard, **options), 2)  # noqa: B023
            assert_same(found, batches)


# --- what is read, and what it costs ----------------------------------------------------------------------------


@pytest.mark.parametrize("before", [[], [lk.Filter(nonempty)]], ids=["read", "filtered"])
def test_a_resume_reads_at_most_one_window_again(before):
    """Records that were read before a state and are read behind it: at most a window's for each logical stream."""
    size, streams = 8, 2
    operations = [*before, lk.Pack(T, window=size), lk.Batch(global_batch_size=4, remainder="pad")]
    source = WatchedSource(120)
    options = {"count": 120, "source": source, "logical_streams": streams}
    sampler = lk.IndexSampler(120, shuffle=True, seed=SEED)
    with loader_of(operations, **options) as loader, iter(loader) as it:
        states = [it.get_state(), *(it.get_state() for _ in it)]
    for state in states[::3]:
        cursors = {int(stream): cursor for stream, cursor in json.loads(state)["cursors"].items()}
        source.read.clear()
        with loader_of(operations, **options) as loader:
            it = iter(loader)
            it.set_state(state)
            take(it, None)
        assert max(source.read.values(), default=1) == 1
        again = 0
        for stream, cursor in cursors.items():
            indices = [i for i in range(120) if i // 2 % streams == stream]
            assert not any(source.read[sampler[i].record_key] for i in indices if i < cursor[0])
            again += len([i for i in indices if i >= cursor[0]])
        assert sum(source.read.values()) == again


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("before", [[], [lk.Filter(nonempty)]], ids=["read", "filtered"])
def test_a_first_batch_reads_a_few_windows(before, workers):
    """Its window; with workers what `prefetch_batches` allows, about ten, and not as many as a batch has rows.

    Workers go on while the trainer waits for its processor: counted is what they may read however long that takes.
    """
    source = WatchedSource(100_000)
    operations = [*before, lk.Pack(T, window=1024), lk.Batch(64)]
    with loader_of(operations, count=100_000, source=source, worker_count=workers) as loader:
        next(iter(loader))
    assert sum(source.read.values()) <= 1024 * (2 if workers == 0 else 64 // 2)


def test_a_window_counts_once_in_a_steps_indices():
    """G and q are those of the same loader without it."""
    for operations in ([PACK], [lk.WindowShuffle(100), lk.Filter(nonempty), PACK]):
        it = iter(loader_of([*operations, lk.Batch(global_batch_size=8, remainder="pad")], logical_streams=2))
        saved = json.loads(it.get_state())
        assert (saved["global_batch"], saved["streams"]["q"]) == ({"N": 8, "G": 8}, 4)


def test_which_windows_are_made_while_reading():
    """Those that every record before reaches; not where streams begin again in the middle of one."""
    batch = lk.Batch(4, remainder="wrap")

    def found(*operations: Any, steps: int | None = None, **options: Any) -> bool:
        settings = settings_of(loader_of([*operations], **options))
        return reads_windows(shape_of(operations), settings.tolerance, steps)

    assert found(PACK, batch)
    assert found(lk.Map(dict), lk.RandomMap(drawn), PACK, batch, on_record_error="replace")
    assert not found(PACK, batch, on_record_error="skip")
    assert not found(PACK, batch, steps=3)
    assert not found(lk.Filter(nonempty), PACK)
    assert not found(lk.Batch(2), lk.WindowShuffle(3), batch)


# --- tokens -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["best_fit", "first_fit", "concat_then_split"])
@pytest.mark.parametrize("workers", [0, 2])
def test_every_token_is_in_one_row(how, workers):
    """Rows of any planner hold each token of each document once, side by side and in order in each piece."""
    with loader_of([lk.Pack(T, window=7, how=how), lk.Batch(4)], worker_count=workers) as loader:
        tokens = []
        for batch in loader:
            present = batch["tokens_segment_ids"] > 0
            assert not batch["tokens"][~present].any() and not batch["tokens_positions"][~present].any()
            tokens += batch["tokens"][present].tolist()
    assert sorted(tokens) == sorted(token for key in range(40) for token in document(key)["tokens"].tolist())


# --- what goes wrong --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [[], [lk.Filter(nonempty)]], ids=["read", "filtered"])
@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_names_the_records_of_its_window(before, workers):
    """Of this window and no other; the stream goes on behind the window."""

    def fail(documents: list[Any]) -> list[Any]:
        if any(20 * 16 <= one["tokens"].max() < 21 * 16 for one in documents if nonempty(one)):
            raise ZeroDivisionError("document 20")
        return documents

    operations = [*before, lk.Window(4, fail)]
    with loader_of(operations, worker_count=workers) as loader, iter(loader) as it:
        with pytest.raises(ZeroDivisionError) as caught:
            take(it, None)
        notes = "\n".join(caught.value.__notes__)
        assert f"operations[{len(before)}] Window(4, fail)" in notes
        sampler = settings_of(loader).sampler
        keys = [key for key in (sampler[i].record_key for i in range(40)) if not before or key % 9]
        place = keys.index(20) // 4 * 4
        assert all(str(key) in notes for key in keys[place : place + 4])
        it.set_state(it.state_past_error())
        rest = take(it, None)
        assert len(rest) == len(keys) - place - 4
        assert_same(rest[:1], [document(keys[place + 4])])


def test_a_replaced_record_is_in_the_state_of_its_window():
    """A bad record in the middle of a window is replaced, and a restore inside that window reads the same records."""

    class Bad(WatchedSource):
        def __getitem__(self, record_key: int) -> dict[str, np.ndarray]:
            if record_key in (3, 17):
                raise OSError("bad")
            return super().__getitem__(record_key)

    operations = [PACK, lk.Batch(1)]
    for policy in ("replace", "skip"):
        options = {"source": Bad(40), "on_record_error": policy, "max_bad_records": 5}
        with loader_of(operations, **options) as loader, iter(loader) as it:
            states, rows = [it.get_state()], []
            for row in it:
                rows.append(row)
                states.append(it.get_state())
        for step, state in enumerate(states):
            options["source"] = Bad(40)
            with loader_of(operations, **options, worker_count=step % 3) as loader:
                it = iter(loader)
                it.set_state(state)
                assert_same(take(it, None), rows[step:])


@pytest.mark.slow
def test_a_worker_killed_in_a_window(tmp_path):
    """Its window is made again, record by record and then as a whole: the stream is the same."""

    def kill_once(documents: list[Any]) -> list[Any]:
        if any(one["tokens"][:1] == 16 * 20 + 1 for one in documents if nonempty(one)):
            try:
                Path(tmp_path, "killed").touch(exist_ok=False)
            except FileExistsError:
                return documents
            os.kill(os.getpid(), signal.SIGKILL)
        return documents

    expected = take(iter(loader_of([lk.Window(4, list), PACK, lk.Batch(2)])), None)
    operations = [lk.Window(4, kill_once), PACK, lk.Batch(2)]
    with loader_of(operations, worker_count=2, worker_kind="process") as loader:
        assert_same(take(iter(loader), None), expected)
    assert Path(tmp_path, "killed").exists()


def test_windows_in_other_places_are_refused():
    """Behind the last Batch, or without a size."""
    with pytest.raises(
        ValueError, match=r"operations\[1\]: expected WindowShuffle\(4\) before the last Batch"
    ):
        loader_of([lk.Batch(4), lk.WindowShuffle(4)])

    class Sorted(lk.Window):
        def window(self, elements: list[Any]) -> list[Any]:
            return sorted(elements)

    with pytest.raises(ValueError, match=r"operations\[0\]: size: expected an int of 1 or more|size"):
        loader_of([Sorted()])


def test_another_window_is_another_stream():
    """A state doesn't restore where a Window has another size, or a Pack packs otherwise, and says both."""
    for saved, other in (
        (lk.Window(4, list), lk.Window(5, list)),
        (lk.WindowShuffle(4), lk.WindowShuffle(5)),
        (lk.WindowShuffle(4), lk.Window(4, list)),
        (PACK, lk.Pack(T, window=5)),
        (PACK, lk.Pack(T + 1, window=4)),
        (PACK, lk.Pack(T, window=4, how="first_fit")),
        (PACK, lk.Pack(T, window=4, long="drop")),
    ):
        state = iter(loader_of([saved, lk.Batch(2)])).get_state()
        with pytest.raises(lk.CheckpointMismatchError, match="operations: saved"):
            iter(loader_of([other, lk.Batch(2)])).set_state(state)


def test_other_leaves_are_the_same_stream():
    """Names, mask, targets and padding decide no row: a state restores, with a warning that says what differs."""
    bare = lk.Pack(T, window=5, how="first_fit")
    assert parameters_of([bare])[0]["parameters"].keys() == {"length", "size", "how", "feature", "long"}
    with loader_of([bare, lk.Batch(2)]) as loader, loader_of([ALL_LEAVES, lk.Batch(2)]) as other:
        it = iter(loader)
        take(it, 3)
        expected, state = take(it, 1)[0], it.get_state()
        with iter(other) as its:
            batch = take(its, 4)[3]
            assert (batch["inputs_segmentation"] == expected["tokens_segment_ids"]).all()
            with pytest.warns(UserWarning, match="names"):
                its.set_state(state)


# --- the checks ----------------------------------------------------------------------------------------------------


def test_the_checks_of_operations_and_pipelines_pass():
    """check_operation and check_pipeline take each kind of window."""
    documents = [document(key) for key in range(1, 6)]
    for operation in (lk.Window(3, reversed_list), lk.WindowShuffle(4), PACK):
        report = lk.testing.check_operation(operation, *documents, skip=["another process"])
        assert "input" in dict(report.passed)
    with loader_of([lk.WindowShuffle(4), PACK, lk.Batch(2)]) as loader:
        lk.testing.check_pipeline(loader)


def reversed_list(elements: list[Any]) -> list[Any]:
    return elements[::-1]
