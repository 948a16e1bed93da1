"""Runs the tests that the grain wheel ships against loaderkit.interop.grain.

Writes what came of each as JSON, and the names of the shared memory that this process made on the way.

A thin stand-in for the `grain` package goes in front: its modules hold our names. The test files are the wheel's own,
unchanged; they are loaded under names of their own, so that their classes travel by value to our workers.
"""

import faulthandler
import importlib.machinery
import importlib.util
import io
import json
import sys
import types
import unittest
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

# transforms_test.py is about a private function alone, which names transforms in the Dataset side's messages.
FILES = (
    "_src/core/sharding_test.py",
    "_src/python/data_loader_test.py",
    "_src/python/data_sources_test.py",
    "_src/python/dataset/transformations/batch_test.py",
    "_src/python/experimental/index_shuffle/python/index_shuffle_test.py",
    "_src/python/ipc/shared_memory_array_test.py",
    "_src/python/load_test.py",
    "_src/python/operations_test.py",
    "_src/python/options_test.py",
    "_src/python/record_test.py",
    "_src/python/samplers_test.py",
)

LIMIT_S = 600  # for each test, as for ours: then the stacks are on stderr, and the process exits with 1

# Of a file of the Dataset side: the class that is about what is here.
ONLY = {"batch_test": "BatchAndPadTest"}

# What these test no public name of Grain's leads to: see README.md.
PRIVATE = (
    "CopyNumPyArrayToSharedMemoryTest",
    "SharedMemoryArrayTest.test_async_unlink_limit",
    "SharedMemoryArrayTest.test_batch_dict_of_data_with_shared_memory",
    "SharedMemoryArrayTest.test_copy_and_open_shm",
    "SharedMemoryArrayTest.test_del_many_async_reuse_pool",
    "SharedMemoryArrayTest.test_unlink_shm",
)

DATASET_SIDE = (
    "grain._src.python.dataset.dataset",
    "grain._src.python.dataset.transformations.flatmap",
    "grain._src.python.dataset.transformations.process_prefetch",
    "grain._src.python.dataset.transformations.repeat",
    "grain._src.python.dataset.transformations.source",
)


def wheel() -> Path:
    """The folder of the installed package, which is never imported here."""
    spec = importlib.machinery.PathFinder.find_spec("grain", [entry for entry in sys.path if entry])
    assert spec is not None and spec.submodule_search_locations is not None
    return Path(next(iter(spec.submodule_search_locations)))


def stand_in(root: Path) -> None:
    """Modules named as Grain's, holding our names."""
    import loaderkit.interop.grain as ours
    from loaderkit.interop.grain import (
        _batching,
        _shared_memory,
        _shuffle,
        data_loader,
        operations,
        options,
    )

    tree_lib = types.SimpleNamespace(spec_like=type)
    homes: dict[str, Any] = {
        "grain._src.core.sharding": ours.sharding,
        "grain._src.core.transforms": ours.transforms,
        "grain._src.core.tree_lib": tree_lib,
        "grain._src.python.data_loader": data_loader,
        "grain._src.python.data_sources": ours.sources,
        "grain._src.python.dataset.base": ours.sources,
        "grain._src.python.dataset.transformations.batch": types.SimpleNamespace(
            **vars(_batching), BatchFn=object
        ),
        "grain._src.python.experimental.index_shuffle.python.index_shuffle_module": _shuffle,
        "grain._src.python.ipc.shared_memory_array": types.SimpleNamespace(
            **vars(_shared_memory), **dict.fromkeys(("copy_to_shm", "open_from_shm", "unlink_shm"))
        ),
        "grain._src.python.load": data_loader,
        "grain._src.python.operations": operations,
        "grain._src.python.options": options,
        "grain._src.python.record": operations,
        "grain._src.python.samplers": ours.samplers,
    }
    # The remaining tests of shared memory call it first; here no thread frees memory.
    _shared_memory.SharedMemoryArray._disable_async_del = lambda: None  # type: ignore[attr-defined]
    sys.modules["grain"] = module("grain", __file__=str(root / "__init__.py"))
    for name, home in homes.items():
        install(name, vars(home))
    for name in DATASET_SIDE:
        install(name, {})
        sys.modules[name].__getattr__ = lambda _: Named()  # type: ignore[method-assign]
    install("parameterized", {"parameterized_class": parameterized_class})
    loaded = load("experimental_of_testing", root / "_src/python/testing/experimental.py")
    install("grain._src.python.testing.experimental", vars(loaded))


