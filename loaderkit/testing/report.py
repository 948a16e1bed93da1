"""The report of a check that found no fault."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineReport:
    """What `check_pipeline` ran and found equal.

    batches: number of compared elements, less than requested where the stream ends before. indices: number of indices
    that they took, over all shards. leaves: paths of the first element's leaves, "" for an element that is a leaf.
    operations: labels, in order. runs: the ways in which the pipeline was run.

    >>> PipelineReport(
    ...     batches=8, indices=256, leaves=("['x']",), operations=("Batch(batch_size=32)",), runs=()
    ... )
    PipelineReport(batches=8, indices=256, leaves=("['x']",), operations=('Batch(batch_size=32)',), runs=())
    """

    batches: int
    indices: int
    leaves: tuple[str, ...]
    operations: tuple[str, ...]
    runs: tuple[str, ...]
