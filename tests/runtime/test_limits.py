"""Where the system gives no more descriptors, threads or memory: an error that names the limit, and nothing hangs."""

import contextlib
import json
import os
import resource
import signal
import socket
import threading
from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from child_scripts import run
from runtime_loaders import all_same, numbers, row

import loaderkit as lk
from loaderkit._base.system.limits import most_tasks
from loaderkit._runtime.executors.pump import Pump
from loaderkit._runtime.worker.main import _reported

SCAN = (Path(__file__).parent / "limit_scan.py").read_text()
WITHIN_S = 60  # what would hang is ended by then
RECORDS = 16
KINDS = ["inline", "thread", "process"]


@contextlib.contextmanager
def ends() -> Iterator[None]:
    """The block ends, or the test fails."""

    def late(*_: Any) -> None:
        raise AssertionError(f"not through after {WITHIN_S} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, WITHIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def loader(kind: str, **options: Any) -> "lk.DataLoader":
    if kind != "inline":
        options |= {"worker_count": 2, "worker_kind": kind}
    return numbers(RECORDS, row, lk.Batch(4), **options)


EXPECTED = list(loader("inline"))


@contextlib.contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    """So many numbers are free below the limit of open files."""
    taken = [os.open(os.devnull, os.O_RDONLY)]
    last = max(map(int, os.listdir("/proc/self/fd")))
    while taken[-1] < last:  # no gaps below it
        taken.append(os.open(os.devnull, os.O_RDONLY))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (taken[-1] + 1 + count, hard))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in taken:
            os.close(fd)


@pytest.mark.parametrize("kind", KINDS)
def test_too_few_descriptors_are_an_error_that_names_the_limit(kind, nightly):
    """From none upward until it runs: nothing is left open, and with the limit lifted it runs at once."""
    source = lk.InMemoryDataSource  # now: its file is read when the name is first used
    left, came = 0, False
    while not came:
        with ends():
            made = None
            with descriptors_left(left):
                try:
                    made = loader(kind, data_source=source([*range(RECORDS)]))
                    came = all_same(list(made), EXPECTED)
                    said = "" if came else "other batches"
                except (OSError, lk.WorkerError) as error:
                    said = str(error)
            assert came or ("Too many open files" in said and "RLIMIT_NOFILE is " in said), said
            if made is not None:
                if not came and (kind == "thread" or nightly):  # processes take their time
                    assert all_same(list(made), EXPECTED)
                made.close()
        left += 1 if kind != "process" or left < 6 or nightly else 5
    assert left > 2


