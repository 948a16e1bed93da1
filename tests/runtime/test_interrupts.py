"""Ctrl-C at any line: what the user gets afterwards is what comes behind the last element that was handed out."""

import gc
from typing import Any

import pytest
from internals import executor_of, variant_of
from interrupts import interrupted, next_interrupted
from runtime_loaders import all_same, numbers, row, until

import loaderkit as lk

PIPELINES = {
    "batches": (row, lk.Batch(4)),
    "elements": (row,),
    "survivors": (lk.Filter(lambda x: x % 3), row, lk.Batch(4)),
}


@pytest.mark.slow
@pytest.mark.parametrize("task_rows", [2, None], ids=["made then", "made before"])
@pytest.mark.parametrize("name", PIPELINES)
def test_an_interrupt_at_any_line_loses_nothing_in_process(name, task_rows, nightly):
    """Without workers: interrupted at each line in turn, the rest is exact, and another iterator goes on too.

    By day at every third line, another one of three for each pipeline.
    """
    operations = PIPELINES[name]
    expected = list(numbers(60, *operations))
    line = 0 if nightly else -len(name) % 3
    while True:
        line += 1 if nightly else 3
        with variant_of(numbers(60, *operations), task_rows=task_rows) as loader:
            it, other = iter(loader), iter(loader)
            given = [next(it), next(it)]
            beside = [next(other)]
            if not next_interrupted(it, line):
                break
            assert it.step in (2, 3)
            assert all_same([*given, *expected[2 : it.step], *it], expected), f"line {line}"
            assert all_same([*beside, *other], expected), f"line {line}"
    assert line > (60 if task_rows else 10)  # else hardly anything was interrupted


@pytest.mark.slow
@pytest.mark.parametrize("name", PIPELINES)
def test_an_interrupt_at_any_line_loses_nothing_with_workers(name, nightly):
    """With workers, at lines some way apart: they find the engine whole or not at all."""
    operations = PIPELINES[name]
    expected = list(numbers(60, *operations))
    interrupted = 0
    for line in range(1, 400, 1 if nightly else 29):
        with numbers(60, *operations, worker_count=2, worker_kind="thread", task_rows=2) as loader:
            it = iter(loader)
            given = [next(it), next(it)]
            interrupted += next_interrupted(it, line)
            assert all_same([*given, *expected[2 : it.step], *it], expected), f"line {line}"
    assert interrupted > 3


@pytest.mark.slow
def test_rows_that_a_batch_fn_wrote_to_are_made_anew(tmp_path):
    """A batch_fn that writes into its rows and takes its worker down: the second time it gets the rows as made."""
    import os

    import numpy as np

    def double(rows: list[Any]) -> Any:
        for one in rows:
            one *= 2
        if rows[0][0] == 0 and not (tmp_path / "died").exists():
            (tmp_path / "died").touch()
            os._exit(9)
        return np.stack(rows)

    def wide(x: int) -> Any:
        return np.full(1000, float(x))

    for operations in ([wide], [wide, lk.Filter(lambda _: True)]):
        (tmp_path / "died").unlink(missing_ok=True)
        with numbers(8, *operations, lk.Batch(4, batch_fn=double), worker_count=2, task_rows=2) as loader:
            assert [batch[:, 0].tolist() for batch in loader] == [[0, 2, 4, 6], [8, 10, 12, 14]]
        assert (tmp_path / "died").exists()


class Scaled(lk.Map):
    def __init__(self) -> None:
        self.factor = 1

    def map(self, element):
        return element * self.factor


@pytest.mark.slow
@pytest.mark.parametrize(("count", "kind"), [(0, "process"), (1, "process"), (1, "thread")])
def test_an_operation_changed_between_epochs_counts_from_the_next_iterator_on(count, kind):
    """What a curriculum does between epochs is seen by every kind of worker."""
    scaled = Scaled()
    with numbers(4, scaled, lk.Batch(4), worker_count=count, worker_kind=kind) as loader:
        first = next(iter(loader.epoch(0)))
        scaled.factor = 10
        assert next(iter(loader.epoch(1))).tolist() == (10 * first).tolist()


@pytest.mark.parametrize("how", [{"worker_count": 0}, {"worker_count": 1, "worker_kind": "thread"}])
def test_an_endless_stream_that_nothing_survives_is_an_error(how):
    """It would be waited for without end."""
    nothing = lk.Filter(lambda _: False)
    with (
        lk.load([1, 2, 3], operations=[nothing], batch_size=2, **how) as loader,
        pytest.raises(ValueError, match="records in a row gave no element"),
    ):
        next(iter(loader))


def test_a_closed_loader_says_so_although_an_interrupt_poisoned_its_executor():
    """Ctrl-C in a batch_fn leaves the executor unusable; after close() no other one is made."""
    calls = []

    def interrupting(rows: list[Any]) -> list[Any]:
        calls.append(len(rows))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return rows

    loader = numbers(64, lk.Batch(4), lk.Filter(lambda batch: True), lk.Batch(2, batch_fn=interrupting))
    it = iter(loader)
    with pytest.raises(KeyboardInterrupt):
        list(it)
    loader.close()
    with pytest.raises(lk.errors.IteratorClosedError, match="the loader was closed"):
        next(it)


@pytest.mark.slow
def test_an_interrupted_opening_leaves_no_stream_open():
    """Wherever it falls: what it began is closed, or its executor isn't used again."""
    line = 0
    while True:
        line += 31  # some of the lines of opening a stream and of all that it calls
        with numbers(64, lk.Batch(4), worker_count=1, worker_kind="thread") as loader:
            it, other = iter(loader), iter(loader)
            next(it)
            pool: Any = executor_of(loader)
            came = interrupted(other.start_prefetch, line, inside="open")
            del other
            gc.collect()
            if not pool.poisoned:
                until(lambda pool=pool: len(pool._streams) == 1, f"line {line} leaves a stream open")
            if not came:
                break
    assert line > 15
