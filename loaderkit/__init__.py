"""A deterministic, checkpointable data loading engine for training in JAX."""

import atexit as _atexit
import logging as _logging  # noqa: F401 - so that its exit handler runs after ours, which may log
import os as _os
import sys as _sys
from typing import TYPE_CHECKING, Any

from loaderkit._base.version import __version__ as __version__
from loaderkit._system import start_folder as _start_folder  # noqa: F401 - records the current directory

# Names are imported later, when the program may be in another folder and a relative path would be wrong.
__path__[:] = map(_os.path.abspath, __path__)

__all__ = [
    "ArenaMemoryError",
    "ArrayDataSource",
    "ArrayRecordDataSource",
    "ArraySpec",
    "ArraysDataSource",
    "ArrowDataSource",
    "AsTuple",
    "BadRecordsError",
    "Batch",
    "BatchError",
    "Cache",
    "CachedDataSource",
    "CheckpointMismatchError",
    "ChecksumError",
    "ChunkSampler",
    "ConcatDataSource",
    "ConformanceError",
    "CsvDataSource",
    "DataFormatError",
    "DataLoader",
    "DataLoaderIterator",
    "FileChangedError",
    "FilesDataSource",
    "Filter",
    "FlatMap",
    "FolderDataSource",
    "GroupedRowsDataSource",
    "InMemoryDataSource",
    "IndexSampler",
    "InterleavedSampler",
    "IteratorClosedError",
    "JoinedFilesDataSource",
    "JsonLinesDataSource",
    "KeysSampler",
    "LengthBucketSampler",
    "LinesDataSource",
    "LmdbDataSource",
    "LoaderkitError",
    "Map",
    "MapDataSource",
    "MapWithIndex",
    "MixedSampler",
    "NoResultError",
    "NoSharding",
    "Pack",
    "PackPlan",
    "PadBatch",
    "PadTo",
    "PackedDataSource",
    "ParquetDataSource",
    "PrometheusCollector",
    "PurityError",
    "RandomAccessDataSource",
    "RandomMap",
    "RangeDataSource",
    "ReadOptions",
    "RecordMetadata",
    "Retry",
    "Sampler",
    "SequentialSampler",
    "ShardOptions",
    "StateError",
    "StorageError",
    "SubsetDataSource",
    "TFRecordDataSource",
    "TableDataSource",
    "TarDataSource",
    "TfdsDataSource",
    "TokenDataSource",
    "Transformation",
    "TransportError",
    "WeightedSampler",
    "Window",
    "WindowDataSource",
    "WindowShuffle",
    "WorkerError",
    "WorkerTimeoutError",
    "ZipDataSource",
    "balance",
    "column_stats",
    "decode",
    "features",
    "filtered",
    "interleave",
    "load",
    "measure",
    "read_array",
    "read_labels",
    "plan_packing",
    "progress",
    "map_shards",
    "mix",
    "open",
    "write_dataset",
    "write",
]

