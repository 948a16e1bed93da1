"""Records dealt to several parts, round robin: which part makes the next batch, and of which records.

record  0, 1, 2, ... in their order: part p of P gets the records p, p + P, p + 2P, ...
place   the number of a record within its part: record p + t*P has the place t.
batch   up to `rows` consecutive places of one part; the parts give one batch each in turn. A part that can't give
        another is skipped. So the last batch of every part may be smaller, not only the last one of all.
state   how many records of each part were taken, and which part is next.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from loaderkit._base.system.dataclasses import dataclass, replace
from loaderkit._engine.in_flight_step import StepRecords
from loaderkit._plan.feeds import KeysAhead
from loaderkit.samplers import Sampler


@dataclass(frozen=True, slots=True)
class RoundRobinState:
    """How many records of each part were taken, and which part is next.

    >>> RoundRobinState((2, 1), 0)
    RoundRobinState(taken=(2, 1), turn=0)
    """

    taken: tuple[int, ...]
    turn: int


@dataclass(frozen=True, slots=True)
class RoundRobin:
    """Which part gets which record.

    parts: P. rows: of a batch. keep: whether a part's last, smaller batch is one. records: how many there are.
    first, stride: record r is index first + r * stride of the sampler.
    sizes: how many records each part has; None where that is all those dealt to it.

    >>> round_robin = RoundRobin(parts=2, rows=3, keep=True, records=10)
    >>> batches, state = [], RoundRobinState((0, 0), 0)
    >>> while (turn := round_robin.draw(state)) is not None:
    ...     batches.append(round_robin.indices(turn).tolist())
    ...     state = turn.state
    >>> batches
    [[0, 2, 4], [1, 3, 5], [6, 8], [7, 9]]
    """

    parts: int
    rows: int
    keep: bool
    records: int
    first: int = 0
    stride: int = 1
    sizes: tuple[int, ...] | None = None

    def size(self, part: int) -> int:
        """Number of records of a part."""
        if self.sizes is not None:
            return self.sizes[part]
        return max(0, -(-(self.records - part) // self.parts))

    def ending_before(self, index: int | None) -> "RoundRobin":
        """The same, but the part of an index has only the records before it; None for all records of all parts.

        >>> RoundRobin(parts=2, rows=3, keep=True, records=9).ending_before(5).sizes
        (5, 2)
        """
        if index is None:
            return replace(self, sizes=None)
        place, part = divmod((index - self.first) // self.stride, self.parts)
        sizes = [*map(self.size, range(self.parts))]
        return replace(self, sizes=(*sizes[:part], place, *sizes[part + 1 :]))

    def draw(self, state: RoundRobinState) -> "RoundRobinTurn | None":
        """The next batch, None where no part can give one."""
        for ahead in range(self.parts):
            part = (state.turn + ahead) % self.parts
            place = state.taken[part]
            rows = min(self.rows, self.size(part) - place)
            if rows == self.rows or (rows > 0 and self.keep):
                taken = (*state.taken[:part], place + rows, *state.taken[part + 1 :])
                return RoundRobinTurn(part, place, rows, RoundRobinState(taken, (part + 1) % self.parts))
        return None

    def indices(self, turn: "RoundRobinTurn") -> NDArray[np.int64]:
        """The indices of a batch, (rows,) int64."""
        records = np.arange(turn.place, turn.place + turn.rows, dtype=np.int64) * self.parts + turn.part
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

    def indices_from(self, part: int, place: int) -> Iterator[int]:
        """The indices of a part's records from a place on."""
        return (self.index_of(part, each) for each in range(place, self.size(part)))

    def index_of(self, part: int, place: int) -> int:
        """The index of a part's record at a place."""
        return (place * self.parts + part) * self.stride + self.first


@dataclass(frozen=True, slots=True)
class RoundRobinTurn:
    """One batch: the part that gives it, the place of its first record there, its rows, and the state after it."""

    part: int
    place: int
    rows: int
    state: RoundRobinState


