"""What `import loaderkit` brings in, and what every public name says of itself."""

import doctest
import inspect
import json
import subprocess
import sys

import pytest

import loaderkit as lk

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
    assert not rooms & {"loaderkit.checkpoint", "loaderkit.interop", "loaderkit.cli", "loaderkit.demo"}


def test_import_brings_in_numpy_and_the_pickler_only(fresh):
    """Beyond the standard library, two packages: everything else waits until it is used."""
    known = {*sys.stdlib_module_names, "loaderkit", "numpy", "cloudpickle", "cython_runtime"}  # numpy's own
    loaded = {module.partition(".")[0] for module in fresh["modules"]}
    assert {name for name in loaded - known if not name.startswith("_")} == set()


def test_rooms_are_imported_when_they_are_asked_for(fresh):
    """lk.transforms.image needs no import of its own, and brings in OpenCV only where it is used."""
    assert fresh["rooms"] == ["loaderkit.transforms.image", "loaderkit.testing", "loaderkit.interop.grain"]
    assert not set(fresh["rooms"]) & {*fresh["modules"]}
    assert not {"cv2", "jax", "grain"} & {*fresh["later"]}


@pytest.mark.parametrize("room", [lk, lk.transforms, lk.transforms.image, lk.testing, lk.interop], ids=str)
def test_dir_shows_public_names_only(room):
    """No module that a name comes from, nothing that was imported to make it; all of what it shows is there."""
    rooms = {"interop", "sources", "testing", "transforms", "image", "grain", "jax"}
    for name in dir(room):
        value = getattr(room, name)
        assert name == "__version__" or not name.startswith("_")
        assert name in rooms or not inspect.ismodule(value)
        assert name in rooms or name == "__version__" or value.__module__.startswith("loaderkit.")
    assert not {"loader", "iterator", "foreign", "Any", "crops", "pipeline"} & {*dir(room)}
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        room.nothing  # noqa: B018  (the look-up is the test)


def test_modules_are_attributes_still():
    """What isn't shown can be reached as before."""
    assert lk.loader.DataLoader is lk.DataLoader and lk.errors.StateError is lk.StateError


def public_names() -> list[str]:
    values = {name: getattr(lk, name) for name in dir(lk) if not name.startswith("_")}
    ours = (
        name for name, value in values.items() if getattr(value, "__module__", "").startswith("loaderkit")
    )
    return sorted(ours)


def examples_in(public: object) -> list[doctest.Example]:
    found = doctest.DocTestFinder(recurse=True).find(public, getattr(public, "__name__", "value"))
    return [example for test in found for example in test.examples]


@pytest.mark.parametrize("name", public_names())
def test_every_public_name_shows_an_example(name):
    """A docstring that says what it is and a doctest that runs; --doctest-modules runs them."""
    public = getattr(lk, name)
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