class Named:
    """What a file names of the Dataset side in the cases of tests that don't run here."""

    def __getattr__(self, name: str) -> "Named":
        return self

    def __call__(self, *arguments: Any, **named: Any) -> "Named":
        return self


def module(name: str, **names: Any) -> types.ModuleType:
    made = types.ModuleType(name)
    made.__path__ = []
    vars(made).update(names)
    return made


def install(name: str, names: dict[str, Any]) -> None:
    parent = None
    parts = name.split(".")
    for depth in range(1, len(parts) + 1):
        path = ".".join(parts[:depth])
        if path not in sys.modules:
            sys.modules[path] = module(path)
        if parent is not None:
            setattr(parent, parts[depth - 1], sys.modules[path])
        parent = sys.modules[path]
    vars(parent).update({key: value for key, value in names.items() if not key.startswith("__")})


def parameterized_class(cases: list[dict[str, Any]]) -> Any:
    """A class for each case, as the package of that name makes them."""

    def decorate(cls: type) -> type:
        namespace = sys.modules[cls.__module__].__dict__
        for number, case in enumerate(cases):
            name = f"{cls.__name__}_{number}"
            body = {key: value for key, value in vars(cls).items() if key not in ("__dict__", "__weakref__")}
            namespace[name] = type(name, (cls,), {**body, **case})
        for name in [name for name in vars(cls) if name.startswith("test")]:
            delattr(cls, name)
        return cls

    return decorate


def load(name: str, file: Path) -> types.ModuleType:
    import cloudpickle

    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[name] = loaded
    spec.loader.exec_module(loaded)
    cloudpickle.register_pickle_by_value(loaded)
    return loaded


class Outcomes(unittest.TestResult):
    """What came of each test, by file, class and name."""

    def __init__(self) -> None:
        super().__init__()
        self.of: dict[str, str] = {}

    def addSuccess(self, test: Any) -> None:
        self.of.setdefault(said(test), "passed")

    def addFailure(self, test: Any, error: Any) -> None:
        self.of[said(test)] = f"failed: {error[0].__name__}: {error[1]}"[:300]

    def addError(self, test: Any, error: Any) -> None:
        self.addFailure(test, error)

    def addSkip(self, test: Any, reason: str) -> None:
        self.of[said(test)] = f"skipped: {reason}"


def noting_names(names: list[str]) -> None:
    """From here on the names of shared memory that this process makes are written down.

    Not those that its workers make: test_grain_shared_memory.py looks at these.
    """
    plain = SharedMemory.__init__

    def noting(self: SharedMemory, name: str | None = None, create: bool = False, size: int = 0) -> None:
        plain(self, name, create, size)
        if create:
            names.append(self.name)

    SharedMemory.__init__ = noting


def said(test: Any) -> str:
    case = getattr(test, "test_case", test)
    return f"{type(case).__module__}.{type(case).__name__}.{getattr(case, '_testMethodName', test)}"


def main() -> None:
    from absl import flags, logging

    root = wheel()
    stand_in(root)
    logging.set_verbosity(logging.FATAL)
    outcomes = Outcomes()
    names: list[str] = []
    noting_names(names)
    sys.stdout, out = io.StringIO(), sys.stdout
    for file in FILES:
        # Where a child of multiprocessing, which one test starts, finds the file by its name.
        sys.path.append(str((root / file).parent))
        tests = load(Path(file).stem, root / file)
        if not flags.FLAGS.is_parsed():
            flags.FLAGS(["tests", f"--test_srcdir={root / '_src' / 'python'}"])
        if hasattr(tests, "setup_module"):
            tests.setup_module()
        suite = unittest.defaultTestLoader.loadTestsFromModule(tests)
        only = ONLY.get(Path(file).stem)
        for group in suite:
            for test in group:
                name = said(test).partition(".")[2]
                if only not in (None, type(test).__name__) or name.startswith(PRIVATE):
                    continue
                faulthandler.dump_traceback_later(LIMIT_S, exit=True, file=sys.__stderr__)
                test.run(outcomes)
                faulthandler.cancel_dump_traceback_later()
                print(said(test), outcomes.of.get(said(test)), file=sys.stderr, flush=True)
    print(json.dumps({"outcomes": outcomes.of, "names": names}, indent=1), file=out)


if __name__ == "__main__":
    main()
