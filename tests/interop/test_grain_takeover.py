"""A run that was killed under Grain ends under loaderkit, and the other way round; states that can't be taken over."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import loaderkit.interop.grain as grain
from loaderkit.errors import CheckpointMismatchError, StateError

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def run(library: str, folder: Path, last_step: int, ending: str = "ends") -> tuple[int, list]:
    """A run in a session of its own: Grain's processes outlive a main process that is killed, and are ended here.

    They hold its standard output, which ends with the last of them: the one that frees the shared memory of the others,
    and doesn't end when it is asked to.
    """
    err = folder.with_suffix(".err")
    with err.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, str(HERE / "grain_run.py"), library, str(folder), str(last_step), ending],
            env={**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"},
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
        )
        try:
            code = process.wait(timeout=300)
            end(process.pid, signal.SIGTERM)
            out, _ = process.communicate(timeout=120)
        finally:
            end(process.pid, signal.SIGKILL)
            process.communicate()
    lines = [json.loads(line) for line in out.splitlines()]
    assert lines, err.read_text()
    return code, lines


def end(group: int, how: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, how)


@pytest.fixture(scope="module")
def killed(at_night, installed_grain, tmp_path_factory):
    """The whole run under Grain, and a folder of Orbax's that a run killed under Grain left.

    By day states that Grain wrote are read from files: tests/golden/grain.
    """
    folder = tmp_path_factory.mktemp("runs")
    code, whole = run("grain", folder / "whole", 20)
    assert (code, len(whole)) == (0, 20)
    code, before = run("grain", folder / "killed", 10, "killed")
    assert (code, before) == (-9, whole[:10])
    return folder / "killed", whole


@pytest.mark.slow
def test_a_run_killed_under_grain_ends_under_loaderkit(killed, tmp_path):
    """Killed at step 10, saved at 8 in a real Orbax directory: the batches that Grain alone would have given."""
    folder, whole = killed
    shutil.copytree(folder, tmp_path / "run")
    code, rest = run("loaderkit", tmp_path / "run", 20)
    assert (code, rest) == (0, whole[8:])


@pytest.mark.slow
def test_a_run_killed_under_loaderkit_ends_under_grain(killed, tmp_path):
    """And back: what we save, Grain restores."""
    folder, whole = killed
    shutil.copytree(folder, tmp_path / "run")
    assert run("loaderkit", tmp_path / "run", 14, "killed") == (-9, whole[8:14])
    assert run("grain", tmp_path / "run", 20) == (0, whole[12:])


# --- states that can't be taken over ---------------------------------------------------------------------------------


BATCHES = (grain.Batch(3),)


def loader(shard=(0, 1), records=10, operations=BATCHES, **how):
    sampler = grain.SequentialSampler(records, grain.ShardOptions(*shard))
    return grain.DataLoader(
        data_source=grain.RangeDataSource(0, records, 1), sampler=sampler, operations=operations, **how
    )


def state_of(**how) -> bytes:
    iterator = iter(loader(**how))
    next(iterator)
    return iterator.get_state()


def edited(**fields) -> bytes:
    return json.dumps(json.loads(state_of()) | fields).encode()


class Twice(grain.experimental.FlatMapTransform):
    max_fan_out = 2

    def flat_map(self, element):
        return [element, element]


@pytest.mark.parametrize(
    ("state", "error", "words"),
    [
        (b"{", json.JSONDecodeError, "Expecting"),
        (b"[]", StateError, r"^state: expected an object, got \[\]"),
        (
            b"{}",
            StateError,
            "one of Grain's DataLoader, got no field worker_count, last_seen_indices",
        ),
        (
            b'{"iterators_in_use_states": [{}, {}]}',
            CheckpointMismatchError,
            "expected a state without FlatMap, got one with",
        ),
        (edited(last_seen_indices={}), StateError, r"last_seen_indices\[0\]: expected an int, got None"),
        (b'{"format": "loaderkit"}', StateError, "lk.DataLoader"),
        (edited(version=1), StateError, "version: expected 2, got 1"),
        (edited(worker_count="2"), StateError, "worker_count: expected an int"),
        (edited(sampler="another"), CheckpointMismatchError, "Sampler in checkpoint"),
        (edited(data_source="another"), CheckpointMismatchError, "DataSource in checkpoint"),
        (
            edited(last_seen_indices={"0": 500}),
            IndexError,
            "expected 0 to 10 used records of layout worker 0, got 501",
        ),
        (edited(last_seen_indices={"0": -7}), IndexError, "expected 0 to 10 used"),
        (
            state_of(operations=(Twice(),)),
            CheckpointMismatchError,
            "expected a state without FlatMap, got one with",
        ),
        (b"\xff", StateError, "what is no text"),
        (None, TypeError, r"^state: expected the bytes of get_state\(\), got None"),
        (edited(worker_count=-1), StateError, "worker_count: expected 0 or more, got -1"),
        (edited(last_worker_index=-2), StateError, "last_worker_index: expected -1 or more, got -2"),
        (edited(last_seen_indices=None), StateError, "last_seen_indices: expected an object, got None"),
        (edited(last_seen_indices=[1]), StateError, "last_seen_indices: expected an object"),
    ],
)
def test_a_state_that_cant_be_taken_over_says_why(state, error, words):
    """By type and words, and the iterator stays where it was."""
    iterator = iter(loader())
    next(iterator)
    before = iterator.get_state()
    with pytest.raises(error, match=words):
        iterator.set_state(state)
    assert iterator.get_state() == before


STATES = "iterators_in_use_states"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({STATES: []}, rf"{STATES}: expected a list of a state for each worker, got \[\]"),
        ({STATES: 5}, f"{STATES}: expected a list of a state for each worker, got 5"),
        ({STATES: [5]}, rf"{STATES}\[0\]: expected an object, got 5"),
        ({STATES: [{"parent": 5, "next_index_in_buffer": 0}]}, rf"{STATES}\[0\].parent: expected an object"),
        (
            {STATES: [{"parent": {}, "next_index_in_buffer": 0}]},
            rf"{STATES}\[0\].parent.next_index: expected",
        ),
        ({STATES: [{"parent": {"next_index": 0}}]}, rf"{STATES}\[0\].next_index_in_buffer: expected an int"),
        ({STATES: [{}], "next_index_in_cycle": -1}, "next_index_in_cycle: expected 0 or more"),
        ({"parent": 5, "next_index_in_buffer": 0}, "^parent: expected an object, got 5"),
        (
            {"parent": {"next_index": 0}, "next_index_in_buffer": -1},
            "^next_index_in_buffer: expected 0 or more",
        ),
        ({"parent": {}, "last_seen_indices": None}, "got no field worker_count, last_worker_index"),
    ],
)
def test_a_malformed_state_of_flat_maps_says_why(fields, words):
    """Every field of it is a StateError that names it, and the iterator stays where it was."""
    iterator = iter(loader(operations=[Twice()]))
    next(iterator)
    before = iterator.get_state()
    with pytest.raises(StateError, match=words):
        iterator.set_state(json.dumps({"next_index_in_cycle": 0, **fields}).encode())
    assert iterator.get_state() == before


def test_a_state_of_another_shard_is_refused():
    """Grain would read on at a wrong place; the two shards' samplers differ by repr, the loader's own shards don't."""
    sampler = grain.SequentialSampler(10)
    arguments = {"data_source": grain.RangeDataSource(0, 10, 1), "sampler": sampler}
    first, second = (
        iter(grain.DataLoader(**arguments, shard_options=grain.ShardOptions(shard, 2))) for shard in (0, 1)
    )
    next(first)
    with pytest.raises(StateError, match="another shard"):
        second.set_state(first.get_state())


