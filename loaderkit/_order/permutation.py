"""A keyed bijection of [0, n) on arrays: the order of a shuffled epoch, computed without a list of that order.

Up to 256 records the order is the ranking of n different hashes, a small table. For more records it is a Feistel
network on a grid of `columns` (a power of two near the root of n) times `rows` = ceil(n / columns) cells:

    position = row * columns + column
    8 rounds, in turn:  column ^= F(row),   row = (row + F(column)) mod rows,   each with its own key

The grid has fewer than `columns` cells more than n. So for every n, n = 2**k + 1 included, fewer than one position in
sqrt(n) / 2 is mapped outside [0, n). Such a position is enciphered again until the result is inside, which keeps the
whole a bijection (cycle walking). Memory is O(1), and any position of any epoch costs the same. One property isn't
random: for many n each round is an even permutation of the cells, so the sign of the whole order is fixed.

    position   place in the epoch's order, in [0, n)
    key        64 bits that choose the order, one key for each (seed, epoch)
    owner      in a call with several orders: which of the keys a position belongs to

The outputs are part of the stream: another constant or another number of rounds needs another `stream_version`.
"""

from collections.abc import Callable
from functools import cached_property

import numpy as np
import numpy.typing as npt

from loaderkit._base.numbers import at_least
from loaderkit._base.system.dataclasses import dataclass

from .mixing import UInt64Array, mix64

Int64Array = npt.NDArray[np.int64]

MAX_RECORDS = 1 << 62

_ROUNDS = 8
_RANKED = 256  # the most records ranked by a table; the halves of a smaller grid would have fewer than 16 values each
_RANK_CELLS = 1 << 16  # of the tables that are held at once, 512 KiB; a limit of memory
# Positions enciphered at once. Small chunks pay numpy's cost of a call more often, and the four scratch arrays of large
# ones leave the cache: for a million positions 2**10 took 5 times and 2**20 1.5 to 2 times as long.
_CHUNK = 1 << 14

_FACTOR_1 = np.uint64(0xBF58476D1CE4E5B9)
_FACTOR_2 = np.uint64(0x94D049BB133111EB)
_STREAM = np.uint64(0xA0761D6478BD642F)
_HALF = np.uint64(32)
_LAST = np.uint64((1 << 64) - 1)
_POWERS = np.int64(1) << np.arange(62)


@dataclass(frozen=True, slots=True)
class Permutation:
    """The order of [0, n) that a 64-bit key chooses; call it with positions.

    n: the number of records, 1 to 2**62 - 1. key: 0 to 2**64 - 1. TypeError or ValueError for another one. A call takes
    int64 positions in [0, n) of shape (k,) and gives int64 numbers in [0, n) of the same shape; a position outside is
    an IndexError.

    >>> order = Permutation(10, key=3)
    >>> sorted(order(np.arange(10)).tolist()) == list(range(10))
    True
    """

    n: int
    key: int

    def __post_init__(self) -> None:
        at_least("n", self.n, 1, below=MAX_RECORDS)
        at_least("key", self.key, 0, below=1 << 64)

    def __call__(self, positions: Int64Array) -> Int64Array:
        return permute(positions, None, self.n, np.array([self.key], np.uint64))


def permute(positions: Int64Array, owners: Int64Array | None, n: int, keys: UInt64Array) -> Int64Array:
    """Maps each position by the order of [0, n) that its own key chooses; many orders in one call.

    positions: (k,) int64 in [0, n), else an IndexError. keys: (m,) uint64. owners: (k,) int64 in [0, m), the place of
    each position's key; None where there is one key. Gives (k,) int64, for position j the same as
    `Permutation(n, keys[owners[j]])`.

    >>> both = permute(np.array([4, 4]), np.array([0, 1]), 10, np.array([3, 8], np.uint64))
    >>> both.tolist() == [int(Permutation(10, key)(np.array([4]))[0]) for key in (3, 8)]
    True
    """
    if positions.size == 0:
        return np.empty(positions.shape, np.int64)
    _check("positions", positions, n)
    if n <= _RANKED:
        return _by_rank(positions, owners, n, keys)
    return _by_cipher(positions, owners, n, keys, _encrypt)


