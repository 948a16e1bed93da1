"""Names that need an optional library, and words for those that aren't here."""

from typing import Any

_ORBAX = {"PyGrainCheckpointSave": "CheckpointSave", "PyGrainCheckpointRestore": "CheckpointRestore"}
_DATASETS = {"MapDataset", "IterDataset", "DatasetIterator"}


def lazily(module: str, name: str) -> Any:
    """A name that needs Orbax, or an AttributeError that says what isn't here.

    >>> lazily("grain", "MapDataset")
    Traceback (most recent call last):
    AttributeError: module 'grain' has no attribute 'MapDataset': the Dataset side of Grain isn't here, use Grain's own
    """
    if name in _ORBAX:
        from . import checkpoint

        return getattr(checkpoint, _ORBAX[name])
    advice = ": the Dataset side of Grain isn't here, use Grain's own" if name in _DATASETS else ""
    raise AttributeError(f"module {module!r} has no attribute {name!r}{advice}", name=name)
