"""The mixture in a state: which stages a state saves, and what comes of them on a restore into a loader."""

from collections.abc import Callable, Collection
from dataclasses import replace
from fractions import Fraction
from itertools import zip_longest
from typing import Any

import numpy as np

from loaderkit._base.canonical_json import canonical, digest
from loaderkit._order.metadata import MOST_INDEX
from loaderkit._order.mixture.shares import integer_weights
from loaderkit._order.mixture.stages import MixtureStages, Weights, same_shares
from loaderkit._plan.seekable_plan import SeekablePlan, is_staged
from loaderkit.errors import StateError

from .state import State

FindUnread = Callable[[SeekablePlan], int]  # the first index that no stream of a state has read

_MOST_LOOKED_AT = 1 << 20  # indices, for one that reads a component
_SHOWN = 1000  # characters of weights that processes compare as text; longer ones by their digest


def saved_stages(plan: SeekablePlan, index: int) -> MixtureStages | None:
    """The stages for a state at an index, with the counts of the one that holds there; None without a mixture."""
    return plan.sampler.stages_at(index) if is_staged(plan.sampler) else None


def shares_of(weights: Weights) -> dict[str, str]:
    """The shares of weights as text, by name.

    >>> shares_of({"web": Fraction(7), "code": Fraction(3)})
    {'web': '7/10', 'code': '3/10'}
    """
    total = sum(weights.values(), Fraction(0))
    return {name: str(weight / total) for name, weight in weights.items()}


def mixture_fields(plan: SeekablePlan, *, written_only: bool = False) -> dict[str, str]:
    """The stages of a plan's sampler as a field that processes compare, by shares; none without a mixture.

    written_only: whether the stages that `reweigh` began are left out.
    """
    stages = plan.mixture
    if stages is None:
        return {}
    if written_only:
        stages = MixtureStages(tuple(stage for stage in stages.entries if not stage.live))
    said = [[stage.first_index, stage.live, integer_weights(stage.weights)] for stage in stages.entries]
    return {"sampler.weights": _shown(said)}


def restored_plan(
    own: SeekablePlan, saved: State, allow: Collection[str], behind: int | None, find_unread: FindUnread
) -> tuple[SeekablePlan, SeekablePlan]:
    """A loader's plan with a state's stages: as they were, and with the loader's later ones; the same twice if equal.

    Past stages are the state's, and live ones stay. Where the written weights that hold at the state's index aren't the
    loader's, which `compare` has allowed then, a stage with the loader's weights begins there. Raises StateError where
    the stages don't fit, or where the cursors of all processes are needed to know where that is.

    Args:
        own: the loader's, with the weights of its arguments.
        saved: the state.
        allow: names of fields that may differ.
        behind: as `agreed_index` takes it.
        find_unread: finds it in a plan with the state's stages.
    """
    ours, theirs = own.mixture, saved.mixture
    if ours is None or theirs is None:
        return own, own
    _check_reach(theirs)
    if "sampler" in allow and saved.sampler != own.sampler_fingerprint:
        theirs = MixtureStages(theirs.entries)  # the counts are another sampler's
    try:
        before = _restaged(own, theirs, moved=False)
    except StateError:
        if "sampler" in allow:  # stages that this one can't have
            return own, own
        raise
    stages = _continued(before, ours, saved, behind, find_unread)
    if stages.first_difference(theirs) is None:
        return before, before
    check_all_cursors(saved, "the weights of the mixture", "mixture")
    return before, _restaged(before, stages)


def check_all_cursors(saved: State, what: str, field: str) -> None:
    """Raises StateError where a state lacks cursors that say where something else begins.

    Args:
        saved: the state.
        what: begins, for the error. field: its name in `allow`.
    """
    if saved.streams is not None and len(saved.cursors) < saved.streams.count:
        raise StateError(
            f"cursors: expected those of all {saved.streams.count} logical streams, because {what} change, got "
            f"{len(saved.cursors)}; give the states of all processes, with Orbax "
            f'CheckpointRestore(it, allow={{"{field}"}})'
        )


