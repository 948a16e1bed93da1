"""Names that a source gives its records, such as a file's name, shown beside their keys.

A name is computed only where it is shown: in an error, the log, the quarantine file, or `loader.records`. If that
fails, the key is shown alone, so the failure never hides the error that is being reported.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Any

from .optional import ANY_NUMBER, BY_PLACE, parameters_of

_MOST = 200  # characters of a name that are shown

Namer = Callable[[int], str | None]


def namer_of(source: Any) -> Namer:
    """A function from a record key to the record's name: one line of about 200 characters, or None; it never raises.

    Args:
        source: any data source. Only a `name` method that takes one record key is used: objects of other libraries may
            have a `name` that is a text or a method without arguments.

    >>> class Files(list):
    ...     def name(self, record_key):
    ...         return self[record_key]
    >>> namer_of(Files(["cat.jpg"]))(0), namer_of(["cat.jpg"])(0)
    ('cat.jpg', None)
    """

    method = cache(lambda: _method_of(source))  # looked up at the first call

    def name(record_key: int) -> str | None:
        try:
            ask = method()
            given = None if ask is None else ask(record_key)
            return None if given is None else shown_name(given)
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001 - another error is being reported and must not be replaced
            return None

    return name


class Routed:
    """A base class of sources that read the records of another by more keys: messages have its type and its keys.

    plain: the other source.
    """

    plain: Any

    def plain_key(self, record_key: int) -> int:
        """The other source's key of a record."""
        raise NotImplementedError


def kind_of(source: Any) -> str:
    """The type of a source, as messages name it.

    >>> kind_of([5, 6])
    'list'
    """
    return type(source.plain if isinstance(source, Routed) else source).__qualname__


def shown_key(source: Any, record_key: int) -> int:
    """The key of a record, as messages name it.

    >>> shown_key([5, 6], 1)
    1
    """
    return source.plain_key(record_key) if isinstance(source, Routed) else record_key


def has_names(source: Any) -> bool:
    """Whether a source has the protocol's `name`. Never raises.

    Args:
        source: any data source.

    >>> has_names(["cat.jpg"])
    False
    """
    try:
        return _method_of(source) is not None
    except Exception:  # noqa: BLE001 - the attribute may be a property that raises
        return False


def _method_of(source: Any) -> Callable[[int], Any] | None:
    method = getattr(source, "name", None)
    return method if callable(method) and _takes_one(method) else None


def _takes_one(method: Callable[..., Any]) -> bool:
    """Whether it requires exactly one argument, a positional one."""
    needed = [p for p in parameters_of(method) if p.default is p.empty and p.kind not in ANY_NUMBER]
    return len(needed) == 1 and needed[0].kind in BY_PLACE


def shown_name(name: Any) -> str:
    """A name as it is shown: one line, unprintable characters escaped, a long name cut in the middle.

    Args:
        name: text, bytes, a path, or any other object, by its str.

    >>> shown_name("two\\nlines"), len(shown_name("x" * 10**6))
    ('two\\\\nlines', 201)
    """
    text = os.fsdecode(name) if isinstance(name, bytes | os.PathLike) else str(name)
    if len(text) > 4 * _MOST:  # cut before the loop over its characters
        text = text[: 2 * _MOST] + text[-2 * _MOST :]
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return line if len(line) <= _MOST else f"{line[: _MOST // 2]}…{line[-_MOST // 2 :]}"
