"""Objects of the real Grain among those of a script: known by the name of a class, so that nothing is imported."""

from typing import Any


def is_of_grain(value: Any, *names: str) -> bool:
    """Whether an object's class, or a base of it, is a class of the installed Grain with one of these names.

    >>> is_of_grain([], "Map")
    False
    """
    return any(
        base.__name__ in names and base.__module__.partition(".")[0] == "grain"
        for base in type(value).__mro__
    )
