"""Which element comes when: Grain's DataLoader with W workers, computed for any number of ours.

W layout workers share the records of a shard: local record j belongs to layout worker j % W. Each makes its own
elements, with its own remainder, and they give one each in turn (_round_robin.py). A *position* says for each
layout worker how many of its records were used, and, after FlatMaps, the ordinals of the next child: its *place*. Grain
writes the same numbers in its checkpoints.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.system.dataclasses import dataclass, replace
from loaderkit._engine.grouping import Grouping
from loaderkit._engine.row_scheduler import RowScheduler
from loaderkit._engine.scheduler import Scheduler, SchedulerContext
from loaderkit._engine.stream_scheduler import StreamScheduler
from loaderkit._loader.iterator.open_scheduler import empty_limit_of
from loaderkit._order.facts import Cursor, Facts, Failure, Loss
from loaderkit._plan.feeds import RecordFeed
from loaderkit.samplers.protocol import record_keys_of
from loaderkit.transforms.base import Batch

from ._compile import Compiled
from ._order import Order
from ._round_robin import RoundRobin, RoundRobinBatches, RoundRobinIndices, RoundRobinState
from ._round_robin_scheduler import RoundRobinScheduler

# (records used, ordinal of the next child, ...) of one layout worker. The first number is not an index, as that of a
# Cursor is: `RoundRobin.index_of` and `RoundRobin.place_from` convert.
Place = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LayoutPosition:
    """Where an iterator stands: elements handed out, which layout worker is next, and the place where each goes on."""

    step: int
    turn: int
    cursors: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class LayoutPlan:
    """The stream of one loader in one layout.

    sampler: as the engine asks it. round_robin: which layout worker gets which record; its `rows` is 1 unless there is
    exactly one Batch, and is used only if
    `compiled.fixed`. compiled: the operations. endless: whether the sampler has no end;
    then too many records without an element are an error (`empty_limit`). num_records: of the source.
    """

    sampler: Order
    round_robin: RoundRobin
    compiled: Compiled
    endless: bool
    num_records: int

    num_steps = None

    def ending_before(self, index: int | None) -> "LayoutPlan":
        """The plan where the layout worker of an index ends before it; None where the source has all records."""
        return replace(self, round_robin=self.round_robin.ending_before(index))

    def first_position(self) -> LayoutPosition:
        """Where the stream begins."""
        return LayoutPosition(0, 0, ((0,),) * self.round_robin.parts)

    def after(self, at: LayoutPosition, facts: Facts, k: int) -> LayoutPosition:
        """The position after element k of those that facts are of; at: the position before element k."""
        if facts.ends is not None:
            ((part, end),) = facts.ends[k].items()
            used = self.round_robin.place_from(part, end[0])
            place = (used, *end[1:])
            turn = (part + 1) % self.round_robin.parts
        else:
            drawn = self.round_robin.draw(_state_of(at))
            assert drawn is not None
            part, place, turn = drawn.part, (drawn.place + drawn.rows,), drawn.state.turn
        cursors = (*at.cursors[:part], place, *at.cursors[part + 1 :])
        return LayoutPosition(at.step + 1, turn, cursors)

    def counts_between(self, start: LayoutPosition, end: LayoutPosition) -> tuple[int, int]:
        """Records from one position to a later one; no bad one is ever accepted here."""
        used = [sum(place[0] for place in at.cursors) for at in (start, end)]
        return used[1] - used[0], 0

    def after_losses(self, at: LayoutPosition, losses: Sequence[Loss]) -> LayoutPosition:
        """The position unchanged: under Grain's names a record that can't be read is always an error."""
        return at

    def after_failure(self, at: LayoutPosition, failure: Failure) -> None:
        """None: Grain's iterator has no state past an error."""

    def check_bad_records(self, at: LayoutPosition, latest: Loss) -> None:
        """Nothing: no bad record is ever accepted here."""

    def record_keys(
        self, at: LayoutPosition, indices: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], Sequence[bool]]:
        """The record keys of indices, (n,) int64 each; none is read instead of another."""
        return record_keys_of(self.sampler, indices), [False] * len(indices)

    def open_scheduler(
        self, position: LayoutPosition, context: SchedulerContext, *, prefetch: int
    ) -> Scheduler:
        """The stream from a position on, for the engine to make.

        Args:
            position: where it begins.
            context: what the schedulers of one executor share.
            prefetch: elements to make ahead.
        """
        state, fixed = _state_of(position), self.compiled.fixed
        if fixed and self.compiled.batches:
            (batch,) = self.compiled.batches
            more = not isinstance(self.compiled.operations[-1], Batch)  # operations after it
            return RowScheduler(
                RoundRobinBatches(self.round_robin, state, self.sampler, self.num_records),
                context,
                level=1,
                group=1,
                finish=batch.batch_fn is not None or more,
                in_place=batch.batch_fn is None,
                prefetch=prefetch,
            )

        def feed(part: int | None) -> RecordFeed:
            indices = RoundRobinIndices(self.round_robin, state, part)
            return RecordFeed(self.sampler, indices, self.num_records)

        if fixed:
            return self._stream_scheduler({0: feed(None)}, {0: ()}, prefetch, context)
        # Each part prefetches its share, at least one element: a part may be skipped for many turns.
        share = -(-prefetch // self.round_robin.parts)
        make: dict[int, Callable[[SchedulerContext], Scheduler]] = {}
        for part, place in enumerate(position.cursors):
            start = (self.round_robin.index_of(part, place[0]), *place[1:])
            make[part] = partial(self._stream_scheduler, {part: feed(part)}, {part: start}, share)
        if len(make) == 1:
            return make[0](context)
        return RoundRobinScheduler(make, position.turn, context)

    def _stream_scheduler(
        self, feeds: dict[int, RecordFeed], start: dict[int, Cursor], prefetch: int, context: SchedulerContext
    ) -> StreamScheduler:
        groupings = tuple(
            Grouping(batch.batch_size, "drop" if batch.drop_remainder else "keep")
            for batch in self.compiled.batches
        )
        return StreamScheduler(
            feeds,
            context,
            groupings=groupings,
            start=start,
            prefetch=prefetch,
            empty_limit=empty_limit_of(self.num_records) if self.endless else None,
        )


def _state_of(position: LayoutPosition) -> RoundRobinState:
    return RoundRobinState(tuple(place[0] for place in position.cursors), position.turn)
