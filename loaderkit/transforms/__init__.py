"""Operations on elements between the source and the trainer, and how a worker runs a list of them.

Nothing here depends on the worker that runs it or on the indices of other records.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import decode as decode
    from . import features as features
    from . import image as image
    from .as_tuple import AsTuple as AsTuple
    from .base import Batch as Batch
    from .base import Filter as Filter
    from .base import FlatMap as FlatMap
    from .base import Map as Map
    from .base import MapWithIndex as MapWithIndex
    from .base import RandomMap as RandomMap
    from .base import Transformation as Transformation
    from .base import Window as Window
    from .pack import Pack as Pack
    from .pad_batch import PadBatch as PadBatch
    from .pad_to import PadTo as PadTo
    from .window_shuffle import WindowShuffle as WindowShuffle
else:
    from loaderkit._base.lazy_package import lazy_names as _lazy_names

    _NAMES = {
        "AsTuple": "loaderkit.transforms.as_tuple",
        "Batch": "loaderkit.transforms.base",
        "Filter": "loaderkit.transforms.base",
        "FlatMap": "loaderkit.transforms.base",
        "Map": "loaderkit.transforms.base",
        "MapWithIndex": "loaderkit.transforms.base",
        "Pack": "loaderkit.transforms.pack",
        "PadBatch": "loaderkit.transforms.pad_batch",
        "PadTo": "loaderkit.transforms.pad_to",
        "RandomMap": "loaderkit.transforms.base",
        "Transformation": "loaderkit.transforms.base",
        "Window": "loaderkit.transforms.base",
        "WindowShuffle": "loaderkit.transforms.window_shuffle",
    }
    __getattr__, __dir__ = _lazy_names(globals(), _NAMES, ["decode", "features", "image"])
