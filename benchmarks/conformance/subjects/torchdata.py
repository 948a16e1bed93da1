"""torchdata's StatefulDataLoader with its default options."""

from typing import Any

from torchdata.stateful_dataloader import StatefulDataLoader

from benchmarks.conformance.subjects import Asked
from benchmarks.conformance.subjects.torch import arguments


def make(asked: Asked, workers: int) -> Any:
    """Its DataLoader."""
    return StatefulDataLoader(**arguments(asked, workers))


def state(loader: Any, it: Any) -> Any:
    """The saved position."""
    return loader.state_dict()


def restore(loader: Any, saved: Any) -> Any:
    """An iterator at a saved position."""
    loader.load_state_dict(saved)
    return iter(loader)
