"""Private attributes are read by the file of their class, and by the tests of its room.

Read by ast: `x._name` in a test, where x isn't self or cls, against the rooms whose classes or files define `_name`.
"""

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from test_layers import MODULES, room_of

TESTS = Path(__file__).parent

# The rooms that a folder of tests is about: by the folder's name, but for these.
TESTED = {
    "checkpoint": {"checkpoint", "_loader"},
    "runtime": {"_runtime", "_base"},  # what the system gives is tried by workers
}
# Helpers beside the folders: each names one thing that other rooms' tests look at, so that it is mended in one place.
HELPERS = {"internals.py": "a loader's executor and plan"}
# Attributes of a room that another room's tests read all the same, by folder and name, and why.
EXCEPTIONS = {
    ("runtime", "_window"): "a test holds what is made ahead to its bytes, which the scheduler counts",
    (
        "runtime",
        "_output_queue",
    ): "a test of checksums flips a byte of the next batch, and finds it in the scheduler",
    ("runtime", "_holds"): "which memory a fenced worker may write to shows in no other way",
    ("runtime", "_freed"): "the same",
    ("runtime", "_seen"): "a test waits until a silent worker has been watched for long enough",
    ("testing", "_by_name"): "what a test registers is taken back: the package forgets no format",
    ("testing", "_by_extension"): "the same",
    ("transforms", "_make"): "every NamedTuple has it",
    ("sources", "_fd"): "that two processes map the same memory shows only in its inode",
}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


@dataclass(frozen=True, slots=True)
class Reached:
    """A private attribute of another object, where a file names it."""

    name: str
    line: int
    text: str


@functools.cache
def private_names(file: Path) -> tuple[frozenset[str], tuple[Reached, ...]]:
    """The private names that a file, its classes and their methods (on self) define, and those of other objects."""
    own, others = set(), []
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.ClassDef | ast.Module):
            own.update(filter(is_private, (name for part in node.body for name in bound(part))))
        elif isinstance(node, ast.Attribute) and is_private(node.attr):
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            if owner not in ("self", "cls"):
                others.append(node)
            elif owner == "self" and isinstance(node.ctx, ast.Store):
                own.add(node.attr)
    reached = (Reached(node.attr, node.lineno, ast.unparse(node)) for node in others if node.attr not in own)
    return frozenset(own), tuple(reached)


def bound(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement in the body of a class or file binds.

    >>> [[*bound(part)] for part in ast.parse("def f(): ...\\n_x = y = 1\\n_z: int").body]
    [['f'], ['_x', 'y'], ['_z']]
    """
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            yield from (target.id for target in targets if isinstance(target, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name


def reached(file: Path) -> tuple[Reached, ...]:
    """The private attributes of other objects that a file names, but for those of classes of its own."""
    return private_names(file)[1]


def is_tested_by(folder: str, room: str) -> bool:
    """Whether a folder's tests are of that room.

    >>> is_tested_by("runtime", "_base"), is_tested_by("plan", "_plan"), is_tested_by("plan", "_engine")
    (True, True, False)
    """
    return room in TESTED.get(folder, {folder, f"_{folder}"})


@functools.cache  # and not at import: each worker of a test run collects this file, and one of them runs it
def rooms() -> dict[str, set[str]]:
    """The rooms that define a private name."""
    found: dict[str, set[str]] = {}
    for module, path in MODULES.items():
        for name in private_names(path)[0]:
            found.setdefault(name, set()).add(room_of(module))
    return found


FOLDERS = sorted(folder.name for folder in TESTS.iterdir() if any(folder.glob("*.py")))


def foreign(folder: str) -> Iterator[tuple[str, str]]:
    """What the tests of a folder reach that no room of theirs defines: the name, and where it stands."""
    for file in sorted((TESTS / folder).rglob("*.py")):
        for node in reached(file):
            homes = rooms().get(node.name, set())
            if homes and not any(is_tested_by(folder, room) for room in homes):
                place = f"{file.relative_to(TESTS)}:{node.line}"
                yield node.name, f"{place} {node.text}, of {', '.join(sorted(homes))}"


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_reaches_only_into_its_own_rooms(folder):
    """A private attribute may change with its room's tests, and breaks no other."""
    found = [*foreign(folder)]
    wrong = [place for name, place in found if (folder, name) not in EXCEPTIONS]
    assert not wrong, "use a public name, or a helper of tests/internals.py:\n" + "\n".join(wrong)
    used = {(folder, name) for name, _ in found}
    unused = {exception for exception in EXCEPTIONS if exception[0] == folder} - used
    assert not unused, f"no test needs these exceptions any more: {sorted(unused)}"


def test_helpers_reach_for_the_folders():
    """Of the files beside the folders only the helpers that are named here may."""
    reaching = {
        file.name for file in TESTS.glob("*.py") if any(node.name in rooms() for node in reached(file))
    }
    assert reaching == {*HELPERS}


# Private attributes that a file of the package reads of another file's classes, by name, and why. What isn't here is
# read through a public name, or belongs into a value that both are given.
BETWEEN_FILES = {
    "_fields": "every NamedTuple has it",
    "_fd": "Python's resource tracker, which has no public name for it",
    "_name": "Python's SharedMemory, as above",
    "_fingerprint": "of another library's source",
    "_may_give_none": "a mark of our own operations: a public name might be one of a user's subclass",
    "_written": "as above",
    "_drawn_as": "as above",
    "_identity": "as above",
    "_source": "what a source of ours is made of; users' sources may have public names of their own",
    "_sources": "as above",
    "_ends": "where the parts of a ConcatDataSource end",
    "_starts": "where they begin",
    "_stream": "which stream a data set is copied for: a public name might be one of a user's subclass",
    "_sliced": "the copy of a data set for a stream, as above",
    "_last_of_worker": "that a stream's elements are sent, as above",
    "_steps": "classes of data sets by the method that makes them, as above",
    "_get_next_index": "Grain's, which users' iterators define",
    "_set_next_index": "as above",
    "_plan": "the plan of a loader, for libraries that ask for a number of batches",
    "_shard_options": "Grain's IndexSampler under its own names, which has no public ones",
    "_num_records": "as above",
    "_shuffle": "as above",
    "_num_epochs": "as above",
    "_seed": "as above",
}


def test_a_file_reads_private_names_of_its_own_classes_only():
    """What two files share is a value with public names, and the rules of its use in its own file."""
    found: dict[str, list[str]] = {}
    for module, path in MODULES.items():
        for node in reached(path):
            if node.name in rooms():
                found.setdefault(node.name, []).append(f"{module}:{node.line} {node.text}")
    wrong = [place for name in found.keys() - BETWEEN_FILES.keys() for place in found[name]]
    assert not wrong, "make it public, or a part of what both are given:\n" + "\n".join(sorted(wrong))
    unused = BETWEEN_FILES.keys() - found.keys()
    assert not unused, f"no file needs these exceptions any more: {sorted(unused)}"
