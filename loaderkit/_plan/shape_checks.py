"""Shapes of batches and shards that exclude each other."""

import numpy as np

from loaderkit._order.sharding import Shard
from loaderkit.samplers.protocol import ShapedSampler

from .seekable_plan import SeekablePlan


def check_shapes(plan: SeekablePlan) -> None:
    """Raises ValueError where the shards of a plan would pad a batch differently, or would get unequal parts of it."""
    shard, place = plan.shard, plan.last_batch
    last = None if place < 0 else plan.operations[place].batch
    if last is None or shard.shard_count == 1:
        return
    if last.buckets > 1 and not last.rows_padded:
        raise ValueError(
            f"boundaries: expected one of each leaf, or a sampler that says the shape of each batch, with "
            f"{shard.shard_count} shards, which would pad a batch differently, got {last.buckets}; use "
            f"sampler=lk.samplers.LengthBucketSampler(lengths, boundaries, {plan.batching.rows}, shuffle=True, seed=0)"
        )
    known = plan.shaped_for(plan.batching)
    if known is not None:
        _check_parts(known, shard, plan.batching.remainder)


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
