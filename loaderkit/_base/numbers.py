"""The check of a number that a user gave: Python's or numpy's, an int or a float."""

from reprlib import repr as _short

import numpy as np


def number(name: str, value: object, expected: str = "a number") -> float:
    """`value` as a float; TypeError for a bool and for anything else that isn't a number.

    name: the argument as the user wrote it. expected: what it is, such as "a number of seconds".

    >>> number("wait", np.float32(0.5), "a number of seconds")
    0.5
    >>> number("wait", "1", "a number of seconds")
    Traceback (most recent call last):
    TypeError: wait: expected a number of seconds, got '1'
    """
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{name}: expected {expected}, got {_short(value)}")
    return float(value)
