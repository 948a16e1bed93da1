"""Records dealt to several parts in turn, like cards: which part makes the next batch, and of which records.

record  0, 1, 2, ... in the order in which they are dealt: part p of P gets the records p, p + P, p + 2P, ...
place   the how-manieth of its part a record is: record p + t*P has the place t.
batch   up to `rows` consecutive places of one part; the parts give one batch each in turn. A part that can't give one
        any more is passed over. So the last batches are smaller part by part, not once at the end.
hand    what was taken so far: how many records of each part, and whose turn it is.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from loaderkit._plan.keys_ahead import KeysAhead
from loaderkit._plan.schedule import StepRecords
from loaderkit.samplers import Sampler


@dataclass(frozen=True, slots=True)
class RoundRobinState:
    """How many records of each part were taken, and whose turn it is.

    >>> RoundRobinState((2, 1), 0)
    RoundRobinState(taken=(2, 1), turn=0)
    """

    taken: tuple[int, ...]
    turn: int


@dataclass(frozen=True, slots=True)
class RoundRobin:
    """Who gets which record.

    parts: P. rows: of a batch. keep: whether a part's last, smaller batch is one. records: how many there are.
    first, stride: record r is index first + r * stride of the sampler.

    >>> deal = RoundRobin(parts=2, rows=3, keep=True, records=10)
    >>> batches, hand = [], deal.first_hand()
    >>> while (drawn := deal.draw(hand)) is not None:
    ...     batches.append(deal.indices(drawn).tolist())
    ...     hand = drawn.hand
    >>> batches
    [[0, 2, 4], [1, 3, 5], [6, 8], [7, 9]]
    """

    parts: int
    rows: int
    keep: bool
    records: int
    first: int = 0
    stride: int = 1

    def first_hand(self) -> RoundRobinState:
        """Nothing was taken yet."""
        return RoundRobinState((0,) * self.parts, 0)

    def size(self, part: int) -> int:
        """How many records a part gets."""
        return max(0, -(-(self.records - part) // self.parts))

    def draw(self, hand: RoundRobinState) -> "Turn | None":
        """The next batch, None where no part can give one."""
        for ahead in range(self.parts):
            part = (hand.turn + ahead) % self.parts
            place = hand.taken[part]
            rows = min(self.rows, self.size(part) - place)
            if rows == self.rows or (rows > 0 and self.keep):
                taken = (*hand.taken[:part], place + rows, *hand.taken[part + 1 :])
                return Turn(part, place, rows, RoundRobinState(taken, (part + 1) % self.parts))
        return None

    def indices(self, drawn: "Turn") -> NDArray[np.int64]:
        """The indices of a batch, (rows,) int64."""
        return self.indices_of(drawn.part, drawn.place, drawn.rows)

    def indices_of(self, part: int, place: int, rows: int) -> NDArray[np.int64]:
        """The indices of up to `rows` records of a part from a place on, (<=rows,) int64."""
        last = max(place, min(place + rows, self.size(part)))
        records = np.arange(place, last, dtype=np.int64) * self.parts + part
        return records * self.stride + self.first

    def place_from(self, part: int, index: int) -> int:
        """How many records of a part come before an index.

        >>> [
        ...     RoundRobin(parts=2, rows=1, keep=True, records=9, first=1, stride=3).place_from(1, i)
        ...     for i in (4, 5, 10)
        ... ]
        [0, 1, 1]
        """
        record = -(-(index - self.first) // self.stride)
        return max(0, -(-(record - part) // self.parts))

    def index_of(self, part: int, place: int) -> int:
        """The index of a part's record at a place."""
        return (place * self.parts + part) * self.stride + self.first


@dataclass(frozen=True, slots=True)
class Turn:
    """One batch: the part that gives it, the place of its first record there, its rows, and the hand behind it."""

    part: int
    place: int
    rows: int
    hand: RoundRobinState


