"""Rules for every test, doctests included: its signals at the start, its time limit, and what it may leave behind.

A test starts with no signal ignored or blocked. A process that was started by nohup, in the background of a script or
by many CI systems inherits ignored signals, and would pass them on to all children of the tests.

A test that exceeds its time limit fails with the stacks of all threads. `timeout` in pyproject.toml is the limit, and
pytest-timeout reads it, its option and its marker. The timer is in this file, for three reasons. The exception that
ends the test isn't one that hypothesis takes for a failure: it would try the example again, and hang. The stacks are
in the report, which xdist's workers send. And if the main thread doesn't return, inside a C function or in a
`finally`, the process writes its stacks and exits: xdist then continues with another one.

A test leaves nothing behind that it started or opened. Checked are child processes, Python threads, file descriptors,
mappings of loaderkit's anonymous memory, names in /dev/shm, and the handlers and the mask of signals. Some of them end
a moment later (a pump thread after its iterator was dropped, a worker that is being reaped, a cycle that holds a
slot). If anything is left, the check waits for a limited time and collects garbage. It reads /proc, mostly the list of
mappings, which costs two to five milliseconds in a process that has imported JAX and torch; so what a test found at its
end is what the next one begins with, if no wider fixture came between. Without /proc only threads and signals are
checked.
"""

import _signal  # the module signal, without its enums: they were 95% of the time of signal_state
import contextlib
import dataclasses
import faulthandler
import gc
import importlib.util
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
import pytest_timeout

# Files of the package that import a library which the extra `test` lacks; their doctests need it.
collect_ignore = [
    f"loaderkit/interop/{name}.py"
    for name, library in {"torch": "torch", "tf": "tensorflow", "ray/tasks": "ray"}.items()
    if importlib.util.find_spec(library) is None
]
os.environ.setdefault("KERAS_BACKEND", "jax")  # read when keras is imported
# For the processes of tests: importing numpy took 0.3 s of CPU with OpenBLAS's threads on two cores, 0.19 s without.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

PATIENCE_S = 10.0
# Time after a test's limit to report the failure and to end the fixtures; then the process exits.
GRACE_S = 60.0
NIGHTLY_LIMIT_S = 3600.0
RUNNER = {"_pytest", "pluggy", "xdist", "execnet"}
LINUX = sys.platform == "linux"
SIGNALS = sorted(map(int, signal.valid_signals()))

# Threads of libraries that live as long as the process, by the beginning of their name or by their class.
LASTING_THREADS = {
    "asyncio_": "the default executor of an event loop that a library keeps",
    "IPythonHistorySavingThread": "IPython's, in a process that shows a notebook",
}
LASTING_THREAD_TYPES = {
    "TMonitor": "tqdm starts one monitor thread for all its bars and never ends it",
}

# Children that serve the whole process for the standard library or joblib, by a word of their command line.
LASTING_CHILDREN = {
    "multiprocessing.resource_tracker": "started by the first named shared memory that any library makes",
    "multiprocessing.forkserver": "started by a library's first process with this start method",
    "loky.backend.resource_tracker": "joblib's own, started by scikit-learn",
}

# Files that a library opens once and keeps, by the beginning and by the end of what the descriptor points to.
LASTING_FILES = {
    "/dev/urandom": "a source of entropy that native libraries keep open",
    "/proc/": "native allocators and schedulers keep some of its files open",
    "/sys/": "native libraries keep the CPU topology open",
}
LASTING_ENDINGS = {
    ".ttf": "matplotlib keeps the fonts open that it has drawn with",
}

# Files of few tests that took 20 seconds or more in a run of all tests on 2 cores. They start first: with one of them
# as the last, the other core would have nothing to do.
LONG_FILES = {
    "tests/benchmarks/test_benchmarks.py",
    "tests/cli/test_demo.py",
    "tests/grammar/test_grammar.py",
    "tests/interop/test_grain_batches.py",
    "tests/interop/test_grain_own.py",
    "tests/interop/test_grain_takeover.py",
    "tests/interop/test_jax_processes.py",
    "tests/interop/test_jax_training.py",
    "tests/interop/test_ray_map.py",
    "tests/offline/test_measure.py",
    "tests/runtime/test_interrupts.py",
    "tests/runtime/test_worker_losses.py",
    "tests/test_notebooks.py",
    "tests/test_readme.py",
}

