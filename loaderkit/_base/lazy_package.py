"""Packages that import a name when it is first used (PEP 562)."""

from collections.abc import Callable, Collection
from importlib import import_module
from typing import Any


def lazy_names(
    namespace: dict[str, Any], *, not_starred: Collection[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package that imports its names lazily and keeps them in its namespace.

    The names are those of the `__init__.pyi` beside the package's `__init__.py`, which type checkers read. These lines
    of it count, each in one line, and the later one of two with the same name:

    - `from .file import Name as Name`: the package has the name of that module;
    - `Other = package.file.Name`: the package has that name of that module as `Other`;
    - `from . import room as room`: the package has its own module `room`;
    - `from .room import *`: all in the `__all__` of that module, which is imported at once.

    The package's `__all__`, what a star import imports, is all names but its own modules and `not_starred`. A
    former name of the package warns; any other is an AttributeError.

    Args:
        namespace: of the package, `globals()`.
        not_starred: names that a star import leaves out.

    >>> import loaderkit.transforms
    >>> package = {**vars(loaderkit.transforms)}
    >>> getattribute, directory = lazy_names(package)
    >>> getattribute("Map"), getattribute("image").__name__, directory()[-1]
    (<class 'loaderkit.transforms.base.Map'>, 'loaderkit.transforms.image', 'image')
    >>> package["Map"]
    <class 'loaderkit.transforms.base.Map'>
    """
    package = namespace["__name__"]
    names = _names_in(_stub_of(namespace), package)
    starred = {name for name, (_, defined_as) in names.items() if defined_as}
    namespace["__all__"] = sorted(starred.difference(not_starred))

    def getattribute(name: str) -> Any:
        if name not in names:
            from .former import former_name

            return former_name(package, name)
        module, defined_as = names[name]
        value = import_module(module, package)
        value = namespace[name] = getattr(value, defined_as) if defined_as else value
        return value

    return getattribute, lambda: sorted(names)


def _stub_of(namespace: dict[str, Any]) -> str:
    # By the package's loader, which reads it from a zip file, too.
    stub: bytes = namespace["__spec__"].loader.get_data(f"{namespace['__path__'][0]}/__init__.pyi")
    return stub.decode()


def _names_in(stub: str, package: str) -> dict[str, tuple[str, str]]:
    # name -> its module and the name that it has there, "" for the module itself. By words and not by `re`, which takes
    # longer to compile an expression than this takes for a hundred names.
    names: dict[str, tuple[str, str]] = {}
    for line in stub.splitlines():
        match line.split():
            case ["from", ".", "import", name, "as", _, *_]:
                names[name] = (f".{name}", "")
            case ["from", module, "import", name, "as", _, *_]:
                names[name] = (module, name)
            case [name, "=", place]:
                module, _, defined_as = place.rpartition(".")
                names[name] = (module, defined_as)
            case ["from", module, "import", "*", *_]:
                names.update((name, (module, name)) for name in import_module(module, package).__all__)
    return names
