"""Iterators and threads: several iterators, several threads, pools that rest, and loaders that are closed."""

import gc
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from internals import executor_of, worker_pids
from runtime_loaders import Trap, all_same, numbers, row

import loaderkit as lk
import loaderkit._runtime.executors.pump as pump_module

KINDS = ["process", "thread"]


def in_thread(function: Any) -> Any:
    """Runs it in a thread that ends."""
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(function).result()


@pytest.mark.parametrize("kind", KINDS)
def test_two_iterators_share_the_workers(kind):
    """Each gives the whole stream, whatever the other does, and no further workers are started."""
    expected = list(numbers(80, row, lk.Batch(8)))
    with numbers(80, row, lk.Batch(8), worker_count=2, worker_kind=kind) as loader:
        one, other = iter(loader), iter(loader)
        given: list[list[Any]] = [[], []]
        for k in range(20):  # in turns of unequal length
            which = (k // 3) % 2
            taken = next((one, other)[which], None)
            if taken is not None:
                given[which].append(taken)
        given[0] += one
        given[1] += other
        assert all_same(given[0], expected) and all_same(given[1], expected)
        assert len(executor_of(loader)._supervisor.workers) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_loader_first_iterated_in_a_thread_that_ends_goes_on(kind):
    """The kernel ties a worker's life to the thread that started it: that must be no thread of the user's."""
    with numbers(400, row, lk.Batch(4), worker_count=2, worker_kind=kind, prefetch_batches=1) as loader:
        it = iter(loader)
        first = in_thread(lambda: [next(it) for _ in range(3)])
        before = worker_pids(loader) if kind == "process" else []
        assert all_same([*first, *it], list(numbers(400, row, lk.Batch(4))))
        if kind == "process":
            assert worker_pids(loader) == before


@pytest.mark.parametrize("kind", KINDS)
def test_threads_that_share_an_iterator_get_disjoint_elements(kind):
    """Every element once, and a position that counts them all."""
    with numbers(600, lambda x: x, worker_count=2, worker_kind=kind) as loader:
        it = iter(loader)
        begin = threading.Barrier(4)

        def take() -> list[int]:
            begin.wait()
            return list(it)

        with ThreadPoolExecutor(4) as executor:
            shares = [future.result() for future in [executor.submit(take) for _ in range(4)]]
        assert sorted(x for share in shares for x in share) == [*range(600)]
        assert all(share == sorted(share) for share in shares)
        assert it.step == 600


@pytest.mark.parametrize("what", ["iterator", "loader"])
def test_closing_ends_the_wait_of_another_thread(tmp_path, what):
    """next() raises there instead of waiting for ever."""
    trap = Trap(tmp_path, at=0)
    loader = numbers(10, trap, worker_count=1)
    it = iter(loader)
    with ThreadPoolExecutor(1) as executor:
        waiting = executor.submit(next, it)
        trap.caught()
        (it if what == "iterator" else loader).close()
        with pytest.raises(lk.errors.IteratorClosedError):
            waiting.result()
        loader.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "last"), [("process", "closed"), ("thread", "closed"), ("thread", "thrown away")]
)
def test_workers_without_work_end_after_a_while_and_come_back(kind, last, monkeypatch):
    """After the idle time the pump and its workers are gone; the next iterator starts them again."""
    monkeypatch.setattr(pump_module, "IDLE_SECONDS", 0.05)
    expected = list(numbers(80, row, lk.Batch(8)))
    loader = numbers(80, row, lk.Batch(8), worker_count=1, worker_kind=kind)
    for _ in range(2):
        it = iter(loader)
        assert all_same(list(it), expected)
        pump = executor_of(loader).state.thread
        if last == "closed":
            it.close()
        del it
        gc.collect()
        pump.join(timeout=10)
        assert not pump.is_alive()
        assert executor_of(loader)._supervisor.workers == {}
    loader.close()


def ours() -> list[str]:
    """What this process has of loaderkit's: threads, children, descriptors, mappings."""
    threads = [thread.name for thread in threading.enumerate() if thread.name.startswith("loaderkit")]
    children = [f"child {child.pid}" for child in psutil.Process().children()]
    links = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _is_open(fd)]
    files = [link for link in links if "loaderkit" in link or "socket" in link or "pidfd" in link]
    mappings = [line for line in Path("/proc/self/maps").read_text().splitlines() if "loaderkit" in line]
    return [*threads, *children, *files, *mappings]


def _is_open(fd: str) -> bool:
    return os.path.islink(f"/proc/self/fd/{fd}")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["whole", "half", "begun", "made", "error", "unfit", "reads"])
def test_close_leaves_nothing(kind, how):
    """When close() has returned, not some time later."""
    before = ours()
    options: dict[str, Any] = {"worker_count": 2, "worker_kind": kind}
    function = {"error": _fails, "unfit": _Unfit()}.get(how, row)
    if how == "reads":
        options["read_options"] = lk.ReadOptions(num_threads=3)
        options["data_source"] = [*range(40)]
    loader = numbers(40, function, lk.Batch(4), **options)
    it = iter(loader)
    if how in ("whole", "reads"):
        assert len(list(it)) == 10
    elif how == "half":
        next(it)
    elif how == "begun":
        it.start_prefetch()
    elif how == "error" or (how == "unfit" and kind == "process"):
        with pytest.raises(ZeroDivisionError):
            list(it)
    loader.close()
    assert ours() == before


def _fails(x: int) -> Any:
    return {"x": np.full(3, 1 // (x - 20))}


class _Unfit:
    def __call__(self, x: int) -> Any:
        return row(x)

    def __reduce__(self) -> Any:
        return divmod, (1, 0)
