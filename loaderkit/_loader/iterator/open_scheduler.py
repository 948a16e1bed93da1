"""Makes the scheduler of a stream from a position on: of the plan's steps, or of its records."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from loaderkit._engine.grouping import Grouping
from loaderkit._engine.logical_stream import RecordInput
from loaderkit._engine.row_scheduler import RowScheduler
from loaderkit._engine.scheduler import Scheduler, SchedulerContext
from loaderkit._engine.stream_scheduler import StreamScheduler
from loaderkit._order.facts import Cursor
from loaderkit._order.sharding import ShardOptions
from loaderkit._plan.bad_records import with_substitutions
from loaderkit._plan.feeds import Indices, RecordFeed, ShardIndices, StepFeed, StreamIndices, WholeWindows
from loaderkit._plan.logical_streams import LogicalStreams
from loaderkit._plan.position import Position
from loaderkit._plan.seekable_plan import SeekablePlan
from loaderkit.samplers.optional import batch_of, lanes_of, next_uses_of

_LEAST_EMPTY_LIMIT = 100_000


def open_scheduler(
    plan: SeekablePlan, position: Position, context: SchedulerContext, *, prefetch: int
) -> Scheduler:
    """The scheduler of a stream from a position on.

    Args:
        plan: the stream.
        position: where it begins.
        context: what the schedulers of one executor share.
        prefetch: elements to make ahead.
    """
    of_steps = plan.batching.batched and not plan.row_changing
    return (_row_scheduler if of_steps else _stream_scheduler)(plan, prefetch, position, context)


def empty_limit_of(num_records: int) -> int:
    """Records in a row of an endless stream that may give no element: those of two epochs, and at least 100,000.

    >>> empty_limit_of(10), empty_limit_of(1_000_000)
    (100000, 2000000)
    """
    return max(2 * num_records, _LEAST_EMPTY_LIMIT)


def _row_scheduler(
    plan: SeekablePlan, prefetch: int, position: Position, context: SchedulerContext
) -> RowScheduler:
    place = plan.last_batch
    last = plan.operations[place].batch
    assert last is not None
    schedule = replace(plan.schedule, sampler=with_substitutions(plan.sampler, position.losses.ledger))
    feed = StepFeed(schedule, position.segments, position.step, plan.num_records, plan.num_steps)
    (followed,) = _followed(plan, [feed], context)
    in_place = not last.has_function and (not last.buckets or last.rows_padded)
    return RowScheduler(
        followed,
        context,
        level=len(plan.batching.inner) + 1,
        group=plan.batching.group,
        finish=not in_place or place + 1 < len(plan.operations),
        in_place=in_place,
        prefetch=prefetch,
        replacement=plan.replacement_search(position),
    )


def _stream_scheduler(
    plan: SeekablePlan, prefetch: int, position: Position, context: SchedulerContext
) -> StreamScheduler:
    indices: dict[int, Indices]
    start: dict[int, Cursor]
    if position.cursors is None:
        assert isinstance(plan.shard, ShardOptions)  # blocks need a Batch
        start = {0: ()}
        indices = {0: ShardIndices(position.segments, step=position.step, stop=plan.stop, shard=plan.shard)}
    else:
        streams = plan.streams_in_blocks(position.q)
        start = dict(position.cursors)
        again = plan.wraps
        indices = {
            stream: StreamIndices(streams, stream, cursor[0], again=again) for stream, cursor in start.items()
        }
    sampler = with_substitutions(plan.sampler, position.losses.ledger)

    window = plan.read_window

    def records(indices: Indices) -> RecordFeed:
        return RecordFeed(sampler, indices, plan.num_records)

    def windows(feed: RecordInput) -> RecordInput:
        return feed if window is None else WholeWindows(feed, window)

    def sample() -> RecordInput:
        return windows(records(StreamIndices(LogicalStreams(1, 1, plan.start, plan.stop), 0, plan.start)))

    feeds = _followed(plan, [records(of) for of in indices.values()], context)
    return StreamScheduler(
        dict(zip(indices, map(windows, feeds), strict=True)),
        context,
        groupings=_groupings(plan),
        start=start,
        prefetch=prefetch,
        # An endless stream whose operations drop every record would make next() wait forever.
        empty_limit=None if plan.ends else max(empty_limit_of(plan.num_records), 2 * (window or 0)),
        tolerance=plan.bad_in_a_row if plan.tolerance.skips else None,
        stop=plan.stop,
        again=lambda stream: windows(
            records(StreamIndices(plan.streams_in_blocks(position.q), stream, plan.start))
        ),
        sample=sample if plan.asks_others else None,
        replacement=plan.replacement_search(position),
        read_window=window,
    )


def _followed(plan: SeekablePlan, feeds: Sequence[Any], context: SchedulerContext) -> Sequence[Any]:
    """The feeds, followed by the loader's feeder where there is one."""
    if context.follow is None:
        return feeds
    sampler, shard = plan.sampler, plan.shard
    next_uses = next_uses_of(sampler)
    if next_uses is None:
        return context.follow(feeds, None)
    lanes, rest = divmod(lanes_of(sampler), shard.shard_count)
    if rest or plan.batching.stride != batch_of(sampler) or not isinstance(shard, ShardOptions):
        return context.follow(feeds, next_uses)
    own = range(shard.shard_index * lanes, (shard.shard_index + 1) * lanes)
    return context.follow(feeds, partial(next_uses, lanes=own))


def _groupings(plan: SeekablePlan) -> tuple[Grouping, ...]:
    batching = plan.batching
    inner: list[Grouping] = []
    for place, op in enumerate(plan.operations):
        if op.window is not None:
            inner.append(Grouping(op.window.size, "keep"))
        elif op.batch is not None and place != plan.last_batch:
            inner.append(
                Grouping(op.batch.batch_size or 0, "keep" if op.batch.remainder == "keep" else "drop")
            )
    if plan.read_window is not None:
        del inner[0]
    if not batching.batched:
        return tuple(inner)
    own = batching.rows // plan.logical_streams
    fails = plan.num_steps is not None and batching.remainder in ("drop", "wrap")
    return (*inner, Grouping(own, "fail" if fails else batching.remainder))
