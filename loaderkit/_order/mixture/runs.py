"""Runs: which component a turn of a mixture reads, and which of the component's records.

turn     an index of a mixture; where it has lanes, a place in one lane
run      turns with one order: a stage, or with when_exhausted="drop" a part of a stage, up to the turn at which a
         component's last record was read
ordinal  of a record in the stream of its component, counted over all runs
absent   a name that stages have and that is no component any more; it takes part in the arithmetic

Orders are made when a turn of their run is asked for. The counts before a run follow from those before a known stage,
by addition or subtraction of the runs between.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from loaderkit._base.system.dataclasses import dataclass, field, replace
from loaderkit._order.mixing import fold
from loaderkit._order.permutation import Int64Array

from .order import MixtureOrder, order_of, pattern_order, shuffled
from .stages import MixtureStages

IntpArray = npt.NDArray[np.intp]

ABSENT = -1  # the number of a name that is no component
NO_TURN = 1 << 62  # no turn is as large
# Of a run's table after a drop, which makes all tables anew: a sixteenth. Of 1,000 components with lognormal weights a
# drop takes 25 ms so; with the groups' tables as large as in a whole order it took six times as long.
_DROPPED_SLOTS = 4096
_MANY_PLACES = 1 << 50  # so many show the shares of an order closely enough for an estimate
_KEPT = 16  # runs whose orders are kept; a whole table is about 1 MB


@dataclass(frozen=True, slots=True, eq=False)
class MixtureRun:
    """One run.

    first: its first turn. order: of the places from there on. components: (len(order.names),) the number of each name,
    ABSENT for one that isn't a component's. taken: (len(order.names),) records of each that were read before. before:
    the same of all names, without zeros.
    """

    first: int
    order: MixtureOrder
    components: IntpArray
    taken: Int64Array
    before: Mapping[str, int]

    @classmethod
    def of(
        cls, first: int, order: MixtureOrder, numbers: Mapping[str, int], before: Mapping[str, int]
    ) -> "MixtureRun":
        components = np.array([numbers.get(name, ABSENT) for name in order.names], np.intp)
        taken = np.array([before.get(name, 0) for name in order.names], np.int64)
        return cls(first, order, components, taken, before)

    def __call__(self, turns: Int64Array) -> tuple[IntpArray, Int64Array]:
        """The component's number and the ordinal of each turn, also of one behind the run's end: (n,) each."""
        places, ordinals = self.order.of(turns - self.first if self.first else turns)
        places = places.astype(np.intp, copy=False)
        if self.first:  # else nothing was read before
            ordinals += self.taken.take(places)
        return self.components.take(places), ordinals

    def taken_at(self, turn: int) -> dict[str, int]:
        """{name: records read before a turn of this run}, without zeros."""
        counts = self.order.counts(turn - self.first)
        taken = dict(self.before)
        for place in np.flatnonzero(counts).tolist():
            taken[self.order.names[place]] = int(self.taken[place] + counts[place])
        return taken

    def turns_of(self, name: str, ordinals: Int64Array) -> Int64Array:
        """The turns that read records of a component if the run has no end, (n,); NO_TURN for one that is as large.

        ordinals: (n,) int64, none of a record that was read before the run.
        """
        place = self.order.names.index(name)
        places = self.order.places_of(place, ordinals - self.taken[place])
        return np.minimum(places, NO_TURN - self.first) + self.first

    def turn_reaching(self, lengths: Mapping[str, int], more: int, unread: Mapping[str, int]) -> int:
        """The first turn before which a component was read up to its length and `more`, NO_TURN if none is below it.

        Components without a length don't count; no length and `more` is reached before the run. unread: {name: a turn
        before which that isn't so}.
        """
        names = [place for place, name in enumerate(self.order.names) if name in lengths]
        limits = np.array([lengths[self.order.names[place]] for place in names], np.int64) + more
        limits -= self.taken[names]
        if not names:
            return NO_TURN

        def read(at: int) -> int:
            """The places up to the last record of the component that is number `at` of those with a length."""
            last = limits[at : at + 1] - 1
            end = int(self.order.places_of(names[at], last)[0]) + 1 if last[0] >= 0 else 0
            return max(end, unread.get(self.order.names[names[at]], 0) - self.first)

        # Of the one that the shares say first, unless others are found to be read before it.
        shares = self.order.counts(_MANY_PLACES)[names].clip(min=1) / _MANY_PLACES
        end = min(NO_TURN - self.first, read(int((limits / shares).argmin())))
        sooner = np.flatnonzero(self.order.counts(end - 1)[names] >= limits)
        return self.first + min([end, *map(read, sooner.tolist())])


@dataclass(frozen=True)
class RunSettings:
    """What the runs of a mixture follow from.

    names: of the components. lengths: {name: records} of the components that end. stages: the weights. when_exhausted:
    "stop" or "drop", where components end. shuffle_key: of order="shuffled", else None. pattern: names, instead of the
    weights of the only stage. lanes: how many the mixture has; stages begin at multiples of it. unread: {name: a turn
    before which a component that ends isn't left out as read}, where its length was another one then.
    """

    names: Sequence[str]
    lengths: Mapping[str, int]
    stages: MixtureStages
    when_exhausted: Literal["stop", "drop"] | None = None
    shuffle_key: int | None = None
    pattern: Sequence[str] | None = None
    lanes: int = 1
    unread: Mapping[str, int] = field(default_factory=dict)


def runs_of(settings: RunSettings) -> "MixtureRuns":
    """The runs of a mixture.

    Raises ValueError where it ends before a stage begins, and where names that are no components take part in "drop".

    >>> from fractions import Fraction
    >>> from loaderkit._order.mixture.stages import MixtureStage
    >>> stages = MixtureStages((MixtureStage(0, {"a": Fraction(2), "b": Fraction(1)}),))
    >>> runs = runs_of(RunSettings(["a", "b"], {"a": 3, "b": 9}, stages, "drop"))
    >>> [values.tolist() for values in runs(np.arange(12))]
    [[0, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1], [0, 0, 1, 2, 1, 2, 3, 4, 5, 6, 7, 8]]
    """
    return _DroppingRuns(settings) if settings.when_exhausted == "drop" else _StageRuns(settings)


class MixtureRuns:
    """Runs that follow each other; a subclass says which they are.

    length: the number of turns, None without an end. firsts: the first turn of each stage.
    """

    length: int | None

    def __init__(self, settings: RunSettings) -> None:
        self.settings = settings
        self.firsts = [stage.first_index // settings.lanes for stage in settings.stages.entries]
        self._numbers = {name: number for number, name in enumerate(settings.names)}
        self.length = self._find_length()
        if self.length is not None and self.length <= self.firsts[-1]:
            first = self.firsts[bisect_left(self.firsts, self.length)]
            raise _ends_too_early(first, self.length)

    def __call__(self, turns: Int64Array) -> tuple[IntpArray, Int64Array]:
        """The component's number, ABSENT for a name that is none, and the ordinal of each turn below the length."""
        if not turns.size:
            return turns.astype(np.intp), turns
        first = self.at(int(turns.min()))
        last = self.at(int(turns.max()))
        if first is last:
            return first(turns)
        components, ordinals = np.empty(turns.shape, np.intp), np.empty(turns.shape, np.int64)
        for run, here in self.split(turns):
            components[here], ordinals[here] = run(turns[here])
        return components, ordinals

    def restaged(self, stages: MixtureStages) -> "MixtureRuns":
        """The runs of the same mixture with other stages."""
        return runs_of(replace(self.settings, stages=stages))

    def with_lengths(self, lengths: Mapping[str, int], unread: Mapping[str, int]) -> "MixtureRuns":
        """The runs of the same mixture with components of other lengths."""
        return runs_of(replace(self.settings, lengths=lengths, unread=unread))

    def split(self, turns: Int64Array) -> Iterator[tuple[MixtureRun, IntpArray]]:
        """The runs that some turns are in, and which of the turns are in each."""
        order = np.argsort(turns, kind="stable")
        ascending = turns[order]
        begin = 0
        while begin < turns.size:
            run, end = self._with_end(int(ascending[begin]))
            until = turns.size if end is None else int(np.searchsorted(ascending, end))
            yield run, order[begin:until]
            begin = until

    def between(self, first: int, stop: int) -> Iterator[tuple[MixtureRun, int, int]]:
        """The runs of the turns [first, stop), each with the first and the end of those of them that are in it."""
        while first < stop:
            run, end = self._with_end(first)
            until = stop if end is None else min(end, stop)
            yield run, first, until
            first = until

    def at(self, turn: int) -> MixtureRun:
        """The run that a turn is in; the last one for a turn behind the end."""
        return self._with_end(turn)[0]

    def before(self, place: int) -> Mapping[str, int]:
        """{name: records read before a stage}, without zeros, by the stage's place."""
        first = self.firsts[place]
        return self.at(first - 1).taken_at(first) if first else {}

    def _with_end(self, turn: int) -> tuple[MixtureRun, int | None]:
        """The run that a turn is in, and the turn behind it; None where no run follows."""
        raise NotImplementedError

    def _find_length(self) -> int | None:
        raise NotImplementedError

    def _run(self, first: int, order: MixtureOrder, before: Mapping[str, int]) -> MixtureRun:
        key = self.settings.shuffle_key
        ordered = order if key is None else shuffled(order, fold(key, first))
        return MixtureRun.of(first, ordered, self._numbers, before)

    def __reduce__(self) -> tuple[Any, ...]:
        return runs_of, (self.settings,)


class _StageRuns(MixtureRuns):
    """A run for each stage; the mixture ends where a component would be read past its end."""

    def __init__(self, settings: RunSettings) -> None:
        known = settings.stages.known
        # {place of a stage: {name: records read before it}}, of those that were asked for
        self._before = {
            0: {},
            known: {n: count // settings.lanes for n, count in settings.stages.taken.items()},
        }
        self._asked = sorted(self._before)  # to find the nearest fast: a stage may begin at each step
        self._stage = lru_cache(_KEPT)(self._stage_run)
        super().__init__(settings)

    def _with_end(self, turn: int) -> tuple[MixtureRun, int | None]:
        place = bisect_right(self.firsts, turn) - 1
        return self._stage(place), self.firsts[place + 1] if place + 1 < len(self.firsts) else None

    def _stage_run(self, place: int) -> MixtureRun:
        return self._run(self.firsts[place], self._order(place), self.before(place))

    def _order(self, place: int) -> MixtureOrder:
        if self.settings.pattern is not None:
            return pattern_order(self.settings.pattern)
        return order_of(self.settings.stages.entries[place].weights)

    def before(self, place: int) -> Mapping[str, int]:
        # Counted from the nearest stage of which they are known.
        asked = self._asked
        below = max(0, bisect_right(asked, place) - 1)
        near = min(asked[below : below + 2], key=lambda known: abs(known - place))
        while near != place:
            step = 1 if near < place else -1
            stage = min(near, near + step)
            length = self.firsts[stage + 1] - self.firsts[stage]
            counts = self._run(self.firsts[stage], self._order(stage), {}).taken_at(
                self.firsts[stage] + length
            )
            known = self._before[near]
            near += step
            taken = {
                name: known.get(name, 0) + step * counts.get(name, 0) for name in known.keys() | counts.keys()
            }
            self._before[near] = {name: count for name, count in taken.items() if count}
            insort(asked, near)
        return self._before[place]

    def _find_length(self) -> int | None:
        lengths = self.settings.lengths
        place = self.settings.stages.known
        if any(self._before[place].get(name, 0) > length for name, length in lengths.items()):
            place = 0  # it ended before the stage
        while lengths and place < len(self.firsts):
            # It ends before the turn that reads one record more than there are.
            end = self._stage(place).turn_reaching(lengths, 1, self.settings.unread)
            end -= end < NO_TURN
            place += 1
            if end < (self.firsts[place] if place < len(self.firsts) else NO_TURN):
                return end
        return None


class _DroppingRuns(MixtureRuns):
    """A stage goes on without a component from the turn on that follows its last record; computed from turn 0 on."""

    def __init__(self, settings: RunSettings, found: tuple["_Part", ...] = ()) -> None:
        names = set().union(*(stage.weights for stage in settings.stages.entries)) - {*settings.names}
        if names:
            raise ValueError(
                f"components: expected all names of the stages, as when_exhausted='drop' needs their lengths, got no "
                f"{min(names)!r}; give it again, with weight 0 where it isn't to be read"
            )
        self._found = found
        self._run_of = lru_cache(_KEPT)(self._made)
        super().__init__(settings)

    def restaged(self, stages: MixtureStages) -> MixtureRuns:
        settings = replace(self.settings, stages=stages)
        changed = self.settings.stages.first_difference(stages)
        if changed is None:
            return _DroppingRuns(settings, self._found)
        begin = changed // settings.lanes
        same = (part for part in self._found if part.end is not None and part.end < begin)
        return _DroppingRuns(settings, tuple(same))

    def _with_end(self, turn: int) -> tuple[MixtureRun, int | None]:
        found = self._found
        while not found or (found[-1].end is not None and found[-1].end <= turn):
            # Of two threads that come here each finds the same runs.
            self._found = found = (*found, self._next(found))
        part = found[bisect_right(found, turn, key=lambda part: part.first) - 1]
        return self._run_of(part), part.end

    def _next(self, found: tuple["_Part", ...]) -> "_Part":
        first, before, pattern = 0, {}, self.settings.pattern
        if found:
            last = found[-1]
            assert last.end is not None
            first, before, pattern = last.end, self._run_of(last).taken_at(last.end), last.pattern
            if pattern is not None:  # it goes on where it was
                place = (first - last.first) % len(pattern)
                pattern = (*pattern[place:], *pattern[:place])
        stage = bisect_right(self.firsts, first) - 1
        following = self.firsts[stage + 1] if stage + 1 < len(self.firsts) else None
        present = self._present(stage, first, before)
        if not present:
            raise _ends_too_early(self.firsts[stage] if following is None else following, first)
        if pattern is not None:
            pattern = tuple(name for name in pattern if name in present)
        part = _Part(first, None, before, pattern)
        run = self._made(part)
        end = run.turn_reaching(self.settings.lengths, 0, self.settings.unread)
        if following is not None and following <= end:
            end = following
        elif end == NO_TURN or (following is None and self._ends_at(run, end)):
            return part
        return replace(part, end=end)

    def _made(self, part: "_Part") -> MixtureRun:
        if part.pattern is not None:
            order = pattern_order(part.pattern)
        else:
            stage = bisect_right(self.firsts, part.first) - 1
            present = self._present(stage, part.first, part.before)
            whole = len(present) == len(self.settings.stages.entries[stage].weights)
            order = order_of(present) if whole else order_of(present, most_slots=_DROPPED_SLOTS)
        return self._run(part.first, order, part.before)

    def _present(self, stage: int, first: int, before: Mapping[str, int]) -> dict[str, Fraction]:
        """The weights of a stage's components that have records left at a turn."""
        weights, lengths = self.settings.stages.entries[stage].weights, self.settings.lengths
        return {
            name: weight
            for name, weight in weights.items()
            if before.get(name, 0) != lengths.get(name) or first < self.settings.unread.get(name, 0)
        }

    def _ends_at(self, run: MixtureRun, end: int) -> bool:
        """Whether all components of a run have been read before a turn."""
        taken, lengths = run.taken_at(end), self.settings.lengths
        return all(taken.get(name, 0) == lengths.get(name) for name in run.order.names)

    def _find_length(self) -> int | None:
        last, lengths = self.firsts[-1], self.settings.lengths
        names = self.settings.stages.entries[-1].weights
        before = self.before(len(self.firsts) - 1)  # an error where the mixture ends before that
        if any(name not in lengths for name in names):
            return None
        return last + sum(lengths[name] - before.get(name, 0) for name in names)


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """What a run of a mixture that drops components is made of: a thousand of these take less than their orders.

    first: its first turn. end: the turn behind it, None where no run follows. before: {name: records read before}.
    pattern: what is left of a pattern, from the run's first turn on.
    """

    first: int
    end: int | None
    before: Mapping[str, int]
    pattern: Sequence[str] | None


def _ends_too_early(first: int, length: int) -> ValueError:
    return ValueError(
        f"weights: expected a mixture that lasts until its stage at index {first}, got one that ends at index {length};"
        " begin that stage earlier, or leave it out"
    )
