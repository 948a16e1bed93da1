"""The shape of a stream: how operations and shards turn indices into steps, independent of the order of records.

Whether operations change the number of rows, how rows are batched, how the stream ends, and which combinations of these
are refused.
"""

from collections.abc import Sequence

from loaderkit._base.system.dataclasses import dataclass
from loaderkit._order.metadata import MOST_INDEX, MOST_STRIDE
from loaderkit._order.operation_shape import OperationShape
from loaderkit._order.sharding import Shard, ShardBlocks

from .bad_records import Tolerance
from .batching import Batching, InnerBatch, shard_spans
from .logical_streams import LogicalStreams, check_streams


def changes_rows(operations: Sequence[OperationShape], tolerance: Tolerance) -> bool:
    """Whether the number of rows is known only once they are made.

    >>> operations = [OperationShape("map", "Map(abs)")]
    >>> changes_rows(operations, Tolerance()), changes_rows(operations, Tolerance("skip"))
    (False, True)
    >>> changes_rows([OperationShape("filter", "Filter(bool)")], Tolerance())
    True
    """
    return tolerance.skips or any(op.changes_rows for op in operations)


def reads_windows(operations: Sequence[OperationShape], tolerance: Tolerance, num_steps: int | None) -> bool:
    """Whether tasks that read end at the ends of windows, and make what the first Window makes of them.

    So elements don't travel between processes. It needs records that keep their number before the Window, and a stream
    that never begins again in the middle of one.

    >>> from loaderkit.transforms import Filter, Window
    >>> from loaderkit.transforms.shape import shape_of
    >>> window = Window(8, sorted)
    >>> [reads_windows(shape_of(ops), Tolerance(), None) for ops in ([window], [Filter(bool), window])]
    [True, False]
    """
    kinds = [op.kind for op in operations]
    if "window" not in kinds or tolerance.skips:
        return False
    batches = [op.batch for op in operations if op.batch is not None]
    if num_steps is not None and batches and batches[-1].remainder == "wrap":
        return False
    before = operations[: kinds.index("window")]
    return not any(op.changes_rows or op.batch is not None for op in before)


