"""Components of a mixture in the fingerprints of its sampler and its source: compared by name.

The fingerprint of a mixture's sampler has `components` by name, and that of a source of several parts `sources` by
name, with their order in `names`. A component that only one of two sides has is a difference of the source, and changes
none of the other ones. Where a source's order is that of the sampler's components, on both sides, it may change.
"""

from collections.abc import Mapping
from typing import Any

from loaderkit._base.system.dataclasses import dataclass

Fingerprint = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Sides:
    """What two sides' fingerprints have, in the order saved, current.

    single: components that only that side has, {name: fingerprint}. sampler, source: fingerprints without those.
    ordered_alike: whether on both sides the parts of the source have the order of the components.
    """

    single: tuple[Fingerprint, Fingerprint]
    sampler: tuple[Fingerprint, Fingerprint]
    source: tuple[Fingerprint, Fingerprint]
    ordered_alike: bool

    @property
    def reordered(self) -> tuple[list[str], list[str]] | None:
        """The names that both have, in their orders, where those differ and a source's keys depend on them."""
        first, second = (list(_components(sampler)) for sampler in self.sampler)
        return (first, second) if first != second and not self.ordered_alike else None


def sides_of(saved: tuple[Fingerprint, Fingerprint], current: tuple[Fingerprint, Fingerprint]) -> Sides:
    """Two sides, each the fingerprints of a sampler and of its source.

    >>> web, code = {"num_records": 3}, {"num_records": 4}
    >>> saved = (
    ...     {"kind": "MixedSampler", "components": {"web": web}},
    ...     {"sources": {"web": {}}, "names": ["web"]},
    ... )
    >>> ours = (
    ...     {"kind": "MixedSampler", "components": {"web": web, "code": code}},
    ...     {"sources": {"web": {}, "code": {}}, "names": ["web", "code"]},
    ... )
    >>> sides = sides_of(saved, ours)
    >>> sides.single, sides.source[0] == sides.source[1]
    (({}, {'code': {'num_records': 4}}), True)
    """
    first, second = _components(saved[0]), _components(current[0])
    if not first or not second:
        return Sides(({}, {}), (saved[0], current[0]), (saved[1], current[1]), ordered_alike=False)
    single = (
        {name: value for name, value in first.items() if name not in second},
        {name: value for name, value in second.items() if name not in first},
    )
    apart = single[0].keys() | single[1].keys()
    sources = saved[1], current[1]
    unordered = _without_order(saved[1], list(first)), _without_order(current[1], list(second))
    ordered_alike = None not in unordered
    if ordered_alike:
        sources = unordered
    return Sides(
        single,
        (_without(saved[0], "components", apart), _without(current[0], "components", apart)),
        (_without(sources[0], "sources", apart), _without(sources[1], "sources", apart)),
        ordered_alike,
    )


def _components(sampler: Fingerprint) -> Fingerprint:
    components = sampler.get("components")
    return components if isinstance(components, Mapping) else {}


def _without(value: Any, key: str, names: "set[str]") -> Any:
    """A fingerprint whose mapping at `key`, also of one inside it, lacks some names."""
    if not names or not isinstance(value, Mapping):
        return value
    kept = {name: _without(child, key, names) for name, child in value.items()}
    if isinstance(kept.get(key), Mapping):
        kept[key] = {name: child for name, child in kept[key].items() if name not in names}
    return kept


def _without_order(source: Any, names: list[str]) -> Any:
    """A source's fingerprint without the order of its parts where that is the components' own; None where none is."""
    if not isinstance(source, Mapping):
        return None
    if isinstance(source.get("sources"), Mapping):
        return (
            {name: value for name, value in source.items() if name != "names"}
            if source.get("names") == names
            else None
        )
    inside = {name: _without_order(child, names) for name, child in source.items()}
    found = {name: child for name, child in inside.items() if child is not None}
    return {**source, **found} if found else None