if TYPE_CHECKING:
    from loaderkit import combine as combine
    from loaderkit import errors as errors
    from loaderkit import formats as formats
    from loaderkit import interop as interop
    from loaderkit import samplers as samplers
    from loaderkit import sources as sources
    from loaderkit import testing as testing
    from loaderkit import transforms as transforms
    from loaderkit._chunk_cache.settings import Cache as Cache
    from loaderkit._iterator.iterator import DataLoaderIterator as DataLoaderIterator
    from loaderkit._loader.element_spec import ArraySpec as ArraySpec
    from loaderkit._loader.load import load as load
    from loaderkit._loader.loader import DataLoader as DataLoader
    from loaderkit._order.metadata import RecordMetadata as RecordMetadata
    from loaderkit._order.sharding import NoSharding as NoSharding
    from loaderkit._order.sharding import ShardOptions as ShardOptions
    from loaderkit._runtime.worker.reading import ReadOptions as ReadOptions
    from loaderkit._runtime.worker.retrying import Retry as Retry
    from loaderkit.checkpoint import CheckpointHandler as CheckpointHandler
    from loaderkit.checkpoint import CheckpointRestore as CheckpointRestore
    from loaderkit.checkpoint import CheckpointSave as CheckpointSave
    from loaderkit.combine import balance as balance
    from loaderkit.combine import interleave as interleave
    from loaderkit.combine import mix as mix
    from loaderkit.datasets.open import open as open  # noqa: A004 - used as lk.open
    from loaderkit.datasets.write_dataset import write_dataset as write_dataset
    from loaderkit.errors import ArenaMemoryError as ArenaMemoryError
    from loaderkit.errors import BadRecordsError as BadRecordsError
    from loaderkit.errors import BatchError as BatchError
    from loaderkit.errors import CheckpointMismatchError as CheckpointMismatchError
    from loaderkit.errors import ChecksumError as ChecksumError
    from loaderkit.errors import ConformanceError as ConformanceError
    from loaderkit.errors import DataFormatError as DataFormatError
    from loaderkit.errors import FileChangedError as FileChangedError
    from loaderkit.errors import IteratorClosedError as IteratorClosedError
    from loaderkit.errors import LoaderkitError as LoaderkitError
    from loaderkit.errors import NoResultError as NoResultError
    from loaderkit.errors import PurityError as PurityError
    from loaderkit.errors import StateError as StateError
    from loaderkit.errors import StorageError as StorageError
    from loaderkit.errors import TransportError as TransportError
    from loaderkit.errors import WorkerError as WorkerError
    from loaderkit.errors import WorkerTimeoutError as WorkerTimeoutError
    from loaderkit.interop.jax import ShardByJaxProcess as ShardByJaxProcess
    from loaderkit.interop.jax import ShardBySharding as ShardBySharding
    from loaderkit.interop.jax import device_iterator as device_iterator
    from loaderkit.observe.progress import progress as progress
    from loaderkit.observe.prometheus import PrometheusCollector as PrometheusCollector
    from loaderkit.offline.array_file import read_array as read_array
    from loaderkit.offline.array_file import read_labels as read_labels
    from loaderkit.offline.column_stats import column_stats as column_stats
    from loaderkit.offline.filtered import filtered as filtered
    from loaderkit.offline.measure import measure as measure
    from loaderkit.offline.pack_plan import PackPlan as PackPlan
    from loaderkit.offline.plan_packing import plan_packing as plan_packing
    from loaderkit.samplers import ChunkSampler as ChunkSampler
    from loaderkit.samplers import IndexSampler as IndexSampler
    from loaderkit.samplers import InterleavedSampler as InterleavedSampler
    from loaderkit.samplers import KeysSampler as KeysSampler
    from loaderkit.samplers import LengthBucketSampler as LengthBucketSampler
    from loaderkit.samplers import MixedSampler as MixedSampler
    from loaderkit.samplers import Sampler as Sampler
    from loaderkit.samplers import SequentialSampler as SequentialSampler
    from loaderkit.samplers import WeightedSampler as WeightedSampler
    from loaderkit.sources import ArrayDataSource as ArrayDataSource
    from loaderkit.sources import ArrayRecordDataSource as ArrayRecordDataSource
    from loaderkit.sources import ArraysDataSource as ArraysDataSource
    from loaderkit.sources import ArrowDataSource as ArrowDataSource
    from loaderkit.sources import CachedDataSource as CachedDataSource
    from loaderkit.sources import ConcatDataSource as ConcatDataSource
    from loaderkit.sources import CsvDataSource as CsvDataSource
    from loaderkit.sources import FilesDataSource as FilesDataSource
    from loaderkit.sources import FolderDataSource as FolderDataSource
    from loaderkit.sources import GroupedRowsDataSource as GroupedRowsDataSource
    from loaderkit.sources import InMemoryDataSource as InMemoryDataSource
    from loaderkit.sources import JoinedFilesDataSource as JoinedFilesDataSource
    from loaderkit.sources import JsonLinesDataSource as JsonLinesDataSource
    from loaderkit.sources import LinesDataSource as LinesDataSource
    from loaderkit.sources import LmdbDataSource as LmdbDataSource
    from loaderkit.sources import MapDataSource as MapDataSource
    from loaderkit.sources import PackedDataSource as PackedDataSource
    from loaderkit.sources import ParquetDataSource as ParquetDataSource
    from loaderkit.sources import RandomAccessDataSource as RandomAccessDataSource
    from loaderkit.sources import RangeDataSource as RangeDataSource
    from loaderkit.sources import SubsetDataSource as SubsetDataSource
    from loaderkit.sources import TableDataSource as TableDataSource
    from loaderkit.sources import TarDataSource as TarDataSource
    from loaderkit.sources import TfdsDataSource as TfdsDataSource
    from loaderkit.sources import TFRecordDataSource as TFRecordDataSource
    from loaderkit.sources import TokenDataSource as TokenDataSource
    from loaderkit.sources import WindowDataSource as WindowDataSource
    from loaderkit.sources import ZipDataSource as ZipDataSource
    from loaderkit.transforms import AsTuple as AsTuple
    from loaderkit.transforms import Batch as Batch
    from loaderkit.transforms import Filter as Filter
    from loaderkit.transforms import FlatMap as FlatMap
    from loaderkit.transforms import Map as Map
    from loaderkit.transforms import MapWithIndex as MapWithIndex
    from loaderkit.transforms import Pack as Pack
    from loaderkit.transforms import PadBatch as PadBatch
    from loaderkit.transforms import PadTo as PadTo
    from loaderkit.transforms import RandomMap as RandomMap
    from loaderkit.transforms import Transformation as Transformation
    from loaderkit.transforms import Window as Window
    from loaderkit.transforms import WindowShuffle as WindowShuffle
    from loaderkit.transforms import decode as decode
    from loaderkit.transforms import features as features
    from loaderkit.writing.map_shards import map_shards as map_shards
    from loaderkit.writing.write import write as write

