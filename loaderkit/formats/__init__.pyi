from loaderkit.sources.arrow import ArrowDataSource as ArrowDataSource
from loaderkit.sources.csv import CsvDataSource as CsvDataSource
from loaderkit.sources.files import FilesDataSource as FilesDataSource
from loaderkit.sources.grouped_rows import GroupedRowsDataSource as GroupedRowsDataSource
from loaderkit.sources.joined_files import JoinedFilesDataSource as JoinedFilesDataSource
from loaderkit.sources.lines import LinesDataSource as LinesDataSource
from loaderkit.sources.lmdb import LmdbDataSource as LmdbDataSource
from loaderkit.sources.stored_arrays import ArrayFileDataSource as ArrayFileDataSource
from loaderkit.sources.table import TableDataSource as TableDataSource
from loaderkit.sources.tfds import TfdsDataSource as TfdsDataSource

from .format import Format as Format
from .registry import register as register
