"""Saved anywhere, restored anywhere: the rest of the stream is the same, and so is the state."""

import json
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from internals import variant_of
from pipelines import Pipeline, Running, Step, pipelines, runnings, some
from stream_twin import assert_same, outcomes

import loaderkit as lk

IN_A_PROCESS = pytest.param(Running(1, "process"), marks=pytest.mark.slow)

FIXED = Pipeline("arrays", 10, True, 2, (Step("draw", 3), Step("batch", 3)))
CHANGING = Pipeline(
    "arrays", 12, True, 2, (Step("fan", 2), Step("draw", 3), Step("filter", 1), Step("batch", 3))
)
FAILING = Pipeline("numbers", 25, True, 2, (Step("add", 2), Step("fail", 3), Step("batch", 4)))
ALL = {"fixed": FIXED, "changing": CHANGING, "failing": FAILING}


def save_everywhere(loader: "lk.DataLoader") -> list[bytes]:
    """The state before each element, and the one behind the last."""
    it = fresh(loader)
    states = [it.get_state()]
    while outcomes(it, 1)[0]:  # a failing pipeline's states count as any
        states.append(it.get_state())
    assert it.get_state() == states[-1]
    return states


def fresh(loader: "lk.DataLoader") -> "lk.DataLoaderIterator":
    loader._iterated = False  # or a shuffled single epoch would say, each time, that its order repeats
    return iter(loader)


def check_each(pipeline: Pipeline, states: list[bytes], running: Running) -> None:
    expected, failed = outcomes(pipeline.twin())
    assert len(states) == len(expected) + 1
    with running.loader(pipeline) as loader:
        for step, state in enumerate(states):
            it = fresh(loader)
            it.set_state(state)
            assert it.get_state() == state
            assert it.step == step
            found, error = outcomes(it)
            assert_same(found, expected[step:])
            assert error is failed
            assert it.get_state() == states[-1]


def train_until(it: "lk.DataLoaderIterator", step: int) -> None:
    with it:
        for _ in it:
            if it.step == step:
                raise KeyError(step)


@some
@given(pipelines(), runnings(), runnings())
def test_every_step_restores_everywhere(pipeline, saving, resuming):
    """Saved at every step and restored with other workers, prefetch and tasks: the identical rest."""
    with saving.loader(pipeline) as loader:
        states = save_everywhere(loader)
    check_each(pipeline, states, resuming)


