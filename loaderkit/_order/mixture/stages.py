"""Mixture stages: which weights hold from which index on; a small value that states save.

stage    weights that hold from `first_index` on, until the next stage begins
written  a stage that the loader's arguments say; live: one that `reweigh` began. Of two that begin at one index the
         live one holds
taken    records of each component that were read before a stage begins; kept for one stage, as the others follow from
         it
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise, zip_longest
from operator import is_
from typing import Any, NamedTuple

from loaderkit._base.system.dataclasses import dataclass, field, replace
from loaderkit.errors import StateError

Weights = Mapping[str, Fraction]
_Said = tuple[int, Weights, bool]  # of a stage: its first index, the weights that change, whether it is live
_WEIGHT = re.compile(r"([0-9]+)(?:/(0*[1-9][0-9]*))?")
_MAX_INT = 2**63 - 1
_MAX_DIGITS = 2000  # of a weight in a state: a float has up to 1,075


class ChangedWeights(Mapping[str, Fraction]):
    """Weights that differ from others in a few names; the whole of them is put together when it is asked for.

    before: the others. changes: {name: weight}, 0 for a name that has none any more.

    >>> ChangedWeights({"a": Fraction(1), "b": Fraction(2)}, {"a": Fraction(0)}) == {"b": 2}
    True
    """

    __slots__ = ("_whole", "before", "changes")

    def __init__(self, before: Weights, changes: Weights) -> None:
        self.before, self.changes = before, changes
        self._whole: dict[str, Fraction] | None = None

    @classmethod
    def between(cls, before: Weights, after: Weights) -> "ChangedWeights":
        """Weights, as changes of others."""
        changes = {name: weight for name, weight in after.items() if before.get(name) != weight}
        changes |= {name: Fraction(0) for name in before if name not in after}
        return cls(before, changes)

    def __getitem__(self, name: str) -> Fraction:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __repr__(self) -> str:
        return repr(self._all())

    def _all(self) -> dict[str, Fraction]:
        if self._whole is None:
            layers, at = [self.changes], self.before
            while isinstance(at, ChangedWeights) and at._whole is None:
                layers.append(at.changes)
                at = at.before
            whole = dict(at._whole if isinstance(at, ChangedWeights) and at._whole is not None else at)
            for changes in reversed(layers):
                whole.update(changes)
            self._whole = {name: weight for name, weight in whole.items() if weight}
        return self._whole


class MixtureStage(NamedTuple):
    """The weights that hold from an index on.

    Attributes:
        first_index: the first index that they hold for.
        weights: {name: weight}, positive ones only.
        live: whether `reweigh` began it.
    """

    first_index: int
    weights: Weights
    live: bool = False


@dataclass(frozen=True, slots=True)
class MixtureStages:
    """The stages of a run in order; the first begins at index 0.

    Of each stage but the first the weights are kept as `ChangedWeights`: a state of a thousand stages with a thousand
    names has the few that change.

    Attributes:
        entries: the stages.
        known: the place of the stage that `taken` is of.
        taken: {name: records read before it}, without zeros.

    >>> stages = MixtureStages((MixtureStage(0, {"a": Fraction(1)}), MixtureStage(100, {"b": Fraction(1)})))
    >>> live = stages.reweighed(50, {"a": Fraction(1), "b": Fraction(1)})
    >>> [(stage.first_index, stage.live) for stage in live.entries], live.place_at(70)
    ([(0, False), (50, True), (100, False)], 1)
    """

    entries: tuple[MixtureStage, ...]
    known: int = 0
    taken: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if problem := _problem(self.entries):
            raise ValueError(f"weights{problem}")
        object.__setattr__(self, "entries", _linked(self.entries))

    def __reduce__(self) -> tuple[Any, ...]:
        # Not as they are: each stage refers to the one before it, deeper than pickle goes.
        said = [
            (stage.first_index, dict(changes), stage.live) for stage, changes in _with_changes(self.entries)
        ]
        return _of_changes, (said, self.known, dict(self.taken))

    def place_at(self, index: int) -> int:
        """The place of the stage that holds at an index, 0 or more."""
        return bisect_right(self.entries, index, key=lambda stage: stage.first_index) - 1

    def written_at(self, index: int) -> Weights:
        """The weights that the loader's arguments say for an index, whatever `reweigh` made of them."""
        return next(stage.weights for stage in self.entries[self.place_at(index) :: -1] if not stage.live)

    def reweighed(self, index: int, weights: Weights, *, live: bool = True) -> "MixtureStages":
        """These, and a stage from an index on, which lasts until the next written one.

        It takes the place of live stages that begin at the index or later. A written one that begins at the index
        stays, for comparison, unless `live` is False.

        >>> stages = MixtureStages((MixtureStage(0, {"a": Fraction(1)}),)).reweighed(10, {"b": Fraction(1)})
        >>> len(stages.reweighed(10, {"c": Fraction(1)}).entries)
        2
        """
        before = tuple(
            stage
            for stage in self.entries
            if stage.first_index < index or (stage.first_index == index and live and not stage.live)
        )
        after = tuple(stage for stage in self.entries if stage.first_index > index and not stage.live)
        entries = (*before, MixtureStage(index, weights, live), *after)
        # `taken` holds for any stage that begins where it is known, behind the same ones.
        begins = entries[self.known].first_index if self.known < len(entries) else None
        if (
            self.entries[: self.known] == entries[: self.known]
            and begins == self.entries[self.known].first_index
        ):
            return replace(self, entries=entries)
        return MixtureStages(entries)

    def then_written(self, index: int, other: "MixtureStages") -> "MixtureStages":
        """These up to an index and their live ones, and the written ones of others that begin later.

        >>> first = MixtureStages((MixtureStage(0, {"a": Fraction(1)}), MixtureStage(50, {"b": Fraction(1)})))
        >>> other = MixtureStages((MixtureStage(0, {"a": Fraction(1)}), MixtureStage(70, {"b": Fraction(1)})))
        >>> [stage.first_index for stage in first.then_written(20, other).entries]
        [0, 70]
        """
        later = [stage for stage in other.entries if stage.first_index > index and not stage.live]
        own = [stage for stage in self.entries if stage.first_index <= index or stage.live]
        entries = tuple(sorted([*own, *later], key=lambda stage: (stage.first_index, stage.live)))
        if self.entries[: self.known + 1] == entries[: self.known + 1]:
            return replace(self, entries=entries)
        return MixtureStages(entries)

    def first_difference(self, other: "MixtureStages") -> int | None:
        """The index from which on these and others differ, however their weights are scaled; None if they don't.

        >>> stages = MixtureStages((MixtureStage(0, {"a": Fraction(1)}),))
        >>> stages.first_difference(stages.reweighed(9, {"b": Fraction(1)})), stages.first_difference(stages)
        (9, None)
        """
        for sides in zip_longest(self.entries, other.entries):
            if not _same_stage(*sides):
                return min(stage.first_index for stage in sides if stage is not None)
        return None

    def to_json(self) -> dict[str, Any]:
        """These as JSON values; of each stage but the first the weights that change.

        >>> stages = MixtureStages((MixtureStage(0, {"a": Fraction(7, 10)}),)).reweighed(
        ...     9, {"b": Fraction(1)}
        ... )
        >>> stages.to_json()["stages"]
        [[0, 'written', {'a': '7/10'}], [9, 'live', {'a': '0', 'b': '1'}]]
        """
        said = [
            [
                stage.first_index,
                "live" if stage.live else "written",
                {name: str(changes[name]) for name in sorted(changes)},
            ]
            for stage, changes in _with_changes(self.entries)
        ]
        return {"stages": said, "known": self.known, "taken": dict(sorted(self.taken.items()))}

    @classmethod
    def from_json(cls, value: Any) -> "MixtureStages":
        """The stages that `to_json` gave. Raises StateError naming the malformed entry.

        >>> stages = MixtureStages((MixtureStage(0, {"a": Fraction(7, 10)}),)).reweighed(
        ...     9, {"b": Fraction(1)}
        ... )
        >>> MixtureStages.from_json(stages.to_json()) == stages
        True
        """
        if not isinstance(value, dict) or value.keys() != {"stages", "known", "taken"}:
            raise StateError(f"mixture: expected an object with stages, known and taken, got {value!r:.80}")
        if not isinstance(value["stages"], list) or not value["stages"]:
            raise StateError(f"mixture.stages: expected one or more, got {value['stages']!r:.80}")
        stages = [_read(f"mixture.stages[{place}]", said) for place, said in enumerate(value["stages"])]
        entries = _entries_of(stages)
        if problem := _problem(entries):
            raise StateError(f"mixture.stages{problem}")
        empty = next((place for place, stage in enumerate(_positive(stages)) if not stage), None)
        if empty is not None:
            raise StateError(f"mixture.stages[{empty}]: expected a positive weight, got none")
        known = _integer("mixture.known", value["known"])
        if known >= len(entries):
            raise StateError(f"mixture.known: expected a stage below {len(entries)}, got {known}")
        if not isinstance(value["taken"], dict):
            raise StateError(f"mixture.taken: expected an object, got {value['taken']!r:.80}")
        taken = {name: _integer(f"mixture.taken.{name:.40}", count) for name, count in value["taken"].items()}
        named = {name for said in value["stages"][:known] for name in said[2]}
        if unknown := sorted(taken.keys() - named):
            raise StateError(
                f"mixture.taken: expected names of stages before stage {known}, got {unknown[0]!r:.80}"
            )
        if sum(taken.values()) != entries[known].first_index:
            raise StateError(
                f"mixture.taken: expected {entries[known].first_index} records in all, the first index of stage "
                f"{known}, got {sum(taken.values())}"
            )
        return cls(entries, known, taken)


