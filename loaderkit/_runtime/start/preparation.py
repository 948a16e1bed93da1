"""What a worker process takes over from its trainer, before it unpickles anything and imports a module of the user's.

A module may look around when it is imported: at its arguments, at the script's file, at the folder that it is in. In a
worker it sees what it saw in the trainer. That is what multiprocessing's "spawn" hands on, and some more; the table
in docs/guide.md says what. The script isn't run again. All workers of a pool get the same, those that come later too.
"""

import contextlib
import importlib.util
import os
import sys
import types
from collections.abc import Collection
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from typing import Any

from loaderkit._system.start_folder import START_FOLDER, present_folder

from .standard_library import StandardModules
from .warning_filters import WarningFilter, present_filters, set_filters

_MAIN = ("__file__", "__package__", "__doc__")  # of the script, beside its spec


@dataclass(frozen=True, slots=True)
class Preparation:
    """What is handed on.

    Args:
        path: `sys.path`.
        modules: of the standard library's names.
        by_value: modules that only the trainer has; what they define travels with the program.
        arguments: `sys.argv`; None where an embedding program has set none.
        folder: the present one; None where it was removed.
        main: attributes of `__main__`.
        spec: of `__main__`, where `python -m` runs a module: its name, its file, whether that is a plain source file.
        filters: of warnings.
        limits: of recursion, and of the digits of an int as text.
        authkey: of multiprocessing, where its managers are used.
        start_method: of multiprocessing, where the program has chosen one.
    """

    path: list[str]
    modules: StandardModules
    by_value: frozenset[str]
    arguments: list[str] | None
    folder: str | None
    main: dict[str, str | None]
    spec: tuple[str, str | None, bool] | None
    filters: list[WarningFilter]
    limits: tuple[int, int]
    authkey: bytes | None
    start_method: str | None

    @classmethod
    def of_this_process(cls, by_value: Collection[str]) -> "Preparation":
        """What this process would hand on now.

        >>> Preparation.of_this_process(()).folder == os.getcwd()
        True
        """
        main = sys.modules["__main__"]
        arguments = getattr(sys, "argv", None)
        authkey, start_method = _of_multiprocessing()
        return cls(
            path=[_as_found(entry) for entry in _entries(sys.path)],
            modules=StandardModules.of_this_process(),
            by_value=frozenset(by_value),
            arguments=None if arguments is None else [str(argument) for argument in arguments],
            folder=present_folder(),
            main={
                name: value for name in _MAIN if isinstance(value := vars(main).get(name, ...), str | None)
            },
            spec=_spec_of(main),
            filters=present_filters(),
            limits=(sys.getrecursionlimit(), sys.get_int_max_str_digits()),
            authkey=authkey,
            start_method=start_method,
        )

    def apply(self) -> None:
        """Makes it this process's own."""
        if self.folder is not None:
            with contextlib.suppress(OSError):  # removed since: it stays where the trainer is now
                os.chdir(self.folder)
        sys.path[:] = self.path
        self.modules.apply()
        for name in self.by_value:
            # pickle imports the module of each class that it meets: a file of that name would be run here.
            sys.modules.setdefault(name, types.ModuleType(name))
        if self.arguments is not None:
            sys.argv[:] = self.arguments
        self._name_main()
        sys.setrecursionlimit(self.limits[0])
        sys.set_int_max_str_digits(self.limits[1])
        set_filters(self.filters)
        self._set_multiprocessing()

    def _name_main(self) -> None:
        main = sys.modules["__main__"]
        vars(main).update(self.main)
        if self.spec is not None:
            name, file, is_source = self.spec
            made = importlib.util.spec_from_file_location(name, file) if is_source else None
            main.__spec__ = made or ModuleSpec(name, None, origin=file)

    def _set_multiprocessing(self) -> None:
        if self.authkey is None and self.start_method is None:
            return
        import multiprocessing  # a few milliseconds, for those that use it

        if self.authkey is not None:
            multiprocessing.current_process().authkey = self.authkey
        if self.start_method is not None:
            multiprocessing.set_start_method(self.start_method, force=True)


def _entries(path: list[Any]) -> list[str]:
    return [str(entry) for entry in path if isinstance(entry, str)]  # an import looks at no others


def _as_found(entry: str) -> str:
    # It may be relative to the folder that the program was started in, and has left since; "" is the present one.
    if not entry or os.path.isabs(entry) or os.path.exists(entry) or START_FOLDER is None:
        return entry
    before = os.path.join(START_FOLDER, entry)
    return before if os.path.exists(before) else entry


def _spec_of(main: Any) -> tuple[str, str | None, bool] | None:
    spec = getattr(main, "__spec__", None)
    if not isinstance(spec, ModuleSpec):
        return None
    return spec.name, spec.origin, type(spec.loader) is SourceFileLoader and spec.has_location


def _of_multiprocessing() -> tuple[bytes | None, str | None]:
    # Only of what this process has loaded: a worker imports it for this.
    authkey, start_method = None, None
    if "multiprocessing.managers" in sys.modules:
        authkey = bytes(sys.modules["multiprocessing.process"].current_process().authkey)
    if "multiprocessing.context" in sys.modules:
        import multiprocessing

        chosen = multiprocessing.get_start_method(allow_none=True)
        start_method = None if chosen == multiprocessing.get_all_start_methods()[0] else chosen
    return authkey, start_method
