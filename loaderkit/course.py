"""The course of an iterator: sampler, operations and shards of a loader joined, once the shards are known.

A course knows its whole stream and holds no position. A *position* is a frozen value:

    step       elements handed out
    segments   which indices belong to which step (see plan/segments.py)
    cursors    by logical stream, where it goes on; only where operations change the number of rows, for elsewhere
               the segments say it
    losses     the bad records of the rows handed out
"""

import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from loaderkit._engine.assembly import Assembly, Supplies
from loaderkit._engine.chain import Chain
from loaderkit._engine.grid import Grid
from loaderkit._engine.grouping import Grouping
from loaderkit._engine.task import Loss
from loaderkit._version import __version__
from loaderkit.errors import BadRecordsError, StateError
from loaderkit.plan.batching import Batching, Level, shard_rows
from loaderkit.plan.cursor import Cursor, trimmed
from loaderkit.plan.document import canonical, digest
from loaderkit.plan.feeds import Indices, RecordFeed, ShardIndices, StepFeed, StreamIndices
from loaderkit.plan.losses import IN_A_ROW, NO_LOSSES, Candidates, Losses, Tolerance, honouring
from loaderkit.plan.samplers import Sampler
from loaderkit.plan.schedule import Schedule
from loaderkit.plan.segments import Segments
from loaderkit.plan.sharding import Shard, ShardBlocks, ShardOptions
from loaderkit.plan.state import State, Streams
from loaderkit.plan.streams import StreamPlan, check_streams, stream_block
from loaderkit.transforms.base import Batch, Filter, FlatMap, Transformation, draws, label_of

_MOST_INDEX = 2**62  # where a stream of unknown rows may go on
_LEAST_PATIENCE = 100_000  # records that may pass without one left, where an epoch is shorter


class Position(NamedTuple):
    """Where an iterator stands."""

    step: int
    segments: Segments
    cursors: Mapping[int, Cursor] | None
    losses: Losses = NO_LOSSES


def changes_rows(operations: Sequence[Transformation], tolerance: Tolerance) -> bool:
    """Whether the number of rows isn't known before they are made.

    >>> from loaderkit.transforms import Map
    >>> changes_rows([Map(abs)], Tolerance()), changes_rows([Filter(bool)], Tolerance())
    (False, True)
    >>> changes_rows([Map(abs)], Tolerance("skip"))
    True
    """
    return tolerance.skips or any(isinstance(op, Filter | FlatMap) for op in operations)


