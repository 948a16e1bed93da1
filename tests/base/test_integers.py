"""What counts as a whole number, and what the errors say."""

import numpy as np
import pytest

from loaderkit._base.integers import as_int


def check(value: object) -> int:
    return as_int("size", value, low=1, high=1 << 32, advice="give a small int")


@pytest.mark.parametrize("value", [1, 7, np.int8(7), np.uint64(7), (1 << 32) - 1])
def test_integers_of_python_and_numpy_come_back_as_plain_int(value):
    """A number in range is accepted with any integer type, and becomes an int."""
    number = check(value)
    assert type(number) is int
    assert number == value


@pytest.mark.parametrize("value", [True, np.True_, 1.0, np.float32(1), "1", None, [1], np.array([1])])
def test_what_is_no_integer_is_a_type_error(value):
    """A bool, a float, a string: refused, with the argument, the value and the advice."""
    with pytest.raises(TypeError, match=r"size must be an int, got .*: give a small int"):
        check(value)


@pytest.mark.parametrize(
    ("value", "bound"), [(0, "at least 1"), (-5, "at least 1"), (1 << 32, r"less than 2\*\*32")]
)
def test_what_is_out_of_range_is_a_value_error(value, bound):
    """The error has the bound, in a readable form, and the value."""
    with pytest.raises(ValueError, match=f"size must be {bound}, got {value}: give a small int"):
        check(value)
