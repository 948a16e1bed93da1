"""The files that another library's data set opens by name when it is unpickled, as in a worker.

Sources of loaderkit compare their files at each opening. The files of other data sets are compared once in each worker,
after the data set was unpickled.
"""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from loaderkit._base.system.file_identity import FileIdentity, Files
from loaderkit._source.tables import library_names

from .concat import ConcatDataSource
from .mapped import MapDataSource
from .subset import SubsetDataSource
from .zipped import ZipDataSource


def foreign_files(source: Any) -> Files:
    """The identities of a source's known files at this moment; a file that can't be examined is left out.

    Args:
        source: any data source.

    >>> foreign_files([1, 2])
    {}
    """
    found = {}
    with contextlib.suppress(Exception):  # reads private attributes, which another version may not have
        for path in _paths(source):
            with contextlib.suppress(OSError):
                found[os.path.abspath(path)] = FileIdentity.of(path)
    return found


def _paths(source: Any) -> Iterator[str]:
    if isinstance(source, SubsetDataSource | MapDataSource):
        yield from _paths(source._source)
    elif isinstance(source, ConcatDataSource | ZipDataSource):
        for part in source._sources:
            yield from _paths(part)
    for name in library_names(source):
        match name:
            case ("datasets", "Dataset"):
                yield from (file["filename"] for file in source.cache_files)
            case ("torch", "Subset"):
                yield from _paths(source.dataset)
            case ("torch", "ConcatDataset"):
                for part in source.datasets:
                    yield from _paths(part)
            case ("array_record", "ArrayRecordDataSource"):
                yield from map(str, source._paths)
            case ("tensorflow_datasets", _):
                yield from _paths(source.data_source)
                return
