"""Grain's DataLoader under its names: `import loaderkit.interop.grain as grain` runs a script written for Grain.

The names are those of `grain` and of `grain.python`. Batches, order, randomness and checkpoints are Grain's, bit for
bit; the engine is loaderkit's. The Dataset side of Grain (MapDataset, IterDataset) isn't here. What differs is in
docs/moving-from-grain.md.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import checkpoint as checkpoint
    from . import constants as constants
    from . import experimental as experimental
    from . import multiprocessing as multiprocessing
    from . import python as python
    from . import samplers as samplers
    from . import sharding as sharding
    from . import sources as sources
    from . import transforms as transforms
    from .data_loader import DataLoaderIterator as DataLoaderIterator
    from .python import DATASET_INDEX as DATASET_INDEX
    from .python import EPOCH as EPOCH
    from .python import INDEX as INDEX
    from .python import META_FEATURES as META_FEATURES
    from .python import RECORD as RECORD
    from .python import RECORD_KEY as RECORD_KEY
    from .python import SEED as SEED
    from .python import ArrayRecordDataSource as ArrayRecordDataSource
    from .python import Batch as Batch
    from .python import BatchOperation as BatchOperation
    from .python import DataLoader as DataLoader
    from .python import DatasetSelectionMap as DatasetSelectionMap
    from .python import FilterOperation as FilterOperation
    from .python import FilterTransform as FilterTransform
    from .python import IndexSampler as IndexSampler
    from .python import InMemoryDataSource as InMemoryDataSource
    from .python import MapOperation as MapOperation
    from .python import MapTransform as MapTransform
    from .python import MapWithIndexTransform as MapWithIndexTransform
    from .python import MultiprocessingOptions as MultiprocessingOptions
    from .python import NoSharding as NoSharding
    from .python import Operation as Operation
    from .python import PyGrainCheckpointHandler as PyGrainCheckpointHandler
    from .python import PyGrainDatasetIterator as PyGrainDatasetIterator
    from .python import RandomAccessDataSource as RandomAccessDataSource
    from .python import RandomMapOperation as RandomMapOperation
    from .python import RandomMapTransform as RandomMapTransform
    from .python import RangeDataSource as RangeDataSource
    from .python import ReadOptions as ReadOptions
    from .python import Record as Record
    from .python import RecordMetadata as RecordMetadata
    from .python import Sampler as Sampler
    from .python import SequentialSampler as SequentialSampler
    from .python import ShardByJaxProcess as ShardByJaxProcess
    from .python import ShardOptions as ShardOptions
    from .python import SharedMemoryArray as SharedMemoryArray
    from .python import Transformation as Transformation
    from .python import Transformations as Transformations
    from .python import config as config
    from .python import load as load

    PyGrainCheckpointRestore: Any
    PyGrainCheckpointSave: Any
else:
    from loaderkit._base.lazy_package import lazy_names as _lazy_names

    from ._lazy import lazily as _lazily
    from ._names import NAMES as _NAMES

    _named, _directory = _lazy_names(
        globals(),
        {**_NAMES, "DataLoaderIterator": "loaderkit.interop.grain.data_loader"},
        [
            "checkpoint",
            "constants",
            "experimental",
            "multiprocessing",
            "python",
            "samplers",
            "sharding",
            "sources",
            "transforms",
        ],
    )

    def __getattr__(name: str) -> Any:
        return _named(name) if name in _directory() else _lazily(__name__, name)

    def __dir__() -> list[str]:
        return ["__version__", *_directory()]


__version__ = "0.2.18"  # of the Grain whose behaviour this is
__version_info__ = (0, 2, 18)
