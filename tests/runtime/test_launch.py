"""How a worker process starts, whatever lies in the folders around it; and what can't start any."""

import importlib
import itertools
import multiprocessing.spawn
import os
import shutil
import signal
import subprocess
import sys
import types

import pytest
from child_scripts import ENDS_WITHIN, ROOT
from runtime_loaders import numbers

import loaderkit as lk
from loaderkit._base.system.importable import _is_alone, lives_here_alone
from loaderkit._runtime.start.launch import launched

ONE = {"worker_count": 1}

SHADOWED = """
import os, sys
import loaderkit as lk
lk.load, lk.DataLoader

# Behind the import, as in a notebook: the trainer has the library's modules, and a worker imports its own from now on.
sys.path[:0] = ["", os.path.dirname(__file__), *(f"/nowhere/{n}" * 10 for n in range(3000))]
del sys.modules["queue"]  # but this one it has from the user
import queue

def look(x):
    import __main__, queue, statistics, types
    import beside
    names = [__main__.__file__, __main__.__spec__, types.__file__, statistics.mean, beside.__file__, queue.mine]
    return [*names, sys.path[:2], os.getcwd()]

with lk.load([0], num_epochs=1, operations=[look], worker_count=1) as loader:
    found, = loader
assert found == look(0), found
print(found[3], len(sys.path) > 3000)
"""
NAMES = ["signal", "struct", "ctypes", "types", "pickle", "socket", "enum", "linecache", "random", "secrets"]