outcome = pytest.StashKey[bool]()
over_time = pytest.StashKey[bool]()
terminal = pytest.StashKey[int]()
at_the_last_end = pytest.StashKey["Resources"]()


# --- signals at the start ---------------------------------------------------------------------------------------

# SIGHUP stays ignored, since nohup is used for that, and so do the signals that would stop a run in the background.
# Python itself ignores the last two, and resets them for children.
LEFT_IGNORED = {
    *(signal.SIGHUP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU),
    *(signal.SIGPIPE, signal.SIGXFSZ),
}


def restore_signals() -> None:
    """Undoes the ignored and blocked signals that this process inherited."""
    if threading.current_thread() is not threading.main_thread():
        return  # in a worker of xdist: its process inherited the restored signals
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in signal.valid_signals() - LEFT_IGNORED:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


restore_signals()
if os.environ.get("HYPOTHESIS_PROFILE") == "nightly":
    os.environ.setdefault("PYTEST_TIMEOUT", str(NIGHTLY_LIMIT_S))  # above the ini file, below the option


# --- the time limit ---------------------------------------------------------------------------------------------


class TimeLimitError(BaseException):
    """A test took longer than it may."""


def pytest_configure(config):
    config.stash[terminal] = os.dup(2)  # before pytest captures it


def pytest_unconfigure(config):
    os.close(config.stash[terminal])


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path == Path(__file__).parent / "loaderkit/interop/torch.py":
            item.add_marker("torch")  # its doctests


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Without collections of garbage, which find none: what is made lives as long as the run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish():
    """Leaves the modules of all tests out of later collections of garbage.

    A full collection took 0.35 s with their half a million objects; tests and the leak check ask for hundreds.
    """
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item, settings):
    if pytest_timeout.is_debugging() or threading.current_thread() is not threading.main_thread():
        return True

    def over(*_: object) -> None:
        if pytest_timeout.is_debugging():
            return
        item.stash[over_time] = True
        found = stacks()
        item.add_report_section("call", "stacks at the time limit", found)
        # Also to the terminal: if the test can't be ended, the process exits before the report is sent.
        with contextlib.suppress(OSError):
            os.write(item.config.stash[terminal], f"\n{item.nodeid} is over its time limit\n{found}".encode())
        raise TimeLimitError(f"the test took longer than its limit of {settings.timeout:g} s")

    signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, settings.timeout)
    exit_after(settings.timeout + GRACE_S, item.config)
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_cancel_timer(item):
    """Keeps the timer: pytest-timeout calls this at a failure, before the fixtures end, which have the same limit."""
    return True


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node):
    left = signal.getitimer(signal.ITIMER_REAL)[0]
    if node.config.getoption("usepdb"):
        cancel_timers()
    elif left or node.stash.get(over_time, False):
        exit_after(left + GRACE_S, node.config)  # pytest has just cancelled it


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    try:
        return (yield)
    finally:
        cancel_timers()


def exit_after(seconds: float, config: pytest.Config) -> None:
    # A native thread does it, which doesn't need the GIL.
    faulthandler.dump_traceback_later(seconds, exit=True, file=config.stash[terminal])


