"""A bad record that did not end the stream, as the worker that met it reports it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Loss:
    """A record of a task was bad, and its row was made otherwise, or left out, as the user's policy says.

    place         of the record in the task
    index         of the row
    record_key    of the record that was bad
    instead       the index whose record was read; the row's own where nothing was
    label, error  what raised it, and how it reads
    name          what the data source calls the record, None where it says nothing
    """

    place: int
    index: int
    record_key: int
    instead: int
    label: str
    error: str
    name: str | None = None
