"""After every test, doctests included: nothing that it started or opened is left behind.

Looked at are child processes, Python threads, file descriptors, mappings of loaderkit's anonymous memory,
names in /dev/shm, the handlers and the mask of signals. What ends a moment later (a pump thread that saw
its iterator go, a worker that is being reaped, a cycle that holds a slot) is given a bounded wait and a
garbage collection, and only a test that left something pays for them. Everything comes from /proc, so that
the check costs a millisecond or two and can run thousands of times; without /proc, threads and signals
alone are checked.
"""

import contextlib
import dataclasses
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

PATIENCE_S = 10.0
LINUX = sys.platform == "linux"

# Threads of libraries that live as long as the process, by the beginning of their name or by their class.
LASTING_THREADS = {
    "asyncio_": "the default executor of an event loop that a library keeps",
    "IPythonHistorySavingThread": "IPython's, in a process that shows a notebook",
}
LASTING_THREAD_TYPES = {
    "TMonitor": "tqdm starts one monitor for all its bars and never ends it",
}

# Children that serve the whole process for the standard library or joblib, by a word of their command line.
LASTING_CHILDREN = {
    "multiprocessing.resource_tracker": "started by the first named shared memory that any library makes",
    "multiprocessing.forkserver": "started by a library's first process with this start method",
    "loky.backend.resource_tracker": "joblib's own, started by scikit-learn",
}

# Files that a library opens once and keeps, by the beginning of what the descriptor points to.
LASTING_FILES = {
    "/dev/urandom": "a source of entropy that native libraries keep open",
    "/proc/": "native allocators and schedulers keep files of theirs open",
    "/sys/": "native libraries keep the CPU topology open",
}

outcome = pytest.StashKey[bool]()


@dataclasses.dataclass(frozen=True, slots=True)
class Resources:
    """What this process holds at one moment, in sets whose difference says what was added."""

    children: frozenset[int]
    threads: frozenset[threading.Thread]
    descriptors: frozenset[tuple[int, str]]
    mappings: int
    shm_names: frozenset[str]
    signals: tuple[object, ...]

    def added_since(self, before: "Resources") -> list[str]:
        """One line for each thing that is here and was not there before."""
        lines = [describe_child(pid) for pid in self.children - before.children if not is_lasting_child(pid)]
        lines += [f"thread {t!r}" for t in self.threads - before.threads if not is_lasting_thread(t)]
        lines += [
            f"descriptor {fd} -> {target}"
            for fd, target in self.descriptors - before.descriptors
            if not is_lasting_descriptor(fd, target)
        ]
        if self.mappings > before.mappings:
            lines.append(f"{self.mappings - before.mappings} mappings of memfd:loaderkit in /proc/self/maps")
        lines += [f"/dev/shm/{name}" for name in self.shm_names - before.shm_names]
        lines += [
            f"signal state changed: {was!r} -> {now!r}"
            for was, now in zip(before.signals, self.signals, strict=True)
            if was != now
        ]
        return lines


def look() -> Resources:
    return Resources(
        children=frozenset(children()),
        threads=frozenset(t for t in threading.enumerate() if t.is_alive()),
        descriptors=frozenset(descriptors()),
        mappings=Path("/proc/self/maps").read_bytes().count(b"memfd:loaderkit") if LINUX else 0,
        shm_names=frozenset(n for n in os.listdir("/dev/shm") if "loaderkit" in n) if LINUX else frozenset(),
        signals=signal_state(),
    )


def children() -> Iterator[int]:
    if not LINUX:
        return
    for task in os.listdir("/proc/self/task"):
        # A thread may end between the listing and the reading; its children then belong to another one.
        with contextlib.suppress(OSError):
            yield from map(int, Path(f"/proc/self/task/{task}/children").read_bytes().split())


def descriptors() -> Iterator[tuple[int, str]]:
    if not LINUX:
        return
    for name in os.listdir("/proc/self/fd"):
        # The descriptor of the listing itself is gone by now.
        with contextlib.suppress(OSError):
            yield int(name), os.readlink(f"/proc/self/fd/{name}")


def signal_state() -> tuple[object, ...]:
    handlers = tuple((s, signal.getsignal(s)) for s in sorted(signal.valid_signals()))
    return (*handlers, ("mask", frozenset(signal.pthread_sigmask(signal.SIG_BLOCK, []))))


def describe_child(pid: int) -> str:
    return f"child process {pid}: {command_line(pid) or 'a zombie that nobody reaped'}"


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def is_lasting_child(pid: int) -> bool:
    line = command_line(pid)
    return any(word in line for word in LASTING_CHILDREN)


def is_lasting_thread(thread: threading.Thread) -> bool:
    return thread.name.startswith(tuple(LASTING_THREADS)) or type(thread).__name__ in LASTING_THREAD_TYPES


def is_lasting_descriptor(fd: int, target: str) -> bool:
    if target.startswith(tuple(LASTING_FILES)):
        return True
    # The resource tracker's process is allowed above; this is our end of the pipe to it.
    tracker = sys.modules.get("multiprocessing.resource_tracker")
    return tracker is not None and tracker._resource_tracker._fd == fd


def wait_until_gone(before: Resources) -> list[str]:
    deadline = time.monotonic() + PATIENCE_S
    while left := look().added_since(before):
        gc.collect()
        if time.monotonic() > deadline:
            return left
        time.sleep(0.01)
    return []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.when == "call":
        item.stash[outcome] = report.passed
    return report


@pytest.fixture(autouse=True)
def nothing_left_behind(request):
    """Every test leaves the process as it found it: processes, threads, descriptors, mappings, signals."""
    before = look()
    yield
    # A failed test's traceback holds its frames and all that they hold: its own failure is what to report.
    if not request.node.stash.get(outcome, False):
        return
    if look().added_since(before) and (left := wait_until_gone(before)):
        pytest.fail("the test left behind:\n  " + "\n  ".join(sorted(left)), pytrace=False)
