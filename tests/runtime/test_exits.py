"""However a script ends, it ends at once, prints nothing, and leaves no process."""

import os
import signal

import pytest
from child_scripts import start, still_alive

KINDS = ["process", "thread"]

HEAD = """
import gc, os, sys, threading
import numpy as np
import loaderkit as lk

folder, kind = sys.argv[1:3]

def stuck(x):
    if x == 20:
        open(os.path.join(folder, "inside"), "w").close()
        os.write(1, b"here\\n")  # in one go: the trainer may write too
        with open(os.path.join(folder, "never")) as never:
            never.read()
    return {"x": np.full(100, x)}

def broken(x):
    if x == 20:
        raise ValueError("the twentieth")
    return {"x": np.full(100, x)}

def whole(x):
    return {"x": np.full(100, x)}

def loader(function=whole):
    return lk.DataLoader(data_source=lk.RangeDataSource(0, 10**9, 1), sampler=lk.IndexSampler(10**9),
                         operations=[function, lk.Batch(10)], worker_count=int(sys.argv[3]), worker_kind=kind)
"""

# What the script does, its exit code, what stands in its stderr.
ENDINGS = {
    "break": ("for batch in loader():\n    break", 0, ""),
    "exception": ("for batch in loader():\n    raise KeyError('mine')", 1, "KeyError: 'mine'\n"),
    "sys_exit": ("for batch in loader():\n    sys.exit(3)", 3, ""),
    "alive_at_the_end": ("it, other = iter(loader()), iter(loader())\nnext(it), next(other).copy()", 0, ""),
    "never_begun": ("it = iter(loader())", 0, ""),
    "stuck_at_the_end": (
        """it = iter(loader(stuck))
it.start_prefetch()
while not os.path.exists(os.path.join(folder, 'inside')):
    pass""",
        0,
        "",
    ),
    "garbage": (
        """it = iter(loader())
b = next(it)
here = [it]
here.append(here)
del it, here
gc.collect()
while any(thread.name.startswith('loaderkit') for thread in threading.enumerate()):
    pass
print(b['x'][3, 0])""",
        0,
        "",
    ),
    # Registered behind `import loaderkit` and before the first loader: it comes before ours, which ends the workers.
    "exit_handler": (
        """import atexit
atexit.register(lambda: print(next(it)['x'][0, 0]))
it = iter(loader())
next(it)""",
        0,
        "",
    ),
    "error": ("for batch in loader(broken):\n    pass", 1, "ValueError: the twentieth"),
}
# With threads there is less to end: the cases in which a thread works at the end.
CASES = [(name, "process") for name in ENDINGS]
CASES += [(name, "thread") for name in ("alive_at_the_end", "stuck_at_the_end", "garbage", "error")]


@pytest.fixture
def folder(tmp_path):
    os.mkfifo(tmp_path / "never")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "kind"), CASES)
def test_a_script_ends_cleanly(folder, kind, ending):
    """The right exit code, nothing on stderr but the script's own error, no process left."""
    body, expected, said = ENDINGS[ending]
    script = start(folder, HEAD + body, folder, kind, 1)
    try:
        code, _, err = script.finish()
        assert code == expected, err
        # A worker process adds its own traceback as a note; a thread's frames are in the one that is there.
        assert err.count("Traceback (most recent") == bool(said) + (
            ending == "error" and kind == "process"
        ), err
        assert said in err if said else err == ""
        assert "Exception ignored" not in err
        assert still_alive(script.members()) == []
    finally:
        script.stop()


LOGS_AT_THE_END = """
import logging
logging.getLogger("loaderkit").addHandler(logging.FileHandler(os.path.join(folder, "log"), mode="w"))
it = iter(loader())
next(it)
from loaderkit._loader import shared_executor
ends = shared_executor.end_workers

def logged():
    logging.getLogger("loaderkit").warning("while the workers end")
    ends()

shared_executor.end_workers = logged
"""


def test_what_is_logged_while_the_workers_end_is_written(folder):
    """The workers end before logging does, whichever of the two was imported first."""
    script = start(folder, HEAD + LOGS_AT_THE_END, folder, "process", 1)
    try:
        code, _, err = script.finish()
        assert (code, err, (folder / "log").read_text()) == (0, "", "while the workers end\n")
    finally:
        script.stop()


INTERRUPTED = """
it = iter(loader(stuck))
try:
    for batch in it:
        pass
except KeyboardInterrupt:
    print("interrupted at", it.step, flush=True)
    if sys.argv[4] == "go on":
        sys.stdin.readline()
        it.seek(5)
        print("then", next(it)["x"][0, 0], flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("then", ["go on", "end"])
def test_ctrl_c_while_waiting_reaches_the_script(folder, kind, then):
    """SIGINT to the whole group: the workers ignore it, the trainer raises, and ends or goes on."""
    script = start(folder, HEAD + INTERRUPTED, folder, kind, 2, then)
    try:
        assert script.line() == "here"
        script.interrupt()
        assert script.line() in {f"interrupted at {step}" for step in range(3)}
        if then == "go on":
            (folder / "never").write_text("")  # what it was interrupted in ends after all
            script.process.stdin.write("\n")
        code, out, err = script.finish()
        assert (code, out, err) == (0, "then 50\n" if then == "go on" else "", "")
        assert still_alive(script.members()) == []
    finally:
        script.stop()


INTERRUPTED_TWICE = """
import signal
it = iter(loader(stuck))
it.start_prefetch()
while not os.path.exists(os.path.join(folder, "inside")):
    pass
pool = it._reader.executor
worker = pool._supervisor.workers[0].process.pid
os.write(1, f"workers {worker}\\n".encode())
main, ready = threading.main_thread().ident, []

