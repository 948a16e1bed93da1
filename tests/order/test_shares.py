"""What a user gives as weights: exact fractions, and errors that say what to write."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaderkit._order.mixture.shares import fractions_of, integer_weights

NAMES = ("code", "books", "web")


def test_numbers_are_taken_as_they_are_shown():
    given_weights = {"web": np.float64(0.1), "code": np.int32(3), "books": Fraction(1, 3)}
    assert fractions_of(given_weights, NAMES) == {
        "code": Fraction(3),
        "books": Fraction(1, 3),
        "web": Fraction(1, 10),
    }


def test_a_short_float_is_the_decimal_number_that_it_shows():
    assert fractions_of({"web": np.float32(0.6), "code": np.float16(0.1)}, NAMES) == {
        "code": Fraction(1, 10),
        "web": Fraction(3, 5),
    }


def test_names_come_in_the_order_of_the_components_and_zeros_are_left_out():
    assert list(fractions_of({"web": 1, "books": 0.0, "code": 1e-9}, NAMES)) == ["code", "web"]


@pytest.mark.parametrize(
    ("weights", "error", "text"),
    [
        ({"web": -1}, ValueError, r"weights\['web'\]: expected 0 or more, got -1; write 0 for 'not now'"),
        ({"web": math.nan}, ValueError, r"weights\['web'\]: expected a finite number, got nan"),
        ({"web": np.float32("inf")}, ValueError, r"weights\['web'\]: expected a finite number"),
        ({"web": "1"}, TypeError, r"weights\['web'\]: expected an int, a float or a Fraction, got '1'"),
        ({"web": True}, TypeError, r"weights\['web'\]: expected an int"),
        ({"web": 0, "code": 0.0}, ValueError, "weights: expected a positive weight, got"),
        ({}, ValueError, "weights: expected a positive weight, got {}"),
        ({"boks": 1}, ValueError, "weights: expected names of components, got 'boks'; write 'books'?"),
        ({"zzz": 1}, ValueError, r"got 'zzz'; write one of \['code', 'books', 'web'\]"),
        ({"web": 1, "code": 1e-300}, ValueError, r"weights\['code'\]: expected a share of 2\*\*-62 or more"),
        ([0.5, 0.5], TypeError, "weights: expected a mapping of name to weight"),
    ],
)
def test_what_is_no_weight_is_refused(weights, error, text):
    with pytest.raises(error, match=text):
        fractions_of(weights, NAMES)


@given(st.lists(st.fractions(min_value=Fraction(1, 10**12)), min_size=1, max_size=8))
def test_integer_weights_have_the_same_ratio_and_no_common_divisor(weights):
    integers = list(integer_weights({str(place): weight for place, weight in enumerate(weights)}).values())
    assert math.gcd(*integers) == 1
    assert all(
        integer * weights[0] == integers[0] * weight
        for integer, weight in zip(integers, weights, strict=True)
    )