def same_shares(one: Weights, other: Weights) -> bool:
    """Whether weights mean the same shares, whatever they sum up to.

    >>> same_shares({"a": Fraction(7), "b": Fraction(3)}, {"a": Fraction(7, 10), "b": Fraction(3, 10)})
    True
    """
    if one == other or one.keys() != other.keys():
        return one == other
    ratio = sum(one.values()) / Fraction(sum(other.values()))
    return all(weight == other[name] * ratio for name, weight in one.items())


def _same_stage(one: MixtureStage | None, other: MixtureStage | None) -> bool:
    if one is other or one is None or other is None:
        return one is other
    begins = one.first_index == other.first_index and one.live == other.live
    return begins and same_shares(one.weights, other.weights)


def _problem(entries: Sequence[MixtureStage]) -> str:
    if not entries or entries[0].first_index != 0 or entries[0].live:
        first = entries[0].first_index if entries else "none"
        return f": expected stages that begin with one at index 0, got {first}; write [(0, {{...}}), ...]"
    for place, (before, after) in enumerate(pairwise(entries), start=1):
        least = before.first_index + (before.live or not after.live)
        if not least <= after.first_index <= _MAX_INT:
            return f"[{place}]: expected a first index from {least} on, got {after.first_index}"
    return ""


def _linked(entries: tuple[MixtureStage, ...]) -> tuple[MixtureStage, ...]:
    """The stages, each but the first with weights that change those before it; the same ones where they are so."""
    linked = [entries[0]]
    for stage in entries[1:]:
        before, weights = linked[-1].weights, stage.weights
        if not (isinstance(weights, ChangedWeights) and weights.before is before):
            stage = stage._replace(weights=ChangedWeights.between(before, weights))
        linked.append(stage)
    return entries if all(map(is_, linked, entries)) else tuple(linked)