class RoundRobinBatches:
    """One batch after the other, record keys and all: the input of a row scheduler.

    round_robin: which part gets what. state: where to begin. sampler: gives the record keys. num_records: the source's
    length.

    >>> from loaderkit.samplers import SequentialSampler
    >>> round_robin = RoundRobin(parts=2, rows=2, keep=True, records=5)
    >>> feed = RoundRobinBatches(round_robin, RoundRobinState((0, 0), 0), SequentialSampler(5), 5)
    >>> feed.next(9).keys, feed.next(9).keys, feed.next(9)
    (array([0, 2, 1, 3]), array([4]), None)
    """

    def __init__(
        self, round_robin: RoundRobin, state: RoundRobinState, sampler: Sampler, num_records: int
    ) -> None:
        self._round_robin = round_robin
        self._state_of = state  # behind those below
        self._ahead = KeysAhead(sampler, num_records)
        self._indices = self._keys = np.empty(0, np.int64)
        self._rows: list[int] = []  # of each batch that these make

    def next(self, most: int) -> StepRecords | None:
        """The records of the next batch, or of up to `most` of equal size; None after the last.

        Raises what the sampler raises, and IndexError for a key that the source doesn't have.
        """
        if not self._rows:
            self._plan()
        if not self._rows:
            return None
        rows, steps = self._rows[0], 1
        while steps < min(most, len(self._rows)) and self._rows[steps] == rows:
            steps += 1
        count = steps * rows
        made = StepRecords(self._indices[:count], self._keys[:count], rows=rows, steps=steps)
        self._indices, self._keys, self._rows = self._indices[count:], self._keys[count:], self._rows[steps:]
        return made

    def _plan(self) -> None:
        state, batches, count = self._state_of, list[NDArray[np.int64]](), 0
        while count < self._ahead.block and (turn := self._round_robin.draw(state)) is not None:
            batches.append(self._round_robin.indices(turn))
            count += turn.rows
            state = turn.state
        if not batches:
            return
        indices = np.concatenate(batches)
        keys = self._ahead.keys(indices, alone=len(batches) == 1)
        if keys is None:
            self._plan()
            return
        self._state_of, self._indices, self._keys, self._rows = state, indices, keys, [*map(len, batches)]


class RoundRobinIndices:
    """The indices of one part, or of single records in turn, as many as are asked for.

    round_robin: which part gets what. state: where to begin. part: its number; None takes one record of each in turn.

    >>> round_robin = RoundRobin(parts=2, rows=1, keep=True, records=7)
    >>> (
    ...     RoundRobinIndices(round_robin, RoundRobinState((1, 0), 1), part=None).next(3),
    ...     RoundRobinIndices(round_robin, RoundRobinState((1, 0), 1), part=0).next(9),
    ... )
    (array([1, 2, 3]), array([2, 4, 6]))
    """

    def __init__(self, round_robin: RoundRobin, state: RoundRobinState, part: int | None) -> None:
        self._round_robin = round_robin
        self._sizes = np.array([*map(round_robin.size, range(round_robin.parts))], np.int64)
        self._taken = np.array(state.taken, np.int64)
        # The parts in the order of their turns; one that has ended is skipped.
        self._turns = np.roll(np.arange(round_robin.parts), -state.turn) if part is None else np.array([part])

    def next(self, n: int) -> NDArray[np.int64]:
        """Up to n next indices, int64; empty after the last."""
        of, turns = self._round_robin, self._turns
        rounds = np.arange(-(-n // len(turns)), dtype=np.int64)[:, None]
        places = self._taken[turns] + rounds  # (rounds, turns)
        records: NDArray[np.int64] = (places * of.parts + turns)[places < self._sizes[turns]][:n]
        if len(records):
            parts = records % of.parts
            self._taken += np.bincount(parts, minlength=of.parts)
            self._turns = np.roll(turns, -1 - int(np.flatnonzero(turns == parts[-1])[0]))
        return records * of.stride + of.first
