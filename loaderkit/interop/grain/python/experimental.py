"""The names of grain.experimental, where scripts import them as grain.python.experimental."""

from typing import Any

from loaderkit.interop.grain._lazy import lazily
from loaderkit.interop.grain.experimental import (
    FlatMapTransform,
    MapWithIndexTransform,
    batch_and_pad,
    index_shuffle,
)

__all__ = [
    "FlatMapTransform",
    "MapWithIndexTransform",
    "batch_and_pad",
    "index_shuffle",
]


def __getattr__(name: str) -> Any:
    return lazily(__name__, name)
