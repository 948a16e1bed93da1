"""Versions MAJOR.MINOR.PATCH of data sets, and the patterns that choose one.

Major: the order or the content of the records is another. Minor: features were added. Patch: other bytes only.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

_NUMBER = r"(?:0|[1-9]\d*)"
_VERSION = re.compile(rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})", re.ASCII)
_PATTERN = re.compile(rf"(?:{_NUMBER}|\*)(?:\.(?:{_NUMBER}|\*)){{0,2}}", re.ASCII)


class Version(NamedTuple):
    """A version; versions compare by their numbers.

    >>> parse_version("1.10.0") > parse_version("1.9.3")
    True
    """

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


def parse_version(text: str) -> Version:
    """The version that a text says; ValueError for other texts.

    >>> str(parse_version("1.0.2"))
    '1.0.2'
    """
    found = _VERSION.fullmatch(text)
    if found is None:
        raise ValueError(f"version: expected MAJOR.MINOR.PATCH such as 1.0.0, got {text!r}")
    return Version(*map(int, found.groups()))


def is_version(text: str) -> bool:
    """Whether a text, such as a folder's name, is a version.

    >>> is_version("1.0.0"), is_version("1.0"), is_version("1.0.0.partial")
    (True, False, False)
    """
    return _VERSION.fullmatch(text) is not None


def newest(versions: Iterable[Version], pattern: str | None) -> Version | None:
    """The newest of the versions that a pattern allows; None where it allows none.

    Args:
        versions: in any order.
        pattern: "1.2.3", "1.2.*", "1.*"; a number that is left out is any number; None allows every version.
            ValueError for another text.

    >>> str(newest(map(parse_version, ["1.2.0", "1.10.0", "2.0.0"]), "1.*"))
    '1.10.0'
    """
    if pattern is None:
        return max(versions, default=None)
    if _PATTERN.fullmatch(pattern) is None:
        raise ValueError(
            f"version: expected a version or a pattern such as 1.2.3, 1.2.* or 1.*, got {pattern!r}"
        )
    wanted = pattern.split(".")
    return max((v for v in versions if all(w in ("*", str(n)) for w, n in zip(wanted, v))), default=None)
