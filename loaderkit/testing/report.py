"""What a check that found nothing wrong has looked at."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineReport:
    """What `check_pipeline` ran and compared, all of it alike; a PurityError comes where it isn't.

    batches: elements that were compared, fewer than were asked for where the stream ends before. indices: of the
    stream, that they took over all shards. leaves: paths of the leaves of the first, "" for an element that is one.
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
