"""The exclusions of a plan: its sampler without them, the lists of records, and the stages in which these hold."""

from collections.abc import Mapping
from itertools import zip_longest
from typing import Protocol

from loaderkit._base.system.dataclasses import dataclass, replace
from loaderkit._order.exclusions import ExclusionStage, Listed
from loaderkit.samplers import Sampler
from loaderkit.samplers.excluding import excluding

Lists = Mapping[str, tuple[str, ...]]  # {name: digests of lists, sorted}, without names that have none


class BlockLists(Protocol):
    """Lists of records by their digests."""

    def listed(self, name: str, digests: tuple[str, ...]) -> Listed:
        """The record keys of some lists of a component."""
        ...

    def expect(self, lists: Lists) -> None:
        """Some lists will be asked for, if they are there."""
        ...

    def present(self) -> Lists:
        """The lists that are there now."""
        ...


@dataclass(frozen=True, slots=True)
class Exclusions:
    """What a plan leaves out, and from where on.

    sampler: the order with nothing left out. lists: where the keys come from. stages: by ascending index.
    """

    sampler: Sampler
    lists: BlockLists
    stages: tuple[ExclusionStage, ...] = ()

    def applied(self) -> tuple[Sampler, "Exclusions"]:
        """The sampler with the stages, and these with all begins. Raises what `excluding` raises."""
        for stage in self.stages:
            self.lists.expect(stage.lists)
        sampler, stages = excluding(self.sampler, self.stages, self.lists.listed)
        return sampler, replace(self, stages=stages)

    def begun(self, index: int, lists: Lists) -> "Exclusions":
        """These with other lists from an index on; stages behind it go. The same if the lists hold there already."""
        kept = [stage for stage in self.stages if stage.first_index < index]
        before = kept[-1].lists if kept else {}
        if {**before} != {**lists}:
            kept.append(ExclusionStage(index, lists, {}))
        return replace(self, stages=tuple(kept))

    def over(self, sampler: Sampler, changed: int | None) -> "Exclusions":
        """These of another order, which is the same before an index: begins behind it are to be computed anew."""
        stages = [
            stage if changed is None or stage.first_index <= changed else stage._replace(begins={})
            for stage in self.stages
        ]
        return Exclusions(sampler, self.lists, tuple(stages))

    def first_difference(self, other: tuple[ExclusionStage, ...]) -> int | None:
        """The first index at which other stages leave out other records; None if there is none."""
        for pair in zip_longest(self.stages, other):
            if pair[0] != pair[1]:
                return min(stage.first_index for stage in pair if stage is not None)
        return None
