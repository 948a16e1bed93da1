"""Whether the shapes that a sampler says, the Batch, operations that mix its rows and the shards fit together."""

from typing import Any

import numpy as np

from loaderkit._order.sharding import Shard
from loaderkit._plan.bad_records import Tolerance
from loaderkit._plan.seekable_plan import SeekablePlan
from loaderkit._plan.stream_shape import changes_rows
from loaderkit.samplers import Sampler
from loaderkit.samplers.protocol import ShapedSampler, shaped
from loaderkit.transforms.base import Batch, Transformation
from loaderkit.transforms.pad_batch import PadBatch
from loaderkit.transforms.shape import shape_of


def with_planned_shapes(
    operations: tuple[Transformation, ...], sampler: Sampler, tolerance: Tolerance, num_records: int
) -> tuple[Transformation, ...]:
    """The operations; a PadBatch whose boundaries the plan chooses gets rows that are padded to them.

    Args:
        operations: checked ones.
        sampler: the loader's; ValueError where it says shapes of batches that the operations don't make.
        tolerance: which bad records are accepted.
        num_records: the length of the source; ValueError where a PadBatch has lengths of others.

    >>> from loaderkit.samplers import SequentialSampler
    >>> batch = PadBatch(2, boundaries={"x": [4]})
    >>> with_planned_shapes((batch,), SequentialSampler(4), Tolerance(), 4)[0].rows_padded
    True
    """
    known = shaped(sampler)
    batches = [op for op in operations if isinstance(op, Batch)]
    changing = changes_rows(shape_of(operations), tolerance)
    if known is not None:
        _check(known, type(sampler).__qualname__, batches)
        if changing:
            changes = [op.shown for op in shape_of(operations) if op.changes_rows]
            raise ValueError(
                f"operations: expected none that changes the number of rows with a {type(sampler).__qualname__}, which "
                f"plans whole batches, got {next(iter(changes), 'skipped bad records')}; leave the records out by "
                "lk.SubsetDataSource, and their lengths, before"
            )
    for batch in batches:
        if isinstance(batch, PadBatch) and batch.known is not None:
            _check_lengths(batch.known, operations, sampler, tolerance, num_records)
    if not batches or changing or not isinstance(last := batches[-1], PadBatch):
        return operations
    if known is None and last.buckets > 1 and last.known is None:
        return operations
    return tuple(op.of_padded_rows() if op is last else op for op in operations)


def _check_lengths(
    lengths: Any,
    operations: tuple[Transformation, ...],
    sampler: Sampler,
    tolerance: Tolerance,
    num_records: int,
) -> None:
    shapes = shape_of(operations)
    changing = [op.shown for op in shapes if op.changes_rows] or ["skipped bad records"] * tolerance.skips
    if len(lengths) != num_records:
        problem = f"{num_records}, one for each record of the source, got {len(lengths)}; measure this source"
    elif changing:
        problem = f"none with what changes the number of rows, got {changing[0]}; leave records out before"
    elif sum(op.batch is not None for op in shapes) > 1:
        problem = "none but of the only Batch, got several; pad in the first"
    elif tolerance.policy == "replace" and hasattr(sampler, "instead"):
        problem = (
            f"none with on_record_error='replace' and a {type(sampler).__qualname__}, of which any record "
            "may stand for a bad one; give boundaries that hold all"
        )
    else:
        return
    raise ValueError(f"lengths: expected {problem}")


def _check(known: ShapedSampler, name: str, batches: list[Any]) -> None:
    size = known.global_batch_size
    if len(batches) != 1 or batches[0].global_batch_size != size:
        raise ValueError(
            f"operations: expected one Batch, of global_batch_size={size} as {name} has it, got {batches or 'none'}; "
            f"use lk.PadBatch(global_batch_size={size}, boundaries=...)"
        )
    if batches[0].remainder == "drop":
        raise ValueError(
            f"remainder: expected 'keep', 'pad' or 'wrap' with a {name}, which has the records left over in the last "
            f"step of each epoch, got 'drop'; use {name}(..., drop_remainder=True)"
        )
    padded = isinstance(batches[0], PadBatch)
    if padded and (batches[0].longest or batches[0].buckets != len(known.sizes)):
        raise ValueError(
            f"boundaries: expected {len(known.sizes)} for each leaf, one for each bucket of {name}, got "
            f"{'the longest' if batches[0].longest else batches[0].buckets}; give as many"
        )


