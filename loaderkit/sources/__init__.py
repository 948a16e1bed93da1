"""Sources of records: those of loaderkit, and what any other object needs to be one.

A source gives the record of a key, `source[record_key]`. It knows nothing of order, steps and workers.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .array_record import ArrayRecordDataSource as ArrayRecordDataSource
    from .arrays import ArrayDataSource as ArrayDataSource
    from .arrow import ArrowDataSource as ArrowDataSource
    from .cached import CachedDataSource as CachedDataSource
    from .concat import ConcatDataSource as ConcatDataSource
    from .csv import CsvDataSource as CsvDataSource
    from .files import FilesDataSource as FilesDataSource
    from .fingerprint import fingerprint_of as fingerprint_of
    from .folder import FolderDataSource as FolderDataSource
    from .grouped_rows import GroupedRowsDataSource as GroupedRowsDataSource
    from .in_memory import InMemoryDataSource as InMemoryDataSource
    from .joined_files import JoinedFilesDataSource as JoinedFilesDataSource
    from .json_lines import JsonLinesDataSource as JsonLinesDataSource
    from .lines import LinesDataSource as LinesDataSource
    from .lmdb import LmdbDataSource as LmdbDataSource
    from .mapped import MapDataSource as MapDataSource
    from .naming import Namer as Namer
    from .naming import has_names as has_names
    from .naming import namer_of as namer_of
    from .optional import column_reader as column_reader
    from .optional import many_reader as many_reader
    from .packed import PackedDataSource as PackedDataSource
    from .parquet import ParquetDataSource as ParquetDataSource
    from .protocol import RandomAccessDataSource as RandomAccessDataSource
    from .protocol import check_source as check_source
    from .protocol import read_only as read_only
    from .protocol import read_record as read_record
    from .protocol import read_records as read_records
    from .range import RangeDataSource as RangeDataSource
    from .stored_arrays import ArraysDataSource as ArraysDataSource
    from .subset import SubsetDataSource as SubsetDataSource
    from .table import TableDataSource as TableDataSource
    from .tar import TarDataSource as TarDataSource
    from .tfds import TfdsDataSource as TfdsDataSource
    from .tfrecord import TFRecordDataSource as TFRecordDataSource
    from .tokens import TokenDataSource as TokenDataSource
    from .windows import WindowDataSource as WindowDataSource
    from .zipped import ZipDataSource as ZipDataSource
else:
    from loaderkit._base.lazy_package import lazy_names as _lazy_names

    _NAMES = {
        "ArrayDataSource": "loaderkit.sources.arrays",
        "ArrayRecordDataSource": "loaderkit.sources.array_record",
        "ArraysDataSource": "loaderkit.sources.stored_arrays",
        "ArrowDataSource": "loaderkit.sources.arrow",
        "CachedDataSource": "loaderkit.sources.cached",
        "ConcatDataSource": "loaderkit.sources.concat",
        "CsvDataSource": "loaderkit.sources.csv",
        "FilesDataSource": "loaderkit.sources.files",
        "FolderDataSource": "loaderkit.sources.folder",
        "GroupedRowsDataSource": "loaderkit.sources.grouped_rows",
        "InMemoryDataSource": "loaderkit.sources.in_memory",
        "JoinedFilesDataSource": "loaderkit.sources.joined_files",
        "JsonLinesDataSource": "loaderkit.sources.json_lines",
        "LinesDataSource": "loaderkit.sources.lines",
        "LmdbDataSource": "loaderkit.sources.lmdb",
        "MapDataSource": "loaderkit.sources.mapped",
        "Namer": "loaderkit.sources.naming",
        "PackedDataSource": "loaderkit.sources.packed",
        "ParquetDataSource": "loaderkit.sources.parquet",
        "RandomAccessDataSource": "loaderkit.sources.protocol",
        "RangeDataSource": "loaderkit.sources.range",
        "SubsetDataSource": "loaderkit.sources.subset",
        "TFRecordDataSource": "loaderkit.sources.tfrecord",
        "TableDataSource": "loaderkit.sources.table",
        "TarDataSource": "loaderkit.sources.tar",
        "TfdsDataSource": "loaderkit.sources.tfds",
        "TokenDataSource": "loaderkit.sources.tokens",
        "ZipDataSource": "loaderkit.sources.zipped",
        "WindowDataSource": "loaderkit.sources.windows",
        "check_source": "loaderkit.sources.protocol",
        "column_reader": "loaderkit.sources.optional",
        "fingerprint_of": "loaderkit.sources.fingerprint",
        "has_names": "loaderkit.sources.naming",
        "many_reader": "loaderkit.sources.optional",
        "namer_of": "loaderkit.sources.naming",
        "read_only": "loaderkit.sources.protocol",
        "read_record": "loaderkit.sources.protocol",
        "read_records": "loaderkit.sources.protocol",
    }
    __getattr__, __dir__ = _lazy_names(globals(), _NAMES)
