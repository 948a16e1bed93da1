"""The optional methods and attributes of a source, distinguished from others with the same names.

Data sets of other libraries have methods named `take` that do something else: those of numpy, torch and JAX take single
elements of the flattened array, Hugging Face's takes the first n records, those of pandas and pyarrow give a part of a
table. The protocol's `take` is recognised by its signature.

A class may also inherit a method that belongs to another `__getitem__` than its own. Such a method reads other records
than the class gives, so it isn't used.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
ANY_NUMBER = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def many_reader(source: Any) -> Callable[[Sequence[int]], Sequence[Any]] | None:
    """The source's `__getitems__(record_keys)`, None where it has none that agrees with its `__getitem__`.

    Args:
        source: any data source.

    >>> many_reader([1, 2]) is None
    True
    """
    return own_member(source, "__getitems__")


def column_reader(source: Any) -> Callable[..., Any] | None:
    """The source's `take(record_keys, out=None)`, None where it has none that agrees with its `__getitem__`.

    Args:
        source: any data source.

    >>> import numpy as np
    >>> column_reader(np.zeros((2, 3))) is None  # numpy's take has other parameters
    True
    """
    take = own_member(source, "take")
    if take is None:
        return None
    function = getattr(take, "__func__", take)
    takes = _TAKES.get(function)
    if takes is None:
        takes = _TAKES[function] = _takes_columns(take)
    return take if takes else None


def each_reader(source: Any) -> Callable[[NDArray[np.int64]], Iterator[Any]] | None:
    """The source's `read_each(record_keys)`, None where it has none that agrees with its `__getitem__`.

    Sources of loaderkit that are made of others have it: it gives the records one by one, each read when it is asked
    for, and finds those of many keys at once.

    Args:
        source: any data source.

    >>> each_reader([1, 2]) is None
    True
    """
    return own_member(source, "read_each")


def part_reader(source: Any) -> Callable[[int, int, int], Any] | None:
    """The source's `read_range(record_key, start, stop)`, None where it has none that agrees with its `__getitem__`.

    Args:
        source: any data source.

    >>> part_reader([1, 2]) is None
    True
    """
    return own_member(source, "read_range")


def has_tokens(source: Any) -> bool:
    """Whether a source has what a `TokenDataSource` has, by which tokens are written straight into batches.

    Args:
        source: any data source.

    >>> has_tokens([1, 2])
    False
    """
    return all(hasattr(source, name) for name in ("feature", "dtype", "bounds", "slices"))


def advised_calls(source: Any) -> int:
    """The source's `read_ahead`: calls in flight that pay; 0 where it has none.

    Args:
        source: any data source. An attribute of that name that isn't an int from 0 on belongs to another library.

    >>> advised_calls([1, 2])
    0
    """
    return _whole_number(source, "read_ahead") or 0


def advised_chunk(source: Any) -> int | None:
    """The source's `chunk_records`: consecutive records that are read together; None where it has none.

    Args:
        source: any data source. An attribute of that name that isn't an int from 1 on belongs to another library.

    >>> advised_chunk([1, 2]) is None
    True
    """
    return _whole_number(source, "chunk_records") or None


def advised_bytes(source: Any) -> int | None:
    """The source's `chunk_bytes`: bytes of `chunk_records` records, in the mean; None where it has none.

    Args:
        source: any data source. An attribute of that name that isn't an int from 1 on belongs to another library.

    >>> advised_bytes([1, 2]) is None
    True
    """
    return _whole_number(source, "chunk_bytes") or None


def _whole_number(source: Any, name: str) -> int | None:
    value: Any = getattr(source, name, None)
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 0:
        return None
    return int(value)


class ColumnsDifferError(ValueError):
    """Columns of several sources that aren't one: other leaves, dtypes or shapes. Their records can be read still."""


def lacking(source: Any, name: str, *, needs: str) -> AttributeError:
    """The error for an optional attribute that a combined source doesn't have, so that `hasattr` is False.

    Args:
        source: the combined source.
        name: of the attribute.
        needs: what it would take, for the text.

    >>> lacking([], "take", needs="sources with `take`")
    AttributeError('take: a list has it for sources with `take` only')
    """
    text = f"{name}: a {type(source).__name__} has it for {needs} only"
    return AttributeError(text, name=name, obj=source)


