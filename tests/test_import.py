"""What `import loaderkit` brings in, and what every public name says of itself."""

import ast
import doctest
import functools
import importlib.util
import inspect
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import loaderkit as lk
from loaderkit._base.former import FORMER

# fmt: off
OPTIONAL = {
    "attr", "attrs", "cv2", "grain", "jax", "jaxlib", "matplotlib", "orbax", "simplejpeg", "sklearn",
    "tensorflow", "tensorflow_datasets", "torch", "tqdm",
}
# fmt: on

PROBE = """
import json, sys
import loaderkit
modules = sorted(sys.modules)
rooms = [loaderkit.transforms.image, loaderkit.testing, loaderkit.interop.grain]
print(json.dumps({"modules": modules, "rooms": [room.__name__ for room in rooms], "later": sorted(sys.modules)}))
"""


@pytest.fixture(scope="module")
def fresh():
    """What a new interpreter holds after `import loaderkit`."""
    answer = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    assert answer.stderr == ""
    return json.loads(answer.stdout)


def test_import_brings_in_no_optional_library(fresh):
    """A worker and a script that doesn't use them pay for no accelerator and no peer library."""
    loaded = {module.partition(".")[0] for module in fresh["modules"]}
    assert sorted(loaded & OPTIONAL) == []


def test_import_leaves_the_rooms_of_optional_libraries_alone(fresh):
    """checkpoint and interop are loaded by the name that needs them, not before."""
    rooms = {".".join(module.split(".")[:2]) for module in fresh["modules"]}
    assert not rooms & {"loaderkit.checkpoint", "loaderkit.interop", "loaderkit.cli", "loaderkit.cli.demo"}


def test_import_brings_in_nothing(fresh):
    """Beyond the standard library all waits until it is used, our own modules too."""
    ours = {module for module in fresh["modules"] if module.startswith("loaderkit")}
    assert ours == {
        "loaderkit",
        *(f"loaderkit._base{name}" for name in ("", ".lazy_package", ".version")),
        *(f"loaderkit._base.system{name}" for name in ("", ".start_folder")),
    }
    known = {*sys.stdlib_module_names, "loaderkit"}
    loaded = {module.partition(".")[0] for module in fresh["modules"]}
    assert {name for name in loaded - known if not name.startswith("_")} == set()


def test_rooms_are_imported_when_they_are_asked_for(fresh):
    """lk.transforms.image needs no import of its own, and brings in OpenCV only where it is used."""
    assert fresh["rooms"] == ["loaderkit.transforms.image", "loaderkit.testing", "loaderkit.interop.grain"]
    assert not set(fresh["rooms"]) & {*fresh["modules"]}
    assert not {"cv2", "jax", "grain"} & {*fresh["later"]}


# Rooms of interop whose library isn't installed: the extra `test` has neither.
MISSING = {
    name
    for name, library in {"torch": "torch", "tf": "tensorflow"}.items()
    if importlib.util.find_spec(library) is None
}


@pytest.mark.parametrize(
    "room", [lk, lk.transforms, lk.transforms.image, lk.decode, lk.testing, lk.interop], ids=str
)
def test_dir_shows_public_names_only(room):
    """No module that a name comes from, nothing that was imported to make it; all of what it shows is there."""
    rooms = {
        "errors",
        "features",
        "formats",
        "interop",
        "offline",
        "samplers",
        "sources",
        "testing",
        "transforms",
        "decode",
        "image",
        "grain",
        "jax",
        "keras",
        "prometheus",
        "ray",
        "tf",
        "tokenizers",
        "torch",
        "tqdm",
    }
    for name in {*dir(room)} - MISSING:
        value = getattr(room, name)
        assert name == "__version__" or not name.startswith("_")
        assert name in rooms or not inspect.ismodule(value)
        assert name in rooms or name == "__version__" or value.__module__.startswith("loaderkit.")
    assert not {"loader", "iterator", "foreign", "Any", "crops", "pipeline"} & {*dir(room)}
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        room.nothing  # noqa: B018  (the look-up is the test)


def test_rooms_are_attributes():
    """A room that no statement imported is there when it is asked for."""
    assert lk.errors.StateError is lk.errors.StateError and lk.samplers.IndexSampler is lk.IndexSampler


PACKAGES = [*Path(lk.__file__).parent.rglob("__init__.pyi")]


def test_each_lazy_package_has_its_list():
    """A package whose names are imported on first use has them in an `__init__.pyi`, and no other package has one."""
    packages = Path(lk.__file__).parent.rglob("__init__.py")
    lazy = {path.parent for path in packages if "lazy_names" in path.read_text()}
    assert lazy == {path.parent for path in PACKAGES}


def test_names_are_found_where_the_package_is_a_zip_file(tmp_path):
    """The list of names is read by the package's loader, as its code is."""
    archive = tmp_path / "packages.zip"
    root = Path(lk.__file__).parents[1]
    with zipfile.ZipFile(archive, "w") as file:
        for path in Path(lk.__file__).parent.rglob("*.py*"):
            if path.suffix in (".py", ".pyi"):
                file.write(path, path.relative_to(root))
    script = "import loaderkit as lk; print(lk.__file__, next(iter(lk.load([7]))))"
    command = [sys.executable, "-c", script]
    environment = {**os.environ, "PYTHONPATH": str(archive)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=tmp_path)
    assert done.stdout == f"{archive}/loaderkit/__init__.py 7\n"