def check_shapes(plan: SeekablePlan) -> None:
    """Raises ValueError where shards would pad a batch differently, get unequal parts, or cut mixed rows apart."""
    for number, op in enumerate(plan.operations):
        if op.group:
            _check_group(plan, number, op.label, op.group)
    shard, place = plan.shard, plan.last_batch
    last = None if place < 0 else plan.operations[place].batch
    if last is None or shard.shard_count == 1:
        return
    if last.buckets > 1 and not last.rows_padded:
        raise ValueError(
            f"boundaries: expected one of each leaf, or a sampler that says the shape of each batch, with "
            f"{shard.shard_count} shards, which would pad a batch differently, got "
            f"{'the longest of each batch' if last.buckets >> 31 else last.buckets}; give 'longest' with lengths=, or "
            f"use sampler=lk.samplers.LengthBucketSampler(lengths, boundaries, {plan.batching.rows}, shuffle=True, "
            "seed=0)"
        )
    known = plan.shaped_for(plan.batching)
    if known is not None:
        _check_parts(known, shard, plan.batching.remainder)


def _check_group(plan: SeekablePlan, number: int, name: str, group: int) -> None:
    batching, count = plan.batching, plan.shard.shard_count
    known, each = plan.shaped_for(batching), plan.shard.shard_count * group
    sizes = sorted({batching.rows} if known is None else {*known.sizes})
    left = 0 if plan.stop is None else (plan.stop - plan.start) % batching.rows
    cut = batching.remainder == "keep" and count > 1 and (known is not None or left % each > 0)
    behind = all(op.group for op in plan.operations[plan.last_batch + 1 : number])
    if not behind or not batching.batched or batching.inner or plan.last_batch > number:
        expected = f"{name} directly behind the only Batch"
        got = f"it as operations[{number}]; write [..., lk.Batch(n), {name}(...)] without batch_size="
    elif plan.row_changing:
        changes = [op.shown for op in plan.operations if op.changes_rows]
        expected = f"none that changes the number of rows with {name}"
        got = f"{next(iter(changes), 'skipped bad records')}; leave records out by lk.SubsetDataSource before"
    elif any(size % each for size in sizes):
        expected = (
            f"batches of a multiple of {count} * {group} rows, of which no shard cuts a group of {name}"
        )
        got = f"{sizes}; use another group or batch size"
    elif batching.remainder == "pad" or cut:
        expected = f"a Batch with remainder='drop' or 'wrap' before {name}"
        got = f"{batching.remainder!r}, with which groups of the last batch are cut or have rows of zeros"
    else:
        return
    raise ValueError(f"operations: expected {expected}, got {got}")


def _check_parts(known: ShapedSampler, shard: Shard, remainder: str) -> None:
    count = shard.shard_count
    for size in known.sizes:
        if size % count:
            raise ValueError(
                f"batch_sizes: expected multiples of {count}, the number of shards, got {size}; use for example "
                f"{-(-size // count) * count}"
            )
    left = int(known.rows_of(np.array([known.epoch_length - known.global_batch_size], np.int64))[0])
    if remainder == "keep" and (left < count if shard.drop_remainder else left % count):
        raise ValueError(
            f"remainder: expected 'pad' or 'wrap', as the last step of each epoch has {left} rows, which {count} "
            "shards can't share equally, got 'keep'; use PadBatch(..., remainder='pad'), or drop_remainder=True of "
            "the sampler"
        )
