"""The order of tf.data's `interleave` over sources of known lengths, from any place on.

    slot     one of `cycle_length` places for open sources; round r visits the slots in turn
    visit    a slot gives the next `block` records of its source, or those that are left. A source is found exhausted by
             the visit that gets fewer than `block`, which may be none; the next visit of its slot opens the next source
    event    a round from which on a slot gives another number of records a round; at most three for each source
    stretch  rounds between two events: each gives the same records a round of the same slots

Which round and slot each source begins at follows from a queue of the slots that become free, one step a source. A
place of the order is then found in two searches: of its stretch, in which rounds are arithmetic, and of its slot within
the round. That one descends a binary tree over slots: each node has the events of its slots in order of rounds, and for
each event how many of them, and how many records a round, are in its left half by then (a wavelet tree with weights).
It takes O(log(sources) + log(slots)) steps for a place, and log(slots) + 1 entries of 12 bytes for each event.
"""

from heapq import heapify, heapreplace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .permutation import Int64Array

Int32Array = npt.NDArray[np.int32]


class _Level(NamedTuple):
    """Of a level's events, by node and in order of rounds: what is in the node's left half up to the event itself."""

    counts: Int32Array  # events
    weights: Int64Array  # records a round


class InterleaveOrder:
    """Which source, and which record of it, each place of the order reads; call it with places.

    lengths: (n,) int64, 0 or more records of each source, 1 to 2**62 - 1 in all. cycle_length: slots, 1 or more. block:
    consecutive records of a source in each visit, 1 or more. A call takes (k,) int64 places in [0, sum(lengths)) and
    gives the sources and the records in them, (k,) int64 each.

    >>> order = InterleaveOrder(np.array([3, 1, 2]), cycle_length=2, block=1)
    >>> [each.tolist() for each in order(np.arange(6))]
    [[0, 1, 0, 0, 2, 2], [0, 0, 1, 2, 0, 1]]
    """

    def __init__(self, lengths: Int64Array, cycle_length: int, block: int) -> None:
        slot_count = min(cycle_length, len(lengths))
        self._block = block
        full, rest = np.divmod(lengths, block)
        self._opened, self._slots = _openings(full + 1, slot_count)
        slots = self._slots
        rounds, slots, weights, sources = _events(self._opened, slots, full, rest, block)
        self._plan_stretches(rounds, weights)
        self._height = (slot_count - 1).bit_length()
        # (slots + 1,): where the events of each slot begin, ordered by slot; so those of a node do, at its first slot.
        self._starts = np.searchsorted(np.sort(slots), np.arange((1 << self._height) + 1))
        self._levels = []
        for height in range(self._height, 0, -1):
            nodes = slots >> height
            left = (slots >> (height - 1)) & 1 == 0
            firsts = self._starts[nodes << height]
            counts = _sums_within(left.astype(np.int64), firsts)
            level = _Level(counts.astype(np.int32), _sums_within(np.where(left, weights, 0), firsts))
            self._levels.append(level)
            # The next level's order: within each node those of the left half first.
            rights = np.arange(len(slots)) - firsts - counts + self._starts[(2 * nodes + 1) << (height - 1)]
            moved = np.where(left, firsts + counts - 1, rights)
            slots, weights, sources = (_moved(each, moved) for each in (slots, weights, sources))
        self._sources = sources  # (events,) by slot and in order of rounds

    def _plan_stretches(self, rounds: Int64Array, weights: Int64Array) -> None:
        """Of each stretch its first round and place, records a round, events by then; these are in order of rounds."""
        self._rounds, firsts = np.unique(rounds, return_index=True)
        self._events = np.append(firsts[1:], len(rounds))
        self._each_round = np.cumsum(weights)[self._events - 1]
        in_all = self._each_round[:-1] * np.diff(self._rounds)
        self._places = np.concatenate([[0], np.cumsum(in_all)])

    def __call__(self, places: Int64Array) -> tuple[Int64Array, Int64Array]:
        stretches = np.searchsorted(self._places, places, side="right") - 1
        rest = places - self._places[stretches]
        each_round = self._each_round[stretches]
        rounds = rest // each_round
        rest -= rounds * each_round
        rounds += self._rounds[stretches]
        # The node's events up to the round; there is one at least, as the node gives more than `rest` records.
        events = self._events[stretches]
        nodes = np.zeros_like(places)
        for height, level in zip(range(self._height, 0, -1), self._levels):
            last = self._starts[nodes << height] + events - 1
            weights, counts = level.weights[last], level.counts[last]
            right = rest >= weights
            rest -= np.where(right, weights, 0)
            events = np.where(right, events - counts, counts)
            nodes = 2 * nodes + right
        sources = self._sources[self._starts[nodes] + events - 1]
        return sources, (rounds - self._opened[sources]) * self._block + rest

    def places_of(self, sources: Int64Array, records: Int64Array) -> Int64Array:
        """The way back of a call: the place that reads each record of a source, (k,) int64.

        >>> InterleaveOrder(np.array([3, 1, 2]), cycle_length=2, block=1).places_of(
        ...     np.array([0, 1, 2]), np.array([2, 0, 1])
        ... )
        array([3, 1, 5])
        """
        turns = records // self._block
        rounds, slots = self._opened[sources] + turns, self._slots[sources]
        stretches = np.searchsorted(self._rounds, rounds, side="right") - 1
        places: Int64Array = (
            self._places[stretches] + (rounds - self._rounds[stretches]) * self._each_round[stretches]
        )
        places += records - turns * self._block
        # Down the tree to the slot; records of left halves that it isn't in come before it in the round.
        events = self._events[stretches]
        for height, level in zip(range(self._height, 0, -1), self._levels):
            last = self._starts[slots >> height << height] + events - 1
            right = (slots >> (height - 1)) & 1 == 1
            places += np.where(right, level.weights[last], 0)
            events = np.where(right, events - level.counts[last], level.counts[last])
        return places


