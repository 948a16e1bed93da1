from .python import *  # noqa: F403, I001 - first: its `experimental` is another module with the same names
from . import checkpoint as checkpoint
from . import constants as constants
from . import experimental as experimental  # type: ignore[no-redef]
from . import multiprocessing as multiprocessing
from . import python as python
from . import samplers as samplers
from . import sharding as sharding
from . import sources as sources
from . import transforms as transforms
from .data_loader import DataLoaderIterator as DataLoaderIterator

__version__: str
__version_info__: tuple[int, int, int]
