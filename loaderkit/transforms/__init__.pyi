from loaderkit._loader.element_spec import ArraySpec as ArraySpec

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
