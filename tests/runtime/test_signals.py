"""The trainer's own signals, children, event loops and loaders go on undisturbed while a loader's workers run."""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from child_scripts import run, start, still_alive
from runtime_loaders import all_same, numbers, row

import loaderkit as lk

HEAD = """
import asyncio, os, signal, subprocess, sys
import numpy as np
import loaderkit as lk

def loader(steps=None, workers=2):
    return lk.DataLoader(data_source=lk.RangeDataSource(0, 10**6, 1), sampler=lk.IndexSampler(10**6),
                         operations=[lambda x: {"x": np.full(50, x)}, lk.Batch(10)], worker_count=workers,
                         num_steps=steps)

def is_step(batch, step):
    return (batch["x"][:, 0] == np.arange(10 * step, 10 * step + 10)).all()
"""

OWN_SIGNALS = """
ended, alarms = [], []

def count(*_):
    ended.append(None)

def reap(*_):  # as servers do it: whichever child it is
    try:
        while (child := os.waitpid(-1, os.WNOHANG))[0]:
            ended.append(child[0])
            if child[0] == own:
                assert os.waitstatus_to_exitcode(child[1]) == 3
    except ChildProcessError:
        pass

def ring(*_):
    alarms.append(None)

own = None
handler = reap if sys.argv[1] == "reaping" else count
signal.signal(signal.SIGCHLD, handler)
signal.signal(signal.SIGALRM, ring)
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
with loader() as inner:
    it = iter(inner)
    step = 0
    while step < 200 or len(alarms) < 10 or own not in ended:
        assert is_step(next(it), step)
        step += 1
        if step == 100 and handler is reap:
            worker = next(iter(inner._shared_executor._executor._supervisor.workers.values()))
            os.kill(worker.process.pid, signal.SIGKILL)
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])  # until its pid is known here
            own = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 3"], os.environ)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        elif step == 100:
            assert subprocess.run(["sh", "-c", "exit 7"]).returncode == 7
            assert subprocess.run(["sh", "-c", "echo said"], capture_output=True).stdout == b"said\\n"
signal.setitimer(signal.ITIMER_REAL, 0)
assert signal.getsignal(signal.SIGCHLD) is handler and signal.getsignal(signal.SIGALRM) is ring
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == set()
print("undisturbed")
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["counting", "reaping"])
def test_handlers_timers_and_children_of_the_trainer_are_its_own(tmp_path, how):
    """SIGCHLD and SIGALRM reach the user's handlers, children keep their exit codes, and every batch is right.

    Also with a handler that reaps every child, a killed worker included.
    """
    script = start(tmp_path, HEAD + OWN_SIGNALS, how)
    try:
        code, out, err = script.finish()
        assert (code, out) == (0, "undisturbed\n"), err
        # A worker that is killed is told in the log; nothing else is.
        assert err == "" if how == "counting" else "Traceback" not in err, err
        assert still_alive(script.members()) == []
    finally:
        script.stop()


EVENT_LOOP = """
async def code_of(number):
    child = await asyncio.create_subprocess_exec("sh", "-c", f"exit {number}")
    return await child.wait()

async def main():
    running = asyncio.get_running_loop()
    alarms = []
    running.add_signal_handler(signal.SIGUSR1, alarms.append, None)
    it = iter(loader(steps=40))
    children = [asyncio.create_task(code_of(number)) for number in range(4)]
    step = 0
    while (batch := await running.run_in_executor(None, next, it, None)) is not None:
        assert is_step(batch, step)
        step += 1
        if step == 5:
            os.kill(os.getpid(), signal.SIGUSR1)
    assert step == 40
    assert await asyncio.gather(*children) == [0, 1, 2, 3]
    assert alarms == [None]
    it.close()

asyncio.run(main())
print("all steps")
"""


@pytest.mark.slow
def test_an_event_loop_awaits_batches_and_children_at_once(tmp_path):
    """next() in its executor, whichever thread that takes, beside children that the loop waits for.

    The script runs as a grandchild that has no terminal and no stdin, as test runners and launchers start one.
    """
    (tmp_path / "inner.py").write_text(HEAD + EVENT_LOOP)
    launcher = (
        "import os, subprocess, sys\n"
        "inner = os.path.join(os.path.dirname(__file__), 'inner.py')\n"
        "done = subprocess.run([sys.executable, inner], stdin=subprocess.DEVNULL, capture_output=True, text=True)\n"
        "print(done.returncode, repr(done.stdout), done.stderr)\n"
    )
    assert run(tmp_path, launcher) == "0 'all steps\\n' \n"


PREEMPTED = """
from pathlib import Path

