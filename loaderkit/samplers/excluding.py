"""A sampler without some of another one's records, from an index on; `_order/exclusions.py` has the arithmetic."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import cast

import numpy as np
import numpy.typing as npt

from loaderkit._base.system.dataclasses import dataclass, field
from loaderkit._order.exclusions import Begin, ExclusionStage, Listed, PlacesLeft
from loaderkit._order.groups import groups
from loaderkit._order.matches import among
from loaderkit._order.permutation import Int64Array
from loaderkit._order.stage_keys import STAGE_SHIFT, rows_of_keys

from .bulk import BulkSampler, theirs
from .mixed import MixedSampler
from .optional import endless_of, indices_of, next_uses_of, positions_of, within
from .protocol import (
    ENDLESS,
    Sampler,
    epoch_length_of,
    length_of,
    min_records_of,
    random_parts_of,
    record_keys_of,
    seed_of,
    shaped,
)
from .weighted import WeightedSampler

ListedBy = Callable[[str, tuple[str, ...]], Listed]  # by the name of a component and the digests of lists

_MOST_EPOCHS = 3  # of which the places are kept: 16 bytes a record that is left out
# A block of indices that needs up to so many times as many keys is planned by a look at them: the places of an epoch
# take as long as 1,000 keys.
_DENSE = 4
_NONE: Int64Array = np.empty(0, np.int64)


def excluding(
    sampler: Sampler, stages: Sequence[ExclusionStage], listed_by: ListedBy
) -> tuple[Sampler, tuple[ExclusionStage, ...]]:
    """A sampler with stages of exclusions, and the stages with all their begins.

    Args:
        sampler: a mixture, whose components have lists, or one that has lists itself, by the name "".
        stages: by ascending index. One without begins begins behind what is read before its index.
        listed_by: gives the record keys of lists.

    Raises ValueError where nothing is left, TypeError for a sampler that doesn't say where it reads a record.

    >>> from loaderkit.samplers import SequentialSampler
    >>> stages = [ExclusionStage(2, {"": ("ab",)}, {})]
    >>> made, begun = excluding(
    ...     SequentialSampler(6), stages, lambda *of: Listed(np.array([0, 3]), np.array([]), 0)
    ... )
    >>> made.record_keys(range(5)).tolist(), begun[0].begins
    ([0, 1, 2, 4, 5], {'': Begin(ordinal=2, epoch=0, place=2)})
    """
    known: list[ExclusionStage] = []
    for stage in stages:
        if not stage.begins:
            before = _made(sampler, known, listed_by)
            names = {*stage.lists}.union(*(each.begins for each in known))
            stage = stage._replace(begins=_begins(before, stage.first_index, sorted(names)))
        known.append(stage)
    return _made(sampler, known, listed_by), tuple(known)


def check_excludable(name: str, sampler: Sampler) -> None:
    """TypeError, naming the component, where a sampler doesn't say where it reads a record.

    >>> from loaderkit.samplers import LengthBucketSampler
    >>> check_excludable("", LengthBucketSampler([1, 2], [2], 1, shuffle=True, seed=0))
    Traceback (most recent call last):
    TypeError: exclude: expected a sampler with positions_of(record_keys, epoch), which says where each record is \