def batching_of(operations: Sequence[OperationShape], shard: Shard) -> Batching:
    """The Batches among the operations, as a Batching.

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
    """Raises ValueError where a step takes more than 2**60 indices or the stream ends past 2**62.

    >>> check_reach(Batching(inner=(), rows=4, remainder="keep", batched=True), 2**62)
    """
    if batching.stride > MOST_STRIDE:
        raise ValueError(
            f"operations: expected Batches that take at most 2**60 records for one step, got {batching.stride}; use "
            "smaller ones"
        )
    if stop is not None and stop > MOST_INDEX:
        raise ValueError(
            f"sampler: expected a last index below 2**62, got {stop - 1}; use fewer epochs, or num_epochs=None for a "
            "stream without end"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamShape:
    """The shape of a stream. Raises ValueError for operations, shards and an end that exclude each other.

    operations: in their order. shard: this process's part. start, stop: the stream's indices [start, stop), stop=None
    without an end. logical_streams: S. tolerance: how bad records are handled. num_steps: number of steps of the whole
    run, None for as many as the stream has.
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
        # Raises ValueError for rows that can't be divided into equal shards.
        shard_spans(0, self.batching.rows, shard=self.shard, remainder=self.batching.remainder)
        if self.row_changing:
            self._check_streams()
            self._check_share()
        elif self.stop is not None and self.batching.remainder == "wrap":
            self._check_last_row(self.stop - self.start)

    @property
    def row_changing(self) -> bool:
        """Whether the number of rows is known only once they are made."""
        return changes_rows(self.operations, self.tolerance)

    @property
    def batching(self) -> Batching:
        """The Batches among the operations, as a Batching."""
        return batching_of(self.operations, self.shard)

    @property
    def read_window(self) -> int | None:
        """Records of the windows that tasks that read end at; None where these are cut anywhere."""
        if not reads_windows(self.operations, self.tolerance, self.num_steps):
            return None
        return next(op.window.size for op in self.operations if op.window is not None)

    @property
    def asks_others(self) -> bool:
        """Whether the processes have to agree on the last step (`ending.py`)."""
        padded, shard = self.batching.remainder == "pad", self.shard
        return (
            self.row_changing and padded and self.stop is not None and len(shard.blocks) < shard.shard_count
        )

    @property
    def wraps(self) -> bool:
        """Whether streams begin again after their end until `num_steps` steps are made."""
        return self.batching.remainder == "wrap" and self.stop is not None and self.num_steps is not None

    @property
    def lasts(self) -> bool:
        """Whether a run that changes the number of rows has exactly `num_steps` steps, or fails before."""
        return self.num_steps is not None and (
            self.stop is None or self.batching.remainder in ("drop", "wrap")
        )

    @property
    def ends(self) -> bool:
        """Whether the logical streams end."""
        return self.stop is not None and not self.wraps

    @property
    def last_batch(self) -> int:
        """The place of the last Batch among the operations; -1 without one."""
        places = [place for place, op in enumerate(self.operations) if op.batch is not None]
        return places[-1] if places else -1

    def why_unknown(self, what: str) -> str:
        """An error's text: `what` isn't known, because the number of rows isn't."""
        changing = [op.shown for op in self.operations if op.changes_rows]
        cause = next(iter(changing), "on_record_error='skip'")
        return (
            f"{what} isn't known: {cause} changes the number of rows, so the number of records in a step is known only "
            "once it is made"
        )

    def check_known(self, what: str) -> None:
        """Raises ValueError where the number of rows isn't known, and `what` with it."""
        if self.row_changing:
            raise ValueError(self.why_unknown(what))

    def why_no_length(self, what: str) -> str:
        """An error's text: `what` isn't known, because the number of steps isn't."""
        if self.row_changing:
            return self.why_unknown(what)
        return f"{what}: expected a stream that ends, got an endless sampler (num_epochs=None)"

    def length_hint(self) -> int:
        """What `__length_hint__` gives where `__len__` is a TypeError, which list() and others take for "not known".

        Raises ValueError where there is no end: list() would take elements until the memory is full.
        """
        if self.stop is None and self.num_steps is None:
            raise ValueError(
                "expected a stream that ends, got an endless one; write num_epochs=1, in lk.load or in the "
                "sampler, .repeat(1) in a chain, or take some by itertools.islice(loader, 10)"
            )
        return NotImplemented  # type: ignore[no-any-return]

    def streams_in_blocks(self, q: int) -> LogicalStreams:
        """The assignment of indices to logical streams, in blocks of q."""
        return LogicalStreams(self.logical_streams, q, self.start, self.stop)

    def owned_streams(self, q: int) -> tuple[int, ...]:
        """The logical streams of this process; () where operations keep the number of rows."""
        if not self.row_changing:
            return ()
        return self.streams_in_blocks(q).owned(self.batching.rows, self.shard)

    # --- combinations that are refused --------------------------------------------------------------------------

    def _check_blocks(self, shard: ShardBlocks) -> None:
        """Checks shards by blocks: several may hold the same block, so only a global batch size is well defined."""
        batches = [op for op in self.operations if op.batch is not None]
        if not batches:
            raise ValueError(
                "shard_options: expected operations with a Batch, because the sharding divides its rows, got none; add "
                "lk.Batch(global_batch_size=...)"
            )
        if batches[-1].batch is not None and batches[-1].batch.batch_size is not None:
            raise ValueError(
                f"batch_size: expected the size of the global batch, for the sharding, got {batches[-1].label}; "
                "use lk.Batch(global_batch_size=...)"
            )
        self.check_equal_parts("shard_options")

    def check_equal_parts(self, name: str) -> None:
        """Raises ValueError where a last, partial step would give the shards unequal parts.

        name: of the argument that needs equal parts, for the error.
        """
        if self.stop is None or self.row_changing or self.batching.remainder != "keep":
            return
        count, stride = self.shard.shard_count, self.batching.stride
        rows = self.batching.count_rows((self.stop - self.start) % stride)
        if rows % count and not self.shard.drop_remainder:
            raise ValueError(
                f"{name}: expected a last step that divides into {count} equal parts, got {rows} rows; use "
                "remainder='drop', 'pad' or 'wrap' in the last Batch"
            )

    def _check_last_row(self, records: int) -> None:
        if self.batching.count_used(records) % self.batching.group:
            raise ValueError(
                "remainder='wrap': expected rows of equal length, got a shorter last row from an earlier Batch; use "
                "remainder='drop' in the earlier Batches"
            )

    def _check_streams(self) -> None:
        count, batching = self.logical_streams, self.batching
        check_streams(count, rows=batching.rows, shard_count=self.shard.shard_count)
        if count == 1:
            return
        after = [op for op in self.operations[self.last_batch + 1 :] if op.changes_rows]
        if batching.batched and after:
            raise ValueError(
                f"operations: expected no change of the number of rows after the last Batch, got {after[0].shown}, "
                f"which would drop or multiply batches of which every shard has a part; put it before the Batch, or "
                f"use one shard and logical_streams=1 (got {self.shard.shard_count} and {count})"
            )
        if self.stop is None:
            return
        why = (
            f"where operations change the number of rows, the {count} logical streams of a finite sampler are "
            "exhausted at different steps"
        )
        if batching.remainder == "keep":
            raise ValueError(
                f"remainder: expected 'drop', 'pad' or 'wrap' in the last Batch, got 'keep': {why}; use "
                "Batch(..., remainder='pad'), which fills missing rows with zeros, or num_epochs=None"
            )
        if batching.remainder in ("drop", "wrap") and self.num_steps is None:
            raise ValueError(
                f"num_steps: expected the steps of the whole run with remainder={batching.remainder!r}, got None: "
                f"{why}; use DataLoader(num_steps=...) or remainder='pad'"
            )
        if self.asks_others and self.shard.store is None:
            raise ValueError(
                f"shard_options: expected a store, over which the processes agree on the last step, got none: {why}; "
                "use shard_options=lk.ShardByJaxProcess() or lk.ShardOptions(shard_index, shard_count, store=...)"
            )

    def _check_share(self) -> None:
        """Refuses a share as limit where streams begin again: the number of records they gave isn't counted."""
        if self.tolerance.skips and isinstance(self.tolerance.most, float) and self.wraps:
            raise ValueError(
                "max_bad_records: expected a count where records are skipped and streams begin again until num_steps "
                f"(remainder='wrap'), got the share {self.tolerance.most}; give a count, or use num_epochs=None or "
                "on_record_error='replace'"
            )
