"""The exclusions in a state: what comes of them on a restore into a loader, and how processes compare them."""

from bisect import bisect_right
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from loaderkit._base.canonical_json import canonical
from loaderkit._plan.exclusions import Lists
from loaderkit._plan.seekable_plan import SeekablePlan, is_staged
from loaderkit.errors import CheckpointMismatchError, StateError

from .state import State

_SHOWN = 3  # lists in an error


def exclusion_fields(plan: SeekablePlan) -> dict[str, str]:
    """The lists of a plan's stages as fields that processes compare; none for a loader that has no lists."""
    if plan.exclusions is None or not plan.exclusions.stages:
        return {}
    said: dict[str, list[Any]] = {}
    for stage in plan.exclusions.stages:
        for name in stage.begins:
            said.setdefault(_field(name), []).append([stage.first_index, stage.lists.get(name, ())])
    return {name: canonical(each) for name, each in sorted(said.items())}


def restored_exclusions(own: SeekablePlan, saved: State, allow: Collection[str]) -> SeekablePlan:
    """A loader's plan with the exclusions of a state, in the loader's own weights.

    Raises CheckpointMismatchError where the loader lacks a list that holds at the state's index or behind it, and
    StateError where the stages don't fit it.
    """
    if own.exclusions is None and not saved.exclusions:
        return own
    present = {} if own.exclusions is None else own.exclusions.lists.present()
    components = own.sampler.components if is_staged(own.sampler) else {"": own.sampler}
    first = min(cursor[0] for cursor in saved.cursors.values())
    held = max(0, bisect_right(saved.exclusions, first, key=lambda stage: stage.first_index) - 1)
    lacking = [
        f"{digest} of {name!r}" if name else digest
        for stage in saved.exclusions[held:]
        for name, digests in stage.lists.items()
        for digest in digests
        if name in components and digest not in present.get(name, ())
    ]
    if lacking or own.exclusions is None:
        raise CheckpointMismatchError(
            f"exclude: expected the {len(lacking)} lists that the saved run leaves out from there on, got none of "
            f"{', '.join(lacking[:_SHOWN])}; give exclude= with their folders: a state needs them, also where other "
            "lists are to hold from here on"
        )
    there = replace(own.exclusions, stages=saved.exclusions)
    if "sampler" in allow and saved.sampler != own.sampler_fingerprint:
        there = there.over(there.sampler, -1)  # the begins are another sampler's
    try:
        return own.excluding(there)
    except ValueError as error:
        raise StateError(f"exclusions: {error}") from error


def waiting_lists(plan: SeekablePlan, saved: State) -> Lists | None:
    """The lists that are there, where these aren't those of a state's last stage; None where they are."""
    if plan.exclusions is None:
        return None
    present = plan.exclusions.lists.present()
    last = saved.exclusions[-1].lists if saved.exclusions else {}
    return None if {**last} == {**present} else present


def _field(name: str) -> str:
    return f"exclude.{name}" if name else "exclude"
