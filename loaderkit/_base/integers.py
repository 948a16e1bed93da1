"""Whole numbers from users: Python or numpy integers in a stated range, as plain int."""

from typing import Any

import numpy as np


def as_int(name: str, value: object, *, low: int, high: int | None, advice: str) -> int:
    """`value` as a plain int with low <= value < high (high=None: no upper end).

    `name` is the argument as the user wrote it and `advice` is what to do instead; both appear in the error.
    A bool or a float is no integer (TypeError); one out of range is a ValueError.

    >>> as_int("batch_size", np.int64(8), low=1, high=None, advice="give a positive int")
    8
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be an int, got {value!r} of type {type(value).__name__}: {advice}")
    number = int(value)
    if number < low:
        raise ValueError(f"{name} must be at least {low}, got {number}: {advice}")
    if high is not None and number >= high:
        raise ValueError(f"{name} must be less than {_power_of_two(high)}, got {number}: {advice}")
    return number


def at_least(name: str, value: Any, least: int) -> int:
    """`value` as a plain int that is `least` or more. TypeError where it is no integer, ValueError where it is less.

    >>> at_least("prefetch", np.int64(2), 1)
    2
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name}: expected an int, got {value!r}")
    if value < least:
        raise ValueError(f"{name}: expected {least} or more, got {value}")
    return int(value)


def _power_of_two(number: int) -> str:
    exponent = number.bit_length() - 1
    return f"2**{exponent}" if exponent >= 16 and number == 1 << exponent else str(number)
