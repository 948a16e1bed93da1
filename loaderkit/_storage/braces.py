"""Brace expansion, as bash does it: `{a,b}`, `{000..146}`, `{1..9..2}`, `{a..e}`, nested; other braces stay.

A name is taken as it stands: no character quotes another, and `$` is an ordinary one.
"""

import re
from itertools import product

# A set of 10^7 shards has names of 1 GB; more than that is a typing error such as {000000..1000000000}.
MOST_NAMES = 10_000_000

_SEQUENCE = re.compile(
    r"(?:(?P<a>[+-]?\d+)\.\.(?P<b>[+-]?\d+)|(?P<c>[A-Za-z])\.\.(?P<d>[A-Za-z]))(?:\.\.(?P<step>[+-]?\d+))?"
)


def expand_braces(name: str) -> list[str]:
    """The names that a name with braces means, in bash's order; a name without any means itself.

    Args:
        name: any text. ValueError for more than 10 million names.

    >>> expand_braces("train-{000..002}.tar")
    ['train-000.tar', 'train-001.tar', 'train-002.tar']
    >>> expand_braces("{a,b{1..5..2}}/{x}")
    ['a/{x}', 'b1/{x}', 'b3/{x}', 'b5/{x}']
    """
    place = _first_group(name)
    if place is None:
        return [name]
    begin, end = place
    rest = expand_braces(name[end + 1 :])
    inner = _alternatives(name[begin + 1 : end])
    _check_count(len(inner) * len(rest))
    return [name[:begin] + middle + tail for middle, tail in product(inner, rest)]


def _first_group(text: str) -> tuple[int, int] | None:
    """Where the first `{` that has a `}` and a separator between them stands, and that `}`."""
    for begin, letter in enumerate(text):
        if letter == "{" and (begin or text[1:2] != "}") and (end := _closing(text, begin + 1)) is not None:
            return begin, end
    return None


def _closing(text: str, begin: int) -> int | None:
    level, separated = 0, False
    for place in range(begin, len(text)):
        letter = text[place]
        if letter == "}" and level == 0:
            if separated:
                return place
        elif letter == "{":
            level += 1
        elif letter == "}":
            level -= 1
        elif level == 0 and (
            letter == "," or (text.startswith("..", place) and text[place + 2 : place + 3] != "}")
        ):
            separated = True
    return None


def _alternatives(inside: str) -> list[str]:
    if "," not in inside:
        return _sequence(inside) or ["{" + inside + "}"]
    found: list[str] = []
    begin = level = 0
    for place, letter in enumerate(inside + ","):
        if letter == "{":
            level += 1
        elif letter == "}" and level:
            level -= 1
        elif letter == "," and (level == 0 or place == len(inside)):
            found += expand_braces(inside[begin:place])
            begin = place + 1
    _check_count(len(found))
    return found


def _sequence(inside: str) -> list[str]:
    """The texts of `a..b` or `a..b..step`; [] where it isn't one."""
    found = _SEQUENCE.fullmatch(inside)
    if found is None:
        return []
    step = max(abs(int(found["step"] or 1)), 1)
    if found["c"]:
        return [chr(code) for code in _from_to(ord(found["c"]), ord(found["d"]), step)]
    first, last = found["a"], found["b"]
    if any(not -(2**63) <= int(number) < 2**63 for number in (first, last, found["step"] or 1)):
        return []
    padded = any(re.fullmatch(r"-?0\d+", number) for number in (first, last))
    width = max(len(first), len(last)) if padded else 0
    steps = _from_to(int(first), int(last), step)
    _check_count(len(steps))
    return [f"{number:0{width}d}" for number in steps]


def _from_to(first: int, last: int, step: int) -> range:
    return range(first, last + 1, step) if first <= last else range(first, last - 1, -step)


def _check_count(count: int) -> None:
    # The name isn't shown: the query of an address may hold a credential.
    if count > MOST_NAMES:
        raise ValueError(
            f"paths: expected at most {MOST_NAMES:,} names from the braces of one, got {count:,}"
        )