def test_a_layout_that_was_asked_for_isnt_given_up():
    """worker_layout=3 and a state of two workers: an error that says what to write."""
    state = iter(loader(worker_layout=2)).get_state()
    with pytest.raises(CheckpointMismatchError, match=r"worker_layout=2, or none"):
        iter(loader(worker_layout=3)).set_state(state)


def test_addresses_in_a_repr_dont_count():
    """A source without a __repr__ of its own can be restored, unlike in Grain."""

    class Source:
        def __len__(self):
            return 5

        def __getitem__(self, key):
            return key

    def fresh():
        return iter(grain.DataLoader(data_source=Source(), sampler=grain.SequentialSampler(5)))

    iterator, again = fresh(), fresh()
    next(iterator)
    again.set_state(iterator.get_state())
    assert list(again) == [1, 2, 3, 4]


def test_callables_run_in_order_and_their_places_are_saved():
    """Operations that take and give iterators of records, in any layout; what they hold back is lost on a restore."""

    def neighbours(records):
        for first in records:
            second = next(records, None)
            if second is not None:
                yield grain.Record(second.metadata, (first.data, second.data))

    run = iter(loader(operations=[neighbours], worker_layout=2))
    assert next(run) == (0, 2)
    state = run.get_state()
    assert list(run) == [(1, 3), (4, 6), (5, 7)]
    again = iter(loader(operations=[neighbours]))
    again.set_state(state)
    assert list(again) == [(1, 3), (4, 6), (5, 7)]


def test_a_list_in_shared_memory_outlives_the_workers():
    """Workers that opened it and ended leave it to the process that made it."""
    source = grain.InMemoryDataSource([5, 6, 7, 8])
    try:
        for _ in range(2):
            with_workers = grain.DataLoader(
                data_source=source,
                sampler=grain.SequentialSampler(4),
                operations=[grain.Batch(2)],
                worker_count=1,
            )
            assert [batch.tolist() for batch in with_workers] == [[5, 6], [7, 8]]
            with_workers.close()
    finally:
        source.close()
        source.unlink()


def test_what_is_no_operation_fails_when_iteration_starts():
    """As in Grain: the constructor takes it."""
    made = loader(operations=[5])
    with pytest.raises(TypeError, match="expected a transform"):
        iter(made)


def test_nothing_of_grain_is_imported():
    """The names are ours: a machine without Grain runs the script."""
    code = (
        "import sys, loaderkit.interop.grain as grain; list(grain.load([1, 2], num_epochs=1, batch_size=2)); "
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'grain', 'jax', 'orbax', 'absl', 'etils'}))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
