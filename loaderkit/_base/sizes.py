"""The check of a number of bytes that a user gave: an int, or a text such as "200GB"."""

import re
from reprlib import repr as _short

from .integers import at_least

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
