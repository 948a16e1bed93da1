"""The shape of a stream: what operations make of indices under known shards, whatever order the records come in.

Whether rows change in number, how they are batched, how the stream ends, and which of these don't go together.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from loaderkit._order.index_limits import MOST_INDEX, MOST_STRIDE
from loaderkit._order.operation_shape import OperationShape
from loaderkit._order.sharding import Shard, ShardBlocks

from .bad_records import Tolerance
from .batching import Batching, InnerBatch, shard_spans
from .logical_streams import LogicalStreams, check_streams


def changes_rows(operations: Sequence[OperationShape], tolerance: Tolerance) -> bool:
    """Whether the number of rows isn't known before they are made.

    >>> operations = [OperationShape("map", "Map(abs)")]
    >>> changes_rows(operations, Tolerance()), changes_rows(operations, Tolerance("skip"))
    (False, True)
    >>> changes_rows([OperationShape("filter", "Filter(bool)")], Tolerance())
    True
    """
    return tolerance.skips or any(op.changes_rows for op in operations)


def batching_of(operations: Sequence[OperationShape], shard: Shard) -> Batching:
    """The Batches among the operations as one value.

    >>> from loaderkit._order.sharding import ShardOptions
    >>> from loaderkit.transforms import Batch
    >>> from loaderkit.transforms.shape import shape_of
    >>> batching_of(shape_of([Batch(4), Batch(global_batch_size=8)]), ShardOptions(0, 2)).stride
    32
    """
    batches = [op.batch for op in operations if op.batch is not None]
    if not batches:
        return Batching(inner=(), rows=shard.shard_count, remainder="keep", batched=False)
    last = batches[-1]
    rows = last.global_batch_size or (last.batch_size or 0) * shard.shard_count
    inner = tuple(InnerBatch(batch.batch_size or 0, batch.remainder) for batch in batches[:-1])  # type: ignore[arg-type]
    return Batching(inner=inner, rows=rows, remainder=last.remainder, batched=True)  # type: ignore[arg-type]


def check_reach(batching: Batching, stop: int | None) -> None:
    """Raises ValueError where a step, or the stream, takes more indices than can be counted.

    >>> check_reach(Batching(inner=(), rows=4, remainder="keep", batched=True), 2**62)
    """
    if batching.stride > MOST_STRIDE:
        raise ValueError(
            f"operations: their Batches take {batching.stride} records for one step, and one may take 2**60; use "
            "smaller ones"
        )
    if stop is not None and stop > MOST_INDEX:
        raise ValueError(
            f"sampler: its last index is {stop - 1}, and a run goes to 2**62; use fewer epochs, or "
            "num_epochs=None for a stream without end"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamShape:
    """What kind of stream it is. Raises ValueError where operations, shards and the end don't go together.

    operations, shard: what makes it. start, stop: its indices, stop=None without an end. logical_streams: S.
    tolerance: what becomes of bad records. num_steps: of the whole run, None for all that there are.
    """

    operations: tuple[OperationShape, ...]
    shard: Shard
    start: int
    stop: int | None
    logical_streams: int
    tolerance: Tolerance
    num_steps: int | None

    def __post_init__(self) -> None:
        if isinstance(self.shard, ShardBlocks):
            self._check_blocks(self.shard)
        check_reach(self.batching, self.stop)
        # Refuses rows that can't be cut in equal shards.
        shard_spans(0, self.batching.rows, shard=self.shard, remainder=self.batching.remainder)
        if self.row_changing:
            self._check_streams()
            self._check_share()
        elif self.stop is not None and self.batching.remainder == "wrap":
            self._check_last_row(self.stop - self.start)

    @property
    def row_changing(self) -> bool:
        """Whether the number of rows isn't known before they are made."""
        return changes_rows(self.operations, self.tolerance)

    @property
    def batching(self) -> Batching:
        """Its Batches."""
        return batching_of(self.operations, self.shard)

    @property
    def asks_others(self) -> bool:
        """Whether only all processes together know when the run ends."""
        padded, shard = self.batching.remainder == "pad", self.shard
        return (
            self.row_changing and padded and self.stop is not None and len(shard.blocks) < shard.shard_count
        )

    @property
    def wraps(self) -> bool:
        """Whether streams begin again until the steps of the run are made."""
        return self.batching.remainder == "wrap" and self.stop is not None and self.num_steps is not None

    @property
    def lasts(self) -> bool:
        """Whether the streams of a pipeline that changes the number of rows last for the steps of the run, or fail."""
        return self.num_steps is not None and (
            self.stop is None or self.batching.remainder in ("drop", "wrap")
        )

    @property
    def ends(self) -> bool:
        """Whether its streams come to an end."""
        return self.stop is not None and not self.wraps

    @property
    def last_batch(self) -> int:
        """Which operation the last Batch is; -1 without one."""
        places = [place for place, op in enumerate(self.operations) if op.batch is not None]
        return places[-1] if places else -1

    def why_unknown(self, what: str) -> str:
        """Why something that needs known rows can't be said."""
        culprits = [op.shown for op in self.operations if op.changes_rows]
        culprit = next(iter(culprits), "on_record_error='skip'")
        return (
            f"{what} isn't known: {culprit} changes the number of rows, so how many records a step takes "
            "shows only when it is made"
        )

    def why_no_length(self, what: str) -> str:
        """Why the number of steps can't be said."""
        if self.row_changing:
            return self.why_unknown(what)
        return f"{what}: the sampler is endless (num_epochs=None), so the loader is too"

    def streams_in_blocks(self, q: int) -> LogicalStreams:
        """Which index belongs to which logical stream, with blocks of q."""
        return LogicalStreams(self.logical_streams, q, self.start, self.stop)

    def owned_streams(self, q: int) -> tuple[int, ...]:
        """The logical streams whose rows this process loads; none where rows keep their number."""
        if not self.row_changing:
            return ()
        return self.streams_in_blocks(q).owned(self.batching.rows, self.shard)

    # --- what doesn't go together -------------------------------------------------------------------------------

    def _check_blocks(self, shard: ShardBlocks) -> None:
        """Several shards may hold the same block, so a batch's rows can't be counted from theirs."""
        batches = [op for op in self.operations if op.batch is not None]
        if not batches:
            raise ValueError(
                "shard_options: rows that follow a sharding are those of a global batch, and operations have no Batch; "
                "add lk.Batch(global_batch_size=...)"
            )
        if batches[-1].batch is not None and batches[-1].batch.batch_size is not None:
            raise ValueError(
                f"batch_size: rows that follow a sharding are those of a global batch, {batches[-1].label} says only "
                "those of one shard; use lk.Batch(global_batch_size=...)"
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
        after = [op for op in self.operations[self.last_batch + 1 :] if op.changes_rows]
        if batching.batched and after:
            raise ValueError(
                f"{after[0].shown} stands behind the last Batch: it would drop or multiply batches that every shard "
                f"has a part of. Put it before the Batch, or use one shard and logical_streams=1 (they are "
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
        if self.tolerance.skips and isinstance(self.tolerance.most, float) and self.wraps:
            raise ValueError(
                f"max_bad_records={self.tolerance.most} is a share of the records so far, and how many those are isn't "
                "known where records are skipped and streams begin again until num_steps (remainder='wrap'): give a "
                "count, or use num_epochs=None, or on_record_error='replace'"
            )
