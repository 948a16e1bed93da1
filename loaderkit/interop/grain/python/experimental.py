"""The names of grain.experimental, where scripts import them as grain.python.experimental."""

from typing import Never

from loaderkit.interop.grain._lazy import missing
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


def __getattr__(name: str) -> Never:
    missing(__name__, name)
