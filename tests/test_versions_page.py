"""The tables of docs/versions.md say what the code does."""

import importlib
import re
import tomllib
from pathlib import Path

import loaderkit as lk
from docs.site.names import names_of
from loaderkit._base.former import FORMER
from loaderkit._plan.state.document import FORMAT_VERSION, STREAM_VERSION

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/versions.md").read_text()


def rows(title: str) -> list[list[str]]:
    """The cells of a table, by a word of its head."""
    (table,) = re.findall(rf"^\| {title} \|.*\n\|[-| ]+\|\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()]


def public_names(module: str) -> set[str]:
    """What `dir` of it shows, and `__all__` of a file, without importing the library that it is for."""
    if (ROOT / (module.replace(".", "/") + ".py")).exists():
        return {*names_of(module)}
    return {name for name in dir(importlib.import_module(module)) if not name.startswith("_")}


def test_the_numbers_are_those_of_the_code():
    said = {name.split("`")[1]: now for name, now, _ in rows("number")}
    assert said["loaderkit.__version__"] == lk.__version__
    assert re.match(r"\d+", said["format_version"])[0] == str(FORMAT_VERSION)
    assert said["stream_version"] == str(STREAM_VERSION)


def test_public_names_are_all_there():
    """Those of a row are all that its module shows; rows that refer to `dir` have modules that exist."""
    said = {module.strip("`"): names for module, names in rows("module")}
    for module, names in said.items():
        if module in ("loaderkit.cli", "loaderkit.cli.demo"):
            continue
        if names.startswith("`"):
            assert {*re.findall(r"`(\w+)`", names)} - {"loaderkit"} == public_names(module), module
        else:
            assert public_names(module), module
    rooms = {
        getattr(lk, name).__name__
        for name in dir(lk)
        if name.islower() and hasattr(getattr(lk, name), "__path__")
    }
    inner = {f"loaderkit.interop.{name}" for name in dir(lk.interop)}
    assert rooms - {"loaderkit.interop"} | inner <= {*said}


def test_lower_bounds_are_those_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = [*project["dependencies"], *project["optional-dependencies"]["demo"]]
    bounds = dict(each.split(">=") for each in listed)
    said = {what: supported for what, supported, _ in rows("what")}
    for name in ("numpy", "cloudpickle", "array-record"):
        assert said[name] == f"{bounds[name]} and newer"
    both = f"JAX {bounds['jax']}, Orbax {bounds['orbax-checkpoint']} and newer"
    assert said["JAX, Orbax"].startswith(both)


def test_what_is_deprecated_says_so():
    """The old paths are there, and warn; what a table says is removed in this version isn't there any more."""
    for old, _, removed_in in rows("deprecated"):
        assert tuple(map(int, removed_in.split("."))) > tuple(
            map(int, re.findall(r"\d+", lk.__version__)[:3])
        )
        path = ROOT / (old.strip("`").replace(".", "/") + ".py")
        assert "former_name" in path.read_text(), old  # which warns


NEVER_IN_SOURCES = {"MdsDataSource"}  # sources of files that came after version 0.1


def test_former_names_are_those_that_the_package_serves():
    """Each is in the row of its module; tests/test_import.py uses them all."""
    said = {
        name: f"{module.strip('`').removeprefix('lk.')}.{name}"
        for module, names in rows("now in")
        for name in re.findall(r"`(\w+)`", names)
    }
    said |= {"ArraysDataSource": "formats.ArrayFileDataSource"}
    said |= {f"combine.{name}": name for name in ("mix", "interleave", "balance")}
    of_files = {
        "ArraysDataSource": "ArrayFileDataSource",
        **{name: name for name in public_names("loaderkit.formats") - NEVER_IN_SOURCES},
    }
    said |= {
        f"sources.{name}": f"formats.{now}" for name, now in of_files.items() if name.endswith("DataSource")
    }
    assert said == FORMER
