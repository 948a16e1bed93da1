"""What a worker is at, as its heartbeat tells it."""

from loaderkit._base.system.dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """The present work of a worker.

    task: None for none. index: of the record, None where the worker doesn't report single records. beats: a counter
    that changes whenever the worker makes progress. instead: index and record key that it reads in place of a bad
    record.
    """

    task: int | None = None
    index: int | None = None
    beats: int = 0
    instead: tuple[int, int] | None = None
