"""The trainer's `warnings.filters` in a worker, also those that the program has set since its start.

A filter's category is sent by name: its module may be large and unused in the worker, and until it is imported, no
warning has that category.
"""

import builtins
import re
import warnings
from dataclasses import dataclass
from typing import Any

# A pattern; in the interpreter's default filters a text, which has to be equal, or None for any.
_Text = re.Pattern[str] | str | None


@dataclass(frozen=True, slots=True)
class WarningFilter:
    """One entry of `warnings.filters`.

    Args:
        action: "error", "ignore", ...
        message, module: of the warning.
        category: module and qualified name of the warning's class.
        line: 0 for any.
    """

    action: str
    message: _Text
    category: tuple[str, str]
    module: _Text
    line: int


def present_filters() -> list[WarningFilter]:
    """The filters of this process; the first one that matches a warning applies.

    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", DeprecationWarning)
    ...     present_filters()[0]
    WarningFilter(action='error', message=None, category=('builtins', 'DeprecationWarning'), module=None, line=0)
    """
    entries: list[Any] = [*warnings.filters]
    return [
        WarningFilter(action, message, (kind.__module__, kind.__qualname__), module, line)
        for action, message, category, module, line in entries
        for kind in (category if isinstance(category, tuple) else (category,))
    ]


def set_filters(filters: list[WarningFilter]) -> None:
    """Replaces the filters of this process."""
    warnings.resetwarnings()  # also forgets which warnings were shown before
    entries: Any = warnings.filters
    entries.extend((it.action, it.message, _category(*it.category), it.module, it.line) for it in filters)


def _category(module: str, name: str) -> Any:
    if module == builtins.__name__:
        return getattr(builtins, name)
    return _AnyOfName(name, (Warning,), {"__module__": module, "__qualname__": name})


class _AnyOfName(type):
    """Metaclass of a class for which all classes with its module and name, and their subclasses, are subclasses."""

    def __subclasscheck__(cls, other: type) -> bool:
        name = cls.__module__, cls.__qualname__
        return any((kind.__module__, kind.__qualname__) == name for kind in other.__mro__)
