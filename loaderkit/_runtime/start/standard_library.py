"""Modules with names of the standard library come from the same files in a worker as in the trainer.

A trainer never imports a `types.py` beside the script, because it has the library's already. A worker imports in
another order and would find the script's first. Where the trainer imported the user's file, the worker has to as well.
"""

import os
import sys
import types
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder

_LIBRARY = os.path.dirname(os.__file__)
_EXTENSIONS = os.path.join(_LIBRARY, "lib-dynload")
_NOT_ITS_OWN = tuple(os.path.join(_LIBRARY, folder) for folder in ("site-packages", "dist-packages"))


@dataclass(frozen=True, slots=True)
class StandardModules:
    """The modules with names of the standard library that a process has imported.

    Args:
        own: names of those from the library.
        other: {name: file} of those from files elsewhere.
    """

    own: frozenset[str]
    other: dict[str, str]

    @classmethod
    def of_this_process(cls) -> "StandardModules":
        """The modules of this process.

        >>> modules = StandardModules.of_this_process()
        >>> "dataclasses" in modules.own, "numpy" in modules.own
        (True, False)
        """
        loaded = sys.stdlib_module_names.intersection([*sys.modules])
        files = {name: file for name in loaded if (file := _file_of(name)) is not None}
        own = frozenset(name for name, file in files.items() if _is_own(file))
        return cls(own, {name: file for name, file in files.items() if name not in own})

    def apply(self) -> None:
        """Makes later imports of the calling process find the same files."""
        for name, file in self.other.items():
            if name in sys.modules and _file_of(name) != file:
                del sys.modules[name]
        place = sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else len(sys.meta_path)
        sys.meta_path.insert(place, _Finder(self.own))


class _Finder:
    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is not None or name not in self._names:
            return None
        return PathFinder.find_spec(name, [_LIBRARY, _EXTENSIONS], target)


def _file_of(name: str) -> str | None:
    file = getattr(sys.modules.get(name), "__file__", None)
    return file if isinstance(file, str) else None


def _is_own(file: str) -> bool:
    return file.startswith(_LIBRARY + os.sep) and not file.startswith(_NOT_ITS_OWN)
