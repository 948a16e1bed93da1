"""The plan of an iterator: sampler, operations and shards of a loader joined, once the shards are known.

A plan knows its whole stream and holds no position: it says how one follows on another (position.py) and which
indices a step has. What the engine makes of it is decided in _iterator/open_scheduler.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from loaderkit._order.cursor import Cursor
from loaderkit._order.metadata import RecordMetadata
from loaderkit._order.rng import generator
from loaderkit._order.sharding import ShardOptions
from loaderkit.samplers import Sampler
from loaderkit.samplers.protocol import seed_of

from .bad_records import ReplacementSearch
from .batching import shard_rows
from .logical_streams import stream_block
from .position import Position
from .schedule import Schedule
from .segments import Segments
from .stream_shape import StreamShape


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPlan(StreamShape):
    """One loader's stream under known shards: a shape, and what fills it.

    sampler: the order. num_records: the source's length. sampler_fingerprint, source_fingerprint: for states.
    parameters: of the operations, for states. epoch: e of `epoch(e)`.
    """

    sampler: Sampler
    num_records: int
    sampler_fingerprint: Mapping[str, Any]
    source_fingerprint: Mapping[str, Any]
    parameters: Sequence[Mapping[str, Any]]
    epoch: int | None

    @property
    def schedule(self) -> Schedule:
        return Schedule(self.sampler, self.batching, self.shard, self.start, self.stop)

    # --- positions ----------------------------------------------------------------------------------------------

    def first_position(self) -> Position:
        """Where the stream begins."""
        if not self.row_changing:
            return Position(0, Segments(((0, self.start, self.batching.stride),)), None)
        owned = self.owned_streams(stream_block(self.logical_streams, self.batching))
        cursors = dict.fromkeys(owned, (self.start,))
        return Position(0, Segments(((0, None, self.batching.stride),)), cursors)

    def index_of(self, position: Position) -> int:
        """The next index: of the step, or the first of those where this process's streams go on."""
        if position.cursors is not None:
            return min(cursor[0] for cursor in position.cursors.values())
        index = position.segments.index_of(position.step)
        return index if self.stop is None else min(index, self.stop)

    def after(self, position: Position, ends: Mapping[int, Cursor] | None) -> Position:
        """The position behind an element that was handed out; `ends`: where each stream goes on, if rows change."""
        cursors = position.cursors if ends is None else ends
        return Position(position.step + 1, position.segments, cursors, position.losses)

    def after_failure(
        self, position: Position, indices: Sequence[int], behind: Mapping[int, Cursor] | None, q: int
    ) -> Position | None:
        """The position behind what failed at a position; None where the failure doesn't say what that was.

        Where rows keep their number that is the step. Else it is the batch, whose cursors are known, or the record: its
        stream goes on at the next index.

        Args:
            indices: what the failure names.
            behind: where streams go on behind a batch that failed, None if no batch did.
            q: of the streams.
        """
        if position.cursors is None:
            first = self.index_of(position)
            if not indices or max(indices) >= first + self.batching.stride:
                return None  # of several steps that were made at once
            return position._replace(segments=position.segments.skip(position.step, first, 1))
        if behind is None:
            if len(indices) != 1:
                return None
            index = indices[0]
            stream = self.streams_in_blocks(q).stream_of(index)
            if stream not in position.cursors:
                return None
            behind = {stream: (index + 1,)}
            if self.stop is not None and self.ends and index < position.cursors[stream][0]:
                # Of the last batch, which is filled up from the first index on: behind it the stream is over.
                behind = {stream: (self.stop,)}
        return position._replace(cursors={**position.cursors, **behind})

    # --- which indices ------------------------------------------------------------------------------------------

    def steps(self) -> int | None:
        """Steps that this shard makes in all; None where there is no end, or none that is known."""
        if self.row_changing:
            return self.num_steps if self.lasts else None
        return self.steps_left(self.first_position())

    def steps_left(self, position: Position) -> int | None:
        """The same from a position on; up to a later segment with another global batch size, where next() raises."""
        run = None if self.num_steps is None else max(0, self.num_steps - position.step)
        if self.row_changing:
            return run if self.lasts else None
        left = None if self.stop is None else self._steps_there(position)
        return min((steps for steps in (run, left) if steps is not None), default=None)

    def _steps_there(self, position: Position) -> int:
        """The same of a finite sampler, whatever num_steps says: segment by segment, as the steps are made."""
        schedule, segments, step = self.schedule, position.segments, position.step
        while True:
            index, stride = segments.span_of(step)
            if stride != self.batching.stride:
                return step - position.step
            behind = segments.end_of(step)
            made = schedule.steps_from(index) or 0
            if behind is None or step + made < behind:
                return step + made - position.step
            step = behind

    def begins_of(self, position: Position) -> np.ndarray:
        """The cursors where this shard's rows of the step at a position begin, (n, 1) int64, filled up ones included.

        For pipelines that keep the number of rows.
        """
        index, schedule = position.segments.index_of(position.step), self.schedule
        rows = np.concatenate([np.arange(*span, dtype=np.int64) for span in schedule.spans_at(index)])
        return schedule.firsts_at(index, rows)[:, None]

    def reaches(self, index: int) -> bool:
        """Whether a step that starts at `index` exists for any shard, or is the one right behind the last."""
        if self.stop is None or index <= self.start:
            return True
        batching, shard = self.batching, self.shard
        records = max(0, min(batching.stride, self.stop - (index - batching.stride)))  # of the step before it
        last = ShardOptions(shard.shard_count - 1, shard.shard_count, shard.drop_remainder)
        rows = batching.count_rows(records)
        return shard_rows(rows, batching.rows, shard=last, remainder=batching.remainder)[1] > 0

    def records(self, position: Position, step: int) -> list[RecordMetadata]:
        """What the sampler says of every record of a step over all shards; IndexError behind the last step."""
        index, stride = position.segments.span_of(step)
        if self.num_steps is not None and step >= self.num_steps:
            raise IndexError(f"step: {step} doesn't exist, the run ends after num_steps={self.num_steps}")
        rows, left = divmod(stride, self.batching.group)
        # Where it isn't a multiple, other Batches stood before the last then, and were allowed to differ.
        batching = (
            replace(self.batching, inner=(), rows=stride) if left else replace(self.batching, rows=rows)
        )
        # Another G than ours needn't divide among our shards: then it is asked as the only shard there is.
        shard = self.shard if batching.rows % self.shard.shard_count == 0 else ShardOptions(0, 1)
        part = Schedule(self.sampler, batching, shard, self.start, self.stop).all_rows(index)
        if part is None:
            raise IndexError(f"step: {step} doesn't exist, the stream ends before it")
        seed, named = seed_of(self.sampler), zip(part.indices.tolist(), part.keys.tolist(), strict=True)
        return [
            RecordMetadata(index, key, None if seed is None else generator(seed, 0, index, 0))
            for index, key in named
        ]

    def search(self, position: Position) -> ReplacementSearch:
        """What to read instead of bad records, in a stream that starts at a position."""
        return ReplacementSearch(
            self.sampler,
            self.start,
            self.stop,
            num_records=self.num_records,
            ledger=position.losses.ledger,
            most=self.bad_in_a_row,
        )

    @property
    def bad_in_a_row(self) -> int:
        """Bad records that may follow one another."""
        length = None if self.stop is None else self.stop - self.start
        return self.tolerance.in_a_row(num_records=self.num_records, length=length)
