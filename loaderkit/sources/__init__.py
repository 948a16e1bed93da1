"""Where records come from: sources of our own, and what any other object needs to be one."""

from .array_record import ArrayRecordDataSource as ArrayRecordDataSource
from .arrays import ArrayDataSource as ArrayDataSource
from .concat import ConcatDataSource as ConcatDataSource
from .fingerprint import fingerprint_of as fingerprint_of
from .foreign_files import Files as Files
from .foreign_files import check_files as check_files
from .foreign_files import foreign_files as foreign_files
from .in_memory import InMemoryDataSource as InMemoryDataSource
from .naming import Namer as Namer
from .naming import has_names as has_names
from .naming import namer_of as namer_of
from .optional import column_reader as column_reader
from .optional import many_reader as many_reader
from .protocol import RandomAccessDataSource as RandomAccessDataSource
from .protocol import check_source as check_source
from .protocol import read_only as read_only
from .protocol import read_record as read_record
from .protocol import read_records as read_records
from .range import RangeDataSource as RangeDataSource
from .subset import SubsetDataSource as SubsetDataSource
