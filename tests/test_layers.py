"""Which room may import which: the imports of every file, read by ast, against one list.

docs/architecture.md draws the rooms. A folder of the package is a room.
"""

import ast
import functools
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "loaderkit"

# A file imports files of its own room and of rooms before it, in functions and in the lists of fronts, too.
ROOMS = [
    "_base",
    "_codecs",
    "_order",
    "_storage",
    "_source",
    "_engine",
    "samplers",
    "transforms",
    "_plan",
    "sources",
    "_runtime",
    "_loader",
    "formats",
    "offline",
    "testing",
    "interop",
    "cli",
]
# The same holds for the parts of the runtime.
PARTS_OF_THE_RUNTIME = ["memory", "transport", "worker", "start", "feeder", "remote", "executors", "cluster"]
# Files beside the rooms, and what they may import: the errors all rooms may, the others none.
BESIDE = {
    "errors": set(),
    "checkpoint": {"_loader"},
    "combine": {"_base"},
    "__main__": {"cli"},
    "": {*ROOMS, "errors", "checkpoint"},  # the front
}
PART_TO_COPY = PACKAGE / "cli/demo/train.py"  # of the demo, which imports what a user's script does
# Folders and files that compute and do nothing else, and a folder of effects within one of them.
PURE = ["_base", "_codecs", "_order", "_engine", "_plan", "errors.py"]
PURE_FILES_OF_FORMATS = {
    "tar": ["encoding", "header", "members", "record", "scanner", "tagged_json", "values"],
    "tfrecord": ["scanner"],
    "tables": ["arrow_records", "arrow_row_readers", "arrow_values"],
    "text": ["csv_rows", "csv_types", "json_record", "line_scanner"],
    "tokens": ["document_layout"],
    ".": ["npy"],
}
PURE += [f"formats/{folder}/{name}.py" for folder, names in PURE_FILES_OF_FORMATS.items() for name in names]
WITH_EFFECTS = "_base/system"

# What has effects, or an answer that the arguments alone don't decide.
# fmt: off
IMPURE = {
    "asyncio", "concurrent", "contextvars", "ctypes", "datetime", "fcntl", "gc", "getpass", "glob", "io",
    "jax", "locale", "logging", "mmap", "multiprocessing", "os", "pathlib", "platform", "queue", "random",
    "resource", "sched", "secrets", "select", "selectors", "shutil", "signal", "socket", "socketserver",
    "ssl", "subprocess", "tempfile", "threading", "time", "uuid", "warnings", "weakref", "_thread",
}
# fmt: on
# Calls and names of every room are given in former ways, which warn until 0.3.
WARNS = {"former_arguments.py": {"warnings"}, "former.py": {"warnings"}}
# Names of numpy.random that keep no state of the process.
STATELESS_RANDOM = {"BitGenerator", "Generator", "Philox"}

PROCESSES = {"concurrent", "multiprocessing", "pty", "select", "selectors", "signal", "socket", "subprocess"}
# The demo's child is killed in the middle of an epoch: that is what it shows.
WITH_PROCESSES = ("_runtime", "_base.system", "cli")
# Named shared memory, for scripts written for Grain that use it themselves; no process is started there.
WITH_NAMED_MEMORY = {"loaderkit.interop.grain._shared_memory"}

CORE_LIBRARIES = {"numpy", "cloudpickle", "array_record"}
# One optional library a file, and nothing else imports these files until it is asked for.
WITH_OPTIONAL_LIBRARIES = ("checkpoint", "interop", "cli.demo")


@dataclass(frozen=True, slots=True)
class Import:
    """One import statement: where it stands, what it names, whether importing the file runs it, and whether anything
    does: what only a type checker reads never runs.
    """

    file: Path
    line: int
    module: str
    at_once: bool
    runs: bool

    def __str__(self) -> str:
        return f"{self.file.relative_to(PACKAGE.parent)}:{self.line} imports {self.module}"

    @property
    def top(self) -> str:
        return self.module.partition(".")[0]


def module_name(file: Path) -> str:
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


MODULES = {module_name(file): file for file in files()}


def place_of(module: str) -> str:
    """Its path in the package, with dots."""
    return module.partition(".")[2]


def room_of(module: str) -> str:
    return place_of(module).partition(".")[0]


def is_in(module: str, places: tuple[str, ...]) -> bool:
    return f"{place_of(module)}.".startswith(tuple(f"{place}." for place in places))


