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
    check_one_process(plan, "reweigh(weights)", 'a loader with these weights, with allow={"mixture"}')
    index = first_unread(plan, position, reader.executor)
    before = plan.sampler.stages
    stages = plan.sampler.reweighed(index, weights).stages
    first = next(stage.first_index for stage in stages.entries if stage.live and stage.first_index >= index)
    after = plan.restaged(stages)
    step, there = begin_change(
        reader, after, index, first, "reweigh(weights)", "change the weights", agrees=agrees
    )
    if not _same_from(first, before, stages):
        change_from(reader, after, there, first)
    return step


def check_one_process(plan: SeekablePlan, call: str, restored: str) -> None:
    """ValueError where a call would need the places of other processes. restored: what to restore there instead."""
    if plan.row_changing and len(plan.shard.blocks) < plan.shard.shard_count:
        raise ValueError(
            f"{call}: expected one process where operations change the number of rows, got {plan.shard.shard_count} "
            f"shards, whose places aren't known here; save, and restore in all processes {restored}"
        )


def begin_change(
    reader: StreamReader[Position, SeekablePlan],
    after: SeekablePlan,
    index: int,
    first: int,
    call: str,
    then: str,
    *,
    agrees: bool,
) -> tuple[int, Position]:
    """The step in which a change begins, and the reader's position as the changed plan has it.

    Args:
        reader: of the stream.
        after: the changed plan.
        index: the first one that wasn't read when the change was asked for.
        first: the one at which it begins.
        call, then: what was called, and what to do once the stream goes on, for the ValueError where it has ended.
        agrees: whether the processes of the shard's store compare the change.
    """
    position = reader.position
    there = after.continued_at(position, index)
    if there is not position and reader.user_position is not position:
        raise ValueError(
            f"{call}: expected a stream that goes on, got one whose end the wrapper has met; take the elements that "
            f"are left, then {then}"
        )
    if agrees:
        agree_on_stages(after, position.step, index)
    if position.cursors is not None:
        return position.step, there
    begin = position.segments.index_of(position.step)
    return position.step + max(0, -(-(first - begin) // after.batching.stride)), there


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