class Permutations:
    """Orders of different lengths, made ready for many calls; call it with positions and the orders they are of.

    sizes: (m,) int64, 1 to 2**62 - 1. keys: (m,) uint64. A call takes (k,) int64 positions, each in [0, size of its
    order), else an IndexError, and their orders, (k,) int64 in [0, m). It gives (k,) int64, of each position the
    number that `Permutation(sizes[order], keys[order])` gives.

    >>> orders = Permutations(np.array([5, 900]), np.array([3, 8], np.uint64))
    >>> orders(np.array([4, 4]), np.array([0, 1])).tolist()
    [1, 593]
    >>> int(Permutation(900, 8)(np.array([4]))[0])
    593
    """

    def __init__(self, sizes: Int64Array, keys: UInt64Array) -> None:
        self.sizes = sizes
        self._keys = keys
        self._ranked = np.flatnonzero(sizes <= _RANKED)
        if self._ranked.size < sizes.size:
            self._grid, self._round_keys = _CipherDomain.covering_each(sizes), _round_keys_of(keys)
        if self._ranked.size:
            # (m,): where the table of each order begins in the tables of all
            self._begins = np.zeros(sizes.shape, np.int64)
            self._begins[self._ranked] = np.arange(self._ranked.size) * _RANKED

    def __call__(self, positions: Int64Array, orders: Int64Array) -> Int64Array:
        limits = self.sizes.take(orders)
        outside = positions.view(np.uint64) >= limits.view(np.uint64)  # of one below 0, too
        if outside.any():
            bad = int(np.flatnonzero(outside)[0])
            raise IndexError(f"positions: expected ints from 0 to {limits[bad] - 1}, got {positions[bad]}")
        return self.of_checked(positions, orders, limits)

    def of_checked(self, positions: Int64Array, orders: Int64Array, limits: Int64Array) -> Int64Array:
        """A call with positions that were compared with the sizes of their orders: `limits`, (k,) int64."""
        if not self._ranked.size:
            return self._by_cipher(positions, orders, limits)
        ranked = limits <= _RANKED
        moved = np.empty(positions.shape, np.int64)
        here = np.flatnonzero(ranked)
        moved[here] = self._tables.take(self._begins.take(orders[here]) + positions[here])
        here = np.flatnonzero(~ranked)
        if here.size:
            moved[here] = self._by_cipher(positions[here], orders[here], limits[here])
        return moved

    def _by_cipher(self, positions: Int64Array, orders: Int64Array, limits: Int64Array) -> Int64Array:
        if positions.size <= _CHUNK:
            return _walk(positions, orders, limits, self._grid.of(orders), self._round_keys, _encrypt)
        return np.concatenate(
            [
                self._by_cipher(positions[part], orders[part], limits[part])
                for part in (slice(low, low + _CHUNK) for low in range(0, positions.size, _CHUNK))
            ]
        )

    @cached_property
    def _tables(self) -> npt.NDArray[np.uint8]:
        """The table of each ranked order, one behind the other, each in _RANKED cells."""
        tables = np.empty((self._ranked.size, _RANKED), np.uint8)
        numbers = np.arange(_RANKED)
        names, group = mix64(numbers.view(np.uint64) * _STREAM), _RANK_CELLS // _RANKED
        for low in range(0, self._ranked.size, group):
            some = self._ranked[low : low + group]
            ranked = mix64(names ^ mix64(self._keys[some])[:, np.newaxis])
            # Numbers that a shorter order doesn't have stay behind its own: a stable sort leaves equal ones in order.
            ranked[numbers >= self.sizes[some][:, np.newaxis]] = _LAST
            tables[low : low + group] = np.argsort(ranked, axis=1, kind="stable")
        return tables.ravel()


def unpermute(numbers: Int64Array, owners: Int64Array | None, n: int, keys: UInt64Array) -> Int64Array:
    """The way back of `permute`: the position that the order of its key maps to each number.

    numbers: (k,) int64 in [0, n), else an IndexError. owners, keys: as `permute` takes them. Gives (k,) int64.

    >>> keys = np.array([3], np.uint64)
    >>> unpermute(permute(np.array([4, 0, 7]), None, 10, keys), None, 10, keys).tolist()
    [4, 0, 7]
    """
    if numbers.size == 0:
        return np.empty(numbers.shape, np.int64)
    _check("numbers", numbers, n)
    if n <= _RANKED:
        return _by_rank(numbers, owners, n, keys, back=True)
    return _by_cipher(numbers, owners, n, keys, _decrypt)


