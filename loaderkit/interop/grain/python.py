"""The names of grain.python."""

from typing import Any

from . import experimental
from ._config import config
from ._lazy import lazily
from ._shared_array import SharedMemoryArray
from ._shared_list import SharedMemoryDataSource as InMemoryDataSource
from .checkpoint import CheckpointHandler as PyGrainCheckpointHandler
from .constants import DATASET_INDEX, EPOCH, INDEX, META_FEATURES, RECORD, RECORD_KEY, SEED
from .data_loader import DataLoader, load
from .data_loader import DataLoaderIterator as PyGrainDatasetIterator
from .operations import BatchOperation, FilterOperation, MapOperation, Operation, RandomMapOperation
from .options import MultiprocessingOptions, ReadOptions
from .record import Record, RecordMetadata
from .samplers import IndexSampler, Sampler, SequentialSampler
from .sharding import NoSharding, ShardByJaxProcess, ShardOptions
from .sources import ArrayRecordDataSource, RandomAccessDataSource, RangeDataSource
from .transforms import Batch, DatasetSelectionMap, Transformation, Transformations
from .transforms import Filter as FilterTransform
from .transforms import Map as MapTransform
from .transforms import MapWithIndex as MapWithIndexTransform
from .transforms import RandomMap as RandomMapTransform

__all__ = [
    "ArrayRecordDataSource",
    "Batch",
    "BatchOperation",
    "DATASET_INDEX",
    "DataLoader",
    "DatasetSelectionMap",
    "EPOCH",
    "FilterOperation",
    "FilterTransform",
    "INDEX",
    "InMemoryDataSource",
    "IndexSampler",
    "META_FEATURES",
    "MapOperation",
    "MapTransform",
    "MapWithIndexTransform",
    "MultiprocessingOptions",
    "NoSharding",
    "Operation",
    "PyGrainCheckpointHandler",
    "PyGrainDatasetIterator",
    "RECORD",
    "RECORD_KEY",
    "RandomAccessDataSource",
    "RandomMapOperation",
    "RandomMapTransform",
    "RangeDataSource",
    "ReadOptions",
    "Record",
    "RecordMetadata",
    "SEED",
    "Sampler",
    "SequentialSampler",
    "ShardByJaxProcess",
    "ShardOptions",
    "SharedMemoryArray",
    "Transformation",
    "Transformations",
    "config",
    "experimental",
    "load",
]


def __getattr__(name: str) -> Any:
    return lazily(__name__, name)
