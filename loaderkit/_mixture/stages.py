"""Mixture stages: which weights hold from which index on; a small value that states save.

stage    weights that hold from `first_index` on, until the next stage begins
written  a stage that the loader's arguments say; live: one that `reweigh` began. Of two that begin at one index the
         live one holds
taken    records of each component that were read before a stage begins; kept for one stage, as the others follow from
         it
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

from loaderkit.errors import StateError

Weights = Mapping[str, Fraction]
_MAX_INT = 2**63 - 1
_MAX_DIGITS = 2000  # of a weight in a state: a float has up to 1,075


class MixtureStage(NamedTuple):
    """The weights that hold from `first_index` on: {name: weight}, positive ones only."""

    first_index: int
    weights: Weights
    live: bool = False


@dataclass(frozen=True, slots=True)
class MixtureStages:
    """The stages of a run in order; the first begins at index 0.

    known: the place of the stage that `taken` is of; taken: {name: records read before it}, without zeros.

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

    def to_json(self) -> dict[str, Any]:
        """These as JSON values; of each stage but the first the weights that change.

        >>> stages = MixtureStages((MixtureStage(0, {"a": Fraction(7, 10)}),)).reweighed(
        ...     9, {"b": Fraction(1)}
        ... )
        >>> stages.to_json()["stages"]
        [[0, 'written', {'a': '7/10'}], [9, 'live', {'a': '0', 'b': '1'}]]
        """
        said: list[list[Any]] = []
        last: dict[str, str] = {}
        for stage in self.entries:
            names = sorted(last.keys() | stage.weights.keys())
            now = {name: str(stage.weights.get(name, 0)) for name in names}
            changes = {name: now[name] for name in names if now[name] != last.get(name, "0")}
            said.append([stage.first_index, "live" if stage.live else "written", changes])
            last = now
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
        entries: list[MixtureStage] = []
        for place, said in enumerate(value["stages"]):
            entries.append(_read(f"mixture.stages[{place}]", said, entries[-1].weights if entries else {}))
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
        try:
            return cls(tuple(entries), known, taken)
        except ValueError as error:
            raise StateError(f"mixture: {error}") from None


def same_shares(one: Weights, other: Weights) -> bool:
    """Whether weights mean the same shares, whatever they sum up to.

    >>> same_shares({"a": Fraction(7), "b": Fraction(3)}, {"a": Fraction(7, 10), "b": Fraction(3, 10)})
    True
    """
    if one == other or one.keys() != other.keys():
        return one == other
    ratio = sum(one.values()) / Fraction(sum(other.values()))
    return all(weight == other[name] * ratio for name, weight in one.items())


def _problem(entries: Sequence[MixtureStage]) -> str:
    if not entries or entries[0].first_index != 0 or entries[0].live:
        return ": expected stages that begin with one at index 0"
    for place, (before, after) in enumerate(pairwise(entries), start=1):
        least = before.first_index + (before.live or not after.live)
        if not least <= after.first_index <= _MAX_INT:
            return f"[{place}]: expected a first index from {least} on, got {after.first_index}"
    return ""


def _read(name: str, said: Any, last: Weights) -> MixtureStage:
    if not isinstance(said, list) or len(said) != 3 or said[1] not in ("written", "live"):
        raise StateError(f"{name}: expected [first_index, 'written' or 'live', weights], got {said!r:.80}")
    if not isinstance(said[2], dict):
        raise StateError(f"{name}: expected an object of weights, got {said[2]!r:.80}")
    weights = dict(last)  # copied at once: of a thousand stages with a thousand names few change
    for key, text in said[2].items():
        weights[key] = _weight(f"{name}.{key:.40}", text)
        if not weights[key]:
            del weights[key]
    if not weights:
        raise StateError(f"{name}: expected a positive weight, got none")
    return MixtureStage(_integer(f"{name}[0]", said[0]), weights, said[1] == "live")


def _weight(name: str, text: Any) -> Fraction:
    parts = text.split("/") if isinstance(text, str) and len(text) <= _MAX_DIGITS else []
    if not 1 <= len(parts) <= 2 or not all(part.isascii() and part.isdigit() for part in parts):
        raise StateError(f"{name}: expected a weight such as '7/10', got {text!r:.80}")
    if len(parts) == 2 and not int(parts[1]):
        raise StateError(f"{name}: expected a weight, got {text!r:.80}")
    return Fraction(*map(int, parts))


def _integer(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_INT:
        raise StateError(f"{name}: expected an integer from 0 to 2**63 - 1, got {value!r:.80}")
    return value