def batching_of(operations: Sequence[Transformation], shard: Shard) -> Batching:
    """The Batches among the operations as one value.

    >>> batching_of([Batch(4), Batch(global_batch_size=8)], ShardOptions(0, 2)).stride
    32
    """
    batches = [op for op in operations if isinstance(op, Batch)]
    if not batches:
        return Batching(inner=(), rows=shard.shard_count, remainder="keep", batched=False)
    last = batches[-1]
    rows = last.global_batch_size or (last.batch_size or 0) * shard.shard_count
    inner = tuple(Level(batch.batch_size or 0, batch.remainder) for batch in batches[:-1])  # type: ignore[arg-type]
    return Batching(inner=inner, rows=rows, remainder=last.remainder, batched=True)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Course:
    """One loader's stream under known shards.

    sampler, operations, shard: what makes it. start, stop: its indices, stop=None without an end. logical_streams: S.
    num_records: the source's length. fingerprints: of sampler and source, for states. epoch: e of `epoch(e)`.
    tolerance: what becomes of bad records.
    num_steps: of the whole run, None for all that there are.
    """

    sampler: Sampler
    operations: tuple[Transformation, ...]
    shard: Shard
    start: int
    stop: int | None
    logical_streams: int
    num_records: int
    sampler_fingerprint: Mapping[str, Any]
    source_fingerprint: Mapping[str, Any]
    epoch: int | None
    tolerance: Tolerance
    num_steps: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.shard, ShardBlocks):
            self._check_blocks(self.shard)
        _ = self.schedule  # refuses rows that can't be cut in equal shards
        if self.row_changing:
            self._check_streams()
            self._check_share()
        elif self.stop is not None and self.batching.remainder == "wrap":
            self._check_last_row(self.stop - self.start)

    # --- what kind of stream it is ------------------------------------------------------------------------------

    @property
    def row_changing(self) -> bool:
        return changes_rows(self.operations, self.tolerance)

    @property
    def batching(self) -> Batching:
        return batching_of(self.operations, self.shard)

    @property
    def schedule(self) -> Schedule:
        return Schedule(self.sampler, self.batching, self.shard, self.start, self.stop)

    def _check_blocks(self, shard: ShardBlocks) -> None:
        """Several shards may hold the same block, so a batch's rows can't be counted from theirs."""
        batches = [op for op in self.operations if isinstance(op, Batch)]
        if not batches:
            raise ValueError(
                "shard_options: rows that follow a sharding are those of a global batch, and operations have no Batch; "
                "add lk.Batch(global_batch_size=...)"
            )
        if batches[-1].batch_size is not None:
            raise ValueError(
                f"batch_size: rows that follow a sharding are those of a global batch, {batches[-1]!r} says only those "
                "of one shard; use lk.Batch(global_batch_size=...)"
            )
        self.check_equal_parts(f"shard_options: the sharding cuts a batch in {shard.shard_count} parts")

    def check_equal_parts(self, why: str) -> None:
        """Raises ValueError where a last, partial step would give the shards unequal parts."""
        if self.stop is None or self.row_changing or self.batching.remainder != "keep":
            return
        count, stride = self.shard.shard_count, self.batching.stride
        rows = self.batching.count_rows((self.stop - self.start) % stride)
        if rows % count and not self.shard.drop_remainder:
            raise ValueError(
                f"{why}, and the last step has {rows} rows, which can't be cut in {count} equal parts: use "
                "remainder='drop', 'pad' or 'wrap' in the last Batch"
            )

    def _check_last_row(self, records: int) -> None:
        if self.batching.count_used(records) % self.batching.group:
            raise ValueError(
                "remainder='wrap': rows follow on the stream's last one, which an earlier Batch makes shorter than the "
                "others; use remainder='drop' in the earlier Batches"
            )

    def _check_streams(self) -> None:
        count, batching = self.logical_streams, self.batching
        check_streams(count, rows=batching.rows, shard_count=self.shard.shard_count)
        if count == 1:
            return
        after = [op for op in self.operations[self._last_batch + 1 :] if isinstance(op, Filter | FlatMap)]
        if batching.batched and after:
            raise ValueError(
                f"{after[0]!r} stands behind the last Batch: it would drop or multiply batches that every shard has a "
                f"part of. Put it before the Batch, or use one shard and logical_streams=1 (they are "
                f"{self.shard.shard_count} and {count})"
            )
        if self.stop is None:
            return
        why = (
            f"logical_streams={count} with operations that change the number of rows: the streams of a finite sampler "
            "run dry at different steps, "
        )
        if batching.remainder == "keep":
            raise ValueError(
                why
                + "so nothing can be kept that all shards have a part of. Use Batch(..., remainder='pad'), which "
                "puts zeros in place of the missing rows, or num_epochs=None"
            )
        if batching.remainder in ("drop", "wrap") and self.num_steps is None:
            raise ValueError(
                f"{why}so remainder={batching.remainder!r} has to be told when to end: give DataLoader(num_steps=...), "
                "the steps of the whole run, or use remainder='pad'"
            )
        if self.asks_others and self.shard.store is None:
            raise ValueError(
                why
                + "so the processes have to agree on the last one: use shard_options=lk.ShardByJaxProcess(), or "
                "lk.ShardOptions(shard_index, shard_count, store=...)"
            )

    def _check_share(self) -> None:
        """Nobody counts how often a stream has begun again, so a share of what it gave isn't known."""
        if self.tolerance.skips and isinstance(self.tolerance.most, float) and self._wraps:
            raise ValueError(
                f"max_bad_records={self.tolerance.most} is a share of the records so far, and how many those are isn't "
                "known where records are skipped and streams begin again until num_steps (remainder='wrap'): give a "
                "count, or use num_epochs=None, or on_record_error='replace'"
            )

    @property
    def asks_others(self) -> bool:
        """Whether only all processes together know when the run ends."""
        padded, shard = self.batching.remainder == "pad", self.shard
        return (
            self.row_changing and padded and self.stop is not None and len(shard.blocks) < shard.shard_count
        )

    @property
    def name(self) -> str:
        """The same for all processes of a run, and for no other stream."""
        said = {
            "sampler": self.sampler_fingerprint,
            "source": self.source_fingerprint,
            "operations": self._operations_fingerprint(),
            "streams": self.logical_streams,
            "rows": self.batching.rows,
            "epoch": self.epoch,
        }
        return digest(said).removeprefix("sha256:")[:32]

    @property
    def _last_batch(self) -> int:
        places = [place for place, op in enumerate(self.operations) if isinstance(op, Batch)]
        return places[-1] if places else -1

    def why_unknown(self, what: str) -> str:
        """Why something that needs known rows can't be said."""
        culprits = [repr(op) for op in self.operations if isinstance(op, Filter | FlatMap)]
        culprit = next(iter(culprits), "on_record_error='skip'")
        return (
            f"{what} isn't known: {culprit} changes the number of rows, so how many records a step takes "
            "shows only when it is made"
        )

    # --- positions ----------------------------------------------------------------------------------------------

    def first_position(self) -> Position:
        """Where the stream begins."""
        if not self.row_changing:
            return Position(0, Segments(((0, self.start, self.batching.stride),)), None)
        plan = self._stream_plan(stream_block(self.logical_streams, self.batching))
        cursors = dict.fromkeys(plan.owned(self.batching.rows, self.shard), (self.start,))
        return Position(0, Segments(((0, None, self.batching.stride),)), cursors)

    def owned_streams(self, q: int) -> tuple[int, ...]:
        """The logical streams whose rows this process loads; none where rows keep their number."""
        if not self.row_changing:
            return ()
        return self._stream_plan(q).owned(self.batching.rows, self.shard)

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

    def after_losses(self, position: Position, losses: Sequence[Loss], q: int) -> Position:
        """The position with more losses; q: of the streams."""
        lost = self.with_losses(position.losses, losses, q)
        return Position(position.step, position.segments, position.cursors, lost)

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
            stream = self._stream_plan(q).stream_of(index)
            if stream not in position.cursors:
                return None
            behind = {stream: (index + 1,)}
            if self.stop is not None and not self._wraps and index < position.cursors[stream][0]:
                # Of the last batch, which is filled up from the first index on: behind it the stream is over.
                behind = {stream: (self.stop,)}
        return position._replace(cursors={**position.cursors, **behind})

    def with_losses(self, known: Losses, losses: Sequence[Loss], q: int) -> Losses:
        """The known ones and more."""
        if not self.tolerance.skips:
            return known.with_ledger((loss.index, loss.instead) for loss in losses)
        return known.with_skipped(Counter(self._stream_plan(q).stream_of(loss.index) for loss in losses))

    def check_losses(self, position: Position, losses: Losses, latest: Loss) -> None:
        """Raises BadRecordsError where more were lost up to a position than is allowed.

        losses: all of them, those included that the position doesn't know yet. latest: the last of them.
        """
        lost, passed = losses.count, self._records_passed(position, losses)
        # A search ends by itself, and so do records that are left out; a function of the user's may answer for ever.
        every_one = self.tolerance.policy == "call" and lost >= max(IN_A_ROW, passed)
        if self.tolerance.allows(lost=lost, passed=passed, num_records=self.num_records) and not every_one:
            return
        limit = "" if every_one else f", and max_bad_records is {self.tolerance.most}"
        raise BadRecordsError(
            f"{lost:,} of about {passed:,} records are bad{limit}; the last is index {latest.index} "
            f"(record_key {latest.record_key}): {latest.error}, raised by {latest.label}"
        )

    def _records_passed(self, position: Position, losses: Losses) -> int:
        """Records of this process's rows up to a position, nearly."""
        own, shards = len(self.shard.blocks), self.shard.shard_count
        if position.cursors is not None:
            # Where a stream has begun again, what its ledger says was passed before.
            records = max(self.index_of(position), losses.last + 1) - self.start
            return max(losses.count, records * own // shards)
        # A seek back doesn't make records good that were lost behind it.
        records = self._records_in(position.step)
        records = max(records, losses.last + 1 - self.start)
        return max(losses.count, -(-records * own // shards))

    def _records_in(self, steps: int) -> int:
        stride = self.batching.stride
        if self.stop is None or steps * stride <= self.stop - self.start:
            return steps * stride
        whole, left = divmod(self.stop - self.start, stride)
        return whole * stride + self.batching.count_used(left)

    @property
    def _bad_in_a_row(self) -> int:
        length = None if self.stop is None else self.stop - self.start
        return self.tolerance.in_a_row(num_records=self.num_records, length=length)

    def search(self, position: Position) -> Candidates:
        """What to read instead of bad records, in a stream that starts at a position."""
        return Candidates(
            self.sampler,
            self.start,
            self.stop,
            num_records=self.num_records,
            ledger=position.losses.ledger,
            most=self._bad_in_a_row,
        )

    # --- states -------------------------------------------------------------------------------------------------

    def state_of(self, position: Position, q: int) -> State:
        """The document of a position."""
        batching, count = self.batching, self.logical_streams
        cursors: Mapping[int, Cursor] = position.cursors or {0: (self.index_of(position),)}
        per_block, writers = count // self.shard.shard_count, self.shard.writers
        return State(
            step=position.step,
            cursors={stream: trimmed(cursor) for stream, cursor in cursors.items()},
            segments=position.segments,
            sampler=self.sampler_fingerprint,
            source=self.source_fingerprint,
            operations=self._operations_fingerprint(),
            rows=batching.rows,
            stride=batching.stride,
            streams=Streams(count, q, tuple(writers[s // per_block] for s in range(count)))
            if self.row_changing
            else None,
            epoch=self.epoch,
            losses=position.losses,
            versions={"loaderkit": __version__, "numpy": np.__version__, "python": platform.python_version()},
        )

    def position_of(self, state: State) -> Position:
        """The position in a document that was compared with this course before; a new G starts a new segment."""
        cursors = None
        same = (state.sampler, state.source) == (self.sampler_fingerprint, self.source_fingerprint)
        losses = state.losses if same else NO_LOSSES  # of other records, which mean nothing here
        if state.streams is not None:
            plan = self._stream_plan(state.streams.q)
            owned = plan.owned(self.batching.rows, self.shard)
            missing = [stream for stream in owned if stream not in state.cursors]
            if missing:
                raise StateError(
                    f"the state has no cursor of logical streams {missing}: give the states of all processes"
                )
            cursors = {stream: state.cursors[stream] for stream in owned}
            for stream, cursor in cursors.items():
                if cursor[0] > _MOST_INDEX:  # no block of indices could be planned there
                    raise StateError(f"cursors.{stream}: expected an index up to 2**62, got {cursor[0]}")
            losses = losses.of_streams(owned)
        segments = state.segments
        stride = self.batching.stride
        if segments.stride_of(state.step) != stride:
            segments = segments.resize(
                state.step, None if cursors is not None else state.cursors[0][0], stride
            )
        return Position(state.step, segments, cursors, losses)

    def check_cursor(self, state: State) -> None:
        """Raises StateError where the cursor isn't the one that step and segments give: two positions in one."""
        if state.streams is None:
            cursor, index = state.cursors[0][0], state.segments.index_of(state.step)
            if cursor != (index if self.stop is None else min(index, self.stop)):
                raise StateError(
                    f"cursors: step {state.step} and the segments say index {index}, got {cursor}"
                )

    def begins_of(self, position: Position, rows: np.ndarray) -> np.ndarray:
        """The cursors where rows of the step at a position begin, (n, 1) int64; rows: (n,) int64, of the global batch.

        For pipelines that keep the number of rows.
        """
        return self.schedule.firsts_at(position.segments.index_of(position.step), rows)[:, None]

    def agreement(self) -> dict[str, str]:
        """What all processes that load together have to say alike, field to text."""
        state = self.state_of(self.first_position(), max(1, self.batching.stride // self.logical_streams))
        fields = {"sampler": state.sampler, "data source": state.source}
        said = {
            f"{name}.{key}": canonical(value)
            for name, fields_ in fields.items()
            for key, value in fields_.items()
        }
        return said | {
            "operations": ", ".join(map(label_of, self.operations)),
            "shards": str(self.shard.shard_count),
            "global batch size": str(state.rows),
            "logical streams": str(self.logical_streams),
            "on_record_error": self.tolerance.policy,
            "epoch": str(self.epoch),
            "num_steps": str(self.num_steps),
        }

    def _operations_fingerprint(self) -> list[dict[str, Any]]:
        # What users' functions do isn't compared; that an operation is there, and where, is.
        said: list[dict[str, Any]] = [{"op": "skip bad records"}] if self.tolerance.skips else []
        for place, op in enumerate(self.operations):
            if isinstance(op, Batch):
                size = {} if place == self._last_batch else {"batch_size": op.batch_size}
                said.append({"op": "Batch", **size, "remainder": op.remainder})
            elif isinstance(op, Filter | FlatMap):
                said.append({"op": "Filter" if isinstance(op, Filter) else "FlatMap"})
            elif draws(op):
                said.append({"op": "RandomMap"})
        return said

    # --- running ------------------------------------------------------------------------------------------------

    def assembly(self, position: Position, q: int, prefetch: int, supplies: Supplies) -> Assembly:
        """The stream from a position on, for the engine to make."""
        batching = self.batching
        if batching.batched and not self.row_changing:
            last = self.operations[self._last_batch]
            assert isinstance(last, Batch)
            return Grid(
                self._steps(position),
                supplies,
                level=len(batching.inner) + 1,
                group=batching.group,
                finish=last.batch_fn is not None or self._last_batch + 1 < len(self.operations),
                in_place=last.batch_fn is None,
                prefetch=prefetch,
            )
        indices: dict[int, Indices]
        start: dict[int, Cursor]
        if position.cursors is None:
            assert isinstance(self.shard, ShardOptions)  # blocks need a Batch
            start = {0: ()}
            indices = {
                0: ShardIndices(position.segments, step=position.step, stop=self.stop, shard=self.shard)
            }
        else:
            plan = self._stream_plan(q)
            start = dict(position.cursors)
            again = self._wraps
            indices = {
                stream: StreamIndices(plan, stream, cursor[0], again=again)
                for stream, cursor in start.items()
            }
        sampler = honouring(self.sampler, position.losses.ledger)

        def records(indices: Indices) -> RecordFeed:
            return RecordFeed(sampler, indices, self.num_records)

        return Chain(
            {stream: records(of) for stream, of in indices.items()},
            supplies,
            groupings=self._groupings(),
            start=start,
            nominal=batching.stride // self.shard.shard_count * len(self.shard.blocks),
            prefetch=prefetch,
            # An endless stream of which nothing is left would be waited for without end.
            patience=None if self._ends else max(2 * self.num_records, _LEAST_PATIENCE),
            tolerance=self._bad_in_a_row if self.tolerance.skips else None,
            stop=self.stop,
            again=lambda stream: records(StreamIndices(self._stream_plan(q), stream, self.start)),
            sample=(lambda: records(StreamIndices(StreamPlan(1, 1, self.start, self.stop), 0, self.start)))
            if self.asks_others
            else None,
        )

    @property
    def _wraps(self) -> bool:
        """Whether streams begin again until the steps of the run are made."""
        return self.batching.remainder == "wrap" and self.stop is not None and self.num_steps is not None

    @property
    def lasts(self) -> bool:
        """Whether the streams of a pipeline that changes the number of rows last for the steps of the run, or fail."""
        return self.num_steps is not None and (
            self.stop is None or self.batching.remainder in ("drop", "wrap")
        )

    @property
    def _ends(self) -> bool:
        return self.stop is not None and not self._wraps

    def _steps(self, position: Position) -> StepFeed:
        schedule = replace(self.schedule, sampler=honouring(self.sampler, position.losses.ledger))
        return StepFeed(schedule, position.segments, position.step, self.num_records, self.num_steps)

    def _groupings(self) -> tuple[Grouping, ...]:
        batching = self.batching
        if not batching.batched:
            return ()
        inner = [
            Grouping(level.size, "keep" if level.remainder == "keep" else "drop") for level in batching.inner
        ]
        own = batching.rows // self.logical_streams
        fails = self.num_steps is not None and batching.remainder in ("drop", "wrap")
        return (*inner, Grouping(own, "fail" if fails else batching.remainder))

    def _stream_plan(self, q: int) -> StreamPlan:
        return StreamPlan(self.logical_streams, q, self.start, self.stop)

    def reaches(self, index: int) -> bool:
        """Whether a step that starts at `index` exists for any shard, or is the one right behind the last."""
        if self.stop is None or index <= self.start:
            return True
        batching, shard = self.batching, self.shard
        records = max(0, min(batching.stride, self.stop - (index - batching.stride)))  # of the step before it
        last = ShardOptions(shard.shard_count - 1, shard.shard_count, shard.drop_remainder)
        rows = batching.count_rows(records)
        return shard_rows(rows, batching.rows, shard=last, remainder=batching.remainder)[1] > 0

    def global_rows(self, position: Position, step: int) -> np.ndarray:
        """The indices of every record of a step over all shards, (n,) int64; IndexError behind the last step."""
        index, stride = position.segments.span_of(step)
        if self.num_steps is not None and step >= self.num_steps:
            raise IndexError(f"step: {step} doesn't exist, the run ends after num_steps={self.num_steps}")
        batching = replace(self.batching, rows=stride // self.batching.group)
        # Another G than ours needn't divide among our shards: then it is asked as the only shard there is.
        shard = self.shard if batching.rows % self.shard.shard_count == 0 else ShardOptions(0, 1)
        part = Schedule(self.sampler, batching, shard, self.start, self.stop).all_rows(index)
        if part is None:
            raise IndexError(f"step: {step} doesn't exist, the stream ends before it")
        return part.indices
