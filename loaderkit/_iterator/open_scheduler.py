"""Which scheduler makes a stream, and from what: the plan's steps or records, from a position on."""

from dataclasses import replace

from loaderkit._engine.grouping import Grouping
from loaderkit._engine.row_scheduler import Grid
from loaderkit._engine.scheduler import Assembly, Supplies
from loaderkit._engine.stream_scheduler import Chain
from loaderkit._order.cursor import Cursor
from loaderkit._order.sharding import ShardOptions
from loaderkit._plan.bad_records import honouring
from loaderkit._plan.feeds import Indices, RecordFeed, ShardIndices, StepFeed, StreamIndices
from loaderkit._plan.logical_streams import StreamPlan
from loaderkit._plan.position import Position
from loaderkit._plan.stream_plan import Course

_LEAST_PATIENCE = 100_000  # records that may pass without one left, where an epoch is shorter


def open_scheduler(course: Course, position: Position, q: int, prefetch: int, supplies: Supplies) -> Assembly:
    """The scheduler of a stream from a position on.

    Args:
        course: the stream.
        position: where it begins.
        q: of the logical streams.
        prefetch: elements to make ahead.
        supplies: what the schedulers of one executor share.
    """
    if course.batching.batched and not course.row_changing:
        return _grid(course, position, prefetch, supplies)
    return _chain(course, position, q, prefetch, supplies)


def _grid(course: Course, position: Position, prefetch: int, supplies: Supplies) -> Grid:
    place = course.last_batch
    last = course.operations[place].batch
    assert last is not None
    schedule = replace(course.schedule, sampler=honouring(course.sampler, position.losses.ledger))
    return Grid(
        StepFeed(schedule, position.segments, position.step, course.num_records, course.num_steps),
        supplies,
        level=len(course.batching.inner) + 1,
        group=course.batching.group,
        finish=last.has_function or place + 1 < len(course.operations),
        in_place=not last.has_function,
        prefetch=prefetch,
    )


def _chain(course: Course, position: Position, q: int, prefetch: int, supplies: Supplies) -> Chain:
    indices: dict[int, Indices]
    start: dict[int, Cursor]
    if position.cursors is None:
        assert isinstance(course.shard, ShardOptions)  # blocks need a Batch
        start = {0: ()}
        indices = {
            0: ShardIndices(position.segments, step=position.step, stop=course.stop, shard=course.shard)
        }
    else:
        plan = course.stream_plan(q)
        start = dict(position.cursors)
        again = course.wraps
        indices = {
            stream: StreamIndices(plan, stream, cursor[0], again=again) for stream, cursor in start.items()
        }
    sampler = honouring(course.sampler, position.losses.ledger)

    def records(indices: Indices) -> RecordFeed:
        return RecordFeed(sampler, indices, course.num_records)

    def sample() -> RecordFeed:
        return records(StreamIndices(StreamPlan(1, 1, course.start, course.stop), 0, course.start))

    return Chain(
        {stream: records(of) for stream, of in indices.items()},
        supplies,
        groupings=_groupings(course),
        start=start,
        prefetch=prefetch,
        # An endless stream of which nothing is left would be waited for without end.
        patience=None if course.ends else max(2 * course.num_records, _LEAST_PATIENCE),
        tolerance=course.bad_in_a_row if course.tolerance.skips else None,
        stop=course.stop,
        again=lambda stream: records(StreamIndices(course.stream_plan(q), stream, course.start)),
        sample=sample if course.asks_others else None,
    )


def _groupings(course: Course) -> tuple[Grouping, ...]:
    batching = course.batching
    if not batching.batched:
        return ()
    inner = [
        Grouping(level.size, "keep" if level.remainder == "keep" else "drop") for level in batching.inner
    ]
    own = batching.rows // course.logical_streams
    fails = course.num_steps is not None and batching.remainder in ("drop", "wrap")
    return (*inner, Grouping(own, "fail" if fails else batching.remainder))