def offered(source: Any, name: str, found: T | None) -> T:
    """What a source has where the one that it is made of has it; else an AttributeError says so.

    Args:
        source: has it by its class.
        name: of it.
        found: the one of the source below; None where that has none.

    >>> offered([], "take", None)
    Traceback (most recent call last):
    AttributeError: take: a list has it for a source with `take` only
    """
    if found is None:
        raise lacking(source, name, needs=f"a source with `{name}`")
    return found


def only_where(check: Callable[[Any], object]) -> Callable[[F], F]:
    """Makes a method one that a source has only where a check of the source raises no AttributeError.

    >>> class Rows:
    ...     @only_where(lambda rows: offered(rows, "take", None))
    ...     def take(self, record_keys): ...
    >>> hasattr(Rows(), "take")
    False
    """

    def made(method: F) -> F:
        def found(source: Any) -> Any:
            check(source)
            return method.__get__(source)

        return cast(F, property(found, doc=method.__doc__))

    return made


def where_below_has(name: str, find: Callable[[Any], Any]) -> Callable[[F], F]:
    """`only_where` the source of which a source is made has an optional member, which `find` gives of it."""
    return only_where(lambda self: offered(self, name, find(self._source)))


def parameters_of(method: Callable[..., Any]) -> list[inspect.Parameter]:
    """Those of a method; none where it is written in C, and may have no signature.

    >>> [parameter.name for parameter in parameters_of(lambda key: key)]
    ['key']
    """
    try:
        return [*inspect.signature(method).parameters.values()]
    except (TypeError, ValueError):
        return []


def own_member(source: Any, name: str) -> Callable[..., Any] | None:
    """A method of the source that agrees with its `__getitem__`; None where it has none.

    >>> own_member([1, 2], "origins") is None
    True
    """
    if name in getattr(source, "__dict__", ()) or _is_for_own_records(type(source), name):
        found = getattr(source, name, None)
        return found if callable(found) else None
    return None


# Cached, because combined sources ask at each read. The keys are weak, because a class of a script keeps the script's
# globals alive, its sources included.
_KNOWN: WeakKeyDictionary[type, dict[str, bool]] = WeakKeyDictionary()
_TAKES: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()  # by function: whether it takes columns


def _is_for_own_records(cls: type, name: str) -> bool:
    known = _KNOWN.get(cls)
    if known is None:
        known = _KNOWN.setdefault(cls, {})
    answer = known.get(name)
    if answer is None:
        answer = known[name] = _looked_up(cls, name)
    return answer


def _looked_up(cls: type, name: str) -> bool:
    replaced = False  # whether a class before this one in the MRO defines __getitem__
    for base in cls.__mro__:
        known = vars(base)
        single = known.get("__getitem__")
        if name in known:
            written_for_others = single is not None and not getattr(single, "__isabstractmethod__", False)
            return not (replaced and written_for_others)
        replaced = replaced or single is not None
    return False


def _takes_columns(take: Callable[..., Any]) -> bool:
    parameters = parameters_of(take)
    if len(parameters) < 2:
        return False
    keys, out, *others = parameters
    return (
        keys.kind in BY_PLACE
        and out.name == "out"
        and out.kind in _BY_NAME
        and all(p.kind in ANY_NUMBER or p.default is not p.empty for p in (out, *others))
    )


class CallAdvice:
    """A base class: records are made of those of the source below, which are read as it advises."""

    _source: Any

    @property
    def read_ahead(self) -> int:
        """Calls in flight that pay, as the source says; 0 where it doesn't."""
        return advised_calls(self._source)


class SourceAdvice(CallAdvice):
    """A base class: each record is read by one of the source below, in the same order, so its advice holds here."""

    @property
    def chunk_records(self) -> int:
        """Consecutive records that are read together; only where the source says it, else an AttributeError."""
        return offered(self, "chunk_records", advised_chunk(self._source))

    @property
    def chunk_bytes(self) -> int:
        """Bytes that are read for so many records, as the source says; only where it does, else an AttributeError."""
        return offered(self, "chunk_bytes", advised_bytes(self._source))
