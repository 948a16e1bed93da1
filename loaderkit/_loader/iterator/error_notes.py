"""What an error tells the user: notes that name the operation, the records and the step; and names of records."""

from collections.abc import Sequence

import numpy as np

from loaderkit._base.notes import annotate, keyed, notes_of, text_of
from loaderkit._base.system.limits import limits_behind
from loaderkit._order.facts import Failure
from loaderkit._order.metadata import RecordMetadata
from loaderkit._plan.stream_plan import P, StreamPlan
from loaderkit._source.naming import Namer
from loaderkit.errors import LoaderkitError, WorkerError

_MENTIONED = 8  # records that an error names


def explained(
    failure: Failure, plan: StreamPlan[P], position: P, source_name: str, record_name: Namer
) -> Exception:
    """The error to raise for a failure: the same exception, with notes that say where it was raised.

    Args:
        failure: of a user's function, of batching, or of workers.
        plan: of the stream.
        position: of the element that failed.
        source_name: the data source's type.
        record_name: gives the source's name of a record.
    """
    error: Exception = failure.error
    if isinstance(error, StopIteration):
        # It would end the user's loop silently.
        ended, error = error, RuntimeError("StopIteration was raised while an element was made")
        error.__cause__ = ended
        error.__notes__ = notes_of(ended)
    if failure.label:
        records = _named(failure.indices, plan, position, source_name, record_name)
        annotate(error, f"raised by {failure.label} {records}at step {position.step}")
    elif isinstance(error, WorkerError):  # it names the keys itself
        known = [(key, record_name(key)) for key in error.record_keys[:_MENTIONED]]
        names = ", ".join(keyed(key, name) for key, name in known if name is not None)
        if names:
            annotate(error, f"the data source {source_name} calls record_key {names}")
    if not isinstance(error, LoaderkitError) and (limits := limits_behind(error)):
        annotate(error, limits.removeprefix("; "))
    if isinstance(error, ValueError) and "read-only" in text_of(error):
        annotate(error, "arrays of a data source are read-only: copy first, x = x.copy()")
    return error


def named(records: list[RecordMetadata], record_name: Namer) -> list[RecordMetadata]:
    """The same metadata, each with its source's name of the record.

    Args:
        records: as planned.
        record_name: gives the source's name of a record.

    >>> named([RecordMetadata(0, 3)], {3: "cat.jpg"}.get)
    [RecordMetadata(index=0, record_key=3, rng=None, name='cat.jpg')]
    """
    for record in records:
        if record.record_key is not None:
            record.name = record_name(record.record_key)
    return records


def _named(
    indices: Sequence[int], plan: StreamPlan[P], position: P, source_name: str, record_name: Namer
) -> str:
    if not indices:
        return ""
    shown = np.array(indices[:_MENTIONED], np.int64)
    try:
        keys, instead = plan.record_keys(position, shown)
    except Exception:  # noqa: BLE001 - a user's sampler may raise anything, and the first error must reach the user
        return f"for index {shown[0]}, "
    read = [
        f"record_key {keyed(key, record_name(key))}{', read instead of its own' if other else ''}"
        for key, other in zip(keys.tolist(), instead, strict=True)
    ]
    said = ", ".join(f"index {i} ({what})" for i, what in zip(shown.tolist(), read, strict=True))
    return f"for {said}{', …' if len(indices) > _MENTIONED else ''} of {source_name}, "