def cancel_timers() -> None:
    faulthandler.cancel_dump_traceback_later()
    if threading.current_thread() is threading.main_thread():
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def stacks() -> str:
    """The stack of every thread, without the frames of the test runner, and the child processes."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    found = []
    for ident, frame in sys._current_frames().items():
        frames = [
            each for each in traceback.extract_stack(frame) if not RUNNER & {*Path(each.filename).parts}
        ]
        where = "".join(traceback.format_list(frames))
        found.append(f"thread {names.get(ident, f'{ident}, not made by threading')}:\n{where}")
    return "\n".join([*found, *map(describe_child, children())]) + "\n"


def end_children(before: "Resources") -> None:
    """Ends the processes of a test that was cut off at its time limit: they would run as long as the tests do."""
    for pid in set(children()) - before.children:
        with contextlib.suppress(ProcessLookupError):
            if is_lasting_child(pid):
                continue
            if os.getpgid(pid) == pid:
                os.killpg(pid, signal.SIGKILL)
            else:
                os.kill(pid, signal.SIGKILL)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class OnceOnly(LoadFileScheduling):
        """Doesn't run a test again that ended its process: it would end each worker that takes the place.

        Long files start first; xdist's own order, by the number of tests, has the longest last.
        """

        def _assign_work_unit(self, node):
            first = min(self.workqueue, key=lambda file: file not in LONG_FILES)
            self.workqueue.move_to_end(first, last=False)
            super()._assign_work_unit(node)

        def remove_node(self, node):
            units = self.assigned_work.get(node, {})
            unfinished = [(unit, test) for unit in units.values() for test, done in unit.items() if not done]
            if not unfinished:
                return super().remove_node(node)
            unit, test = unfinished[0]
            unit[test] = True
            # Of a finished file no test would tell the process that takes the place to go on.
            self.assigned_work[node] = {file: unit for file, unit in units.items() if not all(unit.values())}
            super().remove_node(node)
            return test

    return OnceOnly(config, log)


# --- what a test leaves behind ----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Resources:
    """The resources of this process at one moment, as sets: the difference of two is what was added."""

    children: frozenset[int]
    threads: frozenset[threading.Thread]
    descriptors: frozenset[tuple[int, str]]
    mappings: int
    shm_names: frozenset[str]
    signals: tuple[object, ...]

    def added_since(self, before: "Resources") -> list[str]:
        """One line for each resource that is in this snapshot and not in `before`."""
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
    """The resources of this moment."""
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
        # A thread may end between the listing and the reading; its children then belong to another thread.
        with contextlib.suppress(OSError), open(f"/proc/self/task/{task}/children", "rb", 0) as file:
            yield from map(int, file.read().split())


def descriptors() -> Iterator[tuple[int, str]]:
    if not LINUX:
        return
    for name in os.listdir("/proc/self/fd"):
        # The descriptor of the listing itself is closed by now.
        with contextlib.suppress(OSError):
            yield int(name), os.readlink(f"/proc/self/fd/{name}")


def signal_state() -> tuple[object, ...]:
    handlers = tuple((number, _signal.getsignal(number)) for number in SIGNALS)
    return (*handlers, ("mask", frozenset(_signal.pthread_sigmask(signal.SIG_BLOCK, []))))


def describe_child(pid: int) -> str:
    return f"child process {pid}: {command_line(pid) or 'a zombie that was not reaped'}"


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
    if target.startswith(tuple(LASTING_FILES)) or target.endswith(tuple(LASTING_ENDINGS)):
        return True
    # The resource tracker's process is allowed above; this is our end of the pipe to it.
    tracker = sys.modules.get("multiprocessing.resource_tracker")
    return tracker is not None and tracker._resource_tracker._fd == fd


def wait_until_gone(before: Resources) -> tuple[Resources, list[str]]:
    """The resources once nothing is added to those before, or after the time that a test has for it; and the rest."""
    deadline = time.monotonic() + PATIENCE_S
    while left := (now := look()).added_since(before):
        if time.monotonic() > deadline:
            break
        gc.collect()
        time.sleep(0.01)
    return now, left


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.when == "call":
        item.stash[outcome] = report.passed
    # Else `-m torch`, which CI runs once torch is installed, would leave it out, and nothing would tell.
    if report.skipped and "import 'torch" in str(report.longrepr) and not item.get_closest_marker("torch"):
        report.outcome, report.longrepr = "failed", "it needs torch: mark it with pytest.mark.torch"
    return report


def forget_the_last_end(fixturedef, request):
    """Looks again before the next test: what a wider fixture has made or ended counts for no test."""
    if fixturedef.scope != "function" and at_the_last_end in request.config.stash:
        del request.config.stash[at_the_last_end]


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef, request):
    forget_the_last_end(fixturedef, request)


def pytest_fixture_post_finalizer(fixturedef, request):
    forget_the_last_end(fixturedef, request)


@pytest.fixture(autouse=True)
def nothing_left_behind(request):
    """Every test leaves the process as it found it: processes, threads, descriptors, mappings, signals."""
    stash = request.config.stash
    if at_the_last_end not in stash:
        before = look()
    else:
        # The signals are read again: the time limit has just set its own handler.
        before = dataclasses.replace(stash[at_the_last_end], signals=signal_state())
        del stash[at_the_last_end]
    yield
    if request.node.stash.get(over_time, False):
        end_children(before)
    # A failed test's traceback keeps its frames and their objects alive: report only the failure.
    if not request.node.stash.get(outcome, False):
        return
    now, left = wait_until_gone(before)
    if left:
        pytest.fail("the test left behind:\n  " + "\n  ".join(sorted(left)), pytrace=False)
    stash[at_the_last_end] = now
