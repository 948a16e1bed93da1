"""The bad records of a course: what is known of them, and how many may be."""

from collections import Counter
from collections.abc import Sequence

from loaderkit._base.notes import keyed
from loaderkit._order.loss import Loss
from loaderkit.errors import BadRecordsError

from .bad_records import IN_A_ROW, Losses
from .position import Position
from .stream_plan import Course


def with_losses(course: Course, known: Losses, losses: Sequence[Loss], q: int) -> Losses:
    """The known ones and more; q: of the streams."""
    if not course.tolerance.skips:
        return known.with_ledger((loss.index, loss.instead) for loss in losses)
    return known.with_skipped(Counter(course.stream_plan(q).stream_of(loss.index) for loss in losses))


def check_losses(course: Course, position: Position, losses: Losses, latest: Loss) -> None:
    """Raises BadRecordsError where more were lost up to a position than is allowed.

    losses: all of them, those included that the position doesn't know yet. latest: the last of them.
    """
    lost, passed = losses.count, _records_passed(course, position, losses)
    # A search ends by itself, and so do records that are left out; a function of the user's may answer for ever.
    every_one = course.tolerance.policy == "call" and lost >= max(IN_A_ROW, passed)
    if course.tolerance.allows(lost=lost, passed=passed, num_records=course.num_records) and not every_one:
        return
    limit = "" if every_one else f", and max_bad_records is {course.tolerance.most}"
    raise BadRecordsError(
        f"{lost:,} of about {passed:,} records are bad{limit}; the last is index {latest.index} "
        f"(record_key {keyed(latest.record_key, latest.name)}): {latest.error}, raised by {latest.label}"
    )


def _records_passed(course: Course, position: Position, losses: Losses) -> int:
    """Records of this process's rows up to a position, nearly."""
    own, shards = len(course.shard.blocks), course.shard.shard_count
    if position.cursors is not None:
        # Where a stream has begun again, what its ledger says was passed before.
        records = max(course.index_of(position), losses.ledger.last + 1) - course.start
        return max(losses.count, records * own // shards)
    # A seek back doesn't make records good that were lost behind it.
    records = _records_in(course, position.step)
    records = max(records, losses.ledger.last + 1 - course.start)
    return max(losses.count, -(-records * own // shards))


def _records_in(course: Course, steps: int) -> int:
    stride = course.batching.stride
    if course.stop is None or steps * stride <= course.stop - course.start:
        return steps * stride
    whole, left = divmod(course.stop - course.start, stride)
    return whole * stride + course.batching.count_used(left)