def interrupt():
    with pool.lock:  # the pump can't end meanwhile
        ready.append("the lock is held")
        while len(ready) < 2:
            pass  # the thread that starts this one waits for that too
        while sys._current_frames()[main].f_code is not threading.Condition.wait.__code__:
            pass
        os.write(1, b"interrupted\\n")
        os.kill(os.getpid(), signal.SIGINT)  # who waits for the workers' end

threading.Thread(target=interrupt, daemon=True).start()
while not ready:
    pass
ready.append("to end")
if sys.argv[4] == "close":
    try:
        it._reader._find_executor.func.__self__.close()  # the SharedExecutor, as the loader does
    except KeyboardInterrupt:
        alive = os.path.exists(f"/proc/{worker}")
        os.write(1, b"again, too early\\n" if alive else b"again\\n")
    os._exit(0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["close", "exit"])
def test_a_second_ctrl_c_while_the_workers_end(folder, how):
    """They are waited for all the same; then close() raises it, and the script's end, which it asked for, is silent."""
    script = start(folder, HEAD + INTERRUPTED_TWICE, folder, "process", 1, how)
    try:
        (worker,) = [int(pid) for line in (script.line(), script.line()) for pid in line.split()[1:]]
        code, out, err = script.finish()
        assert (code, out, err) == (0, "interrupted\n" + ("again\n" if how == "close" else ""), "")
        assert still_alive([worker], within=0) == []
    finally:
        script.stop()


def test_ctrl_c_while_the_workers_start_is_as_quiet(folder):
    """An interpreter that is just starting would print a traceback of its own."""
    text = (
        HEAD
        + "it = iter(loader())\nit.start_prefetch()\nprint('started', flush=True)\nnext(it)\nsys.stdin.read()\n"
    )
    script = start(folder, text, folder, "process", 2)
    try:
        assert script.line() == "started"
        while not script.members():
            pass  # the first worker is about to exist
        script.interrupt()
        code, _, err = script.finish()
        assert code == -signal.SIGINT
        assert err.count("Traceback (most recent") == 1 and err.endswith("KeyboardInterrupt\n"), err
        assert still_alive(script.members()) == []
    finally:
        script.stop()


ORPHANS = """
it = iter(loader(stuck if sys.argv[4] == "stuck" else whole))
it.start_prefetch()
if sys.argv[4] == "stuck":
    while not os.path.exists(os.path.join(folder, "inside")):
        pass
else:
    next(it)
if sys.argv[4] == "forked":
    if os.fork() == 0:
        with open(os.path.join(folder, "never")) as never:
            never.read()
        os._exit(0)
workers = it._reader.executor._supervisor.workers.values()
os.write(1, f"workers {' '.join(str(worker.process.pid) for worker in workers)}\\n".encode())
for batch in it:
    pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["working", "stuck", "forked"])
def test_no_worker_outlives_a_killed_trainer(folder, how):
    """SIGKILL of the trainer, also while a worker is stuck, also while a child that the user forked lives on."""
    script = start(folder, HEAD + ORPHANS, folder, "process", 2, how)
    try:
        lines = [script.line() for _ in range(1 + (how == "stuck"))]
        workers = [int(pid) for line in lines for pid in line.split()[1:]]
        assert len(workers) == 2
        os.kill(script.process.pid, signal.SIGKILL)
        script.process.wait()
        assert still_alive(workers) == []
        assert len(script.members()) == (how == "forked")
    finally:
        script.stop()


def test_a_worker_that_is_starting_does_not_outlive_its_trainer(folder):
    """It asks to end with the trainer before its first slow import: here numpy's, which never comes back."""
    (folder / "slow").mkdir()
    (folder / "slow" / "numpy.py").write_text(
        f"import os\nopen(f'{folder}/reached {{os.getpid()}}', 'w').close()\nopen('{folder}/never').read()\n"
    )
    text = (
        # A worker takes numpy from where the trainer has it.
        f"import numpy\nnumpy.__file__ = '{folder}/slow/numpy/__init__.py'\n{HEAD}"
        "it = iter(loader())\nit.start_prefetch()\n"
        "while len(workers := it._reader.executor._supervisor.workers) < 2:\n    pass\n"
        "print('workers', *(worker.process.pid for worker in workers.values()), flush=True)\nnext(it)\n"
    )
    script = start(folder, text, folder, "process", 2)
    try:
        workers = [int(pid) for pid in script.line().split()[1:]]
        for pid in workers:
            while not (folder / f"reached {pid}").exists():
                pass
        os.kill(script.process.pid, signal.SIGKILL)
        script.process.wait()
        assert still_alive(workers) == []
    finally:
        script.stop()


def test_sigterm_to_the_group_leaves_the_workers_to_the_trainer(folder):
    """Pre-emption: the trainer's handler runs, its iterator still works, then it ends with its workers."""
    text = (
        "import signal\n"
        "signal.signal(signal.SIGTERM, lambda *_: print('saving at', it.step, len(it.get_state()) > 100, flush=True))\n"
        "it = iter(loader())\nfor _ in range(3):\n    next(it)\nprint('ready', flush=True)\nsys.stdin.readline()\n"
        "print(next(it)['x'][0, 0], flush=True)\n"
    )
    script = start(folder, HEAD + text, folder, "process", 1)
    try:
        assert script.line() == "ready"
        workers = script.members()
        os.killpg(script.process.pid, signal.SIGTERM)
        assert script.line() == "saving at 3 True"
        assert script.members() == workers
        script.process.stdin.write("go\n")
        code, out, err = script.finish()
        assert (code, out, err) == (0, "30\n", "")
        assert still_alive(workers) == []
    finally:
        script.stop()
