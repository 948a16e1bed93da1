"""The bad records up to a position: counted, and checked against the user's limit."""

from collections import Counter
from collections.abc import Sequence

from loaderkit._base.notes import keyed
from loaderkit._order.facts import Loss
from loaderkit.errors import BadRecordsError

from .bad_records import IN_A_ROW, BadRecords
from .position import Position
from .stream_shape import StreamShape


def with_losses(shape: StreamShape, known: BadRecords, losses: Sequence[Loss], q: int) -> BadRecords:
    """The known bad records with those of `losses` added. q: block length of the logical streams."""
    if not shape.tolerance.skips:
        return known.with_ledger((loss.index, loss.instead) for loss in losses)
    return known.with_skipped(Counter(shape.streams_in_blocks(q).stream_of(loss.index) for loss in losses))


def check_losses(
    shape: StreamShape, position: Position, latest: Loss, *, index: int, num_records: int
) -> None:
    """Raises BadRecordsError where more records are bad up to a position than the user allows.

    Args:
        shape: of the stream.
        position: it holds the bad records up to it.
        latest: the last of them.
        index: the next index at the position.
        num_records: the source's length.
    """
    lost, passed = position.losses.count, _records_passed(shape, position, index)
    # "replace" and "skip" end at `Tolerance.in_a_row`; a user's function could answer for bad records without end.
    all_bad = shape.tolerance.policy == "call" and lost >= max(IN_A_ROW, passed)
    if shape.tolerance.allows(lost=lost, passed=passed, num_records=num_records) and not all_bad:
        return
    limit = "" if all_bad else f", and max_bad_records is {shape.tolerance.most}"
    raise BadRecordsError(
        f"{lost:,} of about {passed:,} records are bad{limit}; the last is index {latest.index} "
        f"(record_key {keyed(latest.record_key, latest.name)}): {latest.error}, raised by {latest.label}"
    )


def _records_passed(shape: StreamShape, position: Position, index: int) -> int:
    """The approximate number of records in this process's rows up to a position."""
    losses, own, shards = position.losses, len(shape.shard.blocks), shape.shard.shard_count
    if position.cursors is not None:
        # After a stream began again, its ledger holds greater indices, which were passed before.
        records = max(index, losses.ledger.last + 1) - shape.start
        return max(losses.count, records * own // shards)
    # After a seek back the ledger still holds the bad records beyond the position.
    records = max(_records_in(shape, position.step), losses.ledger.last + 1 - shape.start)
    return max(losses.count, -(-records * own // shards))


def _records_in(shape: StreamShape, steps: int) -> int:
    stride = shape.batching.stride
    if shape.stop is None or steps * stride <= shape.stop - shape.start:
        return steps * stride
    whole, left = divmod(shape.stop - shape.start, stride)
    return whole * stride + shape.batching.count_used(left)