@functools.cache
def imports_of(file: Path) -> tuple[Import, ...]:
    return tuple(read_imports(file))


def read_imports(file: Path) -> Iterator[Import]:
    yield from imports_in(ast.parse(file.read_bytes()), file, at_once=True, runs=True)
    # The list of a front: it imports the file of a name when the name is first used.
    if (names := file.with_suffix(".pyi")).exists():
        for found in imports_in(ast.parse(names.read_bytes()), file, at_once=False, runs=False):
            yield replace(found, file=names)


def imports_in(node: ast.AST, file: Path, *, at_once: bool, runs: bool) -> Iterator[Import]:
    """A function's body runs later, and what only a type checker reads never; everything else of a file runs at once,
    also within if, try and class.
    """
    for module in named_modules(node, file):
        yield Import(file, node.lineno, module, at_once, runs)
    for_types = for_types_only(node)
    at_once = at_once and not (for_types or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    for inner in ast.iter_child_nodes(node):
        if not isinstance(inner, ast.expr):  # no expression holds an import, and nine of ten nodes are in one
            yield from imports_in(
                inner, file, at_once=at_once, runs=runs and not (for_types and inner in node.body)
            )


def for_types_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def named_modules(node: ast.AST, file: Path) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = node.module or ""
    if node.level:
        package = module_name(file).split(".")
        package = package if file.name == "__init__.py" else package[:-1]
        base = ".".join(package[: len(package) - node.level + 1] + ([node.module] if node.module else []))
    # `from loaderkit._order import rng` names a module, `from loaderkit.errors import StateError` doesn't.
    return [f"{base}.{a.name}" if f"{base}.{a.name}" in MODULES else base for a in node.names]


def all_imports() -> list[Import]:
    return [found for file in files() for found in imports_of(file)]


def pure_files() -> list[Path]:
    """Fails where one of the list isn't there any more."""
    places = [PACKAGE / place for place in PURE]
    assert all(place.exists() for place in places)
    found = [
        file for place in places for file in ([place] if place.is_file() else sorted(place.rglob("*.py")))
    ]
    return [file for file in found if not file.is_relative_to(PACKAGE / WITH_EFFECTS)]


def test_every_file_belongs_to_a_room():
    """A new file or folder is put in the list on purpose."""
    assert {room_of(module) for module in MODULES} == {*ROOMS, *BESIDE}


@pytest.mark.parametrize("room", [*ROOMS, *BESIDE])
def test_a_room_imports_rooms_before_it(room):
    """The core knows nothing of the shell, the sources nothing of the plan, a worker nothing of an executor."""
    allowed = {*ROOMS[: ROOMS.index(room)], "errors"} if room in ROOMS else BESIDE[room]
    wrong = [found for found in ours_of(room) if room_of(found.module) not in {*allowed, room}]
    assert not [str(found) for found in wrong if found.file != PART_TO_COPY]


def ours_of(room: str) -> list[Import]:
    """The imports of the package in the files of a room."""
    files_of_room = [file for module, file in MODULES.items() if room_of(module) == room]
    return [found for file in files_of_room for found in imports_of(file) if found.top == "loaderkit"]


def test_the_page_draws_the_rooms():
    """From the lowest floor up, and from left to right."""
    (picture,) = re.findall(
        r"```\n(  9 .*?)```", (PACKAGE.parent / "docs/architecture.md").read_text(), re.DOTALL
    )
    floors = [re.findall(r"\w+", line[41:]) for line in picture.splitlines()]
    assert [room for floor in reversed(floors) for room in floor] == ROOMS


def test_the_parts_of_the_runtime_import_those_before_them():
    """Memory below messages, a worker below what starts it, and what drives workers on top."""
    wrong = []
    for found in ours_of("_runtime"):
        part, other = (place_of(name).split(".")[1:2] for name in (module_name(found.file), found.module))
        if room_of(found.module) == "_runtime" and part and other:
            allowed = PARTS_OF_THE_RUNTIME[: PARTS_OF_THE_RUNTIME.index(part[0]) + 1]
            wrong += [] if other[0] in allowed else [str(found)]
    assert not wrong


def test_no_files_import_each_other_in_a_circle():
    """Every file can be read and loaded after those it imports, also where a function of it imports them."""
    assert not in_circles(edges_of(lambda module: module.partition(".")[2]))


def edges_of(name: Callable[[str], str]) -> set[tuple[str, str]]:
    """What imports what; but the front gives every name of the package when it is asked for it."""
    edges = {
        (name(module_name(found.file)), name(found.module))
        for found in all_imports()
        if found.module in MODULES
        and (found.at_once or (found.runs and "loaderkit" not in (found.module, module_name(found.file))))
    }
    return {(one, other) for one, other in edges if one != other}


def in_circles(edges: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Those in circles, and those that lead to one; nothing is left where there is no circle."""
    while ends := {edge for edge in edges if not {edge[1]} & {one for one, _ in edges}}:
        edges = edges - ends
    return edges


@pytest.mark.parametrize(
    ("edges", "left"),
    [
        ("ab bc", ""),
        ("ab ba bc", "ab ba"),
        ("ab bc ca ad", "ab bc ca"),
    ],
)
def test_circles_are_found(edges, left):
    """What a circle only imports is in none."""
    assert in_circles({(one, other) for one, other in edges.split()}) == {(a, b) for a, b in left.split()}


@pytest.mark.parametrize(
    "file",
    pure_files(),
    ids=lambda file: str(file.relative_to(PACKAGE)),
)
def test_pure_rooms_do_nothing_but_compute(file):
    """No I/O, clock, thread, process, log, warning or global random state in a pure room."""
    impure = IMPURE - WARNS.get(file.name, set())
    wrong = [str(found) for found in imports_of(file) if found.top in impure]
    wrong += [f"{file.name}:{node.lineno} {ast.unparse(node)}" for node in effects(file)]
    assert not wrong


def effects(file: Path) -> Iterator[ast.expr]:
    for node in ast.walk(ast.parse(file.read_bytes())):
        match node:
            case ast.Attribute(attr=name) if ast.unparse(node.value) in ("np.random", "numpy.random"):
                if name not in STATELESS_RANDOM:
                    yield node
            case ast.Call(func=ast.Name(id="open" | "print" | "input" | "exec" | "eval")):
                yield node


def test_only_the_runtime_has_processes():
    """Processes, sockets and signals live in one room."""
    wrong = [
        str(found)
        for found in all_imports()
        if found.top in PROCESSES
        and not is_in(module_name(found.file), WITH_PROCESSES)
        and module_name(found.file) not in WITH_NAMED_MEMORY
    ]
    assert not wrong


def test_optional_libraries_are_imported_where_they_are_used():
    """The core needs numpy, cloudpickle and array_record; any other library is imported within a function."""
    known = CORE_LIBRARIES | {"loaderkit"} | sys.stdlib_module_names
    wrong = [
        str(found)
        for found in all_imports()
        if found.at_once
        and found.top not in known
        and not is_in(module_name(found.file), WITH_OPTIONAL_LIBRARIES)
    ]
    assert not wrong


def test_array_record_is_read_and_written_by_its_format():
    """The demo writes by lk.write, as a user does."""
    files_with_it = {place_of(module_name(f.file)) for f in all_imports() if f.top == "array_record"}
    assert {name.rpartition(".")[0] for name in files_with_it} == {"formats.array_record"}


def test_the_log_says_the_packages_name_once():
    """The logger has it as its name, which handlers show and filter by; the text doesn't repeat it."""
    for file in files():
        code = file.read_bytes()
        if b"_log" not in code and b"getLogger" not in code:
            continue  # a walk through every file of the package took seven seconds
        for node in ast.walk(ast.parse(code)):
            match node:
                case ast.Call(func=ast.Attribute(attr="getLogger"), args=arguments):
                    assert [ast.unparse(one) for one in arguments] == ["'loaderkit'"], file
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="_log")), args=[ast.Constant(value=text), *_]
                ):
                    assert not text.lower().startswith("loaderkit"), f"{file}:{node.lineno}"
                case ast.Call(func=ast.Attribute(value=ast.Name(id="_log"))):
                    pytest.fail(f"{file}:{node.lineno}: a text that isn't written there")


def test_no_class_of_grains_names_inherits_from_a_private_room():
    """They plug in through the contracts; so no look-alike hides behind `type: ignore`."""
    for file in (PACKAGE / "interop/grain").rglob("*.py"):
        private = {
            name.asname or name.name
            for node in ast.walk(ast.parse(file.read_bytes()))
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("loaderkit._")
            for name in node.names
        }
        bases = {
            ast.unparse(base).partition("[")[0]
            for node in ast.walk(ast.parse(file.read_bytes()))
            if isinstance(node, ast.ClassDef)
            for base in node.bases
        }
        assert not bases & private, file
