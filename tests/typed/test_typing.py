"""Type checkers find misspelled names, and know the type of an element."""

import inspect
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import loaderkit as lk
from loaderkit.formats import load

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("typed_script.py")
GRAIN_SCRIPT = Path(__file__).with_name("typed_grain_script.py")
# What an earlier run of mypy knows of all that is imported; without it a run takes half a minute.
KNOWN = ROOT / ".mypy_cache"


WRONG = sorted(
    (script.name, number)
    for script in (SCRIPT, GRAIN_SCRIPT)
    for number, line in enumerate(script.read_text().splitlines(), start=1)
    if "  # wrong" in line
)


def found_by(*command: str) -> list[tuple[str, int]]:
    """The lines with an error, as a type checker of this environment tells of them."""
    run = subprocess.run(
        [sys.executable, "-m", *command, str(SCRIPT), str(GRAIN_SCRIPT)],
        check=False,
        cwd=ROOT,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 1, run.stdout + run.stderr
    lines = re.findall(r"^\s*\S*?([^/\s]+\.py):(\d+)\S* (?:- )?error: ", run.stdout, re.MULTILINE)
    return sorted((name, int(number)) for name, number in lines)


def test_mypy_finds_every_wrong_line_and_no_other(nightly):
    """Under --strict: names, arguments, sources, elements; without T no annotation is needed."""
    if not (nightly or KNOWN.is_dir()):
        pytest.skip("mypy hasn't read the package here before: run `mypy` first, as .ci/run does")
    assert found_by("mypy", "--strict") == WRONG


def test_pyright_finds_every_wrong_line_and_no_other(nightly):
    """The same of another type checker, whose rules of inference are others."""
    if not nightly or find_spec("pyright") is None:
        pytest.skip("the nightly run does it, where pyright is installed")
    assert found_by("pyright", "--pythonpath", sys.executable) == WRONG


# --- signatures, which are all that a type checker has ---------------------------------------------------------------

# What load takes under another name, or makes of its own arguments.
ONLY_LOADER = {"data_source", "sampler"}
ONLY_LOAD = {"source", "num_epochs", "shuffle", "seed", "batch_size", "drop_remainder"}


def test_load_takes_what_the_loader_takes():
    """Names, defaults and types are equal, so that an option added to one has to be added to the other."""
    of_load = dict(inspect.signature(lk.load).parameters)
    of_loader = dict(inspect.signature(lk.DataLoader).parameters)
    assert of_load.keys() - of_loader.keys() == ONLY_LOAD
    assert of_loader.keys() - of_load.keys() == ONLY_LOADER
    shared = of_loader.keys() - ONLY_LOADER
    for name in sorted(shared):
        for part in ("default", "annotation", "kind"):
            assert getattr(of_load[name], part) == getattr(of_loader[name], part), name


def test_load_hands_each_option_on(monkeypatch):
    """Each argument arrives unchanged, and none is swapped with another."""
    given: dict[str, object] = {}
    monkeypatch.setattr(load, "DataLoader", lambda **arguments: given.update(arguments))
    shared = inspect.signature(lk.DataLoader).parameters.keys() - ONLY_LOADER - {"operations"}
    values = {name: object() for name in shared}
    lk.load([1], **values)
    assert {name: given[name] for name in shared} == values


def test_a_loader_takes_its_element_in_brackets():
    """At run time, too, where it has no effect."""
    loader = lk.DataLoader[int](data_source=[1], sampler=lk.SequentialSampler(1))
    assert type(loader) is lk.DataLoader
    assert list(loader) == [1]
    assert lk.DataLoaderIterator[int].__origin__ is lk.DataLoaderIterator
