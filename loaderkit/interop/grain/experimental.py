"""What of grain.experimental a DataLoader has to do with."""

from ._batching import batch_and_pad
from ._shuffle import index_shuffle
from .transforms import FlatMap as FlatMapTransform
from .transforms import MapWithIndex as MapWithIndexTransform

__all__ = [
    "FlatMapTransform",
    "MapWithIndexTransform",
    "batch_and_pad",
    "index_shuffle",
]
