"""How many examples the properties try: "ci" in the test command, "nightly" in .ci/nightly, "quick" in .ci/room.

The same properties run in all three; only the counts differ, and how long a failure is made smaller.
HYPOTHESIS_PROFILE chooses one.
"""

import contextlib
import os
import pickle
import subprocess
import sys
import threading
import zlib
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import engine

# Worker processes search the folders of this list behind those of the package. They import a test's file for an
# operation that it defines, and pytest and hypothesis with it: 0.65 of the 1.05 s of CPU that a start took. There they
# get the files of this folder; here both are imported already.
IN_WORKERS = Path(__file__).parent / "in_workers"
sys.path.insert(0, str(IN_WORKERS))
collect_ignore = [IN_WORKERS.name]

# No deadline: on a busy machine one slow example says nothing about the code. The leak check of the root
# conftest is a function-scoped fixture; that it looks once around all examples of a property is what it is
# for.
COMMON = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
}

# "ci" and "quick" try the same examples each time, so that a failure there belongs to the change it came with;
# "nightly" draws new ones and prints how to repeat one that fails.
settings.register_profile("quick", max_examples=6, stateful_step_count=20, derandomize=True, **COMMON)
settings.register_profile("ci", max_examples=10, stateful_step_count=30, derandomize=True, **COMMON)
settings.register_profile("nightly", max_examples=3000, stateful_step_count=120, print_blob=True, **COMMON)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci")
settings.load_profile(PROFILE)

# Without a bound of ours a failure of the dispatcher's machine was made smaller for five minutes, without a word: as a
# hang looks. Hypothesis has no setting for it, only this constant.
SHRINK_S = {"ci": 20, "nightly": 600}
assert hasattr(engine, "MAX_SHRINKING_SECONDS"), "hypothesis has renamed its bound of shrinking"
engine.MAX_SHRINKING_SECONDS = SHRINK_S.get(PROFILE, 20)


def starts_processes(parameters):
    """Whether the parameters of a test say that a loader runs in worker processes."""
    running = parameters.get("running", {})
    kind = running.get("worker_kind") if isinstance(running, dict) else running.kind
    return "process" in (kind, parameters.get("kind"))


def pytest_collection_modifyitems(config, items):
    """Leaves out by day four of five cases that repeat in worker processes what threads do, by their names.

    None of it may show, and a process takes a quarter of a second of CPU to start. The nightly run has all, and
    the tests of the workers themselves, in tests/runtime, always do.
    """
    if PROFILE == "nightly":
        return
    repeated, others = [], set()
    for item in items:
        case = getattr(item, "callspec", None)
        if case is None or item.path.parent.name == "runtime":
            continue
        if starts_processes(case.params):
            repeated.append(item)
        else:
            others.add((item.path, item.originalname))
    left_out = {
        item
        for item in repeated
        if (item.path, item.originalname) in others and zlib.crc32(item.name.encode()) % 5
    }
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=[*left_out])


@pytest.fixture(scope="session")
def nightly():
    """Whether full counts are asked for, for tests whose size hypothesis doesn't choose."""
    return PROFILE == "nightly"


@pytest.fixture(scope="session")
def at_night(nightly):
    """For tests that take long beside others, which the test command has."""
    if not nightly:
        pytest.skip("runs at night")


@pytest.fixture
def real_clocks(nightly):
    """For tests that compare what real clocks say: a busy machine may stop a process between two of them."""
    if not nightly:
        pytest.skip("runs at night: it compares real clocks")


@pytest.fixture(scope="session")
def object_runtime():
    """obstore's own threads, which live as long as the process, run before a test looks what it leaves behind."""
    import obstore
    from obstore.store import HTTPStore

    with contextlib.suppress(Exception):
        store = HTTPStore(
            "http://127.0.0.1:1", client_options={"allow_http": True}, retry_config={"max_retries": 0}
        )
        obstore.head(store, "nothing")


@pytest.fixture
def range_server(object_runtime):
    """Starts servers of a folder: `range_server(folder)` gives a RangeServer; they end with the test."""
    from range_server import RangeServer

    with contextlib.ExitStack() as servers:
        yield lambda folder, **options: servers.enter_context(RangeServer(folder, **options))


@pytest.fixture
def plain_server(object_runtime):
    """Starts `python -m http.server` of a folder in this process: `plain_server(folder)` gives its address."""
    from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *args):
            """Nothing."""

    def start(folder):
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=folder))
        server.daemon_threads = False  # they are waited for
        ends.enter_context(server)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        ends.callback(thread.join)
        ends.callback(server.shutdown)
        return f"http://127.0.0.1:{server.server_port}"

    with contextlib.ExitStack() as ends:
        yield start


@pytest.fixture
def write_records():
    """Writes an ArrayRecord file: `write_records(path, records)` gives its path."""
    from array_record.python.array_record_module import ArrayRecordWriter

    def write(path, records, options="group_size:1"):
        writer = ArrayRecordWriter(str(path), options)
        for record in records:
            writer.write(record)
        writer.close()
        return str(path)

    return write


# Reads the pickled (source, function) as a worker does: descriptors were passed on, its folder is another.
CHILD = """
import pickle, sys
from loaderkit._base.system import shared_memory as _memory
with _memory.receiving([int(fd) for fd in sys.argv[1:]]):
    source, function = pickle.load(sys.stdin.buffer)
sys.stdout.buffer.write(pickle.dumps(function(source)))
"""


@pytest.fixture
def in_child():
    """Calls function(source) in another process, to which the source went as it goes to a worker."""
    import cloudpickle

    from loaderkit._base.system import shared_memory

    def call(source, function):
        with shared_memory.sending() as descriptors:
            content = cloudpickle.dumps((source, function))
        done = subprocess.run(
            [sys.executable, "-c", CHILD, *map(str, descriptors)],
            input=content,
            capture_output=True,
            pass_fds=descriptors,
            cwd="/",
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return pickle.loads(done.stdout)

    return call
