"""A bad record that didn't end the stream, as the worker that read it reports it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Loss:
    """A bad record of a task; its row was replaced, masked or left out, as the user's policy says.

    place       of the record in the task
    index       of the row
    record_key  of the bad record
    instead     index of the record that was read in its place; the row's own index where none was
    label       of the operation or the read that raised the error
    error       type and text of the error
    name        what the data source calls the record, None where it has no name
    """

    place: int
    index: int
    record_key: int
    instead: int
    label: str
    error: str
    name: str | None = None
