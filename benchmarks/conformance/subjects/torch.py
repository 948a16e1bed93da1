"""PyTorch's DataLoader with its default options and a seeded generator."""

from typing import Any

import torch
from torch.utils.data import DataLoader

from benchmarks.conformance.subjects import Asked, source_of


class Dataset:
    """A map-style data set of the source and the function."""

    def __init__(self, asked: Asked) -> None:
        self._source, self._function = source_of(asked), asked.function

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, key: int) -> Any:
        return self._function(self._source[key])


def arguments(asked: Asked, workers: int) -> dict[str, Any]:
    """The arguments of its DataLoader."""
    generator = torch.Generator()
    generator.manual_seed(0)
    return {
        "dataset": Dataset(asked),
        "batch_size": asked.batch,
        "shuffle": asked.shuffle,
        "generator": generator,
        "num_workers": workers,
    }


def make(asked: Asked, workers: int) -> Any:
    """Its DataLoader."""
    return DataLoader(**arguments(asked, workers))


def state(loader: Any, it: Any) -> None:
    """It keeps no position."""


def restore(loader: Any, saved: Any) -> Any:
    """Nothing to restore."""
    raise AssertionError("there is no state to restore")
