"""Orders of [0, n) that take records by chunks: a bijection of each epoch, and any position of it costs the same.

    chunk    `chunk` consecutive record keys; the last one may have fewer
    place    number of a record in the epoch when its chunks lie in shuffled order, in [0, n)
    lane     the rows [lq, (l+1)q) of every global batch, q = batch / lanes; it has consecutive places of its own
    turn     number of an index among those of its lane and epoch
    window   window * chunk consecutive turns of a lane, shuffled among themselves
    owner    in a call for several epochs: which of them a position belongs to

So a lane reads about `window` chunks at a time, and no chunk of another lane but at their border. Lanes are counted on
the endless stream of all epochs: which lane an index has depends on the index alone. The outputs are part of the
stream: another rule needs another `stream_version`.
"""

import numpy as np

from loaderkit._base.system.dataclasses import dataclass

from .mixing import UInt64Array, fold_arrays
from .permutation import Int64Array, distinct_of, permute, unpermute

# What a key is for, after the epoch's own.
_CHUNKS = np.array([1], np.uint64)
_WINDOW = np.array([2], np.uint64)
# Positions worked on at once. Products of three counts of a piece stay in int64. Where each position's chunk was
# enciphered by itself, a key took with 2**14 2.5 to 2.9 times as long as an IndexSampler's in the fastest of 18 passes,
# with 2**15 2.4 to 2.9 times, with 2**12, where numpy's cost of a call shows, 4.1 to 4.7 times. With each chunk of a
# window once it takes with 2**14 1.9 times instead of 2.4.
_PIECE = 1 << 14


@dataclass(frozen=True, slots=True)
class ChunkOrder:
    """The orders of [0, n) for one size of chunks and windows; each epoch has an order of its own.

    n, chunk, window, lanes, batch: ints from 1 to 2**62 - 1; lanes divides batch. With one lane `batch` has no effect.

    >>> order = ChunkOrder(n=10, chunk=3, window=2, lanes=1, batch=1)
    >>> keys = order(np.arange(10), np.array([0]), None, np.array([5], np.uint64))
    >>> keys.tolist()
    [8, 7, 1, 0, 2, 6, 4, 9, 3, 5]
    """

    n: int
    chunk: int
    window: int
    lanes: int
    batch: int

    def __call__(
        self, positions: Int64Array, epochs: Int64Array, owners: Int64Array | None, keys: UInt64Array
    ) -> Int64Array:
        """The record keys, (k,) int64, of positions in epochs.

        positions: (k,) int64 in [0, n). epochs: (m,) int64, with epoch * n below 2**63. owners: (k,) int64 in [0, m),
        the place of each position's epoch; None where there is one. keys: (m,) uint64, one for each epoch.
        """
        record_keys = np.empty(positions.shape, np.int64)
        for low in range(0, positions.size, _PIECE):
            piece = slice(low, low + _PIECE)
            # The epochs of the piece only: all of them in each piece would cost the square of their number.
            here, own = (np.zeros(1, np.int64), None) if owners is None else distinct_of(owners[piece])
            steps = _EpochSteps.of(self, epochs[here], keys[here])
            record_keys[piece] = steps.records(positions[piece], own)
        return record_keys

    def positions_of(self, record_keys: Int64Array, epoch: int, key: np.uint64) -> Int64Array:
        """The way back of a call: the position of each record in one epoch, (k,) int64.

        record_keys: (k,) int64 in [0, n). epoch: with epoch * n below 2**63. key: the epoch's.

        >>> order = ChunkOrder(n=10, chunk=3, window=2, lanes=1, batch=1)
        >>> order.positions_of(np.array([8, 7, 1]), 0, np.uint64(5))
        array([0, 1, 2])
        """
        positions = np.empty(record_keys.shape, np.int64)
        steps = _EpochSteps.of(self, np.array([epoch]), np.array([key], np.uint64))
        for low in range(0, record_keys.size, _PIECE):
            piece = slice(low, low + _PIECE)
            positions[piece] = steps.positions_of(record_keys[piece])
        return positions

    def windows_of(
        self, record_keys: Int64Array, epoch: int, key: np.uint64
    ) -> tuple[Int64Array, Int64Array, Int64Array]:
        """The lanes and the first and last positions of the windows in which records are read; (k,) int64 each.

        record_keys: (k,) int64 in [0, n). epoch: with epoch * n below 2**63. key: the epoch's.

        >>> order = ChunkOrder(n=10, chunk=3, window=2, lanes=1, batch=1)
        >>> order.windows_of(np.array([8, 3]), 0, np.uint64(5))
        (array([0, 0]), array([0, 6]), array([5, 9]))
        """
        steps = _EpochSteps.of(self, np.array([epoch]), np.array([key], np.uint64))
        return steps.windows_of(record_keys)