def _check(name: str, values: Int64Array, n: int) -> None:
    if values.min() < 0 or values.max() >= n:
        bad = values[(values < 0) | (values >= n)][0]
        raise IndexError(f"{name}: expected ints from 0 to {n - 1}, got {bad}")


@dataclass(frozen=True, slots=True)
class _CipherDomain:
    """The grid of an order; or of many, where each value is an array with one for each order or position."""

    width: np.uint64 | UInt64Array  # bits of a column
    column_mask: np.uint64 | UInt64Array
    row_count: np.uint64 | UInt64Array

    @classmethod
    def covering(cls, n: int) -> "_CipherDomain":
        width = (n - 1).bit_length() // 2
        return cls(np.uint64(width), np.uint64((1 << width) - 1), np.uint64(-(-n >> width)))

    @classmethod
    def covering_each(cls, sizes: Int64Array) -> "_CipherDomain":
        widths = np.searchsorted(_POWERS, sizes - 1, "right") // 2
        masks = (np.int64(1) << widths) - 1
        return cls(widths.view(np.uint64), masks.view(np.uint64), (sizes + masks >> widths).view(np.uint64))

    def of(self, owners: Int64Array) -> "_CipherDomain":
        """The grids of many positions, of those of many orders."""
        return _CipherDomain(
            self.width.take(owners), self.column_mask.take(owners), self.row_count.take(owners)
        )


_Cipher = Callable[[Int64Array, "_RoundKeys", _CipherDomain], Int64Array]  # _encrypt or _decrypt


@dataclass(frozen=True, slots=True)
class _RoundKeys:
    """The keys of the rounds, gathered for each position when a round needs them: all at once would leave the cache."""

    keys: UInt64Array  # (rounds, m)
    owners: Int64Array | None

    def __getitem__(self, number: int) -> UInt64Array:
        keys: UInt64Array = self.keys[number]
        return keys if self.owners is None else keys.take(self.owners)


def _by_cipher(
    cells: Int64Array, owners: Int64Array | None, n: int, keys: UInt64Array, cipher: _Cipher
) -> Int64Array:
    grid, round_keys = _CipherDomain.covering(n), _round_keys_of(keys)
    moved = np.empty(cells.shape, np.int64)
    for low in range(0, cells.size, _CHUNK):
        chunk = slice(low, low + _CHUNK)
        own = None if owners is None else owners[chunk]
        moved[chunk] = _walk(cells[chunk], own, n, grid, round_keys, cipher)
    return moved


def _round_keys_of(keys: UInt64Array) -> UInt64Array:
    """(rounds, m), for m keys."""
    return mix64(mix64(keys) ^ (np.arange(1, _ROUNDS + 1, dtype=np.uint64) * _STREAM)[:, np.newaxis])


def _walk(
    starts: Int64Array,
    owners: Int64Array | None,
    n: int | Int64Array,
    grid: _CipherDomain,
    round_keys: UInt64Array,
    cipher: _Cipher,
) -> Int64Array:
    """n, grid: the same for all, or of each position."""
    cells = cipher(starts, _RoundKeys(round_keys, owners), grid)
    outside = np.flatnonzero(cells >= n)
    while outside.size:
        keys = round_keys if owners is None else round_keys.take(owners[outside], axis=1)
        some = grid if isinstance(n, int) else grid.of(outside)
        moved = cipher(cells[outside], _RoundKeys(keys, None), some)
        cells[outside] = moved
        outside = outside[moved >= (n if isinstance(n, int) else n[outside])]
    return cells


