"""Records of a source behind a function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from reprlib import repr as _short
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from loaderkit._base.tree import own_each
from loaderkit._source.fingerprint import fingerprint_of
from loaderkit._source.optional import SourceAdvice, many_reader, where_below_has
from loaderkit._source.protocol import read_record, read_records
from loaderkit._source.record_key import check_keys, short_repr
from loaderkit.errors import NoResultError

from .checked import require_methods
from .exclusion import OfDocuments
from .has_card import HasCard
from .sliced import sliced

_MOST_OF_NAME = 80  # characters


class MapDataSource(SourceAdvice, OfDocuments, HasCard):
    """A function's results on the records of a source.

    A `Map` of the loader does the same for all records; this is for one source of several, which then have records of
    one form, and for what is to be sampled or indexed by key.

    Args:
        source: any data source.
        fn: takes a record, returns the new one. It runs wherever records are read, in worker processes too, so its
            result must depend on the record alone. TypeError for what can't be called; NoResultError, when it is
            read, for a function that gives None. An object with `map_many` gets many records in one call.
        key_name: the name of a field more that new records, dicts, get: the record's key in `source`, an np.int64.
            ValueError, when a record is read, for one that isn't a dict or has the field.

    >>> source = MapDataSource(["3 cats", "4 dogs"], str.split)
    >>> len(source), source[1]
    (2, ['4', 'dogs'])
    """

    def __init__(self, source: Any, fn: Callable[[Any], Any], *, key_name: str | None = None) -> None:
        source = require_methods(source, argument="source")
        if not callable(fn):
            raise TypeError(
                f"fn: expected a function of one record, got {_short(fn)}; of an operation give its method, such as "
                "Decode().map"
            )
        self._source, self._function, self._key_name = source, fn, key_name

    def __len__(self) -> int:
        return len(self._source)

    @sliced
    def __getitem__(self, key: int) -> Any:
        # The function may change its record, and the source may hold that one.
        (record,) = own_each([read_record(self._source, key)])
        return self._given(key, self._function(record))

    def _given(self, key: int, made: Any) -> Any:
        if made is None:
            raise NoResultError(
                f"{self}: expected a record of its function, got None; does it lack a return?"
            )
        if self._key_name is None:
            return made
        if not isinstance(made, dict) or self._key_name in made:
            got = f"a dict of {[*made]}" if isinstance(made, dict) else f"a {type(made).__name__}"
            raise ValueError(
                f"key_name: expected new records, dicts, without {self._key_name!r}, got {got}; give another name"
            )
        return {**made, self._key_name: np.int64(key)}

    @where_below_has("__getitems__", many_reader)
    def __getitems__(self, record_keys: ArrayLike) -> list[Any]:
        """Many records in one call; only where the source has `__getitems__`, else an AttributeError."""
        keys = check_keys(record_keys, len(self._source), self).tolist()
        records = own_each(read_records(self._source, keys))
        many = getattr(self._function, "map_many", None)
        made = map(self._function, records) if many is None else many(records)
        return list(map(self._given, keys, made))

    @property
    def chunk_feed(self) -> Any:
        """The chunks of the records, as the source has them; None where it has no cache."""
        return getattr(self._source, "chunk_feed", None)

    def fingerprint(self) -> dict[str, Any]:
        """The source's fingerprint, and the function's name, as states have the names of operations."""
        return {
            "type": "MapDataSource",
            "function": _name(self._function),
            **({} if self._key_name is None else {"key_name": self._key_name}),
            "source": fingerprint_of(self._source),
        }

    def __repr__(self) -> str:
        return f"MapDataSource({short_repr(self._source)}, {_name(self._function)})"


class MapFunctions:
    """The functions of the MapDataSources among those that a source is made of.

    parts: these sources, each behind those that it reads, with a name.

    >>> source = MapDataSource(MapDataSource([-3, 4], abs), str)
    >>> below = MapFunctions(source)
    >>> below.functions, [name for name, _ in below.parts]
    ([<built-in function abs>, <class 'str'>], ['MapDataSource(abs)', 'MapDataSource(str)'])
    >>> with below.replaced([abs, float]):
    ...     print(source[0])
    3.0
    """

    def __init__(self, source: Any) -> None:
        found: dict[int, Any] = {}
        begun: set[int] = set()
        todo = [source]
        while todo:
            each = todo.pop()
            if id(each) in begun:  # what it reads is found
                found.setdefault(id(each), each)
                continue
            begun.add(id(each))
            # Not by getattr: an object of another library may make up an attribute of any name.
            own = getattr(each, "__dict__", {})
            below = own.get("_sources")
            todo += [each, own.get("_source"), *(below if isinstance(below, list | tuple) else ())]
        maps = [each for each in found.values() if isinstance(each, MapDataSource)]
        self.functions = [each._function for each in maps]
        self.parts = [(f"MapDataSource({_name(each._function)})", each) for each in maps]

    @contextmanager
    def replaced(self, functions: Sequence[Callable[[Any], Any]]) -> Iterator[None]:
        """While it lasts the sources, in their order, have other functions."""
        try:
            self._set(functions)
            yield
        finally:
            self._set(self.functions)

    def _set(self, functions: Sequence[Callable[[Any], Any]]) -> None:
        for (_, each), function in zip(self.parts, functions, strict=True):
            each._function = function


def _name(function: Any) -> str:
    """The name of a function, or of an object's class, without module and enclosing functions: these change sooner."""
    while isinstance(function, partial):
        function = function.func
    names = (getattr(function, "__qualname__", None), getattr(function, "__name__", None))
    name = next((name for name in names if isinstance(name, str)), type(function).__qualname__)
    return name.rpartition("<locals>.")[2][:_MOST_OF_NAME]
