"""The trainer's interpreter state that a worker process takes over before it unpickles or imports user code.

A module may read `sys.argv`, the script's file or the current folder when it is imported. In a worker it finds the same
values as in the trainer. They are those that multiprocessing's "spawn" passes on, and more; docs/guide.md has a table.
The script isn't run again. All workers of a pool get the same state, also those that are started later.
"""

import builtins
import contextlib
import importlib.util
import os
import re
import sys
import types
import warnings
from collections.abc import Collection, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from typing import Any

from loaderkit._base.system.dataclasses import dataclass
from loaderkit._base.system.start_folder import START_FOLDER, present_folder

# Attributes of `__main__` that are passed on, besides its spec.
_MAIN = ("__file__", "__package__", "__doc__")


# A pattern; in the interpreter's default filters a text, which has to be equal, or None for any.
_Text = re.Pattern[str] | str | None


# One entry of `warnings.filters`: action, message, category (its module and qualified name), module, line.
WarningFilter = tuple[str, _Text, tuple[str, str], _Text, int]


def present_filters() -> list[WarningFilter]:
    """The filters of this process; the first one that matches a warning applies.

    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", DeprecationWarning)
    ...     present_filters()[0]
    ('error', None, ('builtins', 'DeprecationWarning'), None, 0)
    """
    entries: list[Any] = [*warnings.filters]
    return [
        (action, message, (kind.__module__, kind.__qualname__), module, line)
        for action, message, category, module, line in entries
        for kind in (category if isinstance(category, tuple) else (category,))
    ]


def set_filters(filters: list[WarningFilter]) -> None:
    """Replaces the filters of this process."""
    warnings.resetwarnings()  # also forgets which warnings were shown before
    entries: Any = warnings.filters
    entries.extend((action, text, _category(*kind), *where) for action, text, kind, *where in filters)


def _category(module: str, name: str) -> Any:
    if module == builtins.__name__:
        return getattr(builtins, name)
    return _AnyOfName(name, (Warning,), {"__module__": module, "__qualname__": name})


class _AnyOfName(type):
    """Metaclass of a class for which all classes with its module and name, and their subclasses, are subclasses."""

    def __subclasscheck__(cls, other: type) -> bool:
        name = cls.__module__, cls.__qualname__
        return any((kind.__module__, kind.__qualname__) == name for kind in other.__mro__)


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


@dataclass(frozen=True, slots=True)
class Preparation:
    """The state that a worker takes over.

    Args:
        path: `sys.path`.
        modules: imported modules with names of the standard library.
        by_value: modules that only the trainer has; their definitions are sent with the program.
        arguments: `sys.argv`; None where an embedding program has set none.
        folder: the current directory; None where it was removed.
        environment: of its workers; None for the one it has.
        main: attributes of `__main__`.
        spec: of `__main__`, where `python -m` runs a module: its name, its file, whether that is a plain source file.
        filters: of warnings.
        limits: of recursion, and of the digits of an int as text.
        authkey: of multiprocessing, where its managers are used.
        start_method: of multiprocessing, where the program has chosen one.
        elsewhere: whether that is on another machine, whose own folders of modules come first.
    """

    path: list[str]
    modules: StandardModules
    by_value: frozenset[str]
    arguments: list[str] | None
    folder: str | None
    environment: dict[str, str] | None
    main: dict[str, str | None]
    spec: tuple[str, str | None, bool] | None
    filters: list[WarningFilter]
    limits: tuple[int, int]
    authkey: bytes | None
    start_method: str | None
    elsewhere: bool = False

    @classmethod
    def of_this_process(
        cls, by_value: Collection[str], *, environment: dict[str, str] | None = None, elsewhere: bool = False
    ) -> "Preparation":
        """The present state of this process.

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
            environment=environment,
            main={
                name: value for name in _MAIN if isinstance(value := vars(main).get(name, ...), str | None)
            },
            spec=_spec_of(main),
            filters=present_filters(),
            limits=(sys.getrecursionlimit(), sys.get_int_max_str_digits()),
            authkey=None if elsewhere else authkey,  # what goes to another machine isn't encrypted
            start_method=start_method,
            elsewhere=elsewhere,
        )

    def apply(self) -> None:
        """Sets this state in the calling process."""
        # Another one than the process was started with, where it waited for a program.
        if self.environment is not None:
            os.environ.clear()
            os.environ.update(self.environment)
        if self.folder is not None:
            # removed meanwhile: the worker stays in the trainer's present folder
            with contextlib.suppress(OSError):
                os.chdir(self.folder)
        if self.elsewhere:
            sys.path += [
                entry for entry in self.path if entry not in sys.path and os.path.exists(entry or ".")
            ]
        else:
            sys.path[:] = self.path
        self.modules.apply()
        for name in self.by_value:
            # pickle imports the module of each class, and would run a file of that name, if there is one.
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
        import multiprocessing  # takes milliseconds, so only for programs that use it

        if self.authkey is not None:
            multiprocessing.current_process().authkey = self.authkey
        if self.start_method is not None:
            multiprocessing.set_start_method(self.start_method, force=True)


def _entries(path: list[Any]) -> list[str]:
    return [str(entry) for entry in path if isinstance(entry, str)]  # imports ignore other types


def _as_found(entry: str) -> str:
    # A relative entry may refer to the folder in which the program was started; "" is the current one.
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
    # Only if this process has loaded them, because the worker has to import multiprocessing for it.
    authkey, start_method = None, None
    if "multiprocessing.managers" in sys.modules:
        authkey = bytes(sys.modules["multiprocessing.process"].current_process().authkey)
    if "multiprocessing.context" in sys.modules:
        import multiprocessing

        chosen = multiprocessing.get_start_method(allow_none=True)
        start_method = None if chosen == multiprocessing.get_all_start_methods()[0] else chosen
    return authkey, start_method