read, got a LengthBucketSampler
    """
    draws = isinstance(sampler, WeightedSampler)
    known = positions_of(sampler) is not None or (
        length_of(sampler) is not None and epoch_length_of(sampler) is None
    )
    if shaped(sampler) is not None or isinstance(sampler, MixedSampler) or not (draws or known):
        of = f" of {name!r}" if name else ""
        raise TypeError(
            f"exclude: expected a sampler{of} with positions_of(record_keys, epoch), which says where each record is "
            f"read, got a {type(sampler).__qualname__}"
        )


def _made(sampler: Sampler, stages: Sequence[ExclusionStage], listed_by: ListedBy) -> Sampler:
    if not stages:
        return sampler
    mixed = sampler.components if isinstance(sampler, MixedSampler) else {"": sampler}
    made: dict[str, ExcludingSampler] = {}
    for name in filter(mixed.__contains__, stages[-1].begins):
        begun = [stage for stage in stages if name in stage.begins]
        lists = [
            partial(listed_by, name, each.lists[name]) if name in each.lists else _nothing for each in begun
        ]
        made[name] = ExcludingSampler(mixed[name], [*zip((each.begins[name] for each in begun), lists)])
    if not isinstance(sampler, MixedSampler):
        return made[""]
    # A component isn't read to its end before a stage at which it had records left.
    unread = dict.fromkeys(made, 0)
    for stage in stages:
        for name, begin in stage.begins.items():
            if name in made and not made[name].ends_at(begin):
                unread[name] = stage.first_index
    return sampler.with_components(made, unread)


def _begins(before: Sampler, index: int, names: Sequence[str]) -> dict[str, Begin]:
    if not isinstance(before, MixedSampler):
        return {"": _begin_at(before, index)}
    taken = before.taken(index)
    return {name: _begin_at(before.components[name], taken[name].records) for name in names if name in taken}


def _begin_at(sampler: Sampler, index: int) -> Begin:
    made = sampler if isinstance(sampler, ExcludingSampler) else ExcludingSampler(sampler, [])
    return made.begin_at(index)


class ExcludingSampler(BulkSampler):
    """Another sampler's order, without some records from an index on.

    Args:
        sampler: the other one.
        stages: where each begins, and what gives the keys of the lists that hold from there on. They are asked for when
            they are needed first.
    """

    def __init__(self, sampler: Sampler, stages: Sequence[tuple[Begin, Callable[[], Listed]]]) -> None:
        self.sampler = sampler
        if not stages or stages[0][0].ordinal:
            stages = [(Begin(0, 0, 0), _nothing), *stages]
        if isinstance(sampler, WeightedSampler):
            self._parts: list[_Ranks | _Draws] = [_Draws(begin, keys, sampler) for begin, keys in stages]
        else:
            order = _EpochOrder.of(sampler)
            self._parts = [_Ranks(begin, keys, order) for begin, keys in stages]
        self._firsts = [part.begin.ordinal for part in self._parts]
        if sorted(self._firsts) != self._firsts:
            raise ValueError(f"exclusions: expected stages in ascending order, got {self._firsts}")
        self._parts[-1].check_left()

    @property
    def _limit(self) -> int:
        return self._parts[-1].limit

    def record_keys(self, indices: npt.ArrayLike) -> Int64Array:
        """The record keys of many indices at once: (n,) ints in, (n,) int64 out; errors as IndexSampler's."""
        wanted = self._checked(indices)
        return self._keys_of(wanted, wanted)

    def plain_keys(self, indices: npt.ArrayLike) -> Int64Array:
        """As `record_keys`, those of rows that lose a document without the number of the stage."""
        return rows_of_keys(self.record_keys(indices))

    def instead(self, index: int, tried: int, count: int) -> Int64Array:
        """Indices that may be read instead of a lost one, (n,) int64: those behind it, as if its stage had no end."""
        first = index + 1 + tried
        return np.arange(first, min(first + count, ENDLESS - 1), dtype=np.int64)

    def keys_instead(self, lost: npt.ArrayLike, instead: npt.ArrayLike) -> Int64Array:
        """The record keys of indices that `instead` gave, by the stages of the lost ones: (n,) int64 each."""
        return self._keys_of(self._checked(lost), np.asarray(instead, np.int64))

    keys_in_stage = keys_instead  # a mixture asks for it by this name, which no other sampler has

    @property
    def indices_of(self) -> Callable[..., tuple[Int64Array, Int64Array]]:
        """`indices_of(record_keys, start, stop)`, as `samplers.optional.indices_of` says; not of draws."""
        if isinstance(self.sampler, WeightedSampler):
            raise AttributeError("indices_of: an ExcludingSampler has it for a sampler of epochs")
        return self._indices_of

    def _indices_of(self, record_keys: npt.ArrayLike, start: int, stop: int) -> tuple[Int64Array, Int64Array]:
        keys, stop = np.asarray(record_keys, np.int64), min(stop, self._limit)
        whichs, found = [_NONE], [_NONE]
        for part, end in zip(self._parts, [*self._firsts[1:], ENDLESS], strict=True):
            low, high = max(start, part.begin.ordinal), min(stop, end)
            if low < high:
                which, indices = cast(_Ranks, part).indices_of(keys, low, high)
                whichs.append(which)
                found.append(indices)
        return within(np.concatenate(whichs), np.concatenate(found), start, stop)

    def epochs_of(self, indices: Int64Array) -> Int64Array:
        """The epoch of the other sampler that each index is in, (n,) int64; -1 for draws."""
        epochs = np.full(indices.shape, -1)
        for part, here in self._by_part(indices):
            if isinstance(part, _Ranks):
                epochs[here] = part.in_order(indices[here]) // part.order.length
        return epochs

    def begin_at(self, index: int) -> Begin:
        """Where a stage begins that begins at an index, 0 to the length: right behind the last place that is read."""
        return self._stage_at(index).begin_at(index)

    def ends_at(self, begin: Begin) -> bool:
        """Whether a stage begins where the sampler has been read to its end."""
        return self._parts[0].ends_at(begin)

    def epochs_before(self, index: int) -> float | None:
        """The epochs that were read before an index, those left out counted as read; None for draws."""
        part, begin = self._parts[0], self.begin_at(index)
        return begin.epoch + begin.place / part.order.length if isinstance(part, _Ranks) else None

    def end_of(self, epoch: int) -> int:
        """The index behind an epoch."""
        return cast(_Ranks, self._parts[-1]).first_of(epoch + 1)

    @property
    def next_uses(self) -> Callable[..., Int64Array] | None:
        """The sampler's, in indices of this one: the lanes of hosts aren't known, so all count."""
        own = next_uses_of(self.sampler)
        if own is None:
            return None

        def next_uses(record_keys: npt.ArrayLike, index: int, lanes: range | None = None) -> Int64Array:
            part = cast(_Ranks, self._stage_at(index))
            later = [first for first in self._firsts if first > index]
            uses = part.indices_at(own(record_keys, int(part.in_order(np.array([index]))[0]), None))
            return np.minimum(uses, later[0]) if later else uses  # an earlier one does

        return next_uses

    seed = theirs(seed_of)
    min_records = theirs(min_records_of)
    random_parts = theirs(random_parts_of)

    def __repr__(self) -> str:
        return f"{self.sampler!r} without some records from index {self._firsts[-1]} on"

    def _stage_at(self, index: int) -> _Ranks | _Draws:
        return self._parts[bisect_right(self._firsts, index) - 1]

    def _keys_of(self, places: Int64Array, indices: Int64Array) -> Int64Array:
        """The keys of indices, each by the stage of a place."""
        if not places.size:
            return _NONE
        part = self._stage_at(int(places.min()))
        if part is self._stage_at(int(places.max())):
            return part.record_keys(indices)
        keys = np.empty(indices.shape, np.int64)
        for part, here in self._by_part(places):
            keys[here] = part.record_keys(indices[here])
        return keys

    def _by_part(self, indices: Int64Array) -> Iterator[tuple[_Ranks | _Draws, npt.NDArray[np.intp]]]:
        """The stages that indices are in, each with the places of these."""
        for number, here in groups(np.searchsorted(self._firsts, indices, "right") - 1):
            yield self._parts[number], here


