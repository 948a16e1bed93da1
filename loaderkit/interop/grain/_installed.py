"""What a script has of the installed Grain, which is never imported: objects, and names that aren't here."""

from typing import Any, Never


def is_of_grain(value: Any, *names: str) -> bool:
    """Whether an object's class, or a base of it, is a class of the installed Grain with one of these names.

    >>> is_of_grain([], "Map")
    False
    """
    return any(
        base.__name__ in names and base.__module__.partition(".")[0] == "grain"
        for base in type(value).__mro__
    )


def lazily(module: str, name: str) -> Any:
    """A name that needs Orbax, or an AttributeError as `missing` raises it."""
    if name not in ("PyGrainCheckpointSave", "PyGrainCheckpointRestore"):
        missing(module, name)
    from . import checkpoint

    return getattr(checkpoint, name.removeprefix("PyGrain"))


def missing(module: str, name: str) -> Never:
    """Raises an AttributeError with advice; an import statement turns it into its own ImportError.

    >>> missing("grain", "CacheIterDataset")
    Traceback (most recent call last):
    AttributeError: module 'grain' has no attribute 'CacheIterDataset': it isn't here, take it from the installed grain
    """
    raise AttributeError(
        f"module {module!r} has no attribute {name!r}: it isn't here, take it from the installed grain",
        name=name,
    )