class RoundRobinBatches:
    """One batch after the other, record keys and all: the input of a row scheduler.

    deal: who gets what. hand: where to begin. sampler: gives the record keys. num_records: the source's length.

    >>> from loaderkit.samplers import SequentialSampler
    >>> deal = RoundRobin(parts=2, rows=2, keep=True, records=5)
    >>> feed = RoundRobinBatches(deal, deal.first_hand(), SequentialSampler(5), 5)
    >>> feed.next(9).keys, feed.next(9).keys, feed.next(9)
    (array([0, 2, 1, 3]), array([4]), None)
    """

    def __init__(self, deal: RoundRobin, hand: RoundRobinState, sampler: Sampler, num_records: int) -> None:
        self._deal = deal
        self._hand = hand
        self._keys = KeysAhead(sampler, num_records)
        self._ahead: list[StepRecords] = []  # the next last

    def next(self, most: int) -> StepRecords | None:
        """The records of the next batch, or of up to `most` that are equally large; None behind the last.

        Raises what the sampler raises, and IndexError for a key that the source doesn't have.
        """
        if not self._ahead:
            self._plan()
        if not self._ahead:
            return None
        alike = [self._ahead.pop()]
        while self._ahead and len(alike) < most and self._ahead[-1].rows == alike[0].rows:
            alike.append(self._ahead.pop())
        if len(alike) == 1:
            return alike[0]
        indices, keys = ([getattr(part, name) for part in alike] for name in ("indices", "keys"))
        return StepRecords(
            np.concatenate(indices), np.concatenate(keys), rows=alike[0].rows, steps=len(alike)
        )

    def _plan(self) -> None:
        hand, batches, count = self._hand, list[NDArray[np.int64]](), 0
        while count < self._keys.block and (drawn := self._deal.draw(hand)) is not None:
            batches.append(self._deal.indices(drawn))
            count += drawn.rows
            hand = drawn.hand
        if not batches:
            return
        keys = self._keys.keys(np.concatenate(batches), alone=len(batches) == 1)
        if keys is None:
            self._plan()
            return
        self._hand = hand
        cuts = np.cumsum([len(batch) for batch in batches])[:-1]
        parts = zip(batches, np.split(keys, cuts), strict=True)
        self._ahead = [StepRecords(mine, of, rows=len(mine)) for mine, of in parts][::-1]


class RoundRobinIndices:
    """The indices of one part, or of single records in turn, as many as are asked for.

    deal: who gets what. hand: where to begin. part: whose; None takes one record of each part in turn.

    >>> deal = RoundRobin(parts=2, rows=1, keep=True, records=7)
    >>> (
    ...     RoundRobinIndices(deal, RoundRobinState((1, 0), 1), part=None).next(3),
    ...     RoundRobinIndices(deal, RoundRobinState((1, 0), 1), part=0).next(9),
    ... )
    (array([1, 2, 3]), array([2, 4, 6]))
    """

    def __init__(self, deal: RoundRobin, hand: RoundRobinState, part: int | None) -> None:
        self._deal = replace(deal, rows=1, keep=True)
        self._hand = hand
        self._part = part

    def next(self, n: int) -> NDArray[np.int64]:
        """Up to n next indices, int64, none behind the last."""
        if self._part is not None:
            return self._of_part(self._part, n)
        record = self._next_record()
        if record is None:
            return self._one_by_one(n)
        everybody = replace(self._deal, parts=1)
        indices = everybody.indices_of(0, record, n)
        record += len(indices)
        each, more = divmod(record, self._deal.parts)
        self._hand = RoundRobinState(tuple(each + (part < more) for part in range(self._deal.parts)), more)
        return indices

    def _of_part(self, part: int, n: int) -> NDArray[np.int64]:
        taken = self._hand.taken
        indices = self._deal.indices_of(part, taken[part], n)
        self._hand = RoundRobinState(
            (*taken[:part], taken[part] + len(indices), *taken[part + 1 :]), self._hand.turn
        )
        return indices

    def _next_record(self) -> int | None:
        """The next record where all before it were taken and none behind it, as is so but for odd states."""
        turn, taken = self._hand.turn, self._hand.taken
        each = taken[turn]
        even = all(count == each + (part < turn) for part, count in enumerate(taken))
        return each * self._deal.parts + turn if even else None

    def _one_by_one(self, n: int) -> NDArray[np.int64]:
        found: list[int] = []
        while len(found) < n and (drawn := self._deal.draw(self._hand)) is not None:
            found.append(self._deal.index_of(drawn.part, drawn.place))
            self._hand = drawn.hand
        return np.array(found, np.int64)
