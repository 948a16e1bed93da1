"""A sampler that mixes others by weight.

component  one of the samplers that are mixed, known by its name
index      of the mixture's stream
local      index of a component's own stream
stage      weights that hold from an index on
lane       one of `lanes` equal parts of every global batch, with a mixture of its own
turn       place of an index in its lane
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from reprlib import repr as _short
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from loaderkit._base.numbers import at_least
from loaderkit._order.groups import groups
from loaderkit._order.mixing import fold
from loaderkit._order.mixture.lanes import Lanes
from loaderkit._order.mixture.runs import ABSENT, NO_TURN, MixtureRun, MixtureRuns, RunSettings, runs_of
from loaderkit._order.mixture.shares import Weight, fractions_of, integer_weights
from loaderkit._order.mixture.stages import MixtureStages
from loaderkit._order.permutation import Int64Array
from loaderkit._order.sharding import Sharding, check_sharding

from . import mixture_arguments as arguments
from .bulk import BulkSampler
from .component_keys import ComponentKeys
from .mixture_arguments import StagedWeights
from .optional import epochs_of, indices_of, within
from .protocol import (
    ENDLESS,
    Sampler,
    checked_seed,
    fingerprint_of,
    min_records_of,
    num_records_of,
    random_parts_of,
)

IntpArray = npt.NDArray[np.intp]

_SHUFFLE = 1 << 63  # no epoch is as large, so a component of the same seed has other keys
_PIECE = 1 << 14  # indices planned at once; the arrays of more would leave the cache


class Taken(NamedTuple):
    """What was read of a component: its records, and its epochs where its sampler says how long one is."""

    records: int
    epochs: float | None


@dataclass(frozen=True, repr=False)
class MixedSampler(BulkSampler):
    """Components by weight: every component is read in its own order, and as often as its weight says at any time.

    Args:
        components: {name: its sampler}, one or more. The number of a component is its place here.
        weights: {name: weight} as int, Fraction or float, 0 for "not now"; or stages, [(first_index, {name: weight}),
            ...]. Equal ones, if not given.
        pattern: names or numbers of components in the order in which they take turns, again and again; instead of
            weights.
        order: "even" spreads a component as evenly as can be; "shuffled" permutes the indices of each block of 2,048.
        when_exhausted: what happens where a component with an end has been read: "stop" ends the mixture right before
            the index that would read past it, "drop" goes on with the others until all that have a weight in the last
            stage are read; one whose weight is 0 there stays unread from there on. Needed where a component has an
            end; without effect where none has.
        seed: int in [0, 2**64), for order="shuffled" and for random operations. The components' shuffles have their
            own seeds.
        offsets: {name: what is added to a component's keys}; one component behind the other by `num_records`, as in a
            ConcatDataSource, if not given.
        lanes: for remote sources: into how many parts each global batch is cut, each a mixture of its own, as many as
            there may be hosts; components are ChunkSamplers with lanes=lanes and batch=lanes, without end.
        batch: how many indices a step of the loader takes over all hosts, a multiple of lanes; needed for more than
            one lane.
        shard_options: used by a loader that gets none of its own; it changes no key.

    `weights` stays as it was given, in a copy; `stages` says which hold, also those of `reweighed` and of a state.

    After any prefix each component was read as its locals 0 to c-1, and for order="even" c is closer than 1 to
    weight * index; `loaderkit/_order/mixture/order.py` says the bound for more than 65,536 parts of weight. The shares
    that hold exactly are those of the repr.

    A value of the wrong type is a TypeError; a value out of range, a component without records, an end without
    `when_exhausted`, and a stage that begins behind the mixture's end are ValueErrors.

    >>> from loaderkit.samplers import IndexSampler
    >>> web, code = IndexSampler(700, shuffle=True, seed=0), IndexSampler(300, shuffle=True, seed=1)
    >>> sampler = MixedSampler({"web": web, "code": code}, weights={"web": 0.7, "code": 0.3})
    >>> [key < 700 for key in sampler.record_keys(range(10)).tolist()].count(True)
    7
    >>> sampler.taken(2000)
    {'web': Taken(records=1400, epochs=2.0), 'code': Taken(records=600, epochs=2.0)}
    """

    components: Mapping[str, Sampler]
    weights: StagedWeights | None = field(default=None, kw_only=True, compare=False)
    pattern: Sequence[str | int] | None = field(default=None, kw_only=True)
    order: Literal["even", "shuffled"] = field(default="even", kw_only=True)
    when_exhausted: Literal["stop", "drop"] | None = field(default=None, kw_only=True)
    seed: int | None = field(default=None, kw_only=True)
    offsets: Mapping[str, int] = field(default=cast(Any, None), kw_only=True)
    lanes: int = field(default=1, kw_only=True)
    batch: int | None = field(default=None, kw_only=True)
    shard_options: Sharding | None = field(default=None, kw_only=True)
    stages: MixtureStages = field(init=False)

    names: tuple[str, ...] = field(init=False, compare=False)
    placed: bool = field(init=False, compare=False)  # whether offsets are others than a ConcatDataSource's
    _lengths: Mapping[str, int] = field(init=False, compare=False)  # of components that end
    _keys: ComponentKeys = field(init=False, compare=False)
    _pattern: tuple[str, ...] | None = field(init=False, compare=False)
    _lanes: Lanes = field(init=False, compare=False)
    _runs: MixtureRuns = field(init=False, compare=False)

    def __post_init__(self) -> None:
        components = arguments.checked_components(self.components)
        self._set(components=components, names=tuple(components))
        if self.order not in ("even", "shuffled"):
            raise ValueError(f"order: expected 'even' or 'shuffled', got {_short(self.order)}")
        self._set(seed=checked_seed(self.seed))
        check_sharding(self.shard_options)
        lengths = arguments.checked_lengths(components, self.when_exhausted)
        offsets, placed = arguments.checked_offsets(self.offsets, components)
        self._set(offsets=offsets, placed=placed)
        lanes, batch = arguments.checked_lanes(self.lanes, self.batch, components, lengths)
        self._set(lanes=lanes, batch=batch, _lengths=lengths)
        pattern = arguments.checked_pattern(self.pattern, self.names)
        if pattern is not None and (self.weights is not None or self.order != "even"):
            raise ValueError("pattern: expected no weights and order='even' beside it; leave them out")
        self._set(pattern=pattern, _pattern=pattern)
        self._set(_lanes=Lanes(lanes, batch or 1), _keys=ComponentKeys(components, self.offsets))
        stages = arguments.checked_stages(self.weights, pattern, self.names)
        self._check_stages(stages)
        settings = RunSettings(
            names=self.names,
            lengths=lengths,
            stages=stages,
            when_exhausted=self.when_exhausted,
            shuffle_key=fold(self.seed or 0, _SHUFFLE) if self.order == "shuffled" else None,
            pattern=pattern,
            lanes=lanes,
        )
        self._set(stages=stages, _runs=runs_of(settings))
        if self.weights is not None:
            self._set(weights=arguments.copied_weights(self.weights))

    @property
    def min_records(self) -> int:
        """The least length of a source that has the records of all components."""
        return max(self.offsets[name] + min_records_of(sampler) for name, sampler in self.components.items())

    @property
    def random_parts(self) -> list[range]:
        """The record keys that are read in a random order: those of such components.

        >>> from loaderkit.samplers import IndexSampler
        >>> MixedSampler({"a": IndexSampler(3), "b": IndexSampler(4, shuffle=True, seed=0)}).random_parts
        [range(3, 7)]
        """
        placed = ((self.offsets[name], random_parts_of(each)) for name, each in self.components.items())
        return [range(part.start + at, part.stop + at) for at, parts in placed for part in parts]

    def record_keys(self, indices: npt.ArrayLike) -> Int64Array:
        """The record keys of many indices at once, (n,) int64.

        Args:
            indices: (n,) ints; errors as IndexSampler's, and LookupError for an index of a name that is no component
                any more.

        >>> from loaderkit.samplers import IndexSampler
        >>> sampler = MixedSampler({"a": IndexSampler(5), "b": IndexSampler(9)}, weights={"a": 1, "b": 2})
        >>> sampler.record_keys([0, 1, 2, 3, 4, 5]).tolist()
        [5, 0, 6, 7, 1, 8]
        """
        wanted = self._checked(indices)
        if 0 < wanted.size <= _PIECE:
            return self._planned(wanted)
        keys = np.empty(wanted.shape, np.int64)
        for low in range(0, wanted.size, _PIECE):
            keys[low : low + _PIECE] = self._planned(wanted[low : low + _PIECE])
        return keys

    def component_numbers(self, indices: npt.ArrayLike) -> Int64Array:
        """The number of the component that each index reads, (n,) int64; -1 for one that is no component any more.

        Args:
            indices: (n,) ints; errors as IndexSampler's.

        >>> from loaderkit.samplers import IndexSampler
        >>> sampler = MixedSampler({"a": IndexSampler(5), "b": IndexSampler(9)}, weights={"a": 1, "b": 2})
        >>> sampler.component_numbers([0, 1, 2])
        array([1, 0, 1])
        """
        numbers, _ = self._runs(self._lanes.turns_of(self._checked(indices))[0])
        return numbers.astype(np.int64, copy=False)

    def taken(self, n: int) -> dict[str, Taken]:
        """What the indices before n read of each component, by name.

        Args:
            n: 0 to the length.

        A name that is no component any more stands here if it was read.

        >>> from loaderkit.samplers import IndexSampler
        >>> MixedSampler({"a": IndexSampler(5), "b": IndexSampler(9)}, weights={"a": 1, "b": 2}).taken(30)
        {'a': Taken(records=10, epochs=2.0), 'b': Taken(records=20, epochs=2.2222222222222223)}
        """
        records = dict.fromkeys(self.names, 0) | self._counts(self._checked_end("n", n))
        return {name: Taken(count, self._epochs(name, count)) for name, count in records.items()}

    def with_stages(self, stages: MixtureStages) -> MixedSampler:
        """This sampler with the stages of a state.

        Args:
            stages: `stages` of a sampler. Their names need not be components'; only an index that reads one raises.
                ValueError where the mixture would end before a stage begins, where a stage doesn't begin at a multiple
                of `batch` with several lanes, and for other stages beside a pattern.
        """
        self._check_stages(stages)
        return self._copied(stages=stages, _runs=self._runs.restaged(stages))

    def reweighed(self, index: int, weights: Mapping[str, Weight], *, live: bool = True) -> MixedSampler:
        """This sampler with other weights from an index on, until the next written stage.

        Args:
            index: 0 to the length; with several lanes it is rounded up to a multiple of `batch`.
            weights: {name: weight}, of components.
            live: whether it is a stage that `reweigh` began, not one that the loader's arguments say.

        >>> from loaderkit.samplers import IndexSampler
        >>> sampler = MixedSampler({"a": IndexSampler(50), "b": IndexSampler(50)}, weights={"a": 1, "b": 1})
        >>> sampler.reweighed(20, {"a": 1}).taken(30)
        {'a': Taken(records=20, epochs=0.4), 'b': Taken(records=10, epochs=0.2)}
        """
        begin = self._checked_end("index", index)
        if self.lanes > 1:
            batch = cast(int, self.batch)
            begin = -(-begin // batch) * batch
        fractions = fractions_of(weights, self.names)
        if self.pattern is not None:
            raise ValueError("weights: expected none beside a pattern; give weights instead of the pattern")
        return self.with_stages(self.stages_at(max(0, begin - 1)).reweighed(begin, fractions, live=live))

    def with_components(self, components: Mapping[str, Sampler], unread: Mapping[str, int]) -> MixedSampler:
        """This sampler with others for some components, which read the same records before the indices `unread`.

        Args:
            components: {name: its sampler}, of those that change.
            unread: {name: an index at which the component, if it has an end, had records that weren't read yet}.
        """
        made = {name: components.get(name, sampler) for name, sampler in self.components.items()}
        lengths = {name: len(cast(Any, made[name])) for name in self._lengths}
        runs = self._runs.with_lengths(lengths, unread)
        return self._copied(
            components=made, _lengths=lengths, _keys=ComponentKeys(made, self.offsets), _runs=runs
        )

    def stages_at(self, index: int) -> MixtureStages:
        """The stages with the counts before the one that holds at an index: what a state saves.

        Args:
            index: 0 to the length.
        """
        place = self.stages.place_at(self._checked_end("index", index))
        if place == self.stages.known:
            return self.stages
        taken = {name: count * self.lanes for name, count in self._runs.before(place).items()}
        return MixtureStages(self.stages.entries, place, taken)

    def instead(self, index: int, tried: int, count: int) -> Int64Array:
        """Indices that may be read instead of a lost one, (n,) int64, n at most `count`: its component's next records.

        They go on in the order of the lost index's stage as if it had no end, so `keys_instead` says their keys. Where
        the component ends they go on with its first record; all differ from the lost one.

        Args:
            index: the lost one.
            tried: how many to leave out.
            count: how many to give at most.

        >>> from loaderkit.samplers import IndexSampler
        >>> sampler = MixedSampler({"a": IndexSampler(5), "b": IndexSampler(9)}, weights={"a": 1, "b": 2})
        >>> sampler.instead(0, 0, 3), sampler.keys_instead(np.array([0, 0]), sampler.instead(0, 0, 2))
        (array([2, 3, 5]), array([6, 7]))
        """
        lost = self._checked([index])
        turns, lanes = self._lanes.turns_of(lost)
        run = self._runs.at(int(turns[0]))
        components, ordinals = run(turns)
        self._check_present(components, turns, run)
        number, ordinal = int(components[0]), int(ordinals[0])
        length = self._lengths.get(self.names[number])
        if length is not None:
            count = min(count, length - 1 - tried)
        if count <= 0:
            return np.empty(0, np.int64)
        found = run.turns_of(self.names[number], np.arange(ordinal + 1 + tried, ordinal + 1 + tried + count))
        found = found[found < NO_TURN // self.lanes]
        return self._lanes.indices_of(found, lanes)

    def keys_instead(self, lost: npt.ArrayLike, instead: npt.ArrayLike) -> Int64Array:
        """The record keys of indices that `instead` gave for lost ones, (n,) int64.

        Args:
            lost: (n,) ints.
            instead: (n,) ints; each is resolved by the stage of its lost index, whatever stage holds at it.
        """
        of_lost, lanes = self._lanes.turns_of(self._checked(lost))
        others = np.asarray(instead, np.int64)
        turns, _ = self._lanes.turns_of(others)
        components, ordinals = np.empty(turns.shape, np.intp), np.empty(turns.shape, np.int64)
        lost_ordinals = np.empty(turns.shape, np.int64)
        for run, here in self._runs.split(of_lost):
            if (turns[here] < run.first).any():
                bad = others[here][turns[here] < run.first][0]
                raise ValueError(f"instead: expected indices of the lost one's stage or later, got {bad}")
            components[here], ordinals[here] = run(turns[here])
            lost_ordinals[here] = run(of_lost[here])[1]
            self._check_present(components[here], turns[here], run)
        locals_ = self._lanes.locals_of(ordinals, lanes)
        lost_locals = self._lanes.locals_of(lost_ordinals, lanes)
        staged: list[tuple[IntpArray, Int64Array]] = []
        for number, here in groups(components):
            name = self.names[number]
            by_stage = getattr(self.components[name], "keys_in_stage", None)
            if by_stage is not None:
                staged.append((here, by_stage(lost_locals[here], locals_[here]) + self.offsets[name]))
            if name in self._lengths:  # these have one lane
                locals_[here] %= self._lengths[name]
        keys = self._keys.of(components, locals_)
        for here, known in staged:
            keys[here] = known
        return keys

    def indices_of(self, record_keys: npt.ArrayLike, start: int, stop: int) -> tuple[Int64Array, Int64Array]:
        """The places in `record_keys` of what indices in [start, stop) read, and these indices, (m,) int64 each.

        Args:
            record_keys: (n,) ints.
            start: the first index that is looked at.
            stop: one past the last.

        >>> from loaderkit.samplers import IndexSampler
        >>> sampler = MixedSampler({"a": IndexSampler(5), "b": IndexSampler(9)}, weights={"a": 1, "b": 2})
        >>> sampler.indices_of([0, 5], 0, 20)
        (array([1, 0, 1, 0]), array([ 0,  1, 14, 16]))
        """
        keys, stop = np.asarray(record_keys, np.int64), min(stop, self._limit)
        whichs, found = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        turn, end = self._lanes.turns_around(start, stop)
        for run, first, until in self._runs.between(turn, end):
            begun, taken = run.taken_at(first), run.taken_at(until)
            for name, sampler in self.components.items():
                low, high = (self.lanes * counts.get(name, 0) for counts in (begun, taken))
                if low == high:
                    continue
                which, locals_ = indices_of(sampler, keys - self.offsets[name], low, high)
                ordinals, lanes = np.divmod(locals_, self.lanes)
                whichs.append(which)
                found.append(self._lanes.indices_of(run.turns_of(name, ordinals), lanes))
        return within(np.concatenate(whichs), np.concatenate(found), start, stop)

    def epochs_of(self, indices: Int64Array) -> Int64Array:
        """The epoch of its component that each index is in, (n,) int64; -1 where its sampler doesn't say it.

        Args:
            indices: (n,) int64; errors as IndexSampler's.
        """
        turns, lanes = self._lanes.turns_of(self._checked(indices))
        numbers, ordinals = self._runs(turns)
        locals_, epochs = self._lanes.locals_of(ordinals, lanes), np.full(numbers.shape, -1)
        for number, here in groups(numbers):
            if number >= 0:
                epochs[here] = epochs_of(self.components[self.names[number]], locals_[here])
        return epochs

    def fingerprint(self) -> dict[str, object]:
        """What a saved state keeps of this sampler, as JSON values; a state keeps the stages beside it.

        >>> from loaderkit.samplers import SequentialSampler
        >>> said = MixedSampler({"a": SequentialSampler(5)}, when_exhausted="stop").fingerprint()
        >>> said["kind"], said["when_exhausted"], sorted(said["components"])
        ('MixedSampler', 'stop', ['a'])
        """
        return {
            "kind": "MixedSampler",
            "components": {name: self._fingerprint_of(name) for name in self.names},
            "order": self.order,
            "when_exhausted": self.when_exhausted,
            "pattern": None if self._pattern is None else arguments.digest_of_pattern(self._pattern),
            "lanes": self.lanes,
            "batch": None if self.lanes == 1 else self.batch,  # with one lane it changes no key
            "seed": self._seed_in_state(),
        }

    def _fingerprint_of(self, name: str) -> dict[str, object]:
        said = fingerprint_with_stages(self.components[name])
        return {**said, "offset": self.offsets[name]} if self.placed else said

    def __len__(self) -> int:
        if self._runs.length is None:
            raise TypeError(
                f"{type(self).__name__} is endless and has no length; give its components num_epochs, and "
                "when_exhausted='stop' or 'drop'"
            )
        return self._runs.length

    def __hash__(self) -> int:
        # Equal samplers may have their names in different orders.
        return hash(
            (frozenset(self.names), self.order, self.when_exhausted, self.seed, self.lanes, self.batch)
        )

    def __repr__(self) -> str:
        said = [f"components={arguments.components_text(self.components)}"]
        if self.pattern is not None:
            said.append(f"pattern={_short(list(self.pattern))}")
        else:
            said.append(f"weights={arguments.stages_text(self.stages)}")
        for name in ("order", "when_exhausted", "seed", "lanes", "batch", "shard_options"):
            value = getattr(self, name)
            if value != _DEFAULTS[name]:
                said.append(f"{name}={value!r}")
        return f"MixedSampler({', '.join(said)})"

    @property
    def _limit(self) -> int:
        return ENDLESS if self._runs.length is None else self._runs.length

    def _check_stages(self, stages: MixtureStages) -> None:
        arguments.check_stages(stages, self._pattern, self.batch if self.lanes > 1 else None)

    def _planned(self, indices: Int64Array) -> Int64Array:
        turns, lanes = self._lanes.turns_of(indices)
        components, ordinals = self._runs(turns)
        self._check_present(components, turns)
        return self._keys.of(components, self._lanes.locals_of(ordinals, lanes))

    def _counts(self, n: int) -> dict[str, int]:
        counts: dict[str, int] = {}
        for turn, lanes in self._lanes.turns_before(n):
            for name, count in self._runs.at(turn).taken_at(turn).items():
                counts[name] = counts.get(name, 0) + lanes * count
        return counts

    def _epochs(self, name: str, count: int) -> float | None:
        if name not in self.components:
            return None
        sampler: Any = self.components[name]
        if hasattr(sampler, "epochs_before"):
            epochs: float | None = sampler.epochs_before(count)
            return epochs
        records = num_records_of(sampler)
        return None if records is None else count / records

    def _check_present(self, components: IntpArray, turns: Int64Array, run: MixtureRun | None = None) -> None:
        if components.min() < 0:
            turn = turns[components == ABSENT][:1]
            run = self._runs.at(int(turn[0])) if run is None else run
            name = run.order.names[int(run.order.of(turn - run.first)[0][0])]
            raise LookupError(
                f"components: expected one of the name {name!r}, which the index reads, got {_short(list(self.names))};"
                " give it again, with weight 0 where it isn't to be read any more"
            )

    def _checked_end(self, name: str, index: int) -> int:
        return at_least(name, index, 0, below=min(self._limit + 1, ENDLESS))


def fingerprint_with_stages(sampler: Sampler) -> dict[str, object]:
    """The fingerprint of a sampler within another; of a mixture with its stages, which a state has of none inside.

    >>> from loaderkit.samplers import SequentialSampler
    >>> fingerprint_with_stages(MixedSampler({"a": SequentialSampler(5)}, when_exhausted="stop"))["stages"]
    [[0, {'a': '1'}]]
    """
    said = dict(fingerprint_of(sampler))
    if isinstance(sampler, MixedSampler):
        said["stages"] = [
            [stage.first_index, {each: str(w) for each, w in integer_weights(stage.weights).items()}]
            for stage in sampler.stages.entries
        ]
    return said


_DEFAULTS = {each.name: each.default for each in fields(MixedSampler)}
