"""What is done to elements between the source and the trainer; `image` is imported when it is first asked for."""

from typing import TYPE_CHECKING

from loaderkit._base.lazy_package import importing as _importing
from loaderkit._base.lazy_package import public_names as _public_names

from .base import Batch as Batch
from .base import Filter as Filter
from .base import FlatMap as FlatMap
from .base import Map as Map
from .base import MapWithIndex as MapWithIndex
from .base import RandomMap as RandomMap
from .base import Transformation as Transformation

if TYPE_CHECKING:
    from . import image as image
else:
    __getattr__ = _importing(__name__, ["image"])


def __dir__() -> list[str]:
    return _public_names(globals(), ["image"])
