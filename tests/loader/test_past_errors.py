"""On behind an error: `state_past_error` leaves out what failed, says where that was, and passes nothing in silence."""

import os
import signal
import sys
import threading
from typing import Any

import numpy as np
import pytest
from internals import variant_of
from pipelines import Running

import loaderkit as lk

INLINE, THREADS, PROCESSES = Running(), Running(2, "thread"), Running(2, "process")
IN_PROCESSES = ("batches", "a batch of two streams")


def bad(key: int) -> Any:
    """Fails on one record, wherever it is."""

    def check(element: Any) -> Any:
        if np.any(np.asarray(element) == key):
            raise KeyError(key)
        return element

    return check


def no_twos(element: int) -> bool:
    return element != 2


def twice(element: int) -> list[int]:
    return [element, element]


# operations, options, what comes: elements, and where next() failed the index before and behind.
CASES: dict[str, tuple[list[Any], dict[str, Any], list[Any]]] = {
    "batches": ([bad(5), lk.Batch(3)], {}, [[0, 1, 2], "3 to 6", [6, 7, 8], [9, 10, 11]]),
    "a last batch": ([bad(11), lk.Batch(5)], {}, [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], "10 to 12"]),
    "elements": ([bad(5)], {}, [0, 1, 2, 3, 4, "5 to 6", 6, 7, 8, 9, 10, 11]),
    "a record before a Batch": (
        [lk.Filter(no_twos), bad(5), lk.Batch(3)],
        {},
        [[0, 1, 3], "4 to 6", [6, 7, 8], [9, 10, 11]],
    ),
    "a record without a Batch": (
        [lk.Filter(no_twos), bad(5)],
        {},
        [0, 1, 3, 4, "5 to 6", 6, 7, 8, 9, 10, 11],
    ),
    "a child": (
        [bad(-1), lk.FlatMap(twice), bad(5), lk.Batch(4)],
        {},
        [[0, 0, 1, 1], [2, 2, 3, 3], "4 to 6", [6, 6, 7, 7], [8, 8, 9, 9], [10, 10, 11, 11]],
    ),
    "a batch": (
        [lk.Filter(no_twos), lk.Batch(3), bad(5)],
        {},
        [[0, 1, 3], "4 to 7", [7, 8, 9], [10, 11]],
    ),
    "an inner batch": (
        [lk.Filter(no_twos), lk.Batch(2, remainder="drop"), bad(4), lk.Batch(2)],
        {},
        ["0 to 5", [[5, 6], [7, 8]], [[9, 10]]],
    ),
    "a record of one of two streams": (
        [lk.Filter(no_twos), bad(5), lk.Batch(4, remainder="pad")],
        {"logical_streams": 2, "count": 16},
        # Streams 0 1 4 5 8 9 12 13 and 2 3 6 7 10 11 14 15, of which 2 is dropped.
        [[0, 1, 3, 6], "2 to 6", [8, 9, 7, 10], [12, 13, 11, 14], [0, 0, 15, 0]],
    ),
    "a batch of two streams": (
        [lk.Filter(no_twos), lk.Batch(4, remainder="pad"), lambda padded: bad(5)(padded[0])],
        {"logical_streams": 2, "count": 16},
        [[0, 1, 3, 6], "2 to 6", [8, 9, 11, 14], [12, 13, 15, 0]],
    ),
}


def loader_of(operations: list[Any], running: Running, count: int = 12, **options: Any) -> "lk.DataLoader":
    return lk.DataLoader(
        data_source=range(count),
        sampler=lk.SequentialSampler(count, seed=0),
        operations=operations,
        worker_count=running.workers,
        worker_kind=running.kind,
        **options,
    )


def values_of(element: Any) -> Any:
    """Of an element or batch, as lists; without what says which rows of a padded one are valid."""
    return np.asarray(element[0] if isinstance(element, tuple) else element).tolist()


