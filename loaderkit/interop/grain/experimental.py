"""What of grain.experimental a DataLoader has to do with."""

from typing import TYPE_CHECKING, Never

from ._batching import batch_and_pad
from ._lazy import missing
from ._shuffle import index_shuffle
from .transforms import FlatMap as FlatMapTransform
from .transforms import MapWithIndex as MapWithIndexTransform

__all__ = [
    "FlatMapTransform",
    "MapWithIndexTransform",
    "batch_and_pad",
    "index_shuffle",
]


if not TYPE_CHECKING:  # where it would make every misspelled name one of ours

    def __getattr__(name: str) -> Never:
        missing(__name__, name)
