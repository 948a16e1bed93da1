"""Other weights for a mixture in mid-run: where they begin, agreed on by the processes that load together."""

from collections.abc import Mapping
from typing import Any

from loaderkit._order.mixture.stages import MixtureStages, same_shares
from loaderkit._plan.position import Position
from loaderkit._plan.seekable_plan import SeekablePlan, is_staged
from loaderkit._plan.state.exclusions import exclusion_fields
from loaderkit._plan.state.mixture import mixture_fields
from loaderkit._runtime.cluster.agreement import agree

from .first_unread import first_unread
from .reader import StreamReader

_ADVICE = "All processes have to change weights and lists between the same two steps, to the same ones."


def reweigh(reader: StreamReader[Position, SeekablePlan], weights: Mapping[str, Any], *, agrees: bool) -> int:
    """Gives a mixture other weights from the reader's position on; `DataLoaderIterator.reweigh` says what it raises.

    Args:
        reader: of the stream; its lock is held.
        weights: {name: weight}.
        agrees: whether the processes of the shard's store compare the weights.

    Returns the step that they begin in.
    """
    reader.check_open()
    plan, position = reader.plan, reader.position
    if not is_staged(plan.sampler):
        raise TypeError(
            f"reweigh(weights): expected a loader with a mixture, got {type(plan.sampler).__qualname__}; use lk.mix or "
            "lk.samplers.MixedSampler"
        )
    if plan.row_changing and len(plan.shard.blocks) < plan.shard.shard_count:
        raise ValueError(
            f"reweigh(weights): expected one process where operations change the number of rows, got "
            f"{plan.shard.shard_count} shards, whose places aren't known here; save, and restore in all processes a "
            'loader with these weights, with allow={"mixture"}'
        )
    index = first_unread(plan, position, reader.executor)
    before = plan.sampler.stages
    stages = plan.sampler.reweighed(index, weights).stages
    first = next(stage.first_index for stage in stages.entries if stage.live and stage.first_index >= index)
    after = plan.restaged(stages)
    there = after.continued_at(position, index)
    if there is not position and reader.user_position is not position:
        raise ValueError(
            "reweigh(weights): expected a stream that goes on, got one whose end the wrapper has met; take the "
            "elements that are left, then change the weights"
        )
    step = (
        position.step
        if position.cursors is not None
        else position.step + (first - index) // plan.batching.stride
    )
    if agrees:
        agree_on_stages(after, position.step, index)
    if not _same_from(first, before, stages):
        change_from(reader, after, there, first)
    return step


def change_from(
    reader: StreamReader[Position, SeekablePlan], after: SeekablePlan, there: Position, first: int
) -> None:
    """Goes on with a plan that reads other records from an index on. there: the reader's position, as it has it."""
    position = reader.position
    if position.losses.ledger.last < first:
        reader.continue_with(after, there)
    else:
        # The position was set back: indices from there on were lost in other stages, and read other records now. The
        # elements of a lookahead have those losses, too, so they are taken again.
        user = there if reader.user_position is position else reader.user_position
        reader.go_to(user._replace(losses=user.losses.before(first)), after)


def agree_on_stages(plan: SeekablePlan, step: int, index: int) -> None:
    """Compares weights and lists between the processes that load together, with the step and index of a change.

    Raises what `agree` raises. All processes have to call it.

    Args:
        plan: with the new weights or lists.
        step: the next one.
        index: its first, where operations keep the number of rows.
    """
    store = plan.shard.store
    if store is not None and store.processes > 1:
        said = {**mixture_fields(plan), **exclusion_fields(plan)}
        agree(store, "mixture", {"step": str(step), "index": str(index), **said}, advice=_ADVICE)


def _same_from(first: int, before: MixtureStages, after: MixtureStages) -> bool:
    """Whether the same weights hold from an index on."""
    holds, later = before.entries[before.place_at(first)], after.place_at(first)
    changes = any(stage.live and stage.first_index > first for stage in before.entries)
    return not changes and same_shares(holds.weights, after.entries[later].weights)
