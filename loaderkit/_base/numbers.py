"""Numbers that a user gave, checked: ints and floats, Python's or numpy's, sizes as texts such as "64 MiB", bools."""

import re
from reprlib import repr as _short
from typing import Any

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


def at_least(name: str, value: object, least: int, *, below: int | None = None, advice: str = "") -> int:
    """`value` as a plain int with least <= value < below; below=None is no upper end.

    name: the argument as the user wrote it. advice: what to do instead, at the end of an error. A bool, a float and
    anything else that isn't an integer is a TypeError, an integer out of range a ValueError.

    >>> at_least("prefetch", np.int64(2), 1)
    2
    >>> at_least("shard_index", 4, 0, below=4, advice="shards are numbered from 0")
    Traceback (most recent call last):
        ...
    ValueError: shard_index: expected an int from 0 to 3, got 4; shards are numbered from 0
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise not_an_int(name, value, advice)
    number = int(value)
    if number < least or (below is not None and number >= below):
        expected = f"{least} or more" if below is None else f"an int from {least} to {_last_before(below)}"
        raise ValueError(f"{name}: expected {expected}, got {_short(number)}{_end(advice)}")
    return number


def true_or_false(name: str, value: object) -> bool:
    """`value` if it is True or False, else a TypeError. name: the argument as the user wrote it.

    >>> true_or_false("decode", 1)
    Traceback (most recent call last):
    TypeError: decode: expected True or False, got 1
    """
    if not isinstance(value, bool):
        raise TypeError(f"{name}: expected True or False, got {_short(value)}")
    return value


def not_an_int(name: str, value: object, advice: str = "") -> TypeError:
    """The error for a value that isn't an integer; the arguments are those of at_least.

    >>> not_an_int("index", "2")
    TypeError("index: expected an int, got '2'")
    """
    return TypeError(f"{name}: expected an int, got {_short(value)}{_end(advice)}")


def _end(advice: str) -> str:
    return f"; {advice}" if advice else ""


def _last_before(end: int) -> str:
    exponent = end.bit_length() - 1
    return f"2**{exponent} - 1" if exponent >= 16 and end == 1 << exponent else str(end - 1)


_DECIMAL = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_BINARY = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
_SIZE = re.compile(r"(\d+(?:\.\d+)?) *([KMGTP]?)(I?)B?", re.ASCII | re.IGNORECASE)
_ADVICE = 'give bytes, or a text such as "200GB" or "50GiB"'


def number_of_bytes(name: str, value: object) -> int:
    """`value` as a plain int of 1 or more: "200GB" is 200 * 10**9 bytes, "50GiB" is 50 * 2**30.

    name: the argument as the user wrote it. Anything but an int or a text is a TypeError, another text and a number
    below 1 a ValueError.

    >>> number_of_bytes("limit", "1.5 KiB")
    1536
    >>> number_of_bytes("limit", "much")
    Traceback (most recent call last):
        ...
    ValueError: limit: expected a size, got 'much'; give bytes, or a text such as "200GB" or "50GiB"
    """
    if not isinstance(value, str):
        return at_least(name, value, 1, advice=_ADVICE)
    found = _SIZE.fullmatch(value.strip())
    if found is None or (found[3] and not found[2]):
        raise ValueError(f"{name}: expected a size, got {_short(value)}; {_ADVICE}")
    unit = (_BINARY if found[3] else _DECIMAL)[found[2].upper()]
    return at_least(name, int(float(found[1]) * unit), 1, advice=_ADVICE)


def as_array(given: Any) -> np.ndarray:
    """`np.asarray(given)`; for rows of different lengths, which are no array, an empty one of two dimensions.

    >>> as_array([1, 2]), as_array([[1], [2, 3]]).shape
    (array([1, 2]), (0, 0))
    """
    try:
        return np.asarray(given)
    except ValueError:
        return np.empty((0, 0))
