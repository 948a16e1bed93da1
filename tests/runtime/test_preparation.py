"""What a worker process finds as its trainer does: arguments, folder, the script's name, warnings, flags."""

import os
import pickle
import subprocess
import sys
import warnings

import pytest
from child_scripts import ENDS_WITHIN, ROOT, run
from runtime_loaders import numbers

from loaderkit._runtime.start import preparation
from loaderkit._runtime.start.preparation import Preparation, present_filters, set_filters

# A module that looks around when it is imported, as modules that read flags do, and ends the process if it must.
SETTINGS = """
import __main__, argparse, multiprocessing, os, sys, warnings

parser = argparse.ArgumentParser()
parser.add_argument("--size", type=int, required=True)
size = parser.parse_args().size

class Stale(Warning):
    pass

def raises(category):
    try:
        warnings.warn("stale", category)
    except Warning:
        return True
    return False

seen = {
    "size": size, "arguments": sys.argv, "folder": os.path.realpath("."), "path": sys.path,
    "file": __main__.__file__, "package": __main__.__package__, "name": __main__.__name__,
    "spec": (__main__.__spec__.name, __main__.__spec__.origin, type(__main__.__spec__.loader).__name__),
    "limits": (sys.getrecursionlimit(), sys.get_int_max_str_digits()),
    "options": sys._xoptions,
    "flags": [
        (flag, getattr(sys.flags, flag))
        for flag in sys.flags.__match_args__
        if flag not in ("safe_path", "hash_randomization")
    ],
    "environment": {
        name: value
        for name, value in os.environ.items()
        if name.startswith(("PYTHON", "SAID")) and name != "PYTHONHASHSEED"
    },
    "raises": [raises(UserWarning), raises(Stale), raises(ResourceWarning)],
    "umask": [os.umask(0o27), os.umask(0o27)],
    "authkey": bytes(multiprocessing.current_process().authkey),
    "start_method": multiprocessing.get_start_method(allow_none=True),
}

def look(x):
    return seen
"""

TRAIN = """
import multiprocessing.managers
import os, sys, warnings

multiprocessing.set_start_method("spawn")
sys.path.append("")
os.chdir("outputs")
os.environ["SAID"] = "later"
os.umask(0o27)
sys.setrecursionlimit(4321)
sys.set_int_max_str_digits(5000)
import loaderkit as lk
from . import settings

warnings.simplefilter("ignore", ResourceWarning)
warnings.simplefilter("error", settings.Stale)
settings.seen["raises"] = [settings.raises(category) for category in (UserWarning, settings.Stale, ResourceWarning)]

with lk.load([0], num_epochs=1, operations=[settings.look], worker_count=1) as loader:
    found, = loader
for name, value in settings.seen.items():
    assert found[name] == value, (name, value, found[name])
assert found["raises"] == [True, True, False] and found["size"] == 3
print("the same")
"""


def test_a_module_finds_in_a_worker_what_it_found_in_the_trainer(tmp_path):
    """It reads flags when it is imported, and where it is; the script runs by `python -m`, and has changed folder."""
    package = tmp_path / "project"
    package.mkdir()
    (tmp_path / "outputs").mkdir()
    (package / "__init__.py").touch()
    (package / "settings.py").write_text(SETTINGS)
    (package / "train.py").write_text(TRAIN)
    command = [
        sys.executable,
        "-Werror",
        "-Xsaid=so",
        "-Xno_debug_ranges",
        "-b",
        "-m",
        "project.train",
        "--size",
        "3",
    ]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONBREAKPOINT": "0"},
        capture_output=True,
        text=True,
        timeout=ENDS_WITHIN * 2,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("the same\n", "")


class Stale(Warning):
    """A category of a module that a worker may not have imported."""


class VeryStale(Stale):
    """One of its subclasses."""


def test_filters_of_warnings_travel_without_the_modules_of_their_categories():
    """Of all kinds, in their order; a category is told by its name, and holds for its subclasses too."""
    with warnings.catch_warnings():
        warnings.resetwarnings()
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", (UserWarning, DeprecationWarning))
        warnings.filterwarnings("ignore", "(?-i:Old) news", UserWarning, r"test_prep")
        warnings.simplefilter("error", Stale)
        warnings.filters.append(
            ("error", "never", SyntaxWarning, "reached", 7)
        )  # as the interpreter's own are
        filters = pickle.loads(pickle.dumps(present_filters()))
        set_filters(filters)
        assert present_filters() == filters
        assert all(entry[2] is not Stale for entry in warnings.filters)
        warnings.warn("Old news", UserWarning, stacklevel=1)
        warnings.warn("any", ResourceWarning, stacklevel=1)
        for message, category in (("old news", UserWarning), ("x", DeprecationWarning), ("x", VeryStale)):
            with pytest.raises(category):
                warnings.warn(message, category, stacklevel=1)


def test_a_path_relative_to_a_folder_that_was_left_means_that_folder(tmp_path, monkeypatch):
    """What the trainer imported by it, a worker still finds; the empty entry is the current directory."""
    monkeypatch.setattr(preparation, "START_FOLDER", str(tmp_path))
    (tmp_path / "before").mkdir()
    (tmp_path / "now" / "present").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "now")
    monkeypatch.setattr(sys, "path", ["before", "", "present", "/a", "nowhere", tmp_path, "app.zip"])
    taken = Preparation.of_this_process(()).path
    assert taken == [str(tmp_path / "before"), "", "present", "/a", "nowhere", "app.zip"]


def test_a_relative_path_is_that_of_the_folder_where_the_package_was_imported(tmp_path):
    """Also where its names are first used after the program has left that folder."""
    (tmp_path / "libs").mkdir()
    (tmp_path / "outputs").mkdir()
    (tmp_path / "libs/beside.py").write_text("def double(x):\n    return 2 * x\n")
    out = run(
        tmp_path,
        "import os, sys\n"
        "os.chdir(os.path.dirname(__file__))\n"
        "sys.path.insert(0, 'libs')\n"
        "import beside, loaderkit as lk\n"
        "os.chdir('outputs')\n"
        "with lk.load([1, 2], num_epochs=1, operations=[beside.double], worker_count=1) as loader:\n"
        "    print(*loader)\n",
    )
    assert out == "2 4\n"


def test_the_present_folder_may_be_gone(tmp_path, monkeypatch):
    """Then a worker is where the trainer is; what can't be named isn't taken over."""
    monkeypatch.chdir(tmp_path)
    os.rmdir(tmp_path)
    taken = Preparation.of_this_process(())
    assert taken.folder is None
    with numbers(4, worker_count=1) as loader:
        assert [int(x) for x in loader] == [0, 1, 2, 3]