@dataclass(frozen=True, slots=True)
class _EpochOrder:
    """An order of epochs. length: of each. epochs: how many, None for no end. endless: the sampler without an end."""

    sampler: Sampler
    endless: Sampler
    length: int
    epochs: int | None

    @classmethod
    def of(cls, sampler: Sampler) -> _EpochOrder:
        length, total = epoch_length_of(sampler), length_of(sampler)
        each = cast(int, total if length is None else length)
        return cls(sampler, endless_of(sampler), each, None if total is None else total // each)

    def places(self, keys: Int64Array, epoch: int) -> Int64Array:
        """The places, (n,) int64, of those of the keys that an epoch reads."""
        if (find := positions_of(self.endless)) is None:
            return indices_of(self.sampler, keys, 0, self.length)[1]
        places = find(keys, epoch)
        return places[places >= 0]


@dataclass(slots=True)
class _Ranks:
    """Ranks among the places of epochs that are left."""

    begin: Begin
    listed: Callable[[], Listed]
    order: _EpochOrder
    _places: dict[int, PlacesLeft] = field(default_factory=dict)
    _size: int | None = None  # of an epoch, once it was asked for
    _first_rank: int | None = None

    @property
    def left(self) -> int:
        """Records of each epoch."""
        if self._size is None:
            # The same in each: of one whose places are known already, as they take the time of a restore.
            epoch = next(iter(self._places), self.begin.epoch)
            self._size = self.order.length - self._places_left(epoch).count
        return self._size

    @property
    def limit(self) -> int:
        """Behind the last index; ENDLESS without an end."""
        epochs = self.order.epochs
        if epochs is None:
            return ENDLESS
        return self.begin.ordinal if self.begin.epoch >= epochs else self.first_of(epochs)

    def check_left(self) -> None:
        """ValueError where no record is left."""
        # Fewer keys than records leave one, whose place needn't be known yet.
        known = self.listed().gone.size < self.order.length or self.ends_at(self.begin)
        if not known and not self.left:
            raise ValueError(
                f"exclude: expected records that are left, got lists with all {self.order.length} of an epoch; move a "
                "list out of the folder: a component of a mixture that isn't to be read needs weight 0 and no lists"
            )

    def ends_at(self, begin: Begin) -> bool:
        return self.order.epochs is not None and begin.epoch >= self.order.epochs

    def record_keys(self, indices: Int64Array) -> Int64Array:
        return _of_stage(record_keys_of(self.order.endless, self.in_order(indices)), self.listed())

    def in_order(self, indices: Int64Array) -> Int64Array:
        """The indices of the order without exclusions, (n,) int64, n > 0."""
        begin, length = self.begin, self.order.length
        if self._size is None and not begin.place:  # the epoch that is needed, if all that is listed is in it
            ahead = int(indices.min()) - begin.ordinal
            self._places_left(begin.epoch + ahead // max(1, length - self.listed().gone.size))
        if self.left == length:
            return indices + (begin.epoch * length + begin.place - begin.ordinal)
        ranks = indices - (begin.ordinal - self._skipped)
        first, last = int(ranks.min()) // self.left, int(ranks.max()) // self.left
        if first == last:
            return self._of_epoch(begin.epoch + first, ranks - first * self.left)
        size = (last - first + 1) * length
        if size <= _DENSE * indices.size:  # of many short epochs all keys are looked at
            start = (begin.epoch + first) * length
            keys = record_keys_of(self.order.endless, np.arange(start, start + size))
            places = np.flatnonzero(~among(keys, self.listed().gone))
            return places[ranks - first * self.left] + start
        epochs, ranks = np.divmod(ranks, self.left)
        found = np.empty(indices.shape, np.int64)
        for epoch, here in groups(epochs):
            found[here] = self._of_epoch(begin.epoch + epoch, ranks[here])
        return found

    def indices_at(self, in_order: Int64Array) -> Int64Array:
        """For indices of the order without exclusions how many of this one come before them, (n,) int64."""
        epochs, places = np.divmod(in_order, self.order.length)
        found = np.empty(in_order.shape, np.int64)
        for epoch, here in groups(epochs):
            found[here] = self.first_of(epoch) + self._places_left(epoch).rank_at(places[here])
        return found

    def first_of(self, epoch: int) -> int:
        """The index with which an epoch begins, if the stage had begun before it."""
        return self.begin.ordinal - self._skipped + (epoch - self.begin.epoch) * self.left

    def indices_of(self, keys: Int64Array, start: int, stop: int) -> tuple[Int64Array, Int64Array]:
        low, high = (self.in_order(np.array([at])) for at in (start, stop - 1))
        which, found = indices_of(self.order.endless, keys, int(low[0]), int(high[0]) + 1)
        left = ~among(keys[which], self.listed().gone)
        return which[left], self.indices_at(found[left])

    def begin_at(self, index: int) -> Begin:
        if index >= self.limit:  # what has ended stays so
            return Begin(index, cast(int, self.order.epochs), 0)
        if index == self.begin.ordinal:
            return self.begin
        last = int(self.in_order(np.array([index - 1]))[0])
        return Begin(index, *divmod(last + 1, self.order.length))

    @property
    def _skipped(self) -> int:
        """The rank at which the stage begins."""
        if self._first_rank is None:
            places = self._places_left(self.begin.epoch)
            self._first_rank = int(places.rank_at(np.array([self.begin.place]))[0])
        return self._first_rank

    def _of_epoch(self, epoch: int, ranks: Int64Array) -> Int64Array:
        places = self._places_left(epoch).places_of(ranks)
        places += epoch * self.order.length
        return places

    def _places_left(self, epoch: int) -> PlacesLeft:
        found = self._places.get(epoch)
        if found is None:
            found = PlacesLeft(self.order.places(self.listed().gone, epoch))
            kept = [*self._places.items()][1 - _MOST_EPOCHS :]
            self._places = {**dict(kept), epoch: found}
        return found


@dataclass(slots=True)
class _Draws:
    """Draws with replacement, again where a record is drawn that is left out."""

    begin: Begin
    listed: Callable[[], Listed]
    sampler: WeightedSampler

    @property
    def limit(self) -> int:
        length = length_of(self.sampler)
        return ENDLESS if length is None else length

    def check_left(self) -> None:
        if not self.sampler.drawable_without(self.listed().gone):
            raise ValueError("exclude: expected records that are left, got lists with all that have a weight")

    def ends_at(self, begin: Begin) -> bool:
        return begin.ordinal >= self.limit

    def record_keys(self, indices: Int64Array) -> Int64Array:
        drawn, excluded, time = self.sampler.drawn(indices, 0), self.listed().gone, 0
        again = np.flatnonzero(among(drawn, excluded))
        while again.size:
            time += 1
            drawn[again] = self.sampler.drawn(indices[again], time)
            again = again[among(drawn[again], excluded)]
        return _of_stage(drawn, self.listed())

    def begin_at(self, index: int) -> Begin:
        return Begin(index, 0, index)


def _of_stage(keys: Int64Array, listed: Listed) -> Int64Array:
    """The keys, those of rows that lose a document with the number of the stage."""
    if not listed.touched.size:
        return keys
    return np.where(among(keys, listed.touched), keys | listed.stage << STAGE_SHIFT, keys)


def _nothing() -> Listed:
    return Listed(_NONE, _NONE, 0)
