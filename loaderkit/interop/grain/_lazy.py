"""Names that need an optional library, and words for those that aren't here."""

from typing import Any, Never

_ORBAX = {"PyGrainCheckpointSave": "CheckpointSave", "PyGrainCheckpointRestore": "CheckpointRestore"}

_DATASETS = "the Dataset side of Grain isn't here, use Grain's own"
# Names of Grain that aren't here, each with the reason, which is said where one is asked for as an attribute.
LEFT_OUT: dict[str, str] = {
    **dict.fromkeys(
        (
            "apply_transformations",
            "BestFitPackIterDataset",
            "BOSHandling",
            "CacheIterDataset",
            "ConcatThenSplitIterDataset",
            "DatasetIterator",
            "DatasetOptions",
            "ElasticIterator",
            "ExecutionTrackingMode",
            "FirstFitPackIterDataset",
            "FlatMapIterDataset",
            "FlatMapMapDataset",
            "get_element_spec",
            "get_next_index",
            "InterleaveIterDataset",
            "IterDataset",
            "LimitIterDataset",
            "MapDataset",
            "multithread_prefetch",
            "ParquetIterDataset",
            "PerformanceConfig",
            "pick_performance_config",
            "RebatchIterDataset",
            "RepeatIterDataset",
            "RngPool",
            "set_next_index",
            "ShapeDtypeStruct",
            "ShapeDtypeStructProtocol",
            "TFRecordIterDataset",
            "ThreadPrefetchDatasetIterator",
            "ThreadPrefetchIterDataset",
            "WindowShuffleIterDataset",
            "WindowShuffleMapDataset",
            "WithOptionsIterDataset",
            "ZipIterDataset",
            "ZipMapDataset",
        ),
        _DATASETS,
    ),
    "assert_equal_output_after_checkpoint": "a tool of Grain's own tests; loaderkit.testing has the like",
    "device_put": f"{_DATASETS}; loaderkit.device_iterator puts the batches of lk.DataLoader on devices",
    "monitoring": "Grain's telemetry, which is not part of a pipeline",
    "PackAndBatchOperation": "Grain's own can be given as an operation, as it is",
    "proto": "protocol buffers of Grain's telemetry, which is not part of a pipeline",
}


def lazily(module: str, name: str) -> Any:
    """A name that needs Orbax, or an AttributeError as `missing` raises it."""
    if name not in _ORBAX:
        missing(module, name)
    from . import checkpoint

    return getattr(checkpoint, _ORBAX[name])


def missing(module: str, name: str) -> Never:
    """Raises an AttributeError that says why a name isn't here; an import statement turns it into its own ImportError.

    >>> missing("grain", "MapDataset")
    Traceback (most recent call last):
    AttributeError: module 'grain' has no attribute 'MapDataset': the Dataset side of Grain isn't here, use Grain's own
    """
    advice = f": {LEFT_OUT[name]}" if name in LEFT_OUT else ""
    raise AttributeError(f"module {module!r} has no attribute {name!r}{advice}", name=name)
