"""Other lists of records that a stream leaves out, in mid-run: where they begin, agreed on by all processes."""

from typing import Any

from loaderkit._base.numbers import at_least
from loaderkit._plan.position import Position
from loaderkit._plan.seekable_plan import SeekablePlan

from .first_unread import first_unread
from .reader import StreamReader
from .reweigh import begin_change, change_from, check_one_process


def exclude(reader: StreamReader[Position, SeekablePlan], from_step: Any, *, agrees: bool) -> int:
    """Takes the lists that are there now; `DataLoaderIterator.exclude` says what it raises.

    Args:
        reader: of the stream; its lock is held.
        from_step: the first step without their records, None for the next one.
        agrees: whether the processes of the shard's store compare the lists.

    Returns the step that they hold from.
    """
    reader.check_open()
    plan, position = reader.plan, reader.position
    if plan.exclusions is None:
        raise ValueError(
            "exclude(): expected a loader with folders of lists, got none; give it exclude=, such as "
            "exclude='blocked/web', or {'web': 'blocked/web'} for the components of a mixture"
        )
    check_one_process(plan, "exclude()", "with allow={'exclude'}")
    index = _first_index(reader, plan, position, from_step)
    lists = plan.exclusions.lists.present()
    after = plan.excluding_from(index, lists)
    assert after.exclusions is not None
    changed = after.exclusions.first_difference(plan.exclusions.stages)
    first = index if changed is None else changed
    step, there = begin_change(reader, after, index, first, "exclude()", "take the lists", agrees=agrees)
    if changed is None:
        return step
    reader.renew_executor()
    change_from(reader, after, there, changed)
    return step


def _first_index(
    reader: StreamReader[Position, SeekablePlan], plan: SeekablePlan, position: Position, from_step: Any
) -> int:
    step = position.step if from_step is None else at_least("from_step", from_step, 0)
    if step < position.step:
        raise ValueError(
            f"from_step: expected a step that isn't taken yet, {position.step} or later, got {step}; what was handed "
            "out can't be left out any more"
        )
    if step == position.step:
        return first_unread(plan, position, reader.executor)
    plan.check_known("from_step")
    index = position.segments.index_of(step)
    return index if plan.stop is None else min(index, plan.stop)
