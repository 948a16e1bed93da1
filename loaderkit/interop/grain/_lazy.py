"""Names that need Orbax, and what is said of a name that isn't here."""

from typing import Any, Never


def lazily(module: str, name: str) -> Any:
    """A name that needs Orbax, or an AttributeError as `missing` raises it."""
    if name not in ("PyGrainCheckpointSave", "PyGrainCheckpointRestore"):
        missing(module, name)
    from . import checkpoint

    return getattr(checkpoint, name.removeprefix("PyGrain"))


def missing(module: str, name: str) -> Never:
    """Raises an AttributeError with advice; an import statement turns it into its own ImportError.

    >>> missing("grain", "MapDataset")
    Traceback (most recent call last):
    AttributeError: module 'grain' has no attribute 'MapDataset': of Grain only the DataLoader and its parts are here...
    """
    raise AttributeError(
        f"module {module!r} has no attribute {name!r}: of Grain only the DataLoader and its parts are here, take its "
        "Dataset side from the installed grain",
        name=name,
    )
