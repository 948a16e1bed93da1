"""Samplers: which record each index of the stream reads.

A sampler is arithmetic on the index; it never reads a record.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .buckets import LengthBucketSampler as LengthBucketSampler
    from .chunks import ChunkSampler as ChunkSampler
    from .epochs import IndexSampler as IndexSampler
    from .epochs import SequentialSampler as SequentialSampler
    from .interleaved import InterleavedSampler as InterleavedSampler
    from .keys import KeysSampler as KeysSampler
    from .mixed import MixedSampler as MixedSampler
    from .mixed import Taken as Taken
    from .protocol import Sampler as Sampler
    from .weighted import WeightedSampler as WeightedSampler
else:
    from loaderkit._base.lazy_package import lazy_names as _lazy_names

    _NAMES = {
        "ChunkSampler": "loaderkit.samplers.chunks",
        "IndexSampler": "loaderkit.samplers.epochs",
        "InterleavedSampler": "loaderkit.samplers.interleaved",
        "KeysSampler": "loaderkit.samplers.keys",
        "LengthBucketSampler": "loaderkit.samplers.buckets",
        "MixedSampler": "loaderkit.samplers.mixed",
        "Sampler": "loaderkit.samplers.protocol",
        "SequentialSampler": "loaderkit.samplers.epochs",
        "WeightedSampler": "loaderkit.samplers.weighted",
        "Taken": "loaderkit.samplers.mixed",
    }
    __getattr__, __dir__ = _lazy_names(globals(), _NAMES)