def _with_changes(entries: Sequence[MixtureStage]) -> Iterator[tuple[MixtureStage, Weights]]:
    for stage in entries:
        yield stage, stage.weights.changes if isinstance(stage.weights, ChangedWeights) else stage.weights


def _of_changes(said: list[_Said], known: int, taken: dict[str, int]) -> MixtureStages:
    return MixtureStages(_entries_of(said), known, taken)


def _entries_of(said: Sequence[_Said]) -> tuple[MixtureStage, ...]:
    entries: list[MixtureStage] = []
    for first, changes, live in said:
        weights = ChangedWeights(entries[-1].weights, changes) if entries else changes
        entries.append(MixtureStage(first, weights, live))
    return tuple(entries)


def _positive(said: Sequence[_Said]) -> Iterator[set[str]]:
    """The names of positive weight in each stage; the same set, which goes on changing."""
    names: set[str] = set()
    for _, changes, _ in said:
        for name, weight in changes.items():
            (names.add if weight.numerator else names.discard)(name)
        yield names


def _read(name: str, said: Any) -> _Said:
    if not isinstance(said, list) or len(said) != 3 or said[1] not in ("written", "live"):
        raise StateError(f"{name}: expected [first_index, 'written' or 'live', weights], got {said!r:.80}")
    if not isinstance(said[2], dict):
        raise StateError(f"{name}: expected an object of weights, got {said[2]!r:.80}")
    changes = {key: _weight(name, key, weight) for key, weight in said[2].items()}
    return _integer(f"{name}[0]", said[0]), changes, said[1] == "live"


def _weight(stage: str, name: str, text: Any) -> Fraction:
    parts = _WEIGHT.fullmatch(text) if isinstance(text, str) and len(text) <= _MAX_DIGITS else None
    if parts is None:
        raise StateError(f"{stage}.{name:.40}: expected a weight such as '7/10', got {text!r:.80}")
    return Fraction(int(parts[1]), int(parts[2] or 1))


def _integer(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_INT:
        raise StateError(f"{name}: expected an integer from 0 to 2**63 - 1, got {value!r:.80}")
    return value
