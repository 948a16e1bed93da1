"""The names of grain.python, which are names of grain too."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loaderkit.interop.grain._config import config
    from loaderkit.interop.grain._shared_memory import SharedMemoryArray
    from loaderkit.interop.grain._shared_memory import SharedMemoryDataSource as InMemoryDataSource
    from loaderkit.interop.grain.checkpoint import CheckpointHandler as PyGrainCheckpointHandler
    from loaderkit.interop.grain.constants import (
        DATASET_INDEX,
        EPOCH,
        INDEX,
        META_FEATURES,
        RECORD,
        RECORD_KEY,
        SEED,
    )
    from loaderkit.interop.grain.data_loader import DataLoader, load
    from loaderkit.interop.grain.data_loader import DataLoaderIterator as PyGrainDatasetIterator
    from loaderkit.interop.grain.operations import (
        BatchOperation,
        FilterOperation,
        MapOperation,
        Operation,
        RandomMapOperation,
    )
    from loaderkit.interop.grain.options import MultiprocessingOptions, ReadOptions
    from loaderkit.interop.grain.record import Record, RecordMetadata
    from loaderkit.interop.grain.samplers import IndexSampler, Sampler, SequentialSampler
    from loaderkit.interop.grain.sharding import NoSharding, ShardByJaxProcess, ShardOptions
    from loaderkit.interop.grain.sources import ArrayRecordDataSource, RandomAccessDataSource, RangeDataSource
    from loaderkit.interop.grain.transforms import Batch, DatasetSelectionMap, Transformation, Transformations
    from loaderkit.interop.grain.transforms import Filter as FilterTransform
    from loaderkit.interop.grain.transforms import Map as MapTransform
    from loaderkit.interop.grain.transforms import MapWithIndex as MapWithIndexTransform
    from loaderkit.interop.grain.transforms import RandomMap as RandomMapTransform

    from . import experimental

    PyGrainCheckpointRestore: Any
    PyGrainCheckpointSave: Any
else:
    from loaderkit._base.lazy_package import lazy_names as _lazy_names
    from loaderkit.interop.grain._lazy import lazily as _lazily

    # The names of each module, each with the name that it has here after a colon, where that differs.
    _NAMES = {
        "_config": "config",
        "_shared_memory": "SharedMemoryArray SharedMemoryDataSource:InMemoryDataSource",
        "checkpoint": "CheckpointHandler:PyGrainCheckpointHandler",
        "constants": "DATASET_INDEX EPOCH INDEX META_FEATURES RECORD RECORD_KEY SEED",
        "data_loader": "DataLoader DataLoaderIterator:PyGrainDatasetIterator load",
        "operations": "BatchOperation FilterOperation MapOperation Operation RandomMapOperation",
        "options": "MultiprocessingOptions ReadOptions",
        "record": "Record RecordMetadata",
        "samplers": "IndexSampler Sampler SequentialSampler",
        "sharding": "NoSharding ShardByJaxProcess ShardOptions",
        "sources": "ArrayRecordDataSource RandomAccessDataSource RangeDataSource",
        "transforms": "Batch DatasetSelectionMap Filter:FilterTransform Map:MapTransform "
        "MapWithIndex:MapWithIndexTransform RandomMap:RandomMapTransform Transformation Transformations",
    }
    _HOMES = {
        here or name: f"loaderkit.interop.grain.{module}:{name}"
        for module, names in _NAMES.items()
        for name, _, here in (each.partition(":") for each in names.split())
    }
    _named, __dir__ = _lazy_names(globals(), _HOMES, ["experimental"])

    def __getattr__(name: str) -> Any:
        return _named(name) if name in __all__ else _lazily(__name__, name)


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