def agreed_index(saved: State, ours: MixtureStages, behind: int | None) -> int | None:
    """The index at which the written weights of a state and of a loader are compared and the same; None if they differ.

    The state's index, or the one at which weights begin that an earlier restore allowed: the first that no stream has
    read, and where a batch of several lanes begins.

    Args:
        saved: the state.
        ours: the loader's stages.
        behind: the first index that no stream of the state has read; None where that isn't known.
    """
    assert saved.mixture is not None
    behind = saved.index if behind is None else behind
    batch = saved.sampler.get("batch") or 1  # only several lanes have one
    if isinstance(batch, int) and batch > 0:
        behind = -(-behind // batch) * batch
    for index in (saved.index, behind):
        if same_shares(saved.mixture.written_at(index), ours.written_at(index)):
            return index
    return None


def check_present(plan: SeekablePlan, saved: State) -> None:
    """Raises StateError where the loader lacks a component that is still to be read, by weights of before or live ones.

    Args:
        plan: with the stages to go on with.
        saved: the state, whose cursors begin there.
    """
    if not is_staged(plan.sampler) or plan.mixture is None:
        return
    entries = plan.mixture.entries
    first = min(cursor[0] for cursor in saved.cursors.values())
    place = plan.mixture.place_at(first)
    present = {*plan.sampler_fingerprint["components"]}
    for stage, after in zip_longest(entries[place:], entries[place + 1 :]):
        absent = sorted(stage.weights.keys() - present)
        if absent and (after is None or _reads_absent(plan, saved, stage.first_index, after.first_index)):
            held = {name: weight for name, weight in entries[-1].weights.items() if name in present}
            weights: dict[str, float] = {
                n: int(w) if w.denominator == 1 else float(w) for n, w in held.items()
            }
            raise StateError(
                f"mixture: expected the components that are still read from index {max(first, stage.first_index)} on, "
                f"got none of {', '.join(map(repr, absent))}; give it again, with weight 0 where it isn't to be read "
                f"any more: weights={weights | dict.fromkeys(absent, 0)}"
            )


def _reads_absent(plan: SeekablePlan, saved: State, begin: int, end: int) -> bool:
    for stream, cursor in saved.cursors.items():
        first = max(begin, cursor[0])
        if end - first > _MOST_LOOKED_AT:
            return True
        if saved.streams is None:
            indices = np.arange(first, end)
        else:
            indices = plan.streams_in_blocks(saved.streams.q).indices(stream, first, max(0, end - first))
        try:
            plan.record_keys(plan.first_position(), indices[indices < end])
        except LookupError:
            return True
    return False


def resumed(plan: SeekablePlan, state: State) -> State:
    """A state whose step goes on at its index where the saved stream had ended within that step."""
    index, ended = state.index, plan.stop is not None and plan.stop <= state.index
    if state.streams is not None or ended or state.segments.index_of(state.step) == index:
        return state
    return replace(
        state, segments=state.segments.resize(state.step, index, state.segments.stride_of(state.step))
    )


def _continued(
    before: SeekablePlan, ours: MixtureStages, saved: State, behind: int | None, find_unread: FindUnread
) -> MixtureStages:
    assert before.mixture is not None and is_staged(before.sampler)
    if (same := agreed_index(saved, ours, behind)) is not None:
        return before.mixture.then_written(same, ours)
    try:
        begin = find_unread(before) if behind is None else behind
        begun = before.sampler.reweighed(begin, ours.written_at(begin), live=False).stages
    # elements that never end together, or an end behind which these don't go on
    except (ValueError, IndexError) as error:
        raise StateError(f"mixture: {error}") from error
    first = next(
        stage.first_index for stage in begun.entries if stage.first_index >= begin and not stage.live
    )
    return begun.then_written(first, ours)


def _restaged(plan: SeekablePlan, stages: MixtureStages, *, moved: bool = True) -> SeekablePlan:
    try:
        return plan.restaged(stages, moved=moved)
    except ValueError as error:
        raise StateError(f"mixture: {error}") from error


def _check_reach(stages: MixtureStages) -> None:
    last = stages.entries[-1].first_index
    if last > MOST_INDEX:
        raise StateError(f"mixture.stages: expected first indices up to 2**62, got {last}")


def _shown(value: Any) -> str:
    text = canonical(value)
    return text if len(text) <= _SHOWN else digest({"weights": value})