def runnings_of(name: str) -> list[Running]:
    """The ways to run a case."""
    return [INLINE, THREADS, *([PROCESSES] if name in IN_PROCESSES else [])]


@pytest.mark.parametrize(
    ("name", "running"),
    [
        pytest.param(name, r, marks=[pytest.mark.slow] * (r is PROCESSES))
        for name in CASES
        for r in runnings_of(name)
    ],
    ids=str,
)
def test_the_state_past_an_error_goes_on_right_behind_it(name, running):
    """In the same iterator; the error is raised again until then, and the failed step isn't counted."""
    operations, options, expected = CASES[name]
    got: list[Any] = []
    with loader_of(operations, running, **options) as loader:
        it = iter(loader)
        while True:
            try:
                got.append(values_of(next(it)))
            except StopIteration:
                break
            except KeyError:
                before, state = it.index, it.state_past_error()
                with pytest.raises(KeyError):  # asking for it moves nothing
                    next(it)
                it.set_state(state)
                got.append(f"{before} to {it.index}")
        assert got == expected
        assert it.step == len(expected) - 1


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in IN_PROCESSES)) for name in CASES]
)
def test_the_state_past_an_error_restores_elsewhere(name):
    """It is a state like any other, and the same for any workers; it can still be asked for after close()."""
    operations, options, expected = CASES[name]
    place = next(k for k, said in enumerate(expected) if isinstance(said, str))
    states = set()
    for running in runnings_of(name):
        with (
            loader_of(operations, running, **options) as loader,
            pytest.raises(KeyError),
            iter(loader) as it,
        ):
            for _ in it:
                pass
        states.add(it.state_past_error())
    (state,) = states
    other = iter(loader_of(operations, Running(), **options))
    other.set_state(state)
    assert [values_of(element) for element in other] == expected[place + 1 :]


def test_behind_a_last_batch_that_is_filled_up_from_the_start_the_stream_is_over():
    """Its failed record is one of the first: what is behind that there was handed out before."""
    it = iter(loader_of([lk.Filter(no_twos), bad(0), lk.Batch(4, remainder="wrap")], INLINE))
    for batches, place in (([], 1), ([[1, 3, 4, 5], [6, 7, 8, 9]], 12)):
        for batch in batches:
            assert next(it).tolist() == batch
        with pytest.raises(KeyError):
            next(it)
        it.set_state(it.state_past_error())
        assert it.index == place
    assert list(it) == []


def test_without_an_error_there_is_nothing_to_pass():
    """Before one, and once the position is another: ValueError."""
    it = iter(loader_of([bad(5), lk.Batch(3)], INLINE))

    def refused() -> None:
        with pytest.raises(ValueError, match="hasn't failed here"):
            it.state_past_error()

    refused()
    next(it)
    refused()
    with pytest.raises(KeyError):
        next(it)
    it.state_past_error()
    it.seek(0)
    refused()


class Short:
    """Gives a record too few for every batched read."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, key: int) -> int:
        return key

    def __getitems__(self, keys: list[int]) -> list[int]:
        return keys[:-1]


def test_an_error_that_names_no_single_record_is_not_passed():
    """Which record is missing isn't known, so neither is what is behind it."""
    loader = lk.DataLoader(
        data_source=Short(), sampler=lk.SequentialSampler(12), operations=[lk.Filter(no_twos), lk.Batch(3)]
    )
    it = iter(loader)
    with pytest.raises(ValueError, match="records"):
        next(it)
    with pytest.raises(ValueError, match="names no single record"):
        it.state_past_error()


