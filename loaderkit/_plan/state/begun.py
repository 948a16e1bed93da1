"""Fingerprints without the spans of a SpanSampler that a state hasn't begun: those may have been planned again.

The sampler's fingerprint has the lengths of its `spans`, and the source's what its `plans` are made of, one for each.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from loaderkit._plan.seekable_plan import SeekablePlan, is_staged
from loaderkit.samplers.spans import has_spans, spans_begun

from .components import Fingerprint
from .exclusions import restored_exclusions
from .state import State

_LISTS = ("spans", "plans")  # of the sampler, and of the source


def of_begun(saved: State, plan: SeekablePlan) -> tuple[State, Fingerprint, Fingerprint]:
    """A state, and a loader's fingerprints of sampler and source, each without the spans that the state hasn't begun.

    Where a span that was begun differs, both sides still have it: the spans before it are equal then, so it begins at
    the same index in both.

    Args:
        saved: the state.
        plan: the loader's.
    """
    begun: int | dict[str, int] | None = None
    base = plan.sampler if plan.exclusions is None else plan.exclusions.sampler
    if any(map(has_spans, base.components.values() if is_staged(base) else [base])):
        with contextlib.suppress(Exception):  # a state of another stream, which is refused
            begun = _begun_of_each(plan, saved)
    pairs = (saved.sampler, saved.source, plan.sampler_fingerprint, plan.source_fingerprint)
    sampler, source, own_sampler, own_source = (_cut(each, begun) for each in pairs)
    return replace(saved, sampler=sampler, source=source), own_sampler, own_source


def _begun_of_each(plan: SeekablePlan, saved: State) -> int | dict[str, int] | None:
    """How many spans were begun, by component of a mixture; None, or no name, where all count."""
    plan = restored_exclusions(plan, saved, ())
    if saved.mixture is not None and plan.mixture is not None:
        plan = plan.restaged(saved.mixture, moved=False)
    if not is_staged(plan.sampler):
        return spans_begun(plan.sampler, saved.index)
    taken = plan.sampler.taken(saved.index)
    counts = {name: spans_begun(each, taken[name].records) for name, each in plan.sampler.components.items()}
    return {name: count for name, count in counts.items() if count is not None}


def _cut(value: Any, begun: int | dict[str, int] | None) -> Any:
    """A JSON value whose lists of spans have the first ones only; by name in the parts of a mixture."""
    if begun is None or not isinstance(value, Mapping):
        return value
    if isinstance(begun, int):
        return {
            key: [*child][:begun] if key in _LISTS and isinstance(child, list) else _cut(child, begun)
            for key, child in value.items()
        }
    parts = {
        key: {name: _cut(child, begun.get(name)) for name, child in value[key].items()}
        for key in ("components", "sources")
        if isinstance(value.get(key), Mapping)
    }
    return {key: parts[key] if key in parts else _cut(child, begun) for key, child in value.items()}
