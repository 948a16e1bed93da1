"""What counts as an integer, and what the errors say."""

import numpy as np
import pytest

from loaderkit._base.numbers import at_least


def check(value: object) -> int:
    return at_least("size", value, 1, below=1 << 32, advice="give a small int")


@pytest.mark.parametrize("value", [1, 7, np.int8(7), np.uint64(7), (1 << 32) - 1])
def test_integers_of_python_and_numpy_come_back_as_plain_int(value):
    """A number in range is accepted with any integer type, and becomes an int."""
    number = check(value)
    assert type(number) is int
    assert number == value


@pytest.mark.parametrize("value", [True, np.True_, 1.0, np.float32(1), "1", None, [1], np.array([1])])
def test_what_is_no_integer_is_a_type_error(value):
    """A bool, a float, a string: refused, with the argument, the value and the advice."""
    with pytest.raises(TypeError, match=r"^size: expected an int, got .*; give a small int$"):
        check(value)


@pytest.mark.parametrize("value", [0, -5, 1 << 32, np.int64(0)])
def test_what_is_out_of_range_is_a_value_error(value):
    """The error says the range, with powers of two readable, and what came."""
    text = rf"^size: expected an int from 1 to 2\*\*32 - 1, got {int(value)}; give a small int$"
    with pytest.raises(ValueError, match=text):
        check(value)


def test_without_an_upper_end_and_advice_the_error_is_short():
    """It says the least value alone; a small range is said in digits."""
    with pytest.raises(ValueError, match=r"^step: expected 0 or more, got -1$"):
        at_least("step", -1, 0)
    with pytest.raises(ValueError, match=r"^block: expected an int from 0 to 7, got 8$"):
        at_least("block", 8, 0, below=8)


def test_a_long_value_is_cut():
    """An error never holds a whole array or a number of thousands of digits."""
    with pytest.raises(TypeError) as wrong_type:
        at_least("n", list(range(10_000)), 0)
    with pytest.raises(ValueError) as too_large:
        at_least("n", 10**1000, 0, below=2**63)
    assert max(len(str(error.value)) for error in (wrong_type, too_large)) < 120
