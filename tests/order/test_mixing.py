"""Keys folded from small numbers: the same on every machine and in every version, and all different."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderkit._order.mixing import fold, fold_arrays, fold_each, mix64

words = st.integers(0, (1 << 64) - 1)


@given(words, st.lists(words, min_size=1, max_size=20))
def test_many_at_once_are_the_same_as_one_by_one(seed, parts):
    """fold_each is fold, on an array of any shape."""
    array = np.array(parts, np.uint64)
    folded = fold_each(seed, array)
    assert folded.dtype == np.uint64
    assert folded.tolist() == [fold(seed, part) for part in parts]
    assert fold_each(seed, array[:, np.newaxis]).shape == (len(parts), 1)


@given(st.lists(st.tuples(words, words), min_size=1, max_size=20), words)
def test_many_seeds_at_once_are_the_same_as_one_by_one(pairs, last):
    """fold_arrays is fold, with arrays that broadcast."""
    seeds, parts = np.array(pairs, np.uint64).T
    expected = [fold(seed, part, last) for seed, part in pairs]
    assert fold_arrays(seeds, parts, np.array([last], np.uint64)).tolist() == expected


@given(words, words, words)
def test_with_all_but_one_number_fixed_keys_differ(fixed, one, other):
    """Folding is a bijection in each single number, not only very likely without collisions."""
    same = one == other
    assert (fold(one, fixed) == fold(other, fixed)) is same
    assert (fold(fixed, one) == fold(fixed, other)) is same
    assert (fold(fixed, one, fixed) == fold(fixed, other, fixed)) is same


def test_small_tuples_never_share_a_key():
    """Seeds, epochs and ordinals are small and close together: their tuples up to length three all differ."""
    tuples = [*itertools.product(range(300), range(300)), *itertools.product(range(40), repeat=3)]
    tuples += [(number,) for number in range(1000)]
    assert len({fold(*numbers) for numbers in tuples}) == len(tuples)


def test_every_input_bit_turns_over_half_of_the_output_bits():
    """Near inputs have nothing in common: each of 64 x 64 bits flips in 44 to 56 percent of samples."""
    inputs = np.random.default_rng(0).integers(0, 1 << 64, 2000, dtype=np.uint64)
    flipped = np.array([mix64(inputs) ^ mix64(inputs ^ np.uint64(1 << bit)) for bit in range(64)])
    share = [((flipped >> np.uint64(bit)) & np.uint64(1)).mean(axis=1) for bit in range(64)]
    assert np.abs(np.array(share) - 0.5).max() < 0.06


def test_the_input_is_left_alone():
    """mix64 gives a new array."""
    values = np.arange(4, dtype=np.uint64)
    mix64(values)
    assert values.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("numbers", [(-1,), (1 << 64,), (0, -1), (0, 1, 1 << 64)])
def test_numbers_beyond_64_bits_are_refused(numbers):
    """Cutting them off silently would give two numbers one key."""
    with pytest.raises(ValueError, match=r"ints from 0 to 2\*\*64 - 1"):
        fold(*numbers)


def test_keys_are_part_of_the_stream():
    """These never change: streams that were trained on depend on them."""
    assert hex(fold(0)) == "0xe220a8397b1dcdaf"
    assert [hex(fold(0, 0)), hex(fold(0, 1)), hex(fold(1, 0)), hex(fold(1, 2, 3))] == [
        "0x9a80e645e28eaa64",
        "0x8b1b1ee0e0fe529b",
        "0xa0fe367ab32de4de",
        "0xecffa76020fb2cfb",
    ]
