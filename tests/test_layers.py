"""Which room may import which: the imports of every file, read by ast, against one table.

docs/architecture.md draws the rooms. A folder of the package is a room, a file beside them is one of its own, and
`_runtime` and `interop` have rooms inside.
"""

import ast
import functools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "loaderkit"

# What a room imports of the package, itself aside: no more and no less. A room that isn't here fails the test by name.
IMPORTS = {
    "errors": "",
    "_base": "errors",
    "_system": "errors _base",
    "_order": "_base",
    "_mixture": "errors _base _order",
    "_packing": "_order",
    "samplers": "_base _mixture _order",
    "_formats": "_base",
    "_stats": "",
    "_storage": "errors _base _system",
    "_record_index": "errors _base _system _formats _storage",
    "_chunk_cache": "errors _base _system _storage _record_index",
    "formats": "_base _formats",
    "sources": "errors _base _system _packing formats _formats _storage _record_index _chunk_cache",
    "transforms": "errors _base _order _packing _formats",
    "combine": "_base _order _mixture samplers sources",
    "_plan": "errors _base _order _mixture samplers",
    "_engine": "errors _base _order",
    "_state": "errors _base _order _mixture _plan",
    "_files": "errors _system",
    "_runtime": "",
    "_runtime.memory": "errors _base _system _engine transforms",
    "_runtime.transport": "errors _base _system _order _engine _runtime.memory",
    "_runtime.worker": "errors _base _system _order _engine sources transforms _runtime.memory "
    "_runtime.transport _stats",
    "_runtime.start": "errors _system transforms _runtime.transport _runtime.worker",
    "_runtime.feeder": "_base _chunk_cache _runtime.transport _runtime.start",
    "_runtime.executors": "errors _base _system _order _engine sources _runtime.memory _runtime.transport "
    "_runtime.worker _runtime.start _runtime.feeder _stats",
    "_runtime.cluster": "errors _base _order _plan",
    "_iterator": "errors _base _system _order _mixture _plan _engine _state samplers sources transforms "
    "_runtime.executors _runtime.cluster _stats",
    "_loader": "errors _base _system _chunk_cache _order _plan _state samplers sources transforms _runtime.executors "
    "_runtime.worker _runtime.feeder _runtime.cluster _iterator _stats",
    "offline": "errors _base _system _order _formats _packing samplers sources transforms _runtime.worker _loader",
    "datasets": "errors _base _system formats _storage _record_index sources _loader writing",
    "writing": "errors _base _system formats _formats _storage sources transforms _runtime.worker _loader",
    "observe": "_base _system _order _plan _runtime.worker _stats sources transforms",
    "checkpoint": "_files",
    "interop": "_base",
    "interop.grain": "errors _base _system _storage _order _plan _engine _files samplers sources transforms "
    "_runtime.transport _runtime.executors _runtime.worker _iterator _loader",
    "interop.jax": "errors _base _system _order _plan _state samplers _runtime.cluster _iterator _stats",
    "interop.keras": "_base _loader",
    "interop.prometheus": "observe",
    "interop.tf": "_loader",
    "interop.torch": "_base samplers transforms _iterator _loader",
    "interop.tqdm": "observe",
    "testing": "errors _base _system formats _order _state samplers sources transforms _loader datasets writing",
    "front": "_base _system",
    "plan": "samplers",
    "demo": "_base front",
    "cli": "errors _base _system formats _formats _storage _record_index _chunk_cache _loader _order _state samplers "
    "sources transforms datasets writing offline",
    "__main__": "cli",
}
# The fronts of rooms import what a name needs when it is asked for; these rooms do so in a function of their own.
IMPORTS_WHEN_CALLED = {
    "_iterator": {"_files", "observe"},
    "_loader": {"observe"},
    "interop.grain": {"interop.jax"},
    "interop.jax": {"observe"},
    "observe": {"_iterator", "_loader"},  # for types: it is given what it needs of them
    "cli": {"demo"},
    "_record_index": {"_loader", "_runtime.worker", "samplers"},
}
# Imports that close a circle, those in functions included; without them there is none. No line is to be added: a room
# or a file that needs what is above it is given it as an argument.
CIRCLES_OF_ROOMS = {
    # `build_index` scans shards in a loader's workers, and a source, which a loader reads, builds the index it lacks.
    # It needs a room above the loader for what builds, and sources that are given the builder.
    ("_record_index", "_loader"),
}
PURE_ROOMS = {
    "errors",
    "_base",
    "_order",
    "_mixture",
    "_packing",
    "_plan",
    "_engine",
    "_state",
    "_formats",
    "_stats",
}

# What has effects, or an answer that the arguments alone don't decide.
# fmt: off
IMPURE = {
    "asyncio", "concurrent", "contextvars", "ctypes", "datetime", "fcntl", "gc", "getpass", "glob", "io",
    "jax", "locale", "logging", "mmap", "multiprocessing", "os", "pathlib", "platform", "queue", "random",
    "resource", "sched", "secrets", "select", "selectors", "shutil", "signal", "socket", "socketserver",
    "ssl", "subprocess", "tempfile", "threading", "time", "uuid", "warnings", "weakref", "_thread",
}
# fmt: on
# The calls of every room are made in former ways, which warn until 0.3.
WARNS = {"former_arguments.py": {"warnings"}}
# Names of numpy.random that keep no state of the process.
STATELESS_RANDOM = {"BitGenerator", "Generator", "Philox"}

