"""Worker processes that are started before there is a program for them."""

import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from runtime_loaders import numbers, until

import loaderkit as lk
from loaderkit._runtime.transport import wire


class Pids:
    """Each record is the process that reads it."""

    def __len__(self) -> int:
        return 16

    def __getitem__(self, record_key: int) -> int:
        return os.getpid()


OTHERS: set[int] = set()  # children from before a test, such as multiprocessing's trackers


@pytest.fixture(autouse=True)
def others() -> Iterator[None]:
    """Tells them from the test's own."""
    OTHERS.update(children())
    yield
    OTHERS.clear()


def children() -> set[int]:
    """The pids of the children that a test has started."""
    found: list[str] = []
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError), open(f"/proc/self/task/{task}/children") as file:
            found += file.read().split()
    return {int(pid) for pid in found} - OTHERS


def started(loader: lk.DataLoader, count: int) -> set[int]:
    """The pids of the processes that `loader.start()` starts; there are no others."""
    loader.start()
    until(lambda: len(children()) == count, "the processes")
    return children()


def test_the_processes_that_were_started_do_the_work():
    """No others are started at iter(loader), also for a second iterator; a second start() starts none."""
    with numbers(16, data_source=Pids(), worker_count=2, task_rows=1) as loader:
        pids = started(loader, 2)
        assert started(loader, 2) == pids
        assert set(loader) <= pids
        loader.start()
        assert set(loader) <= pids


def test_the_program_is_taken_at_iter():
    """What a source in memory holds by then is read, with its shared arrays, in the worker's own order."""
    source = [1, 2, 3]
    with numbers(3, data_source=source, worker_count=1) as loader:
        loader.start()
        source[1] = 7
        assert list(loader) == [1, 7, 3]
    columns = {f"c{number}": np.array([number, number + 1]) for number in range(3)}
    with lk.load(columns, shuffle=False, num_epochs=1, worker_count=1) as loader:
        loader.start()
        assert [int(row["c2"]) for row in loader] == [2, 3]


class Environment(Pids):
    """Each record is a variable of the process that reads it."""

    def __getitem__(self, record_key: int) -> int:
        return int(os.environ.get("SINCE_START", "0"))


class Kept(Pids):
    """Each record is how many descriptors a program that the worker starts would get."""

    def __getitem__(self, record_key: int) -> int:
        numbers = [int(number) for number in os.listdir("/proc/self/fd")]
        return sum(number > 2 and _inherited(number) for number in numbers)


def _inherited(descriptor: int) -> bool:
    with contextlib.suppress(OSError):  # that of the folder
        return os.get_inheritable(descriptor)
    return False


def test_the_environment_is_that_of_iter(monkeypatch):
    """As for workers that are started then."""
    with numbers(2, data_source=Environment(), worker_count=1) as loader:
        started(loader, 1)
        monkeypatch.setenv("SINCE_START", "7")
        assert list(loader) == [7, 7]


def test_programs_of_the_users_code_get_no_descriptor():
    """Those that came through the channel are the worker's alone, as others are."""
    with numbers(1, data_source=Kept(), worker_count=1) as loader:
        loader.start()
        assert list(loader) == [0]


def test_they_wait_for_a_program_that_can_be_sent():
    """They stay with the loader after an error of the operations, and end with it."""

    def work(x: int, lock: Any = threading.Lock()) -> int:  # noqa: B008 - what can't be sent
        return x

    loader = numbers(2, lk.Map(work), worker_count=1)
    pids = started(loader, 1)
    with pytest.raises(lk.errors.TransportError) as error:
        next(iter(loader))
    assert children() == pids
    loader.close()
    assert not children()
    del error


def test_one_that_has_ended_is_replaced():
    """A process that was killed before it got the program costs no element."""
    with numbers(16, worker_count=1) as loader:
        (pid,) = started(loader, 1)
        os.kill(pid, signal.SIGKILL)
        assert list(loader) == [*range(16)]


@pytest.mark.parametrize("opened", [False, True])
def test_they_end_with_the_loader(opened):
    """Whether there is an iterator, which has asked for no element, or none."""
    loader = numbers(16, worker_count=2)
    started(loader, 2)
    it = iter(loader) if opened else None
    loader.close()
    del it
    assert not children()
    with pytest.raises(lk.errors.IteratorClosedError):
        loader.start()


def test_they_end_with_the_last_reference():
    """A loader that goes without close() leaves none."""
    loader = numbers(16, worker_count=1)
    started(loader, 1)
    del loader
    until(lambda: not children(), "the end of the process")


@pytest.mark.parametrize("options", [{"worker_count": 0}, {"worker_count": 1, "worker_kind": "thread"}])
def test_without_worker_processes_nothing_is_started(options):
    """There is nothing to do ahead."""
    with numbers(4, **options) as loader:
        assert not started(loader, 0)
        assert list(loader) == [0, 1, 2, 3]


FORKED = """
import os
from loaderkit._runtime.start.bare_processes import BareProcesses

bare = BareProcesses(0, None)
assert bare.usable
pid = os.fork()
if pid == 0:
    os._exit(bare.usable)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
bare.end()
"""


def test_a_fork_uses_none_of_them():
    """Their thread isn't there: its loader starts workers of its own. In a process without the tests' threads."""
    subprocess.run([sys.executable, "-c", FORKED], check=True, timeout=60)


@pytest.mark.parametrize("count", [2, 250, 600])
def test_descriptors_arrive_in_order(count):
    """As many as a program has, which are more than one message may bring."""
    ours, theirs = socket.socketpair()
    read, write = os.pipe()
    with ours, theirs:
        wire.send_descriptors(ours, [read, *[write] * (count - 1)])
        ours.sendall(b"next")
        first, *others = wire.received_descriptors(theirs)
        assert theirs.recv(9) == b"next"
        os.write(others[-1], b"!")
        assert os.read(first, 1) == b"!"
        assert len(others) == count - 1
        ours.close()
        with pytest.raises(ConnectionError):
            wire.received_descriptors(theirs)
    for descriptor in (read, write, first, *others):
        os.close(descriptor)


def test_descriptors_that_a_process_may_not_have_are_an_error():
    """They are dropped by the kernel: the process would wait for them for ever."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        wire.send_descriptors(ours, [0] * 300)
        ours.sendall(b"next")
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (ours.fileno() + 1, limits[1]))
        try:
            with pytest.raises(OSError, match="Too many open files"):
                wire.received_descriptors(theirs)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