# name -> its module, imported when the name is first used, so that a worker or a script imports what it needs only.
_NAMES = {
    "Cache": "loaderkit._chunk_cache.settings",
    "DataLoaderIterator": "loaderkit._iterator.iterator",
    "ArraySpec": "loaderkit._loader.element_spec",
    "load": "loaderkit._loader.load",
    "DataLoader": "loaderkit._loader.loader",
    "RecordMetadata": "loaderkit._order.metadata",
    "NoResultError": "loaderkit.errors",
    "NoSharding": "loaderkit._order.sharding",
    "ShardOptions": "loaderkit._order.sharding",
    "ReadOptions": "loaderkit._runtime.worker.reading",
    "Retry": "loaderkit._runtime.worker.retrying",
    "CheckpointHandler": "loaderkit.checkpoint",
    "CheckpointRestore": "loaderkit.checkpoint",
    "CheckpointSave": "loaderkit.checkpoint",
    "balance": "loaderkit.combine",
    "interleave": "loaderkit.combine",
    "mix": "loaderkit.combine",
    "open": "loaderkit.datasets.open",
    "write_dataset": "loaderkit.datasets.write_dataset",
    "ArenaMemoryError": "loaderkit.errors",
    "BadRecordsError": "loaderkit.errors",
    "BatchError": "loaderkit.errors",
    "CheckpointMismatchError": "loaderkit.errors",
    "ChecksumError": "loaderkit.errors",
    "ConformanceError": "loaderkit.errors",
    "DataFormatError": "loaderkit.errors",
    "FileChangedError": "loaderkit.errors",
    "IteratorClosedError": "loaderkit.errors",
    "LoaderkitError": "loaderkit.errors",
    "PurityError": "loaderkit.errors",
    "StateError": "loaderkit.errors",
    "StorageError": "loaderkit.errors",
    "TransportError": "loaderkit.errors",
    "WorkerError": "loaderkit.errors",
    "WorkerTimeoutError": "loaderkit.errors",
    "ShardByJaxProcess": "loaderkit.interop.jax",
    "ShardBySharding": "loaderkit.interop.jax",
    "device_iterator": "loaderkit.interop.jax",
    "read_array": "loaderkit.offline.array_file",
    "read_labels": "loaderkit.offline.array_file",
    "filtered": "loaderkit.offline.filtered",
    "column_stats": "loaderkit.offline.column_stats",
    "measure": "loaderkit.offline.measure",
    "PackPlan": "loaderkit.offline.pack_plan",
    "plan_packing": "loaderkit.offline.plan_packing",
    "PrometheusCollector": "loaderkit.observe.prometheus",
    "progress": "loaderkit.observe.progress",
    "ChunkSampler": "loaderkit.samplers",
    "IndexSampler": "loaderkit.samplers",
    "InterleavedSampler": "loaderkit.samplers",
    "KeysSampler": "loaderkit.samplers",
    "MixedSampler": "loaderkit.samplers",
    "Sampler": "loaderkit.samplers",
    "SequentialSampler": "loaderkit.samplers",
    "WeightedSampler": "loaderkit.samplers",
    "ArrayDataSource": "loaderkit.sources",
    "ArrayRecordDataSource": "loaderkit.sources",
    "ArraysDataSource": "loaderkit.sources",
    "ArrowDataSource": "loaderkit.sources",
    "CachedDataSource": "loaderkit.sources",
    "ConcatDataSource": "loaderkit.sources",
    "CsvDataSource": "loaderkit.sources",
    "FilesDataSource": "loaderkit.sources",
    "FolderDataSource": "loaderkit.sources",
    "GroupedRowsDataSource": "loaderkit.sources",
    "InMemoryDataSource": "loaderkit.sources",
    "JoinedFilesDataSource": "loaderkit.sources",
    "JsonLinesDataSource": "loaderkit.sources",
    "LengthBucketSampler": "loaderkit.samplers",
    "LinesDataSource": "loaderkit.sources",
    "LmdbDataSource": "loaderkit.sources",
    "PackedDataSource": "loaderkit.sources",
    "MapDataSource": "loaderkit.sources",
    "ParquetDataSource": "loaderkit.sources",
    "RandomAccessDataSource": "loaderkit.sources",
    "RangeDataSource": "loaderkit.sources",
    "SubsetDataSource": "loaderkit.sources",
    "TFRecordDataSource": "loaderkit.sources",
    "TableDataSource": "loaderkit.sources",
    "TarDataSource": "loaderkit.sources",
    "TfdsDataSource": "loaderkit.sources",
    "TokenDataSource": "loaderkit.sources",
    "ZipDataSource": "loaderkit.sources",
    "WindowDataSource": "loaderkit.sources",
    "AsTuple": "loaderkit.transforms",
    "Batch": "loaderkit.transforms",
    "Filter": "loaderkit.transforms",
    "FlatMap": "loaderkit.transforms",
    "Map": "loaderkit.transforms",
    "MapWithIndex": "loaderkit.transforms",
    "Pack": "loaderkit.transforms",
    "PadBatch": "loaderkit.transforms",
    "PadTo": "loaderkit.transforms",
    "RandomMap": "loaderkit.transforms",
    "Transformation": "loaderkit.transforms",
    "Window": "loaderkit.transforms",
    "WindowShuffle": "loaderkit.transforms",
    "decode": "loaderkit.transforms",
    "features": "loaderkit.transforms",
    "map_shards": "loaderkit.writing.map_shards",
    "write": "loaderkit.writing.write",
}
_ROOMS = ("combine", "errors", "formats", "interop", "samplers", "sources", "testing", "transforms")