path = Path(sys.argv[1])
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(None))
with loader(workers=1) as inner, iter(inner) as it:
    if path.exists():
        it.set_state(path.read_bytes())
    for batch in it:
        print(it.step - 1, batch["x"][0, 0] // 10, flush=True)
        if told:
            break
    path.write_bytes(it.get_state())
"""


@pytest.mark.slow
def test_a_preempted_run_saves_closes_and_goes_on(tmp_path):
    """SIGTERM to the whole group: the trainer ends by itself with its state written, and the next run has the rest."""
    said: list[str] = []
    for _ in range(2):
        script = start(tmp_path, HEAD + PREEMPTED, tmp_path / "state.json")
        try:
            said += [script.line() for _ in range(3)]
            os.killpg(script.process.pid, signal.SIGTERM)
            code, out, err = script.finish()
            assert (code, err) == (0, "")
            assert still_alive(script.members()) == []
        finally:
            script.stop()
        said += out.splitlines()
    assert said == [f"{step} {step}" for step in range(len(said))]
    assert len(said) >= 6


HELD = """
it = iter(loader())
kept = [next(it) for _ in range(8)]
print(*(worker.process.pid for worker in it._reader.executor._supervisor.workers.values()), flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_nothing_of_a_killed_trainer_has_a_name(tmp_path):
    """No file in /dev/shm or in the temporary folder, while it holds batches and after SIGKILL."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    text = f"import os\nos.environ['TMPDIR'] = {str(temporary)!r}\n{HEAD}{HELD}"
    script = start(tmp_path, text)
    try:
        workers = [int(pid) for pid in script.line().split()]
        held = [path for pid in [script.process.pid, *workers] for path in held_by(pid)]
        assert any("memfd:" in path for path in held)
        assert not [path for path in held if path.startswith(("/dev/shm", str(temporary)))]
        os.kill(script.process.pid, signal.SIGKILL)
        script.process.wait()
        assert still_alive(workers) == []
        assert list(temporary.iterdir()) == []
    finally:
        script.stop()


def held_by(pid: int) -> list[str]:
    """What a process has open or mapped."""
    held = [line.split(maxsplit=5)[5:] for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            held.append([os.readlink(link)])
    return [path for paths in held for path in paths]


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_a_loader_is_iterated_in_the_loop_of_another(kind):
    """Each with workers of its own: both streams are whole, every time."""
    options: dict[str, Any] = {"worker_count": 1, "worker_kind": kind}
    expected = list(numbers(24, row, lk.Batch(4)))
    with (
        numbers(24, row, lk.Batch(4), **options) as outer,
        numbers(24, row, lk.Batch(4), **options) as inner,
    ):
        given = []
        for batch in outer:
            assert all_same(list(inner), expected)
            given.append(batch)
        assert all_same(given, expected)


class Windows(lk.Map):
    """A Map that runs a loader of its own for each record."""

    def __init__(self, worker_count: int) -> None:
        self.worker_count = worker_count

    def map(self, element: int) -> Any:
        inner = numbers(
            6, lambda x: x + element, lk.Batch(3), worker_count=self.worker_count, worker_kind="thread"
        )
        with inner:
            return np.concatenate(list(inner))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["process", "thread"])
def test_a_worker_runs_a_loader_of_its_own(kind):
    """In the worker itself, and with threads beside it."""
    for inner_workers in (0, 2):
        operations = (Windows(inner_workers), lk.Batch(4))
        with numbers(12, *operations, worker_count=1, worker_kind=kind) as loader:
            assert all_same(list(loader), list(numbers(12, *operations)))


def test_processes_that_an_operation_starts_can_be_terminated():
    """Their signals mean what they usually do: a worker ignores SIGTERM and Ctrl-C, its children don't."""

    def ended(number: int) -> int:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a fork of a process with threads
            child = multiprocessing.get_context("fork").Process(target=signal.pause)
            child.start()
        os.kill(child.pid or 0, number)
        child.join()
        program = subprocess.run(["sh", "-c", f"kill -{number} $$; exit 0"], check=False)
        return 100 * int(child.exitcode or 0) + program.returncode

    with lk.load([signal.SIGTERM, signal.SIGINT], operations=[ended], num_epochs=1, worker_count=1) as loader:
        assert list(loader) == [-1515, -202]


def test_a_pool_within_an_operation_ends():
    """`with multiprocessing.Pool()` calls terminate(), which waits until its processes have ended."""

    def squares(x: int) -> list[int]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with multiprocessing.get_context("fork").Pool(2) as pool:
                return pool.map(abs, [x, -x])

    with lk.load([3], operations=[squares], num_epochs=1, worker_count=1) as loader:
        assert list(loader) == [[3, 3]]