@pytest.mark.parametrize(
    ("operations", "rows"),
    [([lk.Batch(2)], 6), ([lk.Batch(2)], 4), ([lk.Batch(1)], 2), ([], 2)],
    ids=["three steps", "two steps", "two steps of a record", "two elements"],
)
def test_where_one_step_of_several_failed_and_nobody_knows_which_none_is_left_out(operations, rows):
    """All of them were made at once: to leave the first out would lose it, and meet the same error again."""
    loader = lk.DataLoader(data_source=Short(), sampler=lk.SequentialSampler(12), operations=operations)
    it = iter(variant_of(loader, task_rows=rows))
    with pytest.raises(ValueError, match=f"gave {rows - 1} records for {rows} keys"):
        next(it)
    with pytest.raises(ValueError, match="names no single record"):
        it.state_past_error()


# --- what no single record's operation raised --------------------------------------------------------------------


def deadly(key: int) -> Any:
    """Kills the process that comes to one record; where that is the trainer's, ends the thread."""

    def check(element: Any) -> Any:
        if np.any(np.asarray(element) == key):
            if threading.current_thread() is threading.main_thread():
                os.kill(os.getpid(), signal.SIGSEGV)
            sys.exit(3)
        return element

    return check


# restarts, operations, what comes: where no restart is allowed the task's records are all that is known.
LOST: dict[str, tuple[int, list[Any], list[Any]]] = {
    "a step": (1, [deadly(5), lk.Batch(3)], [[0, 1, 2], "3 to 6", [6, 7, 8], [9, 10, 11]]),
    "a record": (1, [lk.Filter(no_twos), deadly(5)], [0, 1, 3, 4, "5 to 6", 6, 7, 8, 9, 10, 11]),
    "a batch": (1, [lk.Filter(no_twos), lk.Batch(3), deadly(5)], [[0, 1, 3], "4 to 7", [7, 8, 9], [10, 11]]),
    "a task": (0, [lk.Filter(no_twos), deadly(5)], [0, 1, 3, "4 to 8", 8, 9, 10, 11]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LOST)
def test_a_record_that_keeps_killing_workers_is_passed(name, nightly):
    """Past it is where its user wants to be: behind the record, or all records of the task where no more is known."""
    if not nightly and name not in ("a record", "a task"):
        pytest.skip("runs at night")
    restarts, operations, expected = LOST[name]
    got: list[Any] = []
    loader = loader_of(operations, Running(1, "process"), max_worker_restarts=restarts)
    with variant_of(loader, task_rows=4) as loader:
        it = iter(loader)
        while True:
            try:
                got.append(values_of(next(it)))
            except StopIteration:
                break
            except lk.WorkerError:
                before = it.index
                it.set_state(it.state_past_error())
                got.append(f"{before} to {it.index}")
    assert got == expected


def test_a_record_that_would_end_a_thread_is_passed():
    """sys.exit in an operation is an error there, and names the record."""
    with loader_of([lk.Filter(no_twos), deadly(5)], Running(1, "thread")) as loader:
        it = iter(loader)
        assert [next(it) for _ in range(4)] == [0, 1, 3, 4]
        with pytest.raises(lk.WorkerError, match="SystemExit"):
            next(it)
        it.set_state(it.state_past_error())
        assert list(it) == [*range(6, 12)]


@pytest.mark.slow
@pytest.mark.parametrize("operations", [(), (lk.Filter(no_twos),)], ids=["plain", "row-changing"])
def test_where_no_worker_can_be_started_nothing_is_passed(operations, monkeypatch):
    """No record is to blame, and none would be read behind it either."""
    monkeypatch.setattr("loaderkit._engine.supervisor._FAILED_STARTS", 0)
    with loader_of([*operations, Unborn()], Running(1, "process")) as loader:
        it = iter(loader)
        with pytest.raises(lk.WorkerError, match="died before they were ready"):
            next(it)
        with pytest.raises(ValueError, match="names no single record"):
            it.state_past_error()


class Unborn(lk.Map):
    """Ends the process in which it is unpickled."""

    def __setstate__(self, state: Any) -> None:
        os._exit(3)

    def __getstate__(self) -> Any:
        return {"nothing": 0}

    def map(self, element: Any) -> Any:
        return element
