"""The names of grain.multiprocessing: arrays in named shared memory, for scripts that use them themselves."""

from ._shared_memory import SharedMemoryArray, SharedMemoryArrayMetadata
from .options import MultiprocessingOptions

__all__ = ["MultiprocessingOptions", "SharedMemoryArray", "SharedMemoryArrayMetadata"]