@pytest.mark.parametrize("path", PACKAGES, ids=lambda path: path.parent.name)
def test_what_type_checkers_see_is_what_runs(path):
    """Each import of the list gives what the package gives when it is asked, and it gives nothing else."""
    name = ".".join(path.parent.relative_to(Path(lk.__file__).parents[1]).parts)
    package = importlib.import_module(name)
    seen = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module != "typing":
            module = importlib.import_module("." * node.level + (node.module or ""), name)
            names = [ast.alias(name) for name in module.__all__] if node.names[0].name == "*" else node.names
            for alias in names if module is not lk.interop else [a for a in names if a.name not in MISSING]:
                there = f"{module.__name__}.{alias.name}"
                value = importlib.import_module(there) if module is package else getattr(module, alias.name)
                seen[alias.asname or alias.name] = value
        elif isinstance(node, ast.Assign):
            module, _, there = ast.unparse(node.value).rpartition(".")
            seen[ast.unparse(node.targets[0])] = getattr(importlib.import_module(module), there)
    assert {*dir(package)} - {"__version__"} - (MISSING if package is lk.interop else set()) == {*seen}
    assert all(getattr(package, each) is value for each, value in seen.items())


def test_a_name_is_looked_up_once():
    """After that it is an attribute of the package, as if it had been imported there."""
    lk.DataLoader  # noqa: B018  (the look-up is the test)
    assert vars(lk)["DataLoader"] is lk.DataLoader


def test_a_star_import_brings_the_core():
    """No module, no name that needs an optional library, and none that hides one of Python's own."""
    namespace: dict[str, object] = {}
    exec("from loaderkit import *", namespace)
    assert {*lk.__all__} == {name for name in namespace if name != "__builtins__"}
    assert {*dir(lk)} - {*lk.__all__} == {
        *("CheckpointHandler", "CheckpointRestore", "CheckpointSave"),
        *("ShardByJaxProcess", "ShardBySharding", "device_iterator", "__version__"),
        *("load", "open", "decode", "features"),
        *("errors", "formats", "interop", "offline", "samplers", "sources", "testing"),
        "transforms",
    }


@pytest.mark.parametrize("path", PACKAGES, ids=lambda path: path.parent.name)
def test_a_star_import_of_a_room_brings_its_names(path):
    """In any order of use."""
    name = ".".join(path.parent.relative_to(Path(lk.__file__).parents[1]).parts)
    namespace: dict[str, object] = {}
    exec(f"from {name} import *", namespace)
    package = importlib.import_module(name)
    assert {*package.__all__} == {each for each in namespace if each != "__builtins__"} <= {*dir(package)}
    assert package.__all__ or name == "loaderkit.interop"


def test_a_misspelled_name_comes_with_a_suggestion():
    """Python's own, which looks at what the package has."""
    for script in ("loaderkit.DataLoadr", "loaderkit.transforms.Filtr"):
        command = [
            sys.executable,
            "-c",
            f"import loaderkit; loaderkit.Filter, loaderkit.DataLoader; {script}",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "Did you mean: '" in done.stderr


@pytest.mark.parametrize("name", FORMER)
def test_a_former_name_is_the_new_one_with_a_warning(name):
    """At the line that uses it, with the new name and the release that drops the old one; `dir` doesn't show it."""
    expected = re.escape(f"lk.{name} is lk.{FORMER[name]} now; the old name goes with 0.3.0")
    package, _, own = f"loaderkit.{name}".rpartition(".")
    there = importlib.import_module(package)
    with pytest.warns(DeprecationWarning, match=f"^{expected}$") as of_attribute:
        value = getattr(there, own)
    with pytest.warns(DeprecationWarning, match=f"^{expected}$") as of_statement:
        exec(compile(f"\nfrom {package} import {own} as imported", "a_script.py", "exec"), found := {})
    assert {warning.filename for warning in of_attribute} == {__file__}
    assert {(warning.filename, warning.lineno) for warning in of_statement} == {("a_script.py", 2)}
    assert value is found["imported"] is functools.reduce(getattr, FORMER[name].split("."), lk)
    assert own not in dir(there) and own not in vars(there)


def test_passes_over_a_data_set_are_functions_in_any_order_of_imports():
    """No file of the package has the name of one of them, which its import would put in its place."""
    files = {path.stem for path in (Path(lk.__file__).parent / "offline").glob("*.py")}
    assert not files & {*dir(lk.offline)}


def public_names() -> list[str]:
    values = {name: getattr(lk, name) for name in dir(lk) if not name.startswith("_")}
    ours = (
        name for name, value in values.items() if getattr(value, "__module__", "").startswith("loaderkit")
    )
    return sorted(ours)


def examples_in(public: object) -> list[doctest.Example]:
    found = doctest.DocTestFinder(recurse=True).find(public, getattr(public, "__name__", "value"))
    return [example for test in found for example in test.examples]


@pytest.mark.parametrize("name", [*public_names(), *FORMER.values()])
def test_every_public_name_shows_an_example(name):
    """A docstring that says what it is and a doctest that runs; --doctest-modules runs them."""
    public = functools.reduce(getattr, name.split("."), lk)
    assert inspect.getdoc(public), f"lk.{name} has no docstring"
    assert examples_in(public), f"lk.{name} has no doctest"


def test_every_name_of_the_lazy_table_is_listed():
    """`dir(loaderkit)` and a star import show what comes on demand, too."""
    of_orbax = {"CheckpointSave", "CheckpointRestore", "CheckpointHandler"}
    of_jax = {"ShardByJaxProcess", "ShardBySharding", "device_iterator"}
    assert set(public_names()) >= of_orbax | of_jax


def test_an_unknown_name_is_an_attribute_error():
    """The table answers only for what it holds."""
    with pytest.raises(AttributeError, match="no_such_name"):
        lk.no_such_name  # noqa: B018  (the look-up is the test)
