"""The shuffle is a bijection of [0, n) for every n and key, the same as its slow twin, and never changes."""

import hashlib
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderkit._order.mixing import fold
from loaderkit._order.permutation import Permutation, Permutations, permute, unpermute

WORD = (1 << 64) - 1
FACTOR_1, FACTOR_2, STREAM = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xA0761D6478BD642F
# At and around powers of two, where a domain could be a bit too small or twice too large.
EDGES = sorted(
    {(1 << k) + d for k in (1, 2, 3, 8, 9, 10, 16, 20, 31, 32, 40, 41, 53, 61) for d in (-1, 0, 1)}
)
SIZES = [size for size in EDGES if size >= 1] + [(1 << 62) - 1]

keys = st.integers(0, WORD)
large_sizes = st.one_of(
    st.integers(257, (1 << 62) - 1),
    st.builds(lambda k, d: (1 << k) + d, st.integers(9, 61), st.integers(-1, 1)),
)


class NaiveFeistel:
    """One position at a time with Python's integers, and the way back."""

    def __init__(self, n: int, key: int) -> None:
        self.n = n
        self.columns = 1 << ((n - 1).bit_length() // 2)
        self.rows = (n + self.columns - 1) // self.columns
        base = fold(key)
        self.round_keys = [fold(base ^ (number * STREAM & WORD)) for number in range(1, 9)]

    def noise(self, half: int, number: int) -> int:
        mixed = (half ^ self.round_keys[number]) * FACTOR_1 & WORD
        return ((mixed ^ mixed >> 32) * FACTOR_2 & WORD) >> 32

    def __call__(self, position: int) -> int:
        cell = self.encrypt(position)
        while cell >= self.n:
            cell = self.encrypt(cell)
        return cell

    def inverse(self, number: int) -> int:
        cell = self.decrypt(number)
        while cell >= self.n:
            cell = self.decrypt(cell)
        return cell

    def encrypt(self, cell: int) -> int:
        row, column = divmod(cell, self.columns)
        for number in range(0, 8, 2):
            column ^= self.noise(row, number) % self.columns
            row = (row + (self.noise(column, number + 1) * self.rows >> 32)) % self.rows
        return row * self.columns + column

    def decrypt(self, cell: int) -> int:
        row, column = divmod(cell, self.columns)
        for number in range(6, -1, -2):
            row = (row - (self.noise(column, number + 1) * self.rows >> 32)) % self.rows
            column ^= self.noise(row, number) % self.columns
        return row * self.columns + column


def naive_ranking(n: int, key: int) -> list[int]:
    base = fold(key)
    return sorted(range(n), key=lambda number: fold(fold(number * STREAM & WORD) ^ base))


@pytest.mark.parametrize("n", [*range(1, 40), 255, 256, 257, 258, 1023, 1024, 1025, 65535, 65536, 65537])
@pytest.mark.parametrize("key", [0, 1, WORD])
def test_each_record_comes_exactly_once(n, key):
    """No record is lost and none comes twice, also right beside powers of two."""
    order = Permutation(n, key)(np.arange(n))
    assert order.dtype == np.int64
    assert np.array_equal(np.sort(order), np.arange(n))


def test_each_record_comes_exactly_once_past_a_power_of_two():
    """2**20 + 1, where a domain of 2**20 would lose one and one of 2**22 would be walked for long."""
    n = (1 << 20) + 1
    assert np.array_equal(np.bincount(Permutation(n, 5)(np.arange(n)), minlength=n), np.ones(n))


@given(large_sizes, keys, st.data())
def test_every_size_past_2_to_40_too_agrees_with_the_twin_and_can_be_undone(n, key, data):
    """Undoing it position by position proves the bijection where no one can list it."""
    anywhere = st.lists(st.integers(0, n - 1), min_size=1, max_size=20)
    positions = [*data.draw(anywhere), 0, n - 1]
    order, twin = Permutation(n, key)(np.array(positions)).tolist(), NaiveFeistel(n, key)
    assert order == [twin(position) for position in positions]
    assert [twin.inverse(number) for number in order] == positions


@given(st.integers(1, 256), keys)
def test_small_sizes_are_the_ranking_of_hashes(n, key):
    """Up to 256 records the order is that of n different hashes, sorted in the slow way."""
    assert Permutation(n, key)(np.arange(n)).tolist() == naive_ranking(n, key)


@given(
    st.one_of(st.integers(1, 400), large_sizes),
    st.lists(keys, min_size=1, max_size=6),
    st.data(),
)
def test_many_orders_in_one_call_are_each_the_order_of_its_key(n, some_keys, data):
    """A block of indices may span epochs in any arrangement."""
    pair = st.tuples(st.integers(0, n - 1), st.integers(0, len(some_keys) - 1))
    pairs = data.draw(st.lists(pair, max_size=30))
    positions, owners = np.array(pairs, np.int64).reshape(-1, 2).T.copy()
    together = permute(positions, owners, n, np.array(some_keys, np.uint64))
    alone = [int(Permutation(n, some_keys[owner])(np.array([position]))[0]) for position, owner in pairs]
    assert together.tolist() == alone
    assert unpermute(together, owners, n, np.array(some_keys, np.uint64)).tolist() == positions.tolist()


@given(
    st.lists(st.tuples(st.one_of(st.integers(1, 400), large_sizes), keys), min_size=1, max_size=6),
    st.data(),
)
def test_orders_of_different_lengths_in_one_call_are_each_their_own(orders, data):
    """Ranked ones and enciphered ones together, in any arrangement; one that no position has, too."""
    owners = data.draw(st.lists(st.integers(0, len(orders) - 1), max_size=30))
    positions = [data.draw(st.integers(0, orders[owner][0] - 1)) for owner in owners]
    sizes = np.array([n for n, _ in orders], np.int64)
    several = Permutations(sizes, np.array([key for _, key in orders], np.uint64))
    together = several(np.array(positions, np.int64), np.array(owners, np.int64))
    assert together.tolist() == [
        int(Permutation(*orders[owner])(np.array([position]))[0])
        for position, owner in zip(positions, owners, strict=True)
    ]


def test_many_short_and_long_orders_in_one_call():
    """More ranked orders than one group of tables has, of lengths that are mixed."""
    sizes = np.array([1 + fold(3, number) % 300 for number in range(700)])
    some_keys = np.array([fold(4, number) for number in range(700)], np.uint64)
    owners = np.repeat(np.arange(700), sizes)
    positions = np.concatenate([np.arange(size) for size in sizes])
    alone = [
        Permutation(size, key)(np.arange(size))
        for size, key in zip(sizes.tolist(), some_keys.tolist(), strict=True)
    ]
    assert np.array_equal(Permutations(sizes, some_keys)(positions, owners), np.concatenate(alone))


@pytest.mark.parametrize("position", [-1, 300])
def test_a_position_outside_its_own_order_is_an_error(position):
    with pytest.raises(IndexError, match=f"positions: expected ints from 0 to 299, got {position}"):
        Permutations(np.array([300, 900]), np.zeros(2, np.uint64))(np.array([0, position]), np.array([1, 0]))


@pytest.mark.parametrize("n", [200, 100_000])
def test_how_a_call_is_cut_makes_no_difference(n):
    """More positions than are worked on at once, and more keys than are ranked at once."""
    positions = np.tile(np.arange(0, n, max(1, n // 1000)), 40)
    owners = np.repeat(np.arange(40), positions.size // 40) * 20
    keys_of_all = np.array([fold(9, number) for number in range(800)], np.uint64)
    together = permute(positions, owners, n, keys_of_all)
    parts = [
        permute(positions[low : low + 777], owners[low : low + 777], n, keys_of_all)
        for low in range(0, positions.size, 777)
    ]
    assert np.array_equal(together, np.concatenate(parts))


@pytest.mark.parametrize("n", SIZES)
def test_hardly_any_position_lies_outside_the_domain(n):
    """Cycle walking stays cheap for every n: the grid exceeds it by less than one cell in sqrt(n) / 2."""
    twin = NaiveFeistel(n, 0)
    assert 0 <= twin.rows * twin.columns - n < twin.columns
    assert twin.columns**2 < 2 * n
    assert twin.rows < 1 << 32


@pytest.mark.parametrize("n", [3, 4, 5])
def test_every_order_of_a_few_records_is_as_likely_as_any(n):
    """All n! orders occur, by a chi-square over 24,000 keys."""
    counts = dict.fromkeys(itertools.permutations(range(n)), 0)
    several = np.array([fold(1, number) for number in range(24_000)], np.uint64)
    orders = permute(np.tile(np.arange(n), several.size), np.repeat(np.arange(several.size), n), n, several)
    for order in orders.reshape(-1, n).tolist():
        counts[tuple(order)] += 1
    expected, freedom = several.size / len(counts), len(counts) - 1
    chi = sum((count - expected) ** 2 / expected for count in counts.values())
    assert abs(chi - freedom) < 5 * (2 * freedom) ** 0.5


@pytest.mark.parametrize("n", [10, 1000])
@pytest.mark.parametrize("position", [-1, "n", 1 << 62])
def test_a_position_outside_is_an_error(n, position):
    """Walking on from outside might never end."""
    position = n if position == "n" else position
    with pytest.raises(IndexError, match=rf"positions: expected ints from 0 to {n - 1}, got {position}"):
        Permutation(n, 0)(np.array([0, position]))


def test_no_positions_give_no_numbers():
    """An empty call is no special case, neither small nor large."""
    for n in (3, 300):
        assert Permutation(n, 0)(np.empty(0, np.int64)).shape == (0,)


@pytest.mark.parametrize(("n", "key"), [(0, 0), (-1, 0), (1 << 62, 0), (5, -1), (5, 1 << 64)])
def test_sizes_and_keys_out_of_range_are_refused(n, key):
    """The error names which."""
    with pytest.raises(ValueError, match="^n: expected" if n != 5 else "^key: expected"):
        Permutation(n, key)


@pytest.mark.parametrize(
    ("n", "digest"),
    [
        (200, "e2322e24b3f0e6d5"),
        (1000, "c441c089217cb635"),
        (65537, "e58e94fd404035d6"),
        ((1 << 40) + 1, "6ede97e57c5b1424"),
    ],
)
def test_orders_are_part_of_the_stream(n, digest):
    """These never change: streams that were trained on depend on them."""
    order = Permutation(n, 12345)(np.arange(min(n, 5000)))
    assert hashlib.sha256(order.astype("<i8").tobytes()).hexdigest()[:16] == digest
