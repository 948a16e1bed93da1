"""The sources that a source is made of: their checks, their names where they have some, what they offer together."""

from collections.abc import Mapping, Sequence
from reprlib import repr as _short
from typing import Any

from loaderkit._source.optional import advised_calls, many_reader
from loaderkit._source.record_key import short_repr

from .checked import require_methods

# A call in bulk takes a task's records: in place of the 4 that a source on a server advises 32 single reads are in
# flight, as many requests as a process makes at once.
_SINGLE_READS = 8


def parts_of(sources: Sequence[Any] | Mapping[str, Any]) -> tuple[tuple[str, ...] | None, tuple[Any, ...]]:
    """The names, None for a sequence, and the sources, in the order given.

    Args:
        sources: one data source or more. ValueError for none; TypeError naming the place or the name of an object that
            isn't one, and for a name that isn't a text.

    >>> parts_of({"a": range(3), "b": "xyz"})
    (('a', 'b'), (range(0, 3), 'xyz'))
    """
    names: tuple[str, ...] | None = None
    if isinstance(sources, Mapping):
        names = tuple(sources)
        for name in names:
            if not isinstance(name, str):
                raise TypeError(f"sources: expected names that are texts, got {_short(name)}")
    parts = tuple(sources.values() if isinstance(sources, Mapping) else sources)
    if not parts:
        empty = "sequence" if names is None else "mapping"
        raise ValueError(f"sources: expected one data source or more, got an empty {empty}")
    return names, tuple(
        require_methods(source, argument=f"sources[{place if names is None else repr(names[place])}]")
        for place, source in enumerate(parts)
    )


def parts_repr(names: tuple[str, ...] | None, parts: tuple[Any, ...]) -> str:
    """The first three of the sources as they were given, and how many more there are.

    >>> parts_repr(None, ([1], [2, 3]))
    '[a list of 1 records, a list of 2 records]'
    """
    shown = [short_repr(source) for source in parts[:3]]
    if names is not None:
        shown = [f"{name!r}: {text}" for name, text in zip(names, shown)]
    more = len(parts) - len(shown)
    text = f"{', '.join(shown)}{f', and {more} more' if more else ''}"
    return f"[{text}]" if names is None else f"{{{text}}}"


def calls_of_parts(parts: tuple[Any, ...], *, in_bulk: bool) -> int:
    """The calls in flight that pay for a source made of these: the most that one of them says, 0 where none does.

    So the reads of a remote source stay in flight beside a source in memory, whose own reads then cost a hand-over to a
    thread: microseconds beside milliseconds. Where the source in memory ends reads in bulk, a call of the remote one
    has one record and no longer many: eight times as many calls are advised then.

    Args:
        parts: the sources.
        in_bulk: whether the source made of them has `__getitems__`.

    >>> calls_of_parts(([1], [2]), in_bulk=False)
    0
    """
    calls = [advised_calls(source) for source in parts]
    if max(calls) and not in_bulk:
        of_bulk = [n for n, source in zip(calls, parts) if many_reader(source) is not None]
        calls.append(_SINGLE_READS * max(of_bulk, default=0))
    return max(calls)