@pytest.mark.slow
def test_no_file_of_the_user_is_taken_for_the_standard_librarys(tmp_path):
    """In the current directory and beside the script; what the trainer found there, a worker finds too, any path."""
    present = tmp_path / "present"
    present.mkdir()
    for folder in (tmp_path, present):
        for name in NAMES:
            (folder / f"{name}.py").write_text(f"raise ImportError('{name} of the user')")
    (present / "statistics.py").write_text("mean = 'of the user'")
    (present / "queue.py").write_text("mine = True")
    (present / "beside.py").touch()
    (tmp_path / "script.py").write_text(SHADOWED)
    done = subprocess.run(
        [sys.executable, "-P", str(tmp_path / "script.py")],
        cwd=present,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=ENDS_WITHIN * 2,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("of the user True\n", "")


def test_a_worker_runs_the_package_that_its_trainer_runs(tmp_path):
    """One that lies beside the script and isn't installed, also where another one is."""
    shutil.copytree(ROOT / "loaderkit", tmp_path / "loaderkit", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "script.py").write_text(
        "import loaderkit as lk\n"
        "def where(x):\n    import sys\n    return sys.modules['loaderkit._runtime.worker.main'].__file__\n"
        "with lk.load([0], num_epochs=1, operations=[where], worker_count=1) as loader:\n    print(*loader)\n"
    )
    done = subprocess.run(
        [sys.executable, str(tmp_path / "script.py")],
        cwd="/",
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=ENDS_WITHIN * 2,
        check=False,
    )
    expected = tmp_path / "loaderkit/_runtime/worker/main.py"
    assert (done.stdout, done.stderr) == (f"{expected}\n", "")


# --- interpreters -----------------------------------------------------------------------------------------------


def test_a_program_without_an_interpreter_is_told_what_to_write(monkeypatch):
    """As in a program that embeds Python, or a frozen one: before anything is started."""
    monkeypatch.setattr(multiprocessing.spawn, "_python_exe", None)
    loader = numbers(4, **ONE)
    for nothing in (None, ""):
        monkeypatch.setattr(sys, "executable", nothing)
        with pytest.raises(
            lk.WorkerError, match=r"sys.executable: expected .*worker_kind='thread' or worker_count=0"
        ):
            iter(loader)
    monkeypatch.undo()
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with pytest.raises(lk.WorkerError, match="frozen"):
        iter(loader)


def test_a_starting_interpreter_is_not_ended_by_ctrl_c(monkeypatch):
    """The signals are blocked while it is started, until its own code ignores them, and here only for that long."""
    blocked = []

    def popen(*_, **__):
        blocked.append(signal.pthread_sigmask(signal.SIG_BLOCK, []))
        raise OSError("nothing is started")

    monkeypatch.setattr(subprocess, "Popen", popen)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with pytest.raises(OSError, match="nothing is started"):
        launched((3, 4, 5))
    assert blocked == [before | {signal.SIGINT, signal.SIGTERM}]
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


def test_multiprocessings_executable_is_taken(monkeypatch):
    """The documented way to say which, in a program that embeds Python."""
    monkeypatch.setattr(multiprocessing.spawn, "_python_exe", os.fsencode(sys.executable))
    monkeypatch.setattr(sys, "executable", None)
    with numbers(4, **ONE) as loader:
        assert [int(x) for x in loader] == [0, 1, 2, 3]


def test_a_script_that_an_operation_runs_again_starts_no_workers(monkeypatch):
    """They would have it run again, and so on without end."""
    monkeypatch.setattr(multiprocessing.current_process(), "_inheriting", True, raising=False)
    with numbers(4, **ONE) as loader:
        iter(loader).close()
        monkeypatch.setenv("LOADERKIT_WORKER", "1")
    with pytest.raises(lk.WorkerError, match="if __name__ == '__main__'"):
        iter(numbers(4, **ONE))


AT_IMPORT = """
import loaderkit as lk

with open({log!r}, "a+") as log:
    print(file=log)
    assert log.tell() < 9, "ever more processes"

def same(x):
    return x

loader = lk.DataLoader(data_source=range(4), sampler=lk.IndexSampler(4, num_epochs=1), operations=[same], **{options})
{begin}
"""


@pytest.fixture
def at_import(tmp_path, monkeypatch):
    """Imports a module with a loader and a line behind it; gives the module and how many processes have imported it."""

    def imported(begin, **options):
        log, name = tmp_path / "log", f"at_import_{next(numbered)}"
        (tmp_path / f"{name}.py").write_text(AT_IMPORT.format(log=str(log), options=options, begin=begin))
        names.append(name)
        return importlib.import_module(name), lambda: len(log.read_text())

    names, numbered = [], itertools.count()
    monkeypatch.syspath_prepend(tmp_path)
    yield imported
    for name in names:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("begin", ["elements = [*loader]", "it = iter(loader)\nit.start_prefetch()"])
def test_a_module_that_starts_workers_when_it_is_imported_is_named(at_import, tmp_path, begin):
    """The workers import it for its operations, and would start workers as well, and so on without end."""
    with pytest.raises(lk.WorkerError, match=r"module 'at_import_0' in .* starts .* into a function"):
        next(at_import(begin, **ONE)[0].it)
    assert len((tmp_path / "log").read_text()) == 2


def test_a_module_that_starts_nothing_in_a_worker_may_be_imported_there(at_import):
    """Threads, an iterator that isn't used, and processes that wait for a program are no program that starts others."""
    for begin, options in [
        ("elements = [*loader]", {**ONE, "worker_kind": "thread"}),
        ("it = iter(loader)", ONE),
        ("loader.start()", ONE),
    ]:
        module, imports = at_import(begin, **options)
        with lk.load(range(4), num_epochs=1, operations=[module.same], **ONE) as loader:
            assert [*loader] == [0, 1, 2, 3]
        module.loader.close()
    assert imports() == 6


# --- modules that only the trainer has --------------------------------------------------------------------------

JOB = """
import dataclasses, enum
import loaderkit as lk

runs.append(__name__)

class Color(enum.Enum):
    RED = 1

@dataclasses.dataclass
class Example:
    x: int
    color: Color

class Refused(Exception):
    pass

def tripled(x):
    return settings.factor * x

class Decode(lk.Map):
    def map(self, x):
        if x == 2:
            raise Refused(x)
        return Example(tripled(x), Color.RED)
"""


@pytest.fixture
def job(tmp_path, monkeypatch):
    """A module that was made by hand, with another that it uses; a file of its name lies on the path."""
    modules = types.ModuleType("settings_by_hand"), types.ModuleType("job_by_hand")
    for module in modules:
        monkeypatch.setitem(sys.modules, module.__name__, module)
    settings, job = modules
    settings.factor, job.settings, job.runs = 3, settings, []
    exec(JOB, vars(job))
    (tmp_path / "job_by_hand.py").write_text("import os\nos.abort()\n")
    monkeypatch.syspath_prepend(tmp_path)
    return job


def test_what_only_the_trainer_can_import_travels_by_value(job):
    """Functions, classes, elements, exceptions and modules of runpy's or one's own; no file is run for their names."""
    source = lk.InMemoryDataSource([job.Example(k, job.Color.RED) for k in range(2)])
    again = lk.Map(lambda example: job.Example(example.x + 1, example.color))
    with numbers(3, job.Decode(), **ONE) as loader:
        it = iter(loader)
        assert [next(it), next(it)] == [job.Example(0, job.Color.RED), job.Example(3, job.Color.RED)]
        with pytest.raises(job.Refused):
            next(it)
    with numbers(2, again, data_source=source, **ONE) as loader:
        assert [*loader] == [job.Example(1, job.Color.RED), job.Example(2, job.Color.RED)]
    assert job.runs == ["job_by_hand"]


def test_which_modules_another_interpreter_finds(tmp_path, monkeypatch):
    """Those of the path and of libraries; not another file of the same name, and not one that is gone."""
    (tmp_path / "found_by_name.py").touch()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "found_by_name.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("found_by_name")
    importlib.import_module("xml.parsers.expat")
    monkeypatch.setitem(sys.modules, "found_by_name", sys.modules["found_by_name"])
    for name in ("found_by_name", "numpy", "json.decoder", "os.path", "xml.parsers.expat.errors", __name__):
        assert not lives_here_alone(name), name
    _is_alone.cache_clear()
    monkeypatch.syspath_prepend(tmp_path / "elsewhere")
    assert lives_here_alone("found_by_name")
    assert lives_here_alone("not_there_at_all")
    _is_alone.cache_clear()