PROCESSES = {"concurrent", "multiprocessing", "pty", "select", "selectors", "signal", "socket", "subprocess"}
# The demo's child is killed in the middle of an epoch: that is what it shows.
WITH_PROCESSES = {"_runtime", "_system", "demo", "cli"}
# Named shared memory, for scripts written for Grain that use it themselves; no process is started there.
WITH_NAMED_MEMORY = {"loaderkit.interop.grain._shared_memory"}

CORE_LIBRARIES = {"numpy", "cloudpickle", "array_record"}
# One optional library a file, and nothing else imports these files until it is asked for.
WITH_OPTIONAL_LIBRARIES = {"checkpoint", "interop", "demo"}


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


def room_of(module: str) -> str:
    parts = module.split(".")[1:]
    if not parts:
        return "front"
    inner = ".".join(parts[:2])
    return inner if inner in IMPORTS else parts[0]


@functools.cache
def imports_of(file: Path) -> tuple[Import, ...]:
    return tuple(read_imports(file))


def read_imports(file: Path) -> Iterator[Import]:
    tree = ast.parse(file.read_bytes())
    # A function's body runs later, and what only a type checker reads never; everything else of a file, also
    # within if, try and class, runs at once.
    later = {
        inner
        for outer in ast.walk(tree)
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or for_types_only(outer)
        for inner in ast.walk(outer)
        if inner is not outer
    }
    never = {
        inner
        for outer in ast.walk(tree)
        if isinstance(outer, ast.If) and for_types_only(outer)
        for statement in outer.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        for module in named_modules(node, file):
            yield Import(file, node.lineno, module, node not in later, node not in never)
    # The list of a front: it imports the file of a name when the name is first used.
    if (names := file.with_suffix(".pyi")).exists():
        for node in ast.walk(ast.parse(names.read_bytes())):
            for module in named_modules(node, file):
                yield Import(names, node.lineno, module, at_once=False, runs=False)


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


def test_every_file_belongs_to_a_room():
    """A new file or folder is put in the table on purpose."""
    strangers = [str(file) for module, file in MODULES.items() if room_of(module) not in IMPORTS]
    assert not strangers


@pytest.mark.parametrize("room", IMPORTS)
def test_a_room_imports_what_the_table_says(room):
    """The core knows nothing of the shell, the sources nothing of the plan, a worker nothing of an executor."""
    allowed = {*IMPORTS[room].split()}
    ours = [
        found
        for module, file in MODULES.items()
        if room_of(module) == room
        for found in imports_of(file)
        if found.top == "loaderkit" and room_of(found.module) != room
    ]
    wrong = [
        str(found)
        for found in ours
        if room_of(found.module) not in allowed
        and (found.at_once or room_of(found.module) not in IMPORTS_WHEN_CALLED.get(room, set()))
        and (found.at_once or room not in ("front", "interop"))
        and found.file.suffix == ".py"  # the list of a front may name files of rooms above its own
    ]
    assert not wrong, f"{room} may import {sorted(allowed)}:\n" + "\n".join(wrong)
    unused = allowed - {room_of(found.module) for found in ours}
    assert not unused, f"{room} doesn't import {sorted(unused)} any more"


def test_no_rooms_import_each_other_in_a_circle():
    """A room can be read and changed after those it imports, also where a function of it imports them."""
    check_circles(edges_of(room_of), CIRCLES_OF_ROOMS)


def test_no_files_import_each_other_in_a_circle():
    """Every file can be read and loaded after those it imports, also where a function of it imports them."""
    check_circles(edges_of(lambda module: module.partition(".")[2]), set())


def edges_of(name: Callable[[str], str]) -> set[tuple[str, str]]:
    """What imports what; but the front gives every name of the package when it is asked for it."""
    edges = {
        (name(module_name(found.file)), name(found.module))
        for found in all_imports()
        if found.module in MODULES
        and (found.at_once or (found.runs and "loaderkit" not in (found.module, module_name(found.file))))
    }
    return {(one, other) for one, other in edges if one != other}


def check_circles(edges: set[tuple[str, str]], known: set[tuple[str, str]]) -> None:
    free = edges - known
    assert not in_circles(free)
    cut = {edge for edge in known if edge not in edges or not in_circles({*free, edge})}
    assert not cut, "no circle any more: remove them from the list"


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
    [file for module, file in MODULES.items() if room_of(module) in PURE_ROOMS],
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
        and room_of(module_name(found.file)).partition(".")[0] not in WITH_PROCESSES
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
        and room_of(module_name(found.file)).partition(".")[0] not in WITH_OPTIONAL_LIBRARIES
    ]
    assert not wrong


def test_array_record_is_read_in_one_room():
    """How files are read is the sources' business."""
    rooms = {room_of(module_name(f.file)) for f in all_imports() if f.top == "array_record"}
    assert rooms <= {"sources", "writing", "demo"}


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