class NoMoreThreads:
    """Starting a thread of loaderkit's fails as the system makes it fail, from the n-th on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, n: int) -> None:
        self.left = n
        start = threading.Thread.start

        def limited(thread: threading.Thread) -> None:
            if thread.name.startswith("loaderkit"):
                self.left -= 1
                if self.left < 0:
                    raise RuntimeError("can't start new thread")
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", limited)

    @property
    def met(self) -> bool:
        return self.left < 0


@pytest.mark.parametrize(
    ("kind", "reads", "threads"),
    [("inline", 2, 2), ("thread", 0, 3), ("thread", 2, 7), ("process", 2, 1)],
)
def test_a_thread_that_cannot_be_started_is_an_error_that_names_the_limits(monkeypatch, kind, reads, threads):
    """Whichever it is: the pump, a worker, one that reads. close() returns, and later a new iterator works."""
    for n in range(threads + (kind != "process")):  # one without a want of threads is the same as any other
        # Without an end: one worker could do all there is to do before the other one starts.
        made = loader(
            kind,
            data_source=[*range(RECORDS)],
            sampler=lk.IndexSampler(RECORDS, num_epochs=None),
            read_options=lk.ReadOptions(num_threads=reads),
        )
        with ends(), made, monkeypatch.context() as patch:
            limited = NoMoreThreads(patch, n)
            if n < threads:
                with pytest.raises(lk.WorkerError, match=r"can't be started: .*RLIMIT_NPROC is "):
                    deque(made, maxlen=0)
            else:
                assert all_same([*islice(made, len(EXPECTED))], EXPECTED)
            assert limited.met == (n < threads)
            patch.undo()
            if kind != "process":
                assert all_same([*islice(made, len(EXPECTED))], EXPECTED)


def test_the_same_loader_runs_once_there_are_threads_again(monkeypatch):
    """Also its iterator: next() tries anew."""
    with ends(), loader("thread") as made, monkeypatch.context() as patch:
        NoMoreThreads(patch, 0)
        it = iter(made)
        for _ in range(2):
            with pytest.raises(lk.WorkerError, match="the loader's pump, a thread, can't be started"):
                next(it)
        patch.undo()
        assert all_same([*it], EXPECTED)


def test_an_interrupt_before_the_pump_runs_leaves_nothing_to_wait_for(monkeypatch):
    """close() returns although the thread, which is there, never ran."""
    monkeypatch.setattr("loaderkit._runtime.executors.pump._START_SECONDS", 0.01)

    def interrupted(thread: threading.Thread) -> None:
        raise KeyboardInterrupt

    with ends(), loader("thread") as made:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", interrupted)
            with pytest.raises(KeyboardInterrupt):
                next(iter(made))
        assert all_same([*made], EXPECTED)


@pytest.mark.parametrize("kind", ["thread", "process"])
def test_an_engine_that_runs_out_of_memory_says_so(monkeypatch, kind):
    """In a turn of the pump, where no caller is: next() raises it."""

    def out_of_memory(self: Pump) -> None:
        raise MemoryError

    with ends(), loader(kind) as made:
        monkeypatch.setattr(Pump, "start_workers", out_of_memory)
        with pytest.raises(lk.WorkerError, match="MemoryError; the limit of address space: RLIMIT_AS is"):
            next(iter(made))


class TakesAllMemory:
    """A Map after which its worker may map nothing more."""

    def __call__(self, x: int) -> dict[str, Any]:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize(), hard))
        return {"x": np.full(16, x, np.float32)}


@pytest.mark.parametrize(("kind", "workers"), [("thread", 0), ("thread", 1)])
def test_an_operation_that_is_refused_something_has_the_limit_in_a_note(kind, workers):
    """Its error is its own, type and text."""

    def refused(x: int) -> int:
        raise OSError(24, "Too many open files")

    with ends(), numbers(1, refused, worker_count=workers, worker_kind=kind) as made:
        with pytest.raises(OSError, match=r"^\[Errno 24\] Too many open files\n") as raised:
            next(iter(made))
        assert any(
            note.startswith("the limit of open files: RLIMIT_NOFILE is ") for note in raised.value.__notes__
        )


def test_a_worker_that_may_map_no_memory_names_the_limit_and_no_record():
    """Nothing is wrong with the record that it was at, and the next worker would have the same limit."""
    with ends(), numbers(64, TakesAllMemory(), lk.Batch(16), worker_count=1) as made:
        with pytest.raises(
            (lk.errors.ArenaMemoryError, lk.WorkerError), match=r"RLIMIT_AS is [0-9,]+ "
        ) as raised:
            list(made)
        assert "index" not in str(raised.value)


def scanned(folder: Path, limit: str, kind: str, values: list[int]) -> list[str]:
    """What came of each value; an error names the limit, nothing is left open, and afterwards all works."""
    # A script has a limit of time: of processes one value each, of threads several.
    at_once = 1 if kind.startswith("process") else 20
    groups = [values[begin : begin + at_once] for begin in range(0, len(values), at_once)]
    said = "".join(run(folder, SCAN, limit, kind, *group) for group in groups)
    lines = [json.loads(line) for line in said.splitlines()]
    assert [value for value, *_ in lines] == values
    for value, came, left, again in lines:
        named = {"threads": "RLIMIT_NPROC is ", "memory": "RLIMIT_AS is "}[limit]
        assert came == "right" or named in came, (value, came)
        assert left == [] and again == "right", (value, left, again)
    return [came for _, came, *_ in lines]


MB = 1_000_000


@pytest.mark.parametrize("kind", ["thread", "thread+reads", "inline+reads", "process"])
def test_too_little_address_space_names_the_limit(tmp_path, kind, nightly):
    if not nightly and kind != "thread":
        pytest.skip("a scan of the nightly run")
    # Between, each arena that the allocator reserves for a thread may be the one too many.
    values = [*range(0, 160 * MB, 8 * MB if kind == "process" else 2 * MB), 1_000 * MB]
    came = scanned(tmp_path, "memory", kind, values if nightly else [0, 9 * MB, 12 * MB, 40 * MB])
    assert came[0] != "right" and came[-1] == "right"


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's count of processes needs root")
@pytest.mark.parametrize("kind", ["thread", "thread+reads", "inline+reads", "process", "process+reads"])
def test_too_few_threads_name_the_limit(tmp_path, kind, nightly):
    if not nightly:
        pytest.skip("a scan of the nightly run")
    assert scanned(tmp_path, "threads", kind, [*range(14)])[0] != "right"


def test_an_error_that_a_worker_can_not_send_is_printed(capsys):
    """A worker then ends with an exit status of its own; where the trainer has gone, nothing is printed."""
    here, there = socket.socketpair()
    there.close()
    with here:
        assert _reported(MemoryError("no room"), here)
    assert not _reported(MemoryError("no room"), here)
    assert "Bad file descriptor" in capsys.readouterr().err


def test_the_limit_of_a_cgroup_is_the_smallest_of_those_above_it(tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("3:pids:/job/step\n0::/\n")
    for folder, value in (("", "max"), ("job", "70"), ("job/step", "300")):
        group = tmp_path / "sys/fs/cgroup/pids" / folder
        group.mkdir(parents=True, exist_ok=True)
        (group / "pids.max").write_text(f"{value}\n")
    assert most_tasks(str(tmp_path)) == 70
    assert most_tasks(f"{tmp_path}/nowhere") is None
