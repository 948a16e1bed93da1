"""The bad records of a stream: what is known of them after some more, and how many may be."""

from collections import Counter
from collections.abc import Sequence

from loaderkit._base.notes import keyed
from loaderkit._order.loss import Loss
from loaderkit.errors import BadRecordsError

from .bad_records import IN_A_ROW, BadRecords
from .position import Position
from .stream_shape import StreamShape


def with_losses(shape: StreamShape, known: BadRecords, losses: Sequence[Loss], q: int) -> BadRecords:
    """The known ones and more; q: of the streams."""
    if not shape.tolerance.skips:
        return known.with_ledger((loss.index, loss.instead) for loss in losses)
    return known.with_skipped(Counter(shape.streams_in_blocks(q).stream_of(loss.index) for loss in losses))


def check_losses(
    shape: StreamShape, position: Position, latest: Loss, *, index: int, num_records: int
) -> None:
    """Raises BadRecordsError where more records were lost up to a position than is allowed.

    Args:
        shape: of the stream.
        position: it holds the bad records up to it.
        latest: the last of them.
        index: the next index at the position.
        num_records: the source's length.
    """
    lost, passed = position.losses.count, _records_passed(shape, position, index)
    # A search ends by itself, and so do records that are left out; a function of the user's may answer for ever.
    every_one = shape.tolerance.policy == "call" and lost >= max(IN_A_ROW, passed)
    if shape.tolerance.allows(lost=lost, passed=passed, num_records=num_records) and not every_one:
        return
    limit = "" if every_one else f", and max_bad_records is {shape.tolerance.most}"
    raise BadRecordsError(
        f"{lost:,} of about {passed:,} records are bad{limit}; the last is index {latest.index} "
        f"(record_key {keyed(latest.record_key, latest.name)}): {latest.error}, raised by {latest.label}"
    )


def _records_passed(shape: StreamShape, position: Position, index: int) -> int:
    """Records of this process's rows up to a position, nearly."""
    losses, own, shards = position.losses, len(shape.shard.blocks), shape.shard.shard_count
    if position.cursors is not None:
        # Where a stream has begun again, what its ledger says was passed before.
        records = max(index, losses.ledger.last + 1) - shape.start
        return max(losses.count, records * own // shards)
    # A seek back doesn't make records good that were lost after it.
    records = max(_records_in(shape, position.step), losses.ledger.last + 1 - shape.start)
    return max(losses.count, -(-records * own // shards))


def _records_in(shape: StreamShape, steps: int) -> int:
    stride = shape.batching.stride
    if shape.stop is None or steps * stride <= shape.stop - shape.start:
        return steps * stride
    whole, left = divmod(shape.stop - shape.start, stride)
    return whole * stride + shape.batching.count_used(left)