@dataclass(frozen=True, slots=True)
class _EpochSteps:
    """An order in some epochs. Each array has one value for each epoch."""

    n: int
    chunk: int  # at most n
    reach: int  # turns of a whole window, at most n
    lanes: int
    batch: int
    rows: int  # of a lane in a batch
    keys: UInt64Array
    chunk_keys: UInt64Array
    phases: Int64Array  # the row in its global batch with which the epoch begins
    gaps: Int64Array  # the place behind the short chunk, where the missing records of a whole one would lie

    @classmethod
    def of(cls, order: ChunkOrder, epochs: Int64Array, keys: UInt64Array) -> "_EpochSteps":
        n, chunk = order.n, min(order.chunk, order.n)
        batch = 1 if order.lanes == 1 else order.batch
        chunk_keys = fold_arrays(keys, _CHUNKS)
        count = -(-n // chunk)
        if n % chunk:
            which = np.full(keys.shape, count - 1, np.int64)
            gaps = unpermute(which, np.arange(keys.size), count, chunk_keys) * chunk + n % chunk
        else:
            gaps = np.full(keys.shape, n, np.int64)
        return cls(
            n=n,
            chunk=chunk,
            reach=min(order.window * chunk, n),
            lanes=order.lanes,
            batch=batch,
            rows=batch // order.lanes,
            keys=keys,
            chunk_keys=chunk_keys,
            phases=epochs * n % batch,
            gaps=gaps,
        )

    def records(self, positions: Int64Array, owners: Int64Array | None) -> Int64Array:
        """The record key of each position."""
        lanes, turns = self._turns(positions, owners)
        numbers = turns // self.reach
        within = turns - numbers * self.reach
        windows = _WindowSelection.of(owners, lanes, numbers)
        epoch = slice(None) if windows.epochs is None else windows.epochs
        phases, keys = self.phases[epoch], self.keys[epoch]
        ends = phases + self.n
        sizes = self._count(windows.lanes, ends) - self._count(windows.lanes, phases)
        starts = self._before(windows.lanes, ends) - self._before(windows.lanes, phases)
        done = windows.numbers * self.reach
        starts, sizes = starts + done, np.minimum(sizes - done, self.reach)
        window_keys = fold_arrays(
            keys, _WINDOW, windows.lanes.view(np.uint64), windows.numbers.view(np.uint64)
        )
        places = windows.of_each(starts) + windows.permuted(within, sizes, window_keys)
        places = self._over_gaps(places, owners)
        chunks = places // self.chunk
        places -= chunks * self.chunk
        # The chunks of all these windows, one window behind the other: often fewer than there are positions.
        firsts = self._over_gaps(starts, windows.epochs) // self.chunk
        lasts = self._over_gaps(starts + sizes - 1, windows.epochs) // self.chunk
        counts = np.where(sizes > 0, lasts - firsts + 1, 0)
        count, after = -(-self.n // self.chunk), np.cumsum(counts)
        if max(counts.max(), after[-1]) >= chunks.size:  # the sum of some of 2**62 has no room in int64
            return permute(chunks, owners, count, self.chunk_keys) * self.chunk + places
        firsts -= after - counts
        every = np.repeat(firsts, counts) + np.arange(after[-1])
        owners = None if windows.epochs is None else np.repeat(windows.epochs, counts)
        moved = permute(every, owners, count, self.chunk_keys) * self.chunk
        places += moved.take(chunks - windows.of_each(firsts))
        return places

    def _over_gaps(self, places: Int64Array, owners: Int64Array | None) -> Int64Array:
        """Where each place would be if the short chunk had all of its records."""
        missing = -self.n % self.chunk
        if not missing:
            return places
        return places + missing * (places >= (self.gaps if owners is None else self.gaps[owners]))

    def positions_of(self, record_keys: Int64Array) -> Int64Array:
        """The position of each record, where there is one epoch."""
        lanes, turns, sizes = self._shuffled_turns(record_keys)
        numbers = turns // self.reach
        windows = _WindowSelection.of(None, lanes, numbers)
        keys = fold_arrays(self.keys, _WINDOW, windows.lanes.view(np.uint64), windows.numbers.view(np.uint64))
        firsts = numbers * self.reach
        sizes = np.minimum(sizes[windows.lanes] - windows.numbers * self.reach, self.reach)
        return self._positions(lanes, firsts + windows.permuted(turns - firsts, sizes, keys, back=True))

    def windows_of(self, record_keys: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
        """The lanes and the first and last positions of the windows of records, where there is one epoch."""
        lanes, turns, sizes = self._shuffled_turns(record_keys)
        firsts = turns // self.reach * self.reach
        lasts = np.minimum(firsts + self.reach, sizes[lanes]) - 1
        return lanes, self._positions(lanes, firsts), self._positions(lanes, lasts)

    def _shuffled_turns(self, record_keys: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
        """The lane of each record, its turn before windows are shuffled, and the turns of all lanes; of one epoch."""
        chunks = record_keys // self.chunk
        places = unpermute(chunks, None, -(-self.n // self.chunk), self.chunk_keys) * self.chunk
        places += record_keys - chunks * self.chunk
        places -= (-self.n % self.chunk) * (places >= self.gaps[0])
        every = np.arange(self.lanes, dtype=np.int64)
        ends = self.phases + self.n
        starts = self._before(every, ends) - self._before(every, self.phases)
        sizes = self._count(every, ends) - self._count(every, self.phases)
        lanes = np.searchsorted(starts + sizes, places, "right").astype(np.int64, copy=False)
        return lanes, places - starts[lanes], sizes

    def _positions(self, lanes: Int64Array, turns: Int64Array) -> Int64Array:
        """The position of each turn of a lane, where there is one epoch."""
        turns = turns + self._count(lanes, self.phases)
        batches = turns // self.rows
        return batches * self.batch + lanes * self.rows + (turns - batches * self.rows) - self.phases

    def _turns(self, positions: Int64Array, owners: Int64Array | None) -> tuple[Int64Array, Int64Array]:
        if self.lanes == 1:
            return np.zeros(1, np.int64), positions
        phases = self.phases[:1] if owners is None else self.phases[owners]
        rows = positions + phases
        batches = rows // self.batch
        rows = rows - batches * self.batch
        lanes = rows // self.rows
        return lanes, batches * self.rows + (rows - lanes * self.rows) - self._count(lanes, phases)

    def _count(self, lanes: Int64Array, ends: Int64Array) -> Int64Array:
        """How many of the indices [0, end) are of a lane."""
        batches = ends // self.batch
        own: Int64Array = np.clip(ends - batches * self.batch - lanes * self.rows, 0, self.rows)
        return batches * self.rows + own

    def _before(self, lanes: Int64Array, ends: Int64Array) -> Int64Array:
        """How many of the indices [0, end) are of the lanes before a lane."""
        batches = ends // self.batch
        first = lanes * self.rows
        rest: Int64Array = np.minimum(ends - batches * self.batch, first)
        return batches * first + rest


@dataclass(frozen=True, slots=True)
class _WindowSelection:
    """The windows that some indices are in: arrays with one value for each window, and which one each index is in."""

    epochs: Int64Array | None  # None where there is one epoch
    lanes: Int64Array
    numbers: Int64Array
    owners: Int64Array | None  # None where there is one window

    @classmethod
    def of(cls, epochs: Int64Array | None, lanes: Int64Array, numbers: Int64Array) -> "_WindowSelection":
        some_lanes, of_lane = distinct_of(lanes)
        some_numbers, of_number = distinct_of(numbers)
        tickets = np.zeros(1, np.int64) if epochs is None else epochs
        if of_lane is not None:
            tickets = tickets * some_lanes.size + of_lane
        if of_number is not None:
            tickets = tickets * some_numbers.size + of_number
        found, owners = distinct_of(tickets)
        rest, number = np.divmod(found, some_numbers.size)
        epoch, lane = np.divmod(rest, some_lanes.size)
        return cls(None if epochs is None else epoch, some_lanes[lane], some_numbers[number], owners)

    def of_each(self, values: Int64Array) -> Int64Array:
        """The value of each index's window."""
        return values if self.owners is None else values[self.owners]

    def permuted(
        self, within: Int64Array, sizes: Int64Array, keys: UInt64Array, *, back: bool = False
    ) -> Int64Array:
        """The place of each index in its window, by the order of the window's key; `back`, the way back."""
        moved = unpermute if back else permute
        if self.owners is None or sizes.min() == sizes.max():
            return moved(within, self.owners, int(sizes[0]), keys)
        permuted = np.empty(within.shape, np.int64)
        alike, of_window = np.unique(sizes, return_inverse=True)
        kinds = of_window[self.owners]
        for kind, size in enumerate(alike.tolist()):
            here = np.flatnonzero(kinds == kind)
            if here.size:  # a window that no index is in may have no records
                some = np.flatnonzero(of_window == kind)
                owners = np.searchsorted(some, self.owners[here])
                permuted[here] = moved(within[here], owners, size, keys[some])
        return permuted
