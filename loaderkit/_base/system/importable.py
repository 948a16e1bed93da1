"""Whether another interpreter can import a module by its name, or only this process has it."""

import importlib.machinery
import os
import sys
import types
from collections.abc import Sequence
from functools import lru_cache


def lives_here_alone(name: str | None) -> bool:
    """Whether an interpreter with the same `sys.path` can't import this module of this process by its name.

    True for the script, a file run by `runpy.run_path(path, run_name="job")`, a `types.ModuleType` put in
    `sys.modules`, a file loaded by its path under a name that finds no module or another one, and a module that was
    removed from `sys.modules`. False for a module that the import of its parent creates.

    >>> lives_here_alone("__main__"), lives_here_alone("json.decoder")
    (True, False)
    """
    return name is not None and (name == "__main__" or name not in sys.modules or _is_alone(name))


# A worker imports these before it has the trainer's sys.path, and finds the standard library's first.
_BEFORE_THE_PATH = {"loaderkit", "cloudpickle", "numpy", *sys.stdlib_module_names}


@lru_cache(None)  # called for each class in an element
def _is_alone(name: str) -> bool:
    if name.partition(".")[0] in _BEFORE_THE_PATH:
        return False
    module = sys.modules[name]
    file = getattr(module, "__file__", None)
    if isinstance(file, str) and not file.endswith((".py", ".pyc")):
        return False  # an extension module exists by an import only
    parent = name.rpartition(".")[0]
    path: Sequence[str] | None = None
    if parent:
        if lives_here_alone(parent):
            return True
        path = getattr(sys.modules.get(parent), "__path__", None)
        if path is None:
            return False
    spec = getattr(module, "__spec__", None)
    found = _found(name, path)
    if spec is None:
        # Made by hand, where an import would run the file again. Objects that replace a module have other types.
        by_hand = type(module) is types.ModuleType and getattr(module, "__loader__", None) is None
        return not parent and (found is None or by_hand)
    return found is None or _origin(found) != _origin(spec)


def _found(name: str, path: Sequence[str] | None) -> importlib.machinery.ModuleSpec | None:
    for finder in sys.meta_path:
        try:
            spec = finder.find_spec(name, path)
        except Exception:  # noqa: BLE001 - a library's finder may fail on names that aren't its own
            continue
        if spec is not None:
            return spec
    return None


def _origin(spec: importlib.machinery.ModuleSpec) -> str | None:
    return os.path.realpath(spec.origin) if spec.has_location and spec.origin else spec.origin
