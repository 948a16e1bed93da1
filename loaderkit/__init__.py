"""A deterministic, checkpointable data loading engine for training in JAX."""

from typing import TYPE_CHECKING, Any

from loaderkit._base.hints import foreign_attribute as _foreign_attribute
from loaderkit._base.lazy_package import importing as _importing
from loaderkit._base.lazy_package import public_names as _public_names
from loaderkit._base.version import __version__ as __version__
from loaderkit._iterator.iterator import DataLoaderIterator as DataLoaderIterator
from loaderkit._loader.element_spec import ArraySpec as ArraySpec
from loaderkit._loader.load import load as load
from loaderkit._loader.loader import DataLoader as DataLoader
from loaderkit._order.metadata import RecordMetadata as RecordMetadata
from loaderkit._order.sharding import NoSharding as NoSharding
from loaderkit._order.sharding import ShardOptions as ShardOptions
from loaderkit._runtime.worker.reading import ReadOptions as ReadOptions
from loaderkit._runtime.worker.retrying import Retry as Retry
from loaderkit.errors import ArenaMemoryError as ArenaMemoryError
from loaderkit.errors import BadRecordsError as BadRecordsError
from loaderkit.errors import BatchError as BatchError
from loaderkit.errors import CheckpointMismatchError as CheckpointMismatchError
from loaderkit.errors import ChecksumError as ChecksumError
from loaderkit.errors import FileChangedError as FileChangedError
from loaderkit.errors import IteratorClosedError as IteratorClosedError
from loaderkit.errors import LoaderkitError as LoaderkitError
from loaderkit.errors import PurityError as PurityError
from loaderkit.errors import StateError as StateError
from loaderkit.errors import TransportError as TransportError
from loaderkit.errors import WorkerError as WorkerError
from loaderkit.errors import WorkerTimeoutError as WorkerTimeoutError
from loaderkit.samplers import IndexSampler as IndexSampler
from loaderkit.samplers import Sampler as Sampler
from loaderkit.samplers import SequentialSampler as SequentialSampler
from loaderkit.sources import ArrayDataSource as ArrayDataSource
from loaderkit.sources import ArrayRecordDataSource as ArrayRecordDataSource
from loaderkit.sources import ConcatDataSource as ConcatDataSource
from loaderkit.sources import InMemoryDataSource as InMemoryDataSource
from loaderkit.sources import RandomAccessDataSource as RandomAccessDataSource
from loaderkit.sources import RangeDataSource as RangeDataSource
from loaderkit.sources import SubsetDataSource as SubsetDataSource
from loaderkit.transforms import Batch as Batch
from loaderkit.transforms import Filter as Filter
from loaderkit.transforms import FlatMap as FlatMap
from loaderkit.transforms import Map as Map
from loaderkit.transforms import MapWithIndex as MapWithIndex
from loaderkit.transforms import RandomMap as RandomMap
from loaderkit.transforms import Transformation as Transformation

if TYPE_CHECKING:
    from loaderkit import interop as interop
    from loaderkit import sources as sources
    from loaderkit import testing as testing
    from loaderkit import transforms as transforms
    from loaderkit.checkpoint import CheckpointHandler as CheckpointHandler
    from loaderkit.checkpoint import CheckpointRestore as CheckpointRestore
    from loaderkit.checkpoint import CheckpointSave as CheckpointSave
    from loaderkit.interop.jax import ShardByJaxProcess as ShardByJaxProcess
    from loaderkit.interop.jax import ShardBySharding as ShardBySharding
    from loaderkit.interop.jax import device_iterator as device_iterator

# Names that need an optional library, and the modules that import it when they are first asked for.
_LAZY = {
    "CheckpointHandler": "loaderkit.checkpoint",
    "CheckpointRestore": "loaderkit.checkpoint",
    "CheckpointSave": "loaderkit.checkpoint",
    "ShardByJaxProcess": "loaderkit.interop.jax",
    "ShardBySharding": "loaderkit.interop.jax",
    "device_iterator": "loaderkit.interop.jax",
}

# Rooms that users see; those that nothing here needs are imported when they are first asked for.
_ROOMS = ("interop", "sources", "testing", "transforms")

_PACKAGES = {"orbax": "orbax-checkpoint", "jax": "jax"}


if not TYPE_CHECKING:  # where it would make every misspelled name one of ours
    _room = _importing(__name__, _ROOMS)

    def __getattr__(name: str) -> Any:
        if name in _LAZY:
            from importlib import import_module

            try:
                return getattr(import_module(_LAZY[name]), name)
            except ModuleNotFoundError as error:
                package = _PACKAGES.get(error.name or "", error.name)
                raise ImportError(
                    f"lk.{name} needs {package}, which isn't installed: pip install {package}"
                ) from error
        ours = _foreign_attribute(name)
        if ours is not None:
            raise AttributeError(
                f"module 'loaderkit' has no attribute {name!r}; instead of it use {ours}", name=name
            )
        return _room(name)


def __dir__() -> list[str]:
    return _public_names(globals(), [*_LAZY, *_ROOMS, "__version__"])
