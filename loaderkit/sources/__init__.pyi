from loaderkit._source.protocol import RandomAccessDataSource as RandomAccessDataSource

from .arrays import ArrayDataSource as ArrayDataSource
from .cached import CachedDataSource as CachedDataSource
from .concat import ConcatDataSource as ConcatDataSource
from .in_memory import InMemoryDataSource as InMemoryDataSource
from .mapped import MapDataSource as MapDataSource
from .packed.source import PackedDataSource as PackedDataSource
from .range import RangeDataSource as RangeDataSource
from .subset import SubsetDataSource as SubsetDataSource
from .windows import WindowDataSource as WindowDataSource
from .zipped import ZipDataSource as ZipDataSource
