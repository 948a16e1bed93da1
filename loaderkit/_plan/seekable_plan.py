"""The plan of an iterator: sampler, operations and shards of a loader joined, once the shards are known.

A plan knows its whole stream and holds no position: it says how one follows on another (position.py) and which
indices a step has. What the engine makes of it is decided in _loader/iterator/open_scheduler.py. The bad records up to
a position are counted here, and checked against the user's limit.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.notes import keyed
from loaderkit._base.system.dataclasses import dataclass, replace
from loaderkit._engine.in_flight_step import StepRecords
from loaderkit._order.facts import Cursor, Facts, Failure, Loss
from loaderkit._order.metadata import MOST_INDEX, RecordMetadata
from loaderkit._order.mixture.stages import MixtureStages
from loaderkit._order.operation_shape import OperationShape
from loaderkit._order.rng import generator
from loaderkit._order.sharding import Shard, ShardOptions
from loaderkit._order.stage_keys import rows_of_keys
from loaderkit.errors import BadRecordsError, WorkerError
from loaderkit.samplers import Sampler
from loaderkit.samplers.optional import components_of
from loaderkit.samplers.protocol import (
    ShapedSampler,
    epoch_length_of,
    length_of,
    record_keys_of,
    seed_of,
    shaped,
)

from .bad_records import IN_A_ROW, BadRecords, ReplacementSearch, with_substitutions
from .batching import Batching, shard_rows
from .exclusions import Exclusions, Lists
from .logical_streams import stream_block
from .position import Position
from .reads import StepReads, WholeSteps
from .schedule import KnownLengths, Schedule
from .segments import Segments
from .stream_shape import StreamShape

if TYPE_CHECKING:
    from loaderkit.samplers import MixedSampler


Keys = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeekablePlan(StreamShape):
    """One loader's stream under known shards: a shape, and what fills it.

    sampler: the order. num_records: the source's length. sampler_fingerprint, source_fingerprint: for states.
    parameters: of the operations, for states. epoch: e of `epoch(e)`. exclusions: of a loader that may have lists of
    records that it leaves out; the sampler is without them.
    """

    sampler: Sampler
    num_records: int
    sampler_fingerprint: Mapping[str, Any]
    source_fingerprint: Mapping[str, Any]
    parameters: Sequence[Mapping[str, Any]]
    epoch: int | None
    exclusions: Exclusions | None = None

    @property
    def schedule(self) -> Schedule:
        return self._schedule_of(self.batching, self.shard)

    def _schedule_of(self, batching: Batching, shard: Shard) -> Schedule:
        last = self.operations[self.last_batch].batch if self.operations else None
        known = self.shaped_for(batching)
        shape = 0 if known is None and last is not None and last.rows_padded else -1
        lengths = None if self.lengths is None else KnownLengths(self.sampler, self.lengths)
        return Schedule(self.sampler, batching, shard, self.start, self.stop, known, shape, lengths)

    @property
    def lengths(self) -> NDArray[np.integer] | None:
        """Of each record the bucket of its length, where rows are padded to the longest of a step."""
        last = self.operations[self.last_batch].batch if self.operations else None
        return None if last is None else last.known

    def shaped_for(self, batching: Batching) -> ShapedSampler | None:
        """The sampler, if it says the shapes of steps that are batched so."""
        known = shaped(self.sampler)
        fits = known is not None and batching.batched and batching.stride == known.global_batch_size
        return known if fits and batching.group == 1 else None

    # --- mixtures -----------------------------------------------------------------------------------------------

    @property
    def mixture(self) -> MixtureStages | None:
        """The stages of the sampler's weights; None where it isn't a mixture."""
        return self.sampler.stages if is_staged(self.sampler) else None

    def restaged(self, stages: MixtureStages, *, moved: bool = True) -> "SeekablePlan":
        """The plan with other stages, of a sampler that has some. Raises ValueError where they don't fit it.

        moved: whether exclusions that begin behind a change begin elsewhere in the components then; those of a state
        belong to its stages.
        """
        base = self.sampler if self.exclusions is None else self.exclusions.sampler
        assert is_staged(base)
        changed = base.stages.first_difference(stages) if moved else None
        sampler = base.with_stages(stages)
        if self.exclusions is None:
            return replace(self, sampler=sampler, stop=length_of(sampler))
        return self.excluding(self.exclusions.over(sampler, changed))

    def excluding(self, exclusions: Exclusions) -> "SeekablePlan":
        """The plan with other exclusions. Raises ValueError where nothing is left."""
        sampler, known = exclusions.applied()
        return replace(self, sampler=sampler, exclusions=known, stop=stop_of(sampler, self.epoch))

    def excluding_from(self, index: int, lists: Lists) -> "SeekablePlan":
        """The plan with other lists from an index on; where a mixture has several lanes from the next batch on."""
        assert self.exclusions is not None
        batch = (self.sampler.batch if is_staged(self.sampler) and self.sampler.lanes > 1 else None) or 1
        return self.excluding(self.exclusions.begun(-(-index // batch) * batch, lists))

    def first_unread(self, position: Position) -> int | None:
        """The first index that no stream of a position has read; None where only the elements say it."""
        if position.cursors is None:
            return self.index_of(position)
        window = self.read_window
        if window is None or self.batching.inner or sum(op.kind == "window" for op in self.operations) > 1:
            return behind_cursors(self.operations, position.cursors.values())
        # Windows of records are cut by arithmetic: what is begun has the indices of one window.
        streams = self.streams_in_blocks(position.q)
        return max(
            int(streams.indices(stream, cursor[0], window)[-1]) + 1 if any(cursor[1:]) else cursor[0]
            for stream, cursor in position.cursors.items()
        )

    def continued_at(self, position: Position, index: int) -> Position:
        """The position with its next step at an index, where the stream had ended within a step and goes on now."""
        segments, step = position.segments, position.step
        ended = self.stop is not None and self.stop <= index
        if position.cursors is not None or segments.index_of(step) == index or ended:
            return position
        return position._replace(segments=segments.resize(step, index, self.batching.stride))

    # --- positions ----------------------------------------------------------------------------------------------

    def first_position(self) -> Position:
        """Where the stream begins."""
        if not self.row_changing:
            return Position(0, Segments(((0, self.start, self.batching.stride),)), None, self.first_q)
        cursors = dict.fromkeys(self.owned_streams(self.first_q), (self.start,))
        return Position(0, Segments(((0, None, self.batching.stride),)), cursors, self.first_q)

    @property
    def first_q(self) -> int:
        """The q of the logical streams until a restore brings another."""
        return stream_block(self.logical_streams, self.batching) if self.row_changing else 1

    def index_of(self, position: Position) -> int:
        """The next index: of the step, or the first of those where this process's streams go on."""
        if position.cursors is not None:
            return min(cursor[0] for cursor in position.cursors.values())
        index = position.segments.index_of(position.step)
        return index if self.stop is None else min(index, self.stop)

    def after(self, at: Position, facts: Facts, k: int) -> Position:
        """The position after element k of those that facts are of; at: the position before element k."""
        cursors = at.cursors if facts.ends is None else facts.ends[k]
        losses = at.losses
        if facts.losses is not None and k in facts.losses:
            losses = self._with_losses(losses, facts.losses[k], at.q)
        return Position(at.step + 1, at.segments, cursors, at.q, losses)

    def counts_between(self, start: Position, end: Position) -> tuple[int, int]:
        """Records and bad records of this process from one position to a later one, without a move in between.

        Records are about that many where operations change the number of rows, or shards share a last, smaller step.
        """
        bad = end.losses.count - start.losses.count
        if end.cursors is None or start.cursors is None:
            indices = max(0, self.index_of(end) - self.index_of(start))
            return indices * len(self.shard.blocks) // self.shard.shard_count, bad
        begun = start.cursors
        indices = sum(
            max(0, cursor[0] - begun.get(stream, cursor)[0]) for stream, cursor in end.cursors.items()
        )
        return indices // self.logical_streams, bad

    def after_losses(self, at: Position, losses: Sequence[Loss]) -> Position:
        """The position with the bad records after the last element."""
        return at._replace(losses=self._with_losses(at.losses, losses, at.q)) if losses else at

    def after_failure(self, at: Position, failure: Failure) -> Position | None:
        """The position after what failed at a position; None where the failure doesn't say what that was.

        Where rows keep their number that is the step. Else it is the batch, whose cursors are known, or the record: its
        stream goes on at the next index.
        """
        indices = failure.indices
        if isinstance(failure.error, WorkerError):
            # Workers are lost at a task, and nothing of it was delivered: the stream goes on after its last record.
            indices = indices[-1:]
        if at.cursors is None:
            first = self.index_of(at)
            if not indices or max(indices) >= first + self.batching.stride:
                return None  # of several steps that were made at once
            return at._replace(segments=at.segments.skip(at.step, first, 1))
        after = failure.cursors
        if after is None:
            if len(indices) != 1:
                return None
            index = indices[0]
            stream = self.streams_in_blocks(at.q).stream_of(index)
            if stream not in at.cursors:
                return None
            after = {stream: (index + 1,)}
            if self.stop is not None and self.ends and index < at.cursors[stream][0]:
                # The last batch is wrapped: the failing index is of the second pass. After it the stream has ended.
                after = {stream: (self.stop,)}
        return at._replace(cursors={**at.cursors, **after})

    def seek(self, at: Position, step: int) -> Position:
        """The position at a step, earlier or later. IndexError where there is no such step.

        Only where rows keep their number; the caller checks.
        """
        if self.num_steps is not None and step > self.num_steps:
            raise IndexError(f"step: {step} doesn't exist, the run ends after num_steps={self.num_steps}")
        index = at.segments.seek(step, self.batching.stride)
        self._check_exists(step, index, f"step: {step} doesn't exist")
        return Position(step, at.segments, None, at.q, at.losses)

    def skip(self, at: Position, n: int) -> Position:
        """The position with the next n steps left out. IndexError where the stream ends before.

        Only where rows keep their number; the caller checks.
        """
        segments = at.segments.skip(at.step, self.index_of(at), n)
        self._check_exists(at.step, segments.index_of(at.step), f"n: there are no {n} steps left")
        return Position(at.step, segments, None, at.q, at.losses)

    def _check_exists(self, step: int, index: int, complaint: str) -> None:
        # The position after the last step is fine: next() then ends.
        if not self.reaches(index):
            raise IndexError(f"{complaint}, the stream ends at index {self.stop}")
        if index < self.start:  # of a state that was restored with another sampler
            raise IndexError(f"{complaint}, the stream begins at index {self.start}")
        if step > MOST_INDEX or (self.stop is None and index > MOST_INDEX):
            raise IndexError(f"{complaint}, a run may go to step and index 2**62")

    # --- bad records --------------------------------------------------------------------------------------------

    def check_bad_records(self, at: Position, latest: Loss) -> None:
        """Raises BadRecordsError where more were lost up to a position than is allowed; latest: the last of them."""
        lost, passed = at.losses.count, self._records_passed(at)
        # "replace" and "skip" end at `Tolerance.in_a_row`; a user's function could answer for bad records without end.
        all_bad = self.tolerance.policy == "call" and lost >= max(IN_A_ROW, passed)
        if self.tolerance.allows(lost=lost, passed=passed, num_records=self.num_records) and not all_bad:
            return
        limit = "" if all_bad else f", and max_bad_records is {self.tolerance.most}"
        raise BadRecordsError(
            f"{lost:,} of about {passed:,} records are bad{limit}; the last is index {latest.index} "
            f"(record_key {keyed(latest.record_key, latest.name)}): {latest.error}, raised by {latest.label}"
        )

    def plain_keys(self, keys: Keys) -> Keys:
        """Record keys without the stage that says which documents a row lacks, (n,) int64 each."""
        return keys if self.exclusions is None else rows_of_keys(keys)

    def record_keys(self, at: Position, indices: Keys) -> tuple[Keys, Sequence[bool]]:
        """The record keys that are read at indices, (n,) int64 each, and whether each is read instead of a bad one."""
        ledger = at.losses.ledger
        instead = [ledger.get(index, index) != index for index in indices.tolist()]
        return self.plain_keys(record_keys_of(with_substitutions(self.sampler, ledger), indices)), instead

    # --- which indices ------------------------------------------------------------------------------------------

    def steps(self) -> int | None:
        """Steps that this shard makes in all; None where there is no end, or none that is known."""
        if self.row_changing:
            return self.num_steps if self.lasts else None
        return self.steps_left(self.first_position())

    def steps_left(self, position: Position) -> int | None:
        """Steps that this shard makes from a position on, None as for `steps`.

        Counts up to a later segment with another global batch size, where next() raises.
        """
        run = None if self.num_steps is None else max(0, self.num_steps - position.step)
        if self.row_changing:
            return run if self.lasts else None
        left = None if self.stop is None else self._steps_there(position)
        return min((steps for steps in (run, left) if steps is not None), default=None)

    def _steps_there(self, position: Position) -> int:
        """Steps from a position on, of a finite sampler and without num_steps: counted segment by segment."""
        schedule, segments, step = self.schedule, position.segments, position.step
        while True:
            index, stride = segments.span_of(step)
            if stride != self.batching.stride:
                return step - position.step
            end = segments.end_of(step)
            made = schedule.steps_from(index) or 0
            if end is None or step + made < end:
                return step + made - position.step
            step = end

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
        part, seed = self._existing(position, step), seed_of(self.sampler)
        keys = self.plain_keys(part.keys)
        of, names = [-1] * len(part.indices), tuple[str, ...]()
        if (mixed := components_of(self.sampler)) is not None and mixed.numbers is not None:
            of, names = mixed.numbers(part.indices).tolist(), mixed.names
        return [
            RecordMetadata(
                index,
                key,
                None if seed is None else generator(seed, 0, index, 0),
                component=None if number < 0 else names[number],
            )
            for index, key, number in zip(part.indices.tolist(), keys.tolist(), of, strict=True)
        ]

    def _existing(self, position: Position, step: int) -> StepRecords:
        part = self._records_of(position, step)
        if part is None:
            ends = "the stream ends before it"
            if self.num_steps is not None and step >= self.num_steps:
                ends = f"the run ends after num_steps={self.num_steps}"
            raise IndexError(f"step: {step} doesn't exist, {ends}")
        return part

    def _records_of(self, position: Position, step: int) -> StepRecords | None:
        """The records of a step over all shards; None where there is no such step."""
        index, stride = position.segments.span_of(step)
        if self.num_steps is not None and step >= self.num_steps:
            return None
        batching = self._batching_with(stride)
        # Another G than ours needn't divide among our shards: then it is asked as the only shard there is.
        shard = self.shard if batching.rows % self.shard.shard_count == 0 else ShardOptions(0, 1)
        return self._schedule_of(batching, shard).all_rows(index)

    def _batching_with(self, stride: int) -> Batching:
        """The batching of a step that takes another number of indices."""
        rows, left = divmod(stride, self.batching.group)
        # Where it isn't a multiple, other Batches stood before the last then, and were allowed to differ.
        return replace(self.batching, inner=(), rows=stride) if left else replace(self.batching, rows=rows)

    def reads(
        self, position: Position, start: int, stop: int, *, strict: bool = True
    ) -> list[WholeSteps | StepReads]:
        """What the steps [start, stop) read over all shards, as planned, in order.

        strict: whether a step behind the last is an IndexError; else there are fewer.
        """
        found: list[WholeSteps | StepReads] = []
        while start < stop:
            index, stride = position.segments.span_of(start)
            end = min(stop, position.segments.end_of(start) or stop, self.num_steps or stop)
            steps = (
                end - start if self.stop is None else min(end - start, max(0, self.stop - index) // stride)
            )
            batching = self._batching_with(stride)
            if steps > 0:
                shaped = self.shaped_for(batching)
                found.append(WholeSteps(start, index, steps, stride, batching.group, shaped))
                start += steps
                continue
            part = (self._existing if strict else self._records_of)(position, start)
            if part is None:
                break
            places = np.arange(len(part.indices))
            found.append(StepReads(np.full(places.shape, start), places // batching.group, part.indices))
            start += 1
        return found

    def replacement_search(self, position: Position) -> ReplacementSearch:
        """What to read instead of bad records, in a stream that starts at a position."""
        return ReplacementSearch(
            self.sampler,
            self.start,
            self.stop,
            num_records=self.num_records,
            ledger=position.losses.ledger,
            most=self.bad_in_a_row,
            segments=None if self.lengths is None else position.segments,
        )

    @property
    def bad_in_a_row(self) -> int:
        """Bad records that may follow one another."""
        length = None if self.stop is None else self.stop - self.start
        return self.tolerance.in_a_row(num_records=self.num_records, length=length)

    def _with_losses(self, known: BadRecords, losses: Sequence[Loss], q: int) -> BadRecords:
        """The known bad records with those of `losses` added. q: block length of the logical streams."""
        if not self.tolerance.skips:
            return known.with_ledger((loss.index, loss.instead) for loss in losses)
        return known.with_skipped(Counter(self.streams_in_blocks(q).stream_of(loss.index) for loss in losses))

    def _records_passed(self, position: Position) -> int:
        """The approximate number of records in this process's rows up to a position."""
        losses, own, shards = position.losses, len(self.shard.blocks), self.shard.shard_count
        if position.cursors is not None:
            # After a stream began again, its ledger holds greater indices, which were passed before.
            records = max(self.index_of(position), losses.ledger.last + 1) - self.start
            return max(losses.count, records * own // shards)
        # After a seek back the ledger still holds the bad records beyond the position.
        records = max(self._records_in(position.step), losses.ledger.last + 1 - self.start)
        return max(losses.count, -(-records * own // shards))

    def _records_in(self, steps: int) -> int:
        stride = self.batching.stride
        if self.stop is None or steps * stride <= self.stop - self.start:
            return steps * stride
        whole, left = divmod(self.stop - self.start, stride)
        return whole * stride + self.batching.count_used(left)


def stop_of(sampler: Sampler, epoch: int | None) -> int | None:
    """The index behind the last one of a stream, which is of one epoch where that is given; None without an end.

    >>> from loaderkit.samplers import IndexSampler
    >>> stop_of(IndexSampler(4), 2), stop_of(IndexSampler(4), None)
    (12, None)
    """
    if epoch is None:
        return length_of(sampler)
    if (end_of := getattr(sampler, "end_of", None)) is not None:  # of one that leaves records out
        end: int = end_of(epoch)
        return end
    return (epoch + 1) * (epoch_length_of(sampler) or 0)


def is_staged(sampler: Sampler) -> TypeGuard["MixedSampler"]:
    """Whether a sampler has stages of weights.

    >>> from loaderkit.samplers import SequentialSampler
    >>> is_staged(SequentialSampler(4))
    False
    """
    return isinstance(getattr(sampler, "stages", None), MixtureStages)


def behind_cursors(operations: Iterable[OperationShape], cursors: Iterable[Cursor]) -> int | None:
    """The first index that no stream has read, where operations change the number of rows.

    An index is read, too, if a FlatMap has handed out some of its children. None where a Window, or a FlatMap behind a
    Batch or a Window, has handed out some of what it makes of several records: which indices these have isn't known.

    Args:
        operations: of the plan.
        cursors: of all its streams.

    >>> flat_map, batch = OperationShape("flat_map", "FlatMap(f)"), OperationShape("batch", "Batch(4)")
    >>> behind_cursors([flat_map, batch], [(7, 2), (5,)])
    8
    """
    of_records = 0  # FlatMaps whose elements are single records
    for op in operations:
        if op.kind in ("batch", "window"):
            break
        of_records += op.kind == "flat_map"
    behind = 0
    for cursor in cursors:
        if any(cursor[1 + of_records :]):
            return None
        behind = max(behind, cursor[0] + any(cursor[1:]))
    return behind
