"""Former names of public packages, each in another module now. They work in 0.2, and go with 0.3."""

import warnings
from collections.abc import Mapping
from importlib import import_module
from typing import Any

_MOVED = {
    "loaderkit -> errors": "ArenaMemoryError BadRecordsError BatchError ChecksumError ConformanceError DataFormatError "
    "FileChangedError IteratorClosedError NoResultError PurityError StateError StorageError "
    "TransportError WorkerTimeoutError",
    "loaderkit -> samplers": "Sampler InterleavedSampler KeysSampler LengthBucketSampler MixedSampler WeightedSampler",
    "loaderkit -> formats": "ArrowDataSource CsvDataSource FilesDataSource GroupedRowsDataSource "
    "JoinedFilesDataSource LinesDataSource LmdbDataSource TableDataSource TfdsDataSource",
    "loaderkit -> offline": "PackPlan column_stats filtered map_shards measure read_array read_labels",
    "loaderkit -> sources": "RandomAccessDataSource WindowDataSource",
    "loaderkit -> transforms": "ArraySpec Transformation",
    "loaderkit -> interop.prometheus": "PrometheusCollector",
    "loaderkit -> interop.tqdm": "progress",
    "loaderkit.combine -> ": "balance interleave mix",
    "loaderkit.sources -> formats": "ArrayFileDataSource ArrayRecordDataSource ArrowDataSource CsvDataSource "
    "FilesDataSource FolderDataSource GroupedRowsDataSource JoinedFilesDataSource JsonLinesDataSource "
    "LinesDataSource LmdbDataSource ParquetDataSource TFRecordDataSource TableDataSource TarDataSource "
    "TfdsDataSource TokenDataSource",
}
# The former path of a name, without "loaderkit.", and its path now.
FORMER: Mapping[str, str] = {
    **{
        f"{package}.{name}".removeprefix("loaderkit."): f"{module}.{name}".removeprefix(".")
        for moved, names in _MOVED.items()
        for package, _, module in [moved.partition(" -> ")]
        for name in names.split()
    },
    "ArraysDataSource": "formats.ArrayFileDataSource",
    "sources.ArraysDataSource": "formats.ArrayFileDataSource",
}


def former_name(package: str, name: str) -> Any:
    """What has the name now, with a DeprecationWarning that points to the line that asked `__getattr__` for it.

    Args:
        package: the package that had the name.
        name: of a class or function. AttributeError for one that the package never had, with ours in
            its place if another library has it.

    >>> import pytest
    >>> with pytest.warns(DeprecationWarning, match="lk.KeysSampler is lk.samplers.KeysSampler now"):
    ...     former_name("loaderkit", "KeysSampler")
    <class 'loaderkit.samplers.keys.KeysSampler'>
    """
    former = f"{package}.{name}".removeprefix("loaderkit.")
    if (now := FORMER.get(former)) is None:
        from .hints import foreign_attribute

        instead = "" if (ours := foreign_attribute(name, package)) is None else f"; use instead: {ours}"
        # With `obj` Python suggests a similar name.
        raise AttributeError(
            f"module {package!r} has no attribute {name!r}{instead}",
            name=name,
            obj=None if instead else import_module(package),
        )
    text = f"lk.{former} is lk.{now} now; the old name goes with 0.3.0"
    warnings.warn(text, DeprecationWarning, stacklevel=3)
    module, _, named = f"loaderkit.{now}".rpartition(".")
    return getattr(import_module(module), named)
