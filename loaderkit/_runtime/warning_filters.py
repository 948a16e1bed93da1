"""The trainer's `warnings.filters` in a worker, also those that the program has set since it was started.

A filter's category is told by its name. Its module may be a large one that the worker has no use for; as long as it
isn't imported, there is no warning of that category.
"""

import builtins
import re
import warnings
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class WarningFilter:
    """One entry of `warnings.filters`.

    Args:
        action: "error", "ignore", ...
        message, module: regular expressions that a warning's begin with.
        category: module and qualified name of the class.
        line: 0 for any.
    """

    action: str
    message: str
    module: str
    category: tuple[str, str]
    line: int


def present_filters() -> list[WarningFilter]:
    """Those of this process; the first that fits a warning holds.

    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", DeprecationWarning)
    ...     present_filters()[0]
    WarningFilter(action='error', message='', module='', category=('builtins', 'DeprecationWarning'), line=0)
    """
    return [
        WarningFilter(action, _pattern(message), _pattern(module), (kind.__module__, kind.__qualname__), line)
        for action, message, category, module, line in warnings.filters
        for kind in (category if isinstance(category, tuple) else (category,))
    ]


def set_filters(filters: list[WarningFilter]) -> None:
    """Makes them this process's own."""
    warnings.resetwarnings()
    for entry in reversed(filters):  # each goes to the front
        category = _category(*entry.category)
        action: Any = entry.action
        warnings.filterwarnings(action, entry.message, category, entry.module, entry.line)


def _pattern(text: Any) -> str:
    # The interpreter's first filters hold texts, which must be equal; the others hold compiled expressions.
    if text is None:
        return ""
    return re.escape(text) + r"\Z" if isinstance(text, str) else str(text.pattern)


def _category(module: str, name: str) -> Any:
    if module == builtins.__name__:
        return getattr(builtins, name)
    return _AnyOfName(name, (Warning,), {"__module__": module, "__qualname__": name})


class _AnyOfName(type):
    """The type of a class whose subclasses are all classes of its name, and theirs."""

    def __subclasscheck__(cls, other: type) -> bool:
        name = cls.__module__, cls.__qualname__
        return any((kind.__module__, kind.__qualname__) == name for kind in other.__mro__)
