from typing import Any

import loaderkit.interop.grain._shared_memory
import loaderkit.interop.grain.checkpoint
import loaderkit.interop.grain.data_loader
import loaderkit.interop.grain.transforms
from loaderkit._order.metadata import RecordMetadata as RecordMetadata
from loaderkit.interop.grain._config import config as config
from loaderkit.interop.grain._shared_memory import SharedMemoryArray as SharedMemoryArray
from loaderkit.interop.grain.constants import DATASET_INDEX as DATASET_INDEX
from loaderkit.interop.grain.constants import EPOCH as EPOCH
from loaderkit.interop.grain.constants import INDEX as INDEX
from loaderkit.interop.grain.constants import META_FEATURES as META_FEATURES
from loaderkit.interop.grain.constants import RECORD as RECORD
from loaderkit.interop.grain.constants import RECORD_KEY as RECORD_KEY
from loaderkit.interop.grain.constants import SEED as SEED
from loaderkit.interop.grain.data_loader import DataLoader as DataLoader
from loaderkit.interop.grain.data_loader import load as load
from loaderkit.interop.grain.dataset.iter_dataset import DatasetIterator as DatasetIterator
from loaderkit.interop.grain.dataset.iter_dataset import IterDataset as IterDataset
from loaderkit.interop.grain.dataset.map_dataset import MapDataset as MapDataset
from loaderkit.interop.grain.operations import BatchOperation as BatchOperation
from loaderkit.interop.grain.operations import FilterOperation as FilterOperation
from loaderkit.interop.grain.operations import MapOperation as MapOperation
from loaderkit.interop.grain.operations import Operation as Operation
from loaderkit.interop.grain.operations import RandomMapOperation as RandomMapOperation
from loaderkit.interop.grain.operations import Record as Record
from loaderkit.interop.grain.options import MultiprocessingOptions as MultiprocessingOptions
from loaderkit.interop.grain.options import ReadOptions as ReadOptions
from loaderkit.interop.grain.samplers import IndexSampler as IndexSampler
from loaderkit.interop.grain.samplers import Sampler as Sampler
from loaderkit.interop.grain.samplers import SequentialSampler as SequentialSampler
from loaderkit.interop.grain.sharding import NoSharding as NoSharding
from loaderkit.interop.grain.sharding import ShardByJaxProcess as ShardByJaxProcess
from loaderkit.interop.grain.sharding import ShardOptions as ShardOptions
from loaderkit.interop.grain.sources import ArrayRecordDataSource as ArrayRecordDataSource
from loaderkit.interop.grain.sources import RandomAccessDataSource as RandomAccessDataSource
from loaderkit.interop.grain.sources import RangeDataSource as RangeDataSource
from loaderkit.interop.grain.transforms import Batch as Batch
from loaderkit.interop.grain.transforms import DatasetSelectionMap as DatasetSelectionMap
from loaderkit.interop.grain.transforms import Transformation as Transformation
from loaderkit.interop.grain.transforms import Transformations as Transformations

from . import experimental as experimental

FilterTransform = loaderkit.interop.grain.transforms.Filter
InMemoryDataSource = loaderkit.interop.grain._shared_memory.SharedMemoryDataSource
MapTransform = loaderkit.interop.grain.transforms.Map
MapWithIndexTransform = loaderkit.interop.grain.transforms.MapWithIndex
PyGrainCheckpointHandler = loaderkit.interop.grain.checkpoint.CheckpointHandler
PyGrainDatasetIterator = loaderkit.interop.grain.data_loader.DataLoaderIterator
RandomMapTransform = loaderkit.interop.grain.transforms.RandomMap

PyGrainCheckpointRestore: Any
PyGrainCheckpointSave: Any
