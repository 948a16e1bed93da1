"""Where the records end of which a Window, or a FlatMap behind a Batch, has handed out a part: they are made once more.

Operations that drop records decide where a window ends, so no state says it. The stream goes on with its elements under
the weights of before, and other weights hold from the first index behind them on.
"""

from dataclasses import replace

from loaderkit._engine.task import End
from loaderkit._order.facts import Failure
from loaderkit._order.sharding import ShardOptions
from loaderkit._plan.position import Position
from loaderkit._plan.seekable_plan import SeekablePlan
from loaderkit._runtime.executors.executor import Executor
from loaderkit._runtime.executors.inline import InlineExecutor
from loaderkit.transforms import Batch
from loaderkit.transforms.shape import shape_of

from .error_notes import explained
from .open_scheduler import open_scheduler

# that are made to find an end: elements of Windows behind Windows may never end together
_MOST_WINDOWS = 1000


def first_unread(plan: SeekablePlan, position: Position, executor: Executor) -> int:
    """The first index that no stream of a position has read, from which other weights may hold.

    Args:
        plan: with the weights of before.
        position: of it, with the cursors of all streams.
        executor: of the loader.

    Raises ValueError where elements don't end together, IndexError past 2**63, and what operations and source raise.
    """
    known = plan.first_unread(position)
    if known is not None:
        return known
    assert position.cursors is not None
    many = [place for place, op in enumerate(plan.operations) if op.kind in ("flat_map", "window")]
    end = max(many, default=-1) + 1  # there are none where a state of other operations was allowed
    one_each = Batch(plan.logical_streams, batch_fn=list, remainder="pad")
    operations = (*plan.operations[:end], *shape_of([one_each]))
    single = replace(plan, operations=operations, shard=ShardOptions(0, 1), num_steps=None)
    program = replace(
        executor.program,
        operations=(*executor.program.operations[:end], Batch(1, batch_fn=list)),
        reads_windows=single.read_window is not None,
    )
    inline = InlineExecutor(program, task_rows=None)
    try:
        return max(
            _end_of_begun(single, position._replace(cursors={stream: cursor}), stream, inline)
            for stream, cursor in position.cursors.items()
        )
    finally:
        inline.shut_down()


def _end_of_begun(plan: SeekablePlan, position: Position, stream: int, inline: InlineExecutor) -> int:
    """The first index behind the elements that a stream has begun. plan: gives them one by one."""
    assert position.cursors is not None
    first, *begun = position.cursors[stream]
    if not any(begun):
        return first
    made = inline.open(lambda context: open_scheduler(plan, position, context, prefetch=1))
    ends = {first}
    while not isinstance(found := made.next(), End):
        if isinstance(found, Failure):
            raise explained(found, plan, position, inline.source_name, inline.record_name)
        assert found.facts.begins is not None and found.facts.ends is not None
        begin, *within = found.facts.begins[0].tolist()
        if begin > first and not any(within):
            return int(begin)
        end, *within = found.facts.ends[0][stream]
        if not any(within):
            return end
        ends.add(end)
        if len(ends) > _MOST_WINDOWS:
            raise ValueError(
                "weights: expected Windows and FlatMaps whose elements end together now and then, got none that do "
                f"from index {first} to {end}, so no other weights can begin there; change them at another step, or "
                "make the size of each Window a multiple of the next one's"
            )
    assert plan.stop is not None
    return plan.stop
