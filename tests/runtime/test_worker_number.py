"""Workers come and go while a stream is read: no element depends on their number, and all that were there are gone."""

import logging
import os
import random
import re
import signal

import numpy as np
import pytest
from internals import executor_of, worker_pids
from runtime_loaders import all_same, numbers, row, until

import loaderkit as lk
from loaderkit._base.system.resources import available_cpus
from loaderkit._engine.supervisor import DISMISSED, RETIRING

COUNT = 600
GOING = {RETIRING, DISMISSED}


def jitter(x, rng):
    return {**x, "drawn": rng.random()}


def long_record(x):
    """One of forty takes a hundred times as long: tasks are of many lengths when workers are told to go."""
    return row(x), np.linalg.norm(np.arange(100_000 if x % 40 == 0 else 1_000))


PIPELINES = {
    "batches": [row, lk.RandomMap(jitter), lk.Batch(8)],
    "stream": [
        row,
        lk.Filter(lambda x: x["key"] % 3 > 0),
        lk.FlatMap(lambda x: [x] * (x["key"] % 4)),
        lk.Batch(5),
    ],
    "objects": [long_record],
}


@pytest.mark.parametrize("kind", ["process", "thread"])
@pytest.mark.parametrize("name", PIPELINES)
def test_one_stream_while_workers_come_and_go(kind, name, nightly):
    """Told at drawn steps, several times before the last ones have gone; processes are also killed meanwhile."""
    if kind == "process" and name != "stream" and not nightly:
        pytest.skip("runs at night; by day one pipeline has processes")
    draws = random.Random(name + kind)
    options = {"sampler": lk.IndexSampler(COUNT, shuffle=True, num_epochs=1, seed=3)}
    expected = list(numbers(COUNT, *PIPELINES[name], **options))
    got, wanted = [], set()
    with numbers(COUNT, *PIPELINES[name], worker_count=2, worker_kind=kind, **options) as loader:
        it = iter(loader)
        for element in it:
            got.append(element)
            if draws.random() < 0.08:
                wanted.add(count := draws.randint(1, 4))
                executor_of(loader).resize(count)
            if kind == "process" and draws.random() < 0.01:
                os.kill(draws.choice(worker_pids(loader)), signal.SIGKILL)
        stats = it.stats()
    assert all_same(got, expected)
    assert len(wanted) > 1
    assert stats.pool.all.records >= COUNT


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_there_are_as_many_workers_as_there_should_be(kind):
    """Those that are too many end, what they did stays counted, and no loss is counted."""
    with lk.load(range(10**9), operations=[row], batch_size=4, worker_count=3, worker_kind=kind) as loader:
        it = iter(loader)
        records = 0
        for count in (3, 1, 4, 2):
            executor_of(loader).resize(count)

            def present():
                next(it)
                return len(it.stats().pool.workers)

            until(lambda count=count: present() == count and it.stats().workers == count, f"{count} workers")
            if kind == "process":
                until(
                    lambda count=count: next(it) and len(worker_pids(loader)) == count, f"{count} processes"
                )
            assert it.stats().pool.all.records >= records
            records = it.stats().pool.all.records
        assert it.stats().pool.lost == 0


def test_a_worker_that_retires_is_replaced_in_its_task_if_it_dies():
    """It is stopped at a task while it retires, and killed: others do the task, in the same slots."""

    def slow(x):
        return row(x)

    expected = list(numbers(200, slow, lk.Batch(4)))
    with numbers(200, slow, lk.Batch(4), worker_count=3, task_rows=4) as loader:
        it = iter(loader)
        got = [next(it)]
        supervisor = executor_of(loader)._supervisor
        until(lambda: supervisor.missing == 0, "three workers that are ready")
        workers = [supervisor.worker(number).process.pid for number in (1, 2)]  # the newest
        for pid in workers:
            os.kill(pid, signal.SIGSTOP)
        executor_of(loader).resize(1)
        until(lambda: {supervisor.state(number) for number in (1, 2)} <= GOING, "workers that retire")
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
        got += list(it)
    assert all_same(got, expected)


def test_a_loader_chooses_its_number_of_workers(caplog, monkeypatch):
    """It begins with two, takes more while they help, and says so; without steps, or after the end, nothing changes."""
    monkeypatch.setattr("loaderkit._loader.user_arguments.available_cpus", lambda: 6)

    def wait(x):
        signal.sigtimedwait((), 0.004)
        return row(x)

    caplog.set_level(logging.INFO, "loaderkit")
    with lk.load(range(10**9), operations=[wait], batch_size=4, worker_count="auto") as loader:
        assert "1 to 6 processes" in str(loader.describe()) and "worker_count='auto'" in repr(loader)
        it = iter(loader)
        next(it)
        assert it.stats().workers == 2
        until(lambda: next(it) and it.stats().workers > 2, "a third worker")
        said = [record.getMessage() for record in caplog.records if "auto" in record.getMessage()]
    assert re.match(r"worker_count='auto': [34] instead of 2, as next\(\) was blocked for ", said[0])


def test_a_chosen_number_is_one_at_least_and_the_processors_at_most(monkeypatch):
    with lk.load([1, 2, 3], num_epochs=1, worker_count="auto", worker_kind="thread") as loader:
        assert list(loader) == [1, 2, 3]
        assert loader.stats().workers == min(2, available_cpus())
    monkeypatch.setattr("loaderkit._loader.user_arguments.available_cpus", lambda: 1)
    with lk.load([1, 2, 3], num_epochs=1, worker_count="auto", worker_kind="thread") as loader:
        assert list(loader) == [1, 2, 3]
        assert loader.stats().workers == 1
    with pytest.raises(ValueError, match="worker_count: expected a number, None or \"auto\", got 'many'"):
        lk.load([1], worker_count="many")
