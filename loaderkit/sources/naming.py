"""What a source calls its records, such as the name of a file, to be shown beside their keys.

A name is asked for where it is shown and nowhere else: in an error, in the log, in the quarantine file, by the user.
What goes wrong with it hides nothing: then the key is shown alone.
"""

import inspect
import os
from collections.abc import Callable
from functools import cache
from typing import Any

_MOST = 200  # characters of a name that are shown
_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

Namer = Callable[[int], str | None]


def namer_of(source: Any) -> Namer:
    """Asks a source for a record's name: a line of at most some 200 characters, None where it has none. Never raises.

    Args:
        source: any data source. Other libraries' objects have a `name` too, a text or a method without arguments: only
            a method that takes a record key is the protocol's.

    >>> class Files(list):
    ...     def name(self, record_key):
    ...         return self[record_key]
    >>> namer_of(Files(["cat.jpg"]))(0), namer_of(["cat.jpg"])(0)
    ('cat.jpg', None)
    """

    method = cache(lambda: _method_of(source))  # looked at when the first name is asked for

    def name(record_key: int) -> str | None:
        try:
            ask = method()
            said = None if ask is None else ask(record_key)
            return None if said is None else shown_name(said)
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001 - what it is asked for is an error that must be heard
            return None

    return name


def has_names(source: Any) -> bool:
    """Whether a source has the protocol's `name`. Never raises.

    Args:
        source: any data source.

    >>> has_names(["cat.jpg"])
    False
    """
    try:
        return _method_of(source) is not None
    except Exception:  # noqa: BLE001 - an attribute may be computed, and fail
        return False


def _method_of(source: Any) -> Callable[[int], Any] | None:
    method = getattr(source, "name", None)
    return method if callable(method) and _takes_one(method) else None


def _takes_one(method: Callable[..., Any]) -> bool:
    """Whether it has exactly one argument that has to be given, by its place."""
    try:
        parameters = inspect.signature(method).parameters.values()
    except (TypeError, ValueError):  # of a method written in C, which may say nothing
        return False
    any_number = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [p for p in parameters if p.default is p.empty and p.kind not in any_number]
    return len(needed) == 1 and needed[0].kind in _BY_PLACE


def shown_name(name: Any) -> str:
    """A name as it is shown: one line, of a long one the two ends, what can't be printed escaped.

    Args:
        name: text, bytes, a path, or anything with a str.

    >>> shown_name("two\\nlines"), len(shown_name("x" * 10**6))
    ('two\\\\nlines', 201)
    """
    text = os.fsdecode(name) if isinstance(name, bytes | os.PathLike) else str(name)
    if len(text) > 4 * _MOST:  # before each character is looked at
        text = text[: 2 * _MOST] + text[-2 * _MOST :]
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return line if len(line) <= _MOST else f"{line[: _MOST // 2]}…{line[-_MOST // 2 :]}"
