"""Packages whose names are imported when they are first asked for (PEP 562)."""

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    namespace: dict[str, Any], names: Mapping[str, str], rooms: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package. A name is imported once and then stands in the namespace.

    A star import brings the names, unless the package has an `__all__` of its own.

    Args:
        namespace: of the package, `globals()`.
        names: from each name to the module that has it, `module:name` where it has another name there.
        rooms: modules of the package itself. AttributeError for any other name.

    >>> package = {"__name__": "loaderkit"}
    >>> getattribute, directory = lazy_names(package, {"Map": "loaderkit.transforms.base"}, ["testing"])
    >>> getattribute("Map"), getattribute("testing").__name__, directory()
    (<class 'loaderkit.transforms.base.Map'>, 'loaderkit.testing', ['Map', 'testing'])
    >>> package["Map"]
    <class 'loaderkit.transforms.base.Map'>
    """
    package = namespace["__name__"]
    shown = sorted({*names, *rooms})
    namespace.setdefault("__all__", sorted(names))

    def getattribute(name: str) -> Any:
        if name in names:
            module, _, there = names[name].partition(":")
            value = getattr(import_module(module), there or name)
        elif name in shown:
            value = import_module(f"{package}.{name}")
        else:
            # With `obj` Python suggests the name that was meant.
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules.get(package)
            )
        namespace[name] = value
        return value

    return getattribute, lambda: [*shown]