def _openings(visits: Int64Array, slot_count: int) -> tuple[Int64Array, Int64Array]:
    """The round in which each source is opened and its slot, from the visits that each takes."""
    n = len(visits)
    opened, slots = np.zeros(n, np.int64), np.arange(n)
    if n <= slot_count:
        return opened, slots
    # The next source goes to the slot that is free first: by round, then by slot.
    free = list(zip(visits[:slot_count].tolist(), range(slot_count)))
    heapify(free)
    for place, taken in enumerate(visits[slot_count:].tolist(), start=slot_count):
        opened[place], slots[place] = at, slot = free[0]
        heapreplace(free, (at + taken, slot))
    return opened, slots


def _events(
    opened: Int64Array, slots: Int64Array, full: Int64Array, rest: Int64Array, block: int
) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    """Rounds, slots, changes of records a round, and sources, in order of rounds, slots and sources."""
    n = len(slots)
    # `full` rounds of a block each, a round with the rest, and nothing then.
    some = full > 0
    rounds = np.concatenate([opened, opened + full, opened + full + 1])
    weights = np.concatenate([np.where(some, block, rest), np.where(some, rest - block, 0), -rest])
    sources = np.tile(np.arange(n), 3)
    kept = np.flatnonzero(weights)
    kept = kept[np.lexsort((sources[kept], slots[sources[kept]], rounds[kept]))]
    return rounds[kept], slots[sources[kept]], weights[kept], sources[kept]


def _sums_within(values: Int64Array, firsts: Int64Array) -> Int64Array:
    """Sums up to each place from the first one of its node on."""
    sums = np.cumsum(values)
    before: Int64Array = sums[firsts] - values[firsts]
    return sums - before


def _moved(values: Int64Array, places: Int64Array) -> Int64Array:
    result = np.empty_like(values)
    result[places] = values
    return result
