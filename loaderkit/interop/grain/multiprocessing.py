"""Arrays and lists in named shared memory, under Grain's names, for scripts that use them themselves.

loaderkit's own workers need neither: their memory has no name, and nobody has to unlink it.
"""

from ._put_away import copy_to_shm, in_shared_memory, open_from_shm, unlink_shm
from ._shared_array import SharedMemoryArray, SharedMemoryArrayMetadata
from ._shared_list import SharedMemoryDataSource
from .options import MultiprocessingOptions

__all__ = [
    "MultiprocessingOptions",
    "SharedMemoryArray",
    "SharedMemoryArrayMetadata",
    "SharedMemoryDataSource",
    "copy_to_shm",
    "in_shared_memory",
    "open_from_shm",
    "unlink_shm",
]