# module -> the package to install, for modules that a name of ours may lack.
_PACKAGES = {"orbax": "orbax-checkpoint", "jax": "jax"}


@_atexit.register
def _end_workers() -> None:
    # Registered here and not by the first loader: exit handlers that a script registers later run before this one, and
    # may still use iterators.
    if (module := _sys.modules.get("loaderkit._loader.shared_executor")) is not None:
        module.end_workers()


if not TYPE_CHECKING:  # a type checker would accept every misspelled name
    from importlib import import_module as _import_module

    from loaderkit._base.lazy_package import lazy_names as _lazy_names

    _named, _directory = _lazy_names(globals(), _NAMES, _ROOMS)

    def __getattr__(name: str) -> Any:
        if name == "plan":  # the old name of `samplers`, for one release
            return _import_module("loaderkit.plan")
        if name not in _NAMES and name not in _ROOMS:
            from loaderkit._base.hints import foreign_attribute

            if (ours := foreign_attribute(name)) is not None:
                raise AttributeError(
                    f"module 'loaderkit' has no attribute {name!r}; use instead: {ours}", name=name
                )
        try:
            return _named(name)
        except ModuleNotFoundError as error:
            missing = error.name or ""
            package = _PACKAGES.get(missing, missing)
            raise ImportError(
                f"lk.{name} needs {package}, which isn't installed: pip install {package}"
            ) from error

    def __dir__() -> list[str]:
        return ["__version__", *_directory()]
