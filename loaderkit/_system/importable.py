"""Which modules another interpreter can import by name, and which only this process has."""

import importlib.machinery
import os
import sys
import types
from collections.abc import Sequence
from functools import lru_cache


def lives_here_alone(name: str | None) -> bool:
    """Whether a module of this process is one that an interpreter with the same `sys.path` doesn't find by its name.

    Such are the script, what `runpy.run_path(path, run_name="job")` runs, a `types.ModuleType` that was put in
    `sys.modules`, and a file that was loaded by its path under a name that is no module's, or another one's; also one
    that was taken out of `sys.modules`. Where only the import of a parent makes a module, it isn't alone.

    >>> lives_here_alone("__main__"), lives_here_alone("json.decoder")
    (True, False)
    """
    return name is not None and (name == "__main__" or name not in sys.modules or _is_alone(name))


# A worker has imported these before it has the trainer's path, and looks for the standard library's there first.
_BEFORE_THE_PATH = {"loaderkit", "cloudpickle", "numpy", *sys.stdlib_module_names}


@lru_cache(None)  # asked for each class in an element
def _is_alone(name: str) -> bool:
    if name.partition(".")[0] in _BEFORE_THE_PATH:
        return False
    module = sys.modules[name]
    file = getattr(module, "__file__", None)
    if isinstance(file, str) and not file.endswith((".py", ".pyc")):
        return False  # an extension's content can be had by an import only
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
        # Hand-made: an import would run its file once more. Objects that stand in for a module are of other types.
        by_hand = type(module) is types.ModuleType and getattr(module, "__loader__", None) is None
        return not parent and (found is None or by_hand)
    return found is None or _place(found) != _place(spec)


def _found(name: str, path: Sequence[str] | None) -> importlib.machinery.ModuleSpec | None:
    for finder in sys.meta_path:
        try:
            spec = finder.find_spec(name, path)
        except Exception:  # noqa: BLE001 - a finder of a library's, which was made for other names
            continue
        if spec is not None:
            return spec
    return None


def _place(spec: importlib.machinery.ModuleSpec) -> str | None:
    return os.path.realpath(spec.origin) if spec.has_location and spec.origin else spec.origin
