"""Packages that import a name when it is first used (PEP 562)."""

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    namespace: dict[str, Any], names: Mapping[str, str], rooms: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package that imports its names lazily and keeps them in its namespace.

    A star import imports all of `names`, unless the package has an `__all__` of its own. Any name outside of `names`
    and `rooms` is an AttributeError.

    Args:
        namespace: of the package, `globals()`.
        names: name -> the module that defines it, or `module:name` where it has another name there.
        rooms: modules of the package itself.

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
            module, _, defined_as = names[name].partition(":")
            value = getattr(import_module(module), defined_as or name)
        elif name in shown:
            value = import_module(f"{package}.{name}")
        else:
            # With `obj` Python suggests a similar name.
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules.get(package)
            )
        namespace[name] = value
        return value

    return getattribute, lambda: [*shown]
