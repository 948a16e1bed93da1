"""Former names of the package `loaderkit`, each in another module now. They work in 0.2, and go with 0.3."""

from collections.abc import Mapping

_NAMES = {
    "errors": "ArenaMemoryError BadRecordsError BatchError ChecksumError ConformanceError DataFormatError "
    "FileChangedError IteratorClosedError NoResultError PurityError StateError StorageError "
    "TransportError WorkerTimeoutError",
    "samplers": "Sampler InterleavedSampler KeysSampler LengthBucketSampler MixedSampler WeightedSampler",
    "formats": "ArrowDataSource CsvDataSource FilesDataSource GroupedRowsDataSource "
    "JoinedFilesDataSource LinesDataSource LmdbDataSource TableDataSource TfdsDataSource",
    "offline": "PackPlan column_stats filtered map_shards measure read_array read_labels",
    "sources": "RandomAccessDataSource WindowDataSource",
    "transforms": "ArraySpec Transformation",
    "interop.prometheus": "PrometheusCollector",
    "interop.tqdm": "progress",
}
FORMER: Mapping[str, str] = {
    **{name: f"{module}.{name}" for module, names in _NAMES.items() for name in names.split()},
    "ArraysDataSource": "formats.ArrayFileDataSource",
}


def former_warning(name: str) -> str:
    """What a former name is now, for a DeprecationWarning.

    Args:
        name: one of `FORMER`.

    >>> former_warning("KeysSampler")
    'lk.KeysSampler is lk.samplers.KeysSampler now; the old name goes with 0.3.0'
    """
    return f"lk.{name} is lk.{FORMER[name]} now; the old name goes with 0.3.0"
