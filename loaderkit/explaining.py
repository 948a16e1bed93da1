"""An error as the user meets it: its own type and traceback, and notes that name the operation, records and step."""

from collections.abc import Sequence

import numpy as np

from loaderkit._notes import annotate
from loaderkit.course.course import Course
from loaderkit.course.position import Position
from loaderkit.plan.losses import honouring
from loaderkit.plan.samplers import record_keys_of
from loaderkit.transforms.run import Failure

_MENTIONED = 8  # records that an error names


def explained(failure: Failure, course: Course, position: Position, source_name: str) -> Exception:
    """The error to raise for what a user's function, or the batching, raised: as it came, with notes of where that was.

    Args:
        failure: what it was.
        course: of the records that it names.
        position: of the element that it ended.
        source_name: of the data source.
    """
    error = failure.error
    if isinstance(error, StopIteration):
        # As it is, it would end the user's loop without a word.
        ended, error = error, RuntimeError("StopIteration was raised where an element is made")
        error.__cause__ = ended
        error.__notes__ = list(getattr(ended, "__notes__", []))
    if failure.label:
        records = _named(failure.indices, course, position, source_name)
        annotate(error, f"raised by {failure.label} {records}at step {position.step}")
    if isinstance(error, ValueError) and "read-only" in str(error):
        annotate(error, "arrays of a data source belong to it: copy first, x = x.copy()")
    return error


def _named(indices: Sequence[int], course: Course, position: Position, source_name: str) -> str:
    if not indices:
        return ""
    shown = np.array(indices[:_MENTIONED], np.int64)
    ledger = position.losses.ledger
    try:
        keys = record_keys_of(honouring(course.sampler, ledger), shown)
    except Exception:  # noqa: BLE001 - a user's sampler may raise anything; the user's error must be heard
        return f"for index {shown[0]}, "
    named = ", ".join(
        f"index {i} (record_key {k}{', read instead of its own' if ledger.get(i, i) != i else ''})"
        for i, k in zip(shown.tolist(), keys.tolist(), strict=True)
    )
    return f"for {named}{', …' if len(indices) > _MENTIONED else ''} of {source_name}, "
