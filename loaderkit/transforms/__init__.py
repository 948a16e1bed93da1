"""What is done to elements between the source and the trainer."""

from .base import Batch as Batch
from .base import Filter as Filter
from .base import FlatMap as FlatMap
from .base import Map as Map
from .base import MapWithIndex as MapWithIndex
from .base import RandomMap as RandomMap
from .base import Transformation as Transformation