@some
@given(pipelines(failing=False), runnings(), st.data())
def test_a_life_of_crashes(pipeline, running, data):
    """A run that is saved, killed and resumed again and again, each time run otherwise, gives one stream."""
    expected, failed = outcomes(pipeline.twin())
    found, error, state = [], None, None
    while len(found) < len(expected) or error is not failed:
        with running.loader(pipeline) as loader:
            it = iter(loader)
            if state is not None:
                it.set_state(state)
            some, error = outcomes(it, data.draw(st.integers(1, len(expected) + 1)))
            state = it.get_state()
        found += some
        running = data.draw(runnings())
    assert_same(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_states_depend_on_nothing_but_the_position(name):
    """Every way to run a stream writes the very same bytes at the same step."""
    documents = []
    for running in (
        Running(),
        Running(task_rows=1),
        Running(2, prefetch=5, task_rows=4),
        Running(2, "process"),
    ):
        with running.loader(ALL[name]) as loader:
            documents.append(save_everywhere(loader))
    assert documents[0] == documents[1] == documents[2] == documents[3]
    assert len(set(documents[0])) == len(documents[0])


@pytest.mark.parametrize("running", [Running(), Running(2), IN_A_PROCESS], ids=str)
@pytest.mark.parametrize("name", ALL)
def test_prefetch_and_peek_never_show_in_a_state(name, running):
    """What was made ahead, or looked at, is not yet handed out: the state doesn't know of it."""
    with running.loader(ALL[name]) as loader:
        it = iter(loader)
        before = it.get_state()
        it.start_prefetch()
        peeked = it.peek()
        assert (it.get_state(), it.step) == (before, 0)
        other = fresh(loader)
        other.set_state(it.get_state())
        assert_same([next(other), next(it)], [peeked, peeked])
        assert it.get_state() == other.get_state() != before


@pytest.mark.parametrize("running", [Running(), Running(2), IN_A_PROCESS], ids=str)
@pytest.mark.parametrize("name", ["fixed", "changing"])
def test_state_after_the_last(name, running):
    """At the end the state is the end: restored, nothing comes, and it stays the end however often one asks."""
    expected, _ = outcomes(ALL[name].twin())
    with running.loader(ALL[name]) as loader:
        it = iter(loader)
        assert len(list(it)) == len(expected)
        state = it.get_state()
        assert outcomes(it) == ([], None)
        assert it.get_state() == state
        again = fresh(loader)
        again.set_state(state)
        assert (again.step, again.index) == (it.step, it.index)
        assert outcomes(again) == outcomes(again) == ([], None)
        assert again.get_state() == state


@pytest.mark.parametrize("running", [Running(), Running(2), IN_A_PROCESS], ids=str)
@pytest.mark.parametrize("name", ALL)
def test_state_after_an_exception_in_the_loop(name, running):
    """The user's own exception leaves the position behind the element it was about, closed or not."""
    expected, _ = outcomes(ALL[name].twin())
    with running.loader(ALL[name]) as loader:
        it = iter(loader)
        with pytest.raises(KeyError):
            train_until(it, step=2)
        state = it.get_state()  # closed by the with statement
        assert (it.step, it.get_state()) == (2, state)
        rest = fresh(loader)
        rest.set_state(state)
        assert_same([next(rest)], [expected[2]])


def test_state_of_a_closed_loader():
    """A loader that was closed, and its iterator too, can still be saved."""
    loader = Running(2).loader(FIXED)
    it = iter(loader)
    next(it)
    state = it.get_state()
    loader.close()
    assert it.get_state() == state
    it.close()
    assert it.get_state() == state


@pytest.mark.parametrize("running", [Running(), Running(2)], ids=str)
@pytest.mark.parametrize("name", ALL)
def test_restoring_moves_an_iterator_that_runs(name, running):
    """set_state on an iterator in the middle of its stream, ahead and back, also after its end or an error."""
    expected, failed = outcomes(ALL[name].twin())
    with running.loader(ALL[name]) as loader:
        states = save_everywhere(loader)
        it = fresh(loader)
        for step in (3, 0, len(expected), 1, 1, len(expected) - 1, 2):
            it.set_state(states[step])
            found, error = outcomes(it, 2)
            assert_same(found, expected[step : step + 2])
            assert error is (failed if step + 2 > len(expected) else None)


def test_a_refused_state_changes_nothing():
    """After any refusal the iterator goes on as if nothing had been asked, a peeked element included."""
    expected, _ = outcomes(FIXED.twin())
    other = Running().loader(CHANGING)
    with Running(2).loader(FIXED) as loader:
        it = iter(loader)
        next(it)
        it.peek()
        before = it.get_state()
        for state, error in (
            (iter(other).get_state(), lk.CheckpointMismatchError),
            (b"{}", lk.errors.StateError),
        ):
            with pytest.raises(error):
                it.set_state(state)
            assert it.get_state() == before
        with pytest.raises(TypeError):
            it.set_state("text")
        assert_same(list(it), expected[1:])


def test_cursors_are_the_documented_ones():
    """FlatMap adds the next child's ordinal, a last child ends as its parent, a Batch as its last row."""
    sampler = lk.IndexSampler(4, num_epochs=1)

    def cursors(*operations: lk.transforms.Transformation) -> list[list[int]]:
        it = iter(lk.DataLoader(data_source=range(4), sampler=sampler, operations=operations))
        found = [json.loads(it.get_state())["cursors"]["0"]]
        while next(it, None) is not None:
            found.append(json.loads(it.get_state())["cursors"]["0"])
        return found

    twice, thrice = lk.FlatMap(lambda x: [x, x]), lk.FlatMap(lambda x: [x, x, x])
    assert cursors(lk.Filter(lambda x: x % 2)) == [[0], [2], [4]]
    assert cursors(twice)[:5] == [[0], [0, 1], [1], [1, 1], [2]]
    assert cursors(twice, thrice)[:8] == [
        [0],
        [0, 0, 1],
        [0, 0, 2],
        [0, 1],
        [0, 1, 1],
        [0, 1, 2],
        [1],
        [1, 0, 1],
    ]
    assert cursors(twice, lk.Batch(3)) == [[0], [1, 1], [3], [4]]
    assert cursors(lk.Filter(bool), lk.Batch(2), twice) == [[0], [1, 1], [3], [3, 1], [4]]


class Counted:
    """So many records that are their own keys, and how many were read; workers are threads of this process.

    enough: so many are read; the next one waits until `go_on` is set.
    """

    def __init__(self, length: int, enough: int) -> None:
        self.length, self.enough = length, enough
        self.reads = 0
        self.go_on = threading.Event()

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, key: int) -> np.int64:
        if self.reads >= self.enough and not self.go_on.wait(60):
            raise AssertionError(f"{self.enough} records were not enough")
        self.reads += 1
        return np.int64(key)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("times", [1, 2])
def test_what_inner_batches_multiply_is_not_read_before_the_first_batch(workers, times):
    """Batch(64) taken apart again, then Batch(16): a first batch reads 64 records and two tasks a worker, not 1,024.

    At the begin, and behind a restore.
    """
    source = Counted(100_000, enough=64 + 2 * workers * 8)
    loader = lk.DataLoader(
        data_source=source,
        sampler=lk.IndexSampler(len(source), num_epochs=None),
        operations=[
            *[lk.Batch(64, batch_fn=np.stack), lk.FlatMap(list)] * times,
            lk.Batch(16),
            lambda batch: source.go_on.set() or batch,
        ],
        worker_count=workers,
        worker_kind="thread",
    )
    loader = variant_of(loader, task_rows=8)
    saved = None
    with loader:
        for start in range(3):
            it = iter(loader)
            if saved is not None:
                it.set_state(saved)
            source.reads = 0
            source.go_on.clear()
            assert next(it).tolist() == list(range(start * 16, start * 16 + 16))
            saved = it.get_state()
            it.close()