def _encrypt(cells: Int64Array, round_keys: _RoundKeys, grid: _CipherDomain) -> Int64Array:
    column_mask, row_count = grid.column_mask, grid.row_count
    rows = np.right_shift(cells.view(np.uint64), grid.width)
    columns = np.bitwise_and(cells.view(np.uint64), column_mask)
    noise, scratch = np.empty_like(rows), np.empty_like(rows)
    for even in range(0, _ROUNDS, 2):
        _round_function(rows, round_keys[even], noise, scratch)
        np.bitwise_and(noise, column_mask, out=noise)
        np.bitwise_xor(columns, noise, out=columns)
        _round_function(columns, round_keys[even + 1], noise, scratch)
        # Scales 32 random bits to [0, rows), exact in 64 bits because rows <= 2**31.
        np.multiply(noise, row_count, out=noise)
        np.right_shift(noise, _HALF, out=noise)
        # Reduces a sum below 2 * rows without a branch: for a sum below rows the difference wraps to a huge number.
        np.add(rows, noise, out=rows)
        np.subtract(rows, row_count, out=scratch)
        np.minimum(rows, scratch, out=rows)
    np.left_shift(rows, grid.width, out=rows)
    return np.bitwise_or(rows, columns, out=rows).view(np.int64)


def _decrypt(cells: Int64Array, round_keys: _RoundKeys, grid: _CipherDomain) -> Int64Array:
    column_mask, row_count = grid.column_mask, grid.row_count
    rows = np.right_shift(cells.view(np.uint64), grid.width)
    columns = np.bitwise_and(cells.view(np.uint64), column_mask)
    noise, scratch = np.empty_like(rows), np.empty_like(rows)
    for even in range(_ROUNDS - 2, -1, -2):
        _round_function(columns, round_keys[even + 1], noise, scratch)
        np.multiply(noise, row_count, out=noise)
        np.right_shift(noise, _HALF, out=noise)
        # A difference below 0 wraps to a huge number, and adding row_count wraps it back: the smaller one is right.
        np.subtract(rows, noise, out=rows)
        np.add(rows, row_count, out=scratch)
        np.minimum(rows, scratch, out=rows)
        _round_function(rows, round_keys[even], noise, scratch)
        np.bitwise_and(noise, column_mask, out=noise)
        np.bitwise_xor(columns, noise, out=columns)
    np.left_shift(rows, grid.width, out=rows)
    return np.bitwise_or(rows, columns, out=rows).view(np.int64)


def _round_function(half: UInt64Array, key: UInt64Array, out: UInt64Array, scratch: UInt64Array) -> None:
    np.bitwise_xor(half, key, out=out)
    np.multiply(out, _FACTOR_1, out=out)
    np.right_shift(out, _HALF, out=scratch)
    np.bitwise_xor(out, scratch, out=out)
    np.multiply(out, _FACTOR_2, out=out)
    np.right_shift(out, _HALF, out=out)  # the upper 32 bits depend on all of half and key


def _by_rank(
    positions: Int64Array, owners: Int64Array | None, n: int, keys: UInt64Array, *, back: bool = False
) -> Int64Array:
    # mix64 is a bijection, so the n hashes of a key differ and every sorting algorithm ranks them alike.
    names = mix64(np.arange(n, dtype=np.uint64) * _STREAM)
    if owners is None:
        table = np.argsort(mix64(names ^ mix64(keys)))
        return (np.argsort(table) if back else table)[positions]
    permuted = np.empty(positions.shape, np.int64)
    group = _RANK_CELLS // n
    for low in range(0, len(keys), group):
        # tables: (keys of the group, n) int64
        tables = np.argsort(mix64(names ^ mix64(keys[low : low + group])[:, np.newaxis]), axis=1)
        if back:
            tables = np.argsort(tables, axis=1)
        here = np.flatnonzero((owners >= low) & (owners < low + group))
        permuted[here] = tables[owners[here] - low, positions[here]]
    return permuted


def distinct_of(values: Int64Array) -> tuple[Int64Array, Int64Array | None]:
    """The distinct values, ascending, and for each value its place among them; None where there is only one.

    values: (k,) int64. Where the values are close together, some of the distinct ones may not occur among them.

    >>> distinct_of(np.array([70, 5, 70]))
    (array([ 5, 70]), array([1, 0, 1]))
    >>> distinct_of(np.array([4, 4]))
    (array([4]), None)
    """
    if values.size == 0:
        return values, None
    low, high = int(values.min()), int(values.max())
    if low == high:
        return np.array([low], np.int64), None
    # Close together, as those of consecutive indices; np.unique would sort them, which costs more than a shuffle.
    if high - low < values.size:
        return np.arange(low, high + 1, dtype=np.int64), values - low
    distinct, owners = np.unique(values, return_inverse=True)
    return distinct, owners
