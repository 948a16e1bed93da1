"""The check of an integer that a user gave: Python's or numpy's, in a stated range, and a plain int from then on."""

from reprlib import repr as _short

import numpy as np


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
