"""The root conftest's rules for every test: its limit, its signals at the start, and what it may leave behind."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# JAX warns of a fork with its threads, where an earlier test imported it; this child only sets signals and executes.
pytestmark = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")

TESTS = """
import os
import signal
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st


def waits():
    threading.Event().wait()


def reaches_its_limit():
    signal.setitimer(signal.ITIMER_REAL, 0.01)  # and not before, however busy the machine is
    waits()


def test_opens_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    threading.Thread(target=waits, name="beside it", daemon=True).start()
    global child
    child = subprocess.Popen(["sleep", "600"])
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    (tmp_path / "pipe").write_text("")


def test_its_child_was_ended():
    assert child.wait() == -signal.SIGKILL


@given(st.integers())
def test_of_a_property(number):
    reaches_its_limit()


@pytest.fixture(scope="module")
def opened():
    with open(__file__) as file:
        yield file


def open_for_ever():
    os.open(__file__, os.O_RDONLY)


def test_leaves_nothing():
    sys.modules["conftest"].PATIENCE_S = 0.2


def test_leaves_a_file():
    open_for_ever()


def test_leaves_nothing_behind_one_that_did():
    pass


def test_is_the_first_with_its_modules_fixture(opened):
    assert not opened.closed


def test_leaves_another_file_than_its_modules_fixture(opened):
    open_for_ever()


def test_leaves_a_file_behind_one_that_left_none():
    open_for_ever()


def test_lacks_torch_and_has_no_mark():
    pytest.skip("could not import 'torch': No module named 'torch'")


@pytest.mark.torch
def test_lacks_torch_and_has_the_mark():
    pytest.skip("could not import 'torch': No module named 'torch'")


def test_signals():
    ignored = {n for n in signal.valid_signals() if signal.getsignal(n) is signal.SIG_IGN}
    assert ignored == {signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ}
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == set()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    sys.modules["conftest"].GRACE_S = 0.5  # for the next test


@pytest.mark.timeout(0.5)
def test_never_ends():
    try:
        waits()
    finally:
        waits()


def test_after_the_exit():
    pass
"""


def as_by_nohup() -> None:
    """Starts a process with signals ignored and blocked, as many launchers do."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A run of tests that hang, under this project's own conftest and settings, started with signals ignored."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "conftest.py").write_text((ROOT / "conftest.py").read_text())
    (folder / "test_hanging.py").write_text(TESTS)
    (folder / "tests").mkdir()
    (folder / "tests/test_notebooks.py").write_text("def test_of_a_long_file():\n    pass\n")
    plugins = ["-p", "pytest_timeout", "-p", "xdist.plugin", "-p", "no:cacheprovider"]
    settings = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder), "-o", "required_plugins="]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-v", *plugins, *settings, "-n", "1", "--dist", "loadfile", "."],
        cwd=folder,
        env={
            # With CI or BUILD_NUMBER pytest repeats each error's whole text in its summary, which the tests count.
            **{name: value for name, value in os.environ.items() if name not in ("CI", "BUILD_NUMBER")},
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONPATH": str(ROOT),
            "PYTEST_ADDOPTS": "",
        },
        preexec_fn=as_by_nohup,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_test_over_its_limit_fails_with_all_stacks_and_the_next_one_runs(ran):
    """Also in the middle of a property, which hypothesis doesn't repeat; its child processes are ended."""
    for name in ("opens_a_pipe", "of_a_property"):
        assert f"FAILED test_hanging.py::test_{name}" in ran.stdout
        said = ran.stderr.split(f"::test_{name} is over its time limit\n")[1]
        assert "thread MainThread:" in said and f", in test_{name}\n" in said
        assert "thread beside it:" in said and ", in waits\n" in said
    assert "sleep 600" in ran.stderr
    assert "PASSED test_hanging.py::test_its_child_was_ended" in ran.stdout


def test_where_a_test_cant_be_ended_the_process_writes_its_stacks_and_exits(ran):
    """The main thread hangs again in a `finally`. Another worker of xdist runs the rest, and not that test again."""
    _, said = ran.stderr.split("::test_never_ends is over its time limit\n")
    first, second = said.split("Timeout (")
    assert ", in test_never_ends\n" in first and "in test_never_ends\n" in second
    assert "PASSED test_hanging.py::test_after_the_exit" in ran.stdout
    assert "4 failed, 10 passed, 1 skipped, 3 errors" in ran.stdout


def test_a_test_that_needs_torch_has_the_mark(ran):
    """By which CI selects it once torch is installed."""
    assert "SKIPPED test_hanging.py::test_lacks_torch_and_has_the_mark" in ran.stdout
    assert "FAILED test_hanging.py::test_lacks_torch_and_has_no_mark" in ran.stdout
    assert "mark it with pytest.mark.torch" in ran.stdout


def test_long_files_run_first(ran):
    """Though other files have more tests, which is xdist's own order; and each long file is there."""
    assert ran.stdout.index("PASSED tests/test_notebooks.py") < ran.stdout.index(
        " test_hanging.py::test_opens_a_pipe"
    )
    (names,) = re.findall(
        r"^LONG_FILES = \{\n(.*?)^\}", (ROOT / "conftest.py").read_text(), re.DOTALL | re.MULTILINE
    )
    files = re.findall(r'"(.+)"', names)
    assert "tests/test_notebooks.py" in files and all((ROOT / file).exists() for file in files)


def test_a_suite_that_was_started_with_signals_ignored_or_blocked_takes_them_up_again(ran):
    """SIGINT as under nohup or in the background of a script; SIGHUP stays ignored, and Python's own."""
    assert "PASSED test_hanging.py::test_signals" in ran.stdout


def test_what_a_test_leaves_behind_is_its_own(ran):
    """Found in the test that left it, and in no other; what a wider fixture opened in a test isn't left behind."""
    found = {name.partition(" - ")[0] for name in ran.stdout.split("ERROR test_hanging.py::test_")[1:]}
    leavers = ("a_file", "another_file_than_its_modules_fixture", "a_file_behind_one_that_left_none")
    assert {name.split()[0] for name in found} == {f"leaves_{what}" for what in leavers}
    assert ran.stdout.count("the test left behind:\n  descriptor ") == 3
    for name in (
        "leaves_nothing",
        "leaves_nothing_behind_one_that_did",
        "is_the_first_with_its_modules_fixture",
    ):
        assert f"PASSED test_hanging.py::test_{name}" in ran.stdout
