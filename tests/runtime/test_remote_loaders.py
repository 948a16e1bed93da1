"""Loaders with workers on other machines, too: one stream, whichever come and go. The other hosts are this one."""

import os
import signal
import subprocess
from collections.abc import Iterator
from itertools import count
from operator import ne
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from internals import executor_of, forget_executor, worker_pids
from plain_fleet import PlainWorkers
from runtime_loaders import row, same, until

import loaderkit as lk
from loaderkit._runtime.executors.worker_pool import WorkerPool
from loaderkit.errors import RemoteWorkerError

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def driver_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the fleet's process."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), str(HERE.parents[1])]))


class Draw(lk.RandomMap):
    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        return {**element, "noise": rng.random(3)}


def fewer(element: Any) -> bool:
    return bool(element["key"] % 5)


def twice(element: Any) -> list[Any]:
    return [element, {**element, "key": -element["key"]}]


PIPELINES: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "rows": ((row, Draw(), lk.Batch(16)), {"verify": True}),
    "elements": ((row, lk.Filter(fewer), lk.FlatMap(twice), Draw(), lk.Batch(16)), {}),
    "columns": ((lk.Batch(64),), {}),
}


def loader_of(kind: str, workers: int, remote: PlainWorkers | None = None) -> Any:
    operations, options = PIPELINES[kind]
    source: Any = lk.RangeDataSource(0, 5000, 1)
    if kind == "columns":
        source = lk.ArrayDataSource({"x": np.arange(20_000.0).reshape(-1, 4), "key": np.arange(5000)})
    return lk.DataLoader(
        data_source=source,
        sampler=lk.IndexSampler(5000, shuffle=True, seed=3, num_epochs=None),
        operations=operations,
        worker_count=workers,
        remote_workers=remote,
        **options,
    )


class Twins:
    """A loader's iterator beside one without workers, from a state on."""

    def __init__(self, loader: Any, alone: Any, state: bytes | None = None) -> None:
        self.its: list[Any] = [iter(loader), iter(alone)]
        if state is not None:
            for it in self.its:
                it.set_state(state)
        self.step()
        self.pool = executor_of(loader)
        assert isinstance(self.pool, WorkerPool) and self.pool.crew is not None
        self.crew = self.pool.crew

    def step(self) -> None:
        one, other = map(next, self.its)
        assert same(one, other)

    def steps_until(self, condition: Any, what: str) -> None:
        def stepped() -> bool:
            self.step()
            return bool(condition())

        until(stepped, what)

    @property
    def remote_tasks(self) -> int:
        return sum(worker.tasks for worker in self.its[0].stats().pool.workers if worker.kind == "remote")

    @property
    def fleet(self) -> int:
        """The pid of the process that has the keepers."""
        child = self.crew.recruiter._fleet._child  # type: ignore[union-attr]
        assert child is not None
        return child.process.pid


def children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


