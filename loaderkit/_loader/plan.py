"""The stream plan that settings mean, once this process's shard is known."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from loaderkit._base.numbers import at_least
from loaderkit._loader.planned_shapes import check_shapes
from loaderkit._order.metadata import MOST_INDEX
from loaderkit._order.sharding import ShardBlocks, ShardOptions
from loaderkit._plan.exclusions import Exclusions
from loaderkit._plan.seekable_plan import SeekablePlan, stop_of
from loaderkit._source.fingerprint import fingerprint_of as source_fingerprint_of
from loaderkit.samplers import Sampler
from loaderkit.samplers.optional import batch_of, components_of, endless_of, lanes_of, next_uses_of
from loaderkit.samplers.protocol import epoch_length_of
from loaderkit.samplers.protocol import fingerprint_of as sampler_fingerprint_of
from loaderkit.transforms.shape import shape_of

from .settings import LoaderSettings


class Fingerprints:
    """The fingerprints of a sampler and a source; each is taken when first asked for, because it may read records.

    Args:
        sampler, source: what is fingerprinted.

    >>> from loaderkit.samplers import SequentialSampler
    >>> fingerprints = Fingerprints(SequentialSampler(3), [5, 6, 7])
    >>> fingerprints.sampler["kind"], fingerprints.source["records"]
    ('SequentialSampler', 3)
    """

    def __init__(self, sampler: Sampler, source: Any) -> None:
        self._sampler, self._source = sampler, source

    @cached_property
    def sampler(self) -> dict[str, Any]:
        """The sampler's, in JSON values."""
        return sampler_fingerprint_of(self._sampler)

    @cached_property
    def source(self) -> dict[str, Any]:
        """The source's, in JSON values."""
        return source_fingerprint_of(self._source)


def plan_of(
    settings: LoaderSettings,
    shard: ShardOptions | ShardBlocks,
    fingerprints: Fingerprints,
    parameters: Sequence[Mapping[str, Any]],
) -> SeekablePlan:
    """The plan of a loader's stream.

    Args:
        settings: the loader's.
        shard: this process's, as `settings.sharding.resolve()` gives it.
        fingerprints: of sampler and source, for states.
        parameters: of the operations, for states.

    >>> from loaderkit.samplers import SequentialSampler
    >>> settings = LoaderSettings(source=[5, 6, 7], sampler=SequentialSampler(3), operations=())
    >>> plan = plan_of(settings, ShardOptions(0, 1), Fingerprints(settings.sampler, settings.source), [])
    >>> plan.start, plan.stop
    (0, 3)
    """
    sampler, start = settings.sampler, 0
    if settings.epoch is not None:
        start, sampler = settings.epoch * (epoch_length_of(sampler) or 0), endless_of(sampler)
    left_out = None
    if settings.block_lists is not None:
        left_out = Exclusions(sampler, settings.block_lists).begun(start, settings.block_lists.known)
        sampler, left_out = left_out.applied()
    plan = SeekablePlan(
        sampler=sampler,
        operations=shape_of(settings.operations),
        shard=shard,
        start=start,
        stop=stop_of(sampler, settings.epoch),
        logical_streams=settings.logical_streams,
        num_records=len(settings.source),
        sampler_fingerprint=fingerprints.sampler,
        source_fingerprint=fingerprints.source,
        parameters=parameters,
        epoch=settings.epoch,
        num_steps=settings.num_steps,
        tolerance=settings.tolerance,
        exclusions=left_out,
    )
    check_shapes(plan)
    return plan


def checked_epoch(sampler: Sampler, e: Any) -> int:
    """The number of an epoch, if the sampler has it; it may be past the last one.

    Raises TypeError where the sampler doesn't say how long an epoch is, ValueError where the epoch is too late.

    >>> from loaderkit.samplers import SequentialSampler
    >>> checked_epoch(SequentialSampler(3), 7)
    7
    """
    records = epoch_length_of(sampler)
    if records is None:
        got = f"{type(sampler).__qualname__}; give it num_records"
        if components_of(sampler) is not None:
            got = (
                f"a {type(sampler).__qualname__}, of which each component has epochs of its own; give num_steps= for a "
                "part, and ask it.sampler.taken(it.index) for the epochs"
            )
        raise TypeError(f"epoch(e): expected a sampler that says how long an epoch is, got {got}")
    epoch = at_least("e", e, 0)
    if (epoch + 1) * records > MOST_INDEX:
        raise ValueError(
            f"e: expected an epoch that ends at index 2**62 at most, got epoch {e} of {records} indices each"
        )
    return epoch


def repeats_order(settings: LoaderSettings) -> bool:
    """Whether each iteration gives the same shuffled order, of the sampler's only epoch.

    >>> from loaderkit.samplers import IndexSampler
    >>> once = LoaderSettings(
    ...     source=[5, 6], sampler=IndexSampler(2, shuffle=True, seed=0, num_epochs=1), operations=()
    ... )
    >>> repeats_order(once), repeats_order(once.replace(epoch=3))
    (True, False)
    """
    sampler = settings.sampler
    shuffled = bool(getattr(sampler, "shuffle", False))
    return settings.epoch is None and shuffled and getattr(sampler, "num_epochs", None) == 1


def shards_without_last_step(plan: SeekablePlan) -> int:
    """How many shards make one step fewer than the others; 0 where that isn't known before."""
    if plan.stop is None or plan.row_changing:
        return 0
    stride = plan.batching.stride
    return plan.schedule.shards_without(plan.start + (plan.stop - plan.start) // stride * stride)


def why_lanes_are_shared(plan: SeekablePlan) -> str:
    """Why several shards read the same lanes; "" where each reads its own, or that isn't known before.

    >>> from loaderkit.samplers import ChunkSampler
    >>> sampler = ChunkSampler(64, chunk=4, window=2, lanes=2, batch=16, seed=0)
    >>> settings = LoaderSettings(source=range(64), sampler=sampler, operations=())
    >>> plan = plan_of(settings, ShardOptions(0, 2), Fingerprints(sampler, settings.source), [])
    >>> why_lanes_are_shared(plan)
    'a step takes 2 indices, ChunkSampler has batch=16'
    """
    sampler, shards = plan.sampler, plan.shard.shard_count
    if shards == 1:
        return ""
    mixed = components_of(sampler)
    samplers = [sampler] if mixed is None else [*mixed.samplers.values()]
    if all(next_uses_of(each) is None for each in samplers):
        return ""
    name, lanes = type(sampler).__name__, lanes_of(sampler)
    if lanes % shards:
        return f"{shards} shards, {name} has lanes={lanes}"
    if plan.row_changing:
        return ""
    if plan.batching.stride != batch_of(sampler):
        return f"a step takes {plan.batching.stride} indices, {name} has batch={batch_of(sampler)}"
    return ""
