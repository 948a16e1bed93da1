"""What a package shows of itself: `dir` without the modules of its names, and rooms imported when asked for."""

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any


def public_names(namespace: Mapping[str, Any], later: Iterable[str] = ()) -> list[str]:
    """The names for `dir`: classes and functions of loaderkit's, sorted.

    Args:
        namespace: of the package, `globals()`.
        later: names that it doesn't hold yet.

    >>> public_names({"Mapping": Mapping, "importing": importing}, later=["image"])
    ['image', 'importing']
    """
    own = (
        name
        for name, value in namespace.items()
        if not name.startswith("_") and str(getattr(value, "__module__", "")).startswith("loaderkit.")
    )
    return sorted({*own, *later})


def importing(package: str, rooms: Iterable[str]) -> Callable[[str], ModuleType]:
    """A `__getattr__` for a package (PEP 562), which imports a room when it is first asked for.

    Args:
        package: its name.
        rooms: modules in it. AttributeError for any other name.

    >>> importing("loaderkit", ["testing"])("testing").__name__
    'loaderkit.testing'
    """
    known = frozenset(rooms)

    def room(name: str) -> ModuleType:
        if name in known:
            return import_module(f"{package}.{name}")
        raise AttributeError(
            f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules[package]
        )

    return room
