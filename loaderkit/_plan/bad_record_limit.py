"""The bad records of a plan: what is known of them, and how many may be."""

from collections import Counter
from collections.abc import Sequence

from loaderkit._base.notes import keyed
from loaderkit._order.loss import Loss
from loaderkit.errors import BadRecordsError

from .bad_records import IN_A_ROW, BadRecords
from .position import Position
from .stream_plan import StreamPlan


def with_losses(plan: StreamPlan, known: BadRecords, losses: Sequence[Loss], q: int) -> BadRecords:
    """The known ones and more; q: of the streams."""
    if not plan.tolerance.skips:
        return known.with_ledger((loss.index, loss.instead) for loss in losses)
    return known.with_skipped(Counter(plan.streams_in_blocks(q).stream_of(loss.index) for loss in losses))


def check_losses(plan: StreamPlan, position: Position, losses: BadRecords, latest: Loss) -> None:
    """Raises BadRecordsError where more were lost up to a position than is allowed.

    losses: all of them, those included that the position doesn't know yet. latest: the last of them.
    """
    lost, passed = losses.count, _records_passed(plan, position, losses)
    # A search ends by itself, and so do records that are left out; a function of the user's may answer for ever.
    every_one = plan.tolerance.policy == "call" and lost >= max(IN_A_ROW, passed)
    if plan.tolerance.allows(lost=lost, passed=passed, num_records=plan.num_records) and not every_one:
        return
    limit = "" if every_one else f", and max_bad_records is {plan.tolerance.most}"
    raise BadRecordsError(
        f"{lost:,} of about {passed:,} records are bad{limit}; the last is index {latest.index} "
        f"(record_key {keyed(latest.record_key, latest.name)}): {latest.error}, raised by {latest.label}"
    )


def _records_passed(plan: StreamPlan, position: Position, losses: BadRecords) -> int:
    """Records of this process's rows up to a position, nearly."""
    own, shards = len(plan.shard.blocks), plan.shard.shard_count
    if position.cursors is not None:
        # Where a stream has begun again, what its ledger says was passed before.
        records = max(plan.index_of(position), losses.ledger.last + 1) - plan.start
        return max(losses.count, records * own // shards)
    # A seek back doesn't make records good that were lost behind it.
    records = _records_in(plan, position.step)
    records = max(records, losses.ledger.last + 1 - plan.start)
    return max(losses.count, -(-records * own // shards))


def _records_in(plan: StreamPlan, steps: int) -> int:
    stride = plan.batching.stride
    if plan.stop is None or steps * stride <= plan.stop - plan.start:
        return steps * stride
    whole, left = divmod(plan.stop - plan.start, stride)
    return whole * stride + plan.batching.count_used(left)