@pytest.fixture(params=[*PIPELINES])
def kind(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param != "rows":
        request.getfixturevalue("at_night")
    return request.param


def test_workers_that_come_and_are_killed_change_no_byte(kind: str, nightly: bool) -> None:
    """Keepers, their workers and ours are killed in the middle of tasks, and restored with other numbers of both."""
    with loader_of(kind, 1, PlainWorkers(3)) as loader, loader_of(kind, 0) as alone:
        twins = Twins(loader, alone)
        twins.steps_until(lambda: len(twins.crew.workers) == 3 and twins.remote_tasks > 9, "three workers")
        for victims in (lambda: children(twins.fleet)[:1], lambda: worker_pids(loader)):
            before = twins.pool.state.lost
            for pid in victims():
                os.kill(pid, signal.SIGKILL)
            twins.steps_until(lambda before=before: twins.pool.state.lost > before, "a loss")
        if not nightly:
            return
        twins.steps_until(lambda: len(twins.crew.workers) == 3, "three workers again")
        for keeper in children(twins.fleet):
            os.kill(children(keeper)[0], signal.SIGKILL)  # a worker of it
        twins.steps_until(lambda: len(twins.crew.workers) < 3, "a loss")
        state = twins.its[0].get_state()
    with loader_of(kind, 2, PlainWorkers(1)) as loader, loader_of(kind, 0) as alone:
        twins = Twins(loader, alone, state)
        twins.steps_until(lambda: twins.remote_tasks > 3, "another worker")


@pytest.mark.usefixtures("at_night")
@pytest.mark.parametrize("who", ["keeper", "worker"])
def test_a_worker_that_stands_still_loses_its_tasks(who: str) -> None:
    """Stopped, it is neither dead nor done: its tasks are done here, and it gets no more of them."""
    with loader_of("rows", 1, PlainWorkers(2, per_host=1)) as loader, loader_of("rows", 0) as alone:
        twins = Twins(loader, alone)
        twins.steps_until(lambda: len(twins.crew.workers) == 2 and twins.remote_tasks > 9, "two workers")
        keeper = children(twins.fleet)[0]
        stopped = keeper if who == "keeper" else children(keeper)[0]
        os.kill(stopped, signal.SIGSTOP)
        try:
            one = twins.crew
            twins.steps_until(
                lambda: any(not worker.tasks_ahead() for worker in one.workers.values()), "a late task"
            )
            for _ in range(500):
                twins.step()
        finally:
            os.kill(stopped, signal.SIGCONT)
        twins.steps_until(
            lambda: len(one.workers) == 2 and all(worker.tasks_ahead() for worker in one.workers.values()),
            "both again",
        )


@pytest.mark.usefixtures("at_night")
def test_a_trainer_that_sleeps_goes_on_where_it_was() -> None:
    """Its hosts have given it up meanwhile, and come again."""
    with loader_of("rows", 1, PlainWorkers(2)) as loader, loader_of("rows", 0) as alone:
        twins = Twins(loader, alone)
        twins.steps_until(lambda: len(twins.crew.workers) == 2, "two workers")
        lost, pid = twins.pool.state.lost, os.getpid()
        subprocess.run(["sh", "-c", f"(kill -STOP {pid}; sleep 13; kill -CONT {pid}) &"], check=True)
        twins.steps_until(lambda: twins.pool.state.lost == lost + 2, "their loss")
        twins.steps_until(lambda: len(twins.crew.workers) == 2, "both again")


@pytest.mark.usefixtures("at_night")
def test_workers_elsewhere_outlive_a_pool() -> None:
    """Its next pool has them, as one that is asked for while the first one runs."""
    with loader_of("rows", 1, PlainWorkers(1)) as loader, loader_of("rows", 0) as alone:
        for _ in range(2):
            twins = Twins(loader, alone)
            twins.steps_until(lambda: twins.remote_tasks > 3, "a worker")  # noqa: B023
            fleet = twins.fleet
            executor_of(loader).poisoned = True  # as an interrupt leaves it
            twins.its[0].close()
        assert twins.fleet == fleet


@pytest.mark.usefixtures("at_night")
def test_the_latest_pool_of_a_loader_has_the_workers() -> None:
    """The one before goes on with its own."""
    with loader_of("rows", 1, PlainWorkers(2)) as loader, loader_of("rows", 0) as alone:
        before = Twins(loader, alone)
        before.steps_until(lambda: len(before.crew.workers) == 2, "two workers")
        forget_executor(loader)
        latest = Twins(loader, alone)
        latest.steps_until(lambda: len(latest.crew.workers) == 2, "the same two")
        assert before.pool is not latest.pool and not before.crew.workers and before.pool.state.lost == 0
        before.step()


@pytest.mark.usefixtures("at_night")
def test_there_are_as_many_workers_elsewhere_as_there_should_be(caplog: pytest.LogCaptureFixture) -> None:
    """Those that are too many go without a word, and what they had is done; here there is one at least."""
    with loader_of("rows", 1, PlainWorkers(3, per_host=1)) as loader, loader_of("rows", 0) as alone:
        twins = Twins(loader, alone)
        for wanted in (4, 1, 3):
            executor_of(loader).resize(wanted)
            twins.steps_until(
                lambda wanted=wanted: len(twins.crew.workers) == wanted - 1, f"{wanted} workers"
            )
            assert twins.its[0].stats().pool.wanted == wanted
        assert twins.pool.state.lost == 0 and "died" not in caplog.text


class Fickle(lk.RangeDataSource):
    """Says in each process that it is another one."""

    def fingerprint(self) -> Any:
        return {"pid": os.getpid()}


@pytest.mark.usefixtures("at_night")
def test_where_no_host_can_do_the_work_the_error_says_why() -> None:
    """Instead of a run that would never get what was asked for."""
    loader = lk.load(Fickle(0, 10**6, 1), worker_count=1, remote_workers=PlainWorkers(2))
    with loader, pytest.raises(RemoteWorkerError, match="it finds other data, by the fingerprint"):
        all(map(ne, loader, count(1)))


def test_workers_here_are_needed_beside_those_elsewhere() -> None:
    """The line to write is in the error."""
    for options in ({"worker_count": 0}, {"worker_count": 2, "worker_kind": "thread"}):
        with pytest.raises(ValueError, match=r"write worker_kind='process', worker_count=[12]"):
            lk.load([1, 2], remote_workers=PlainWorkers(2), **options)
    with pytest.raises(TypeError, match=r"remote_workers: expected lk\.interop\.ray\.Workers"):
        lk.load([1, 2], worker_count=1, remote_workers=4)  # type: ignore[arg-type]
